"""Whether a file is a whole GGUF model: seen in its header, before any engine opens it."""

import mmap
import stat
import struct
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from burnish.models.troubles import ModelRefused

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_HEADER = 24
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of the plain values, by their type's number."""
_STRING, _ARRAY = 8, 9
_MOST_DIMENSIONS = 8


def require_gguf(path: Path) -> None:
    """Raise ModelRefused, in one sentence, unless this looks like a whole model file."""
    with _opened(path) as content:
        if content[:4] != MAGIC:
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
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as found:
            yield found
    except OSError as error:
        raise ModelRefused(f"cannot read {path}: {error.strerror}", remedy="see `ls -l`") from error


def _require_file(path: Path) -> None:
    try:
        found = path.stat()
    except OSError as error:
        remedy = "check the path; it is taken from the current folder"
        raise ModelRefused(f"there is no model file {path}", remedy=remedy) from error
    if stat.S_ISDIR(found.st_mode):
        remedy = "name the .gguf file in it"
        raise ModelRefused(f"{path} is a folder, not a model file", remedy=remedy)
    if not stat.S_ISREG(found.st_mode) or found.st_size < _HEADER:
        raise ModelRefused(f"{path} is not a GGUF model", remedy="name a .gguf file")


class _Reader:
    """Walks over the header. What it meets past the end is a struct.error."""

    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self._at = len(MAGIC)

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
