"""The hash of an index: it changes when a file, the cutting or the embedding model does."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from burnish.core.content import Json, digest
from burnish.targets.retrieval.chunks import SourceSettings
from burnish.targets.retrieval.sources import SourceFile

INDEX_VERSION = 1
"""Raised when the same chunks come to be kept or searched otherwise."""

Stamp: TypeAlias = tuple[tuple[str, int, int, int], ...]


def stamp_of(files: Sequence[SourceFile]) -> Stamp:
    """Names, sizes and times: what tells without reading that nothing was changed."""
    return tuple((file.name, *_look(file.path)) for file in files)


def index_hash(settings: SourceSettings, files: Sequence[SourceFile], identity: str) -> str:
    """A hash of everything that an index is made from."""
    held: list[Json] = [[file.name, _sha256_of(file)] for file in files]
    return digest([INDEX_VERSION, settings.cut, held, identity])[:32]


def _look(path: Path) -> tuple[int, int, int]:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return 0, 0, 0  # Reading it will say why.
    return found.st_size, found.st_mtime_ns, found.st_ino


def _sha256_of(file: SourceFile) -> str:
    return hashlib.sha256(file.read()).hexdigest()
