"""The user's files that hold the values of a candidate, which `burnish adopt` changes.

A target's plug-in names them with `TargetPlugin.homes`. Planning, the diff, writing all files or
none, and undoing it are the same for every target and depend only on this module.
"""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.formatting import word_diff
from burnish.core.surfaces import Change, Value
from burnish.runs.directory import Header
from burnish.system import read_bytes, read_text
from burnish.system.restoration import digest
from burnish.system.yaml import value_in, with_values

FILES = "files"
"""The key of `Project.config` with hashes of the files that the run measured."""
ADOPTED = "adopted.json"
"""The file of a run that says what was written into the user's files."""
_HOMES = "homes"
_BOM = "\ufeff"


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """A file as it is and as it will be."""

    path: Path
    """The real path, with links resolved."""
    before: bytes = field(repr=False)
    after: bytes = field(repr=False)
    adds: bool = False
    """Whether there is no such file yet; `before` is empty then."""
    removes: bool = False
    """Whether there will be no such file; `after` is empty then."""

    @property
    def verb(self) -> str:
        """What is done to the file, in one word."""
        if self.adds:
            return "added"
        return "removed" if self.removes else "changed"

    @classmethod
    def of(cls, path: Path, loaded: str, new: str) -> "FileChange":
        """A file with a new text, if it still has the one that was loaded; its BOM stays."""
        before = read_bytes(path)
        text = before.decode()
        if text.removeprefix(_BOM) != loaded:
            raise changed_meanwhile(path)
        bom = _BOM if text.startswith(_BOM) else ""
        home = Path(os.path.realpath(path))
        return cls(path=home, before=before, after=f"{bom}{new}".encode())

    def diff(self, name: str) -> list[str]:
        """The change for people, by words where a line changed in part."""
        old, new = (lines_of(text.decode()) for text in (self.before, self.after))
        return word_diff(old, new, name)


def changed_meanwhile(path: Path) -> ConfigError:
    """The error for a file that someone else wrote in the meantime."""
    message = "someone has just changed the file; it was not overwritten"
    remedy = "check the file, then run the command again"
    return ConfigError([Problem(where=str(path), message=message, remedy=remedy)])


def lines_of(text: str) -> list[str]:
    """The lines with their ends. Only a newline ends one, not U+2028 or similar characters."""
    return [line for line in re.split(r"(?<=\n)", text) if line]


def measured_hashes(header: Header) -> Mapping[str, Json] | None:
    """Hashes of the files that a run measured, by name; None if there are none."""
    hashes = header.project.config.get(FILES)
    return hashes if isinstance(hashes, dict) else None


class Homes(ABC):
    """The user's files that hold the values of a target; reads no file before `load`."""

    movable: ClassVar[bool] = False
    """Whether `--file` may name another place of the project file."""

    @property
    def place(self) -> str:
        """The folder that messages name; empty if they name each file with its path."""
        return ""

    @property
    @abstractmethod
    def files(self) -> Sequence[Path]:
        """The files that must exist."""

    def load(self) -> None:
        """Read the files; raises what is wrong with them."""
        return

    @abstractmethod
    def changed(self) -> list[str]:
        """The names of the files that have changed since the run."""

    @abstractmethod
    def value(self, surface: str) -> Value:
        """The current value; ConfigError if a surface is not in the files."""

    @abstractmethod
    def edited(self, values: Mapping[str, Value]) -> tuple[FileChange, ...]:
        """The changes of the files for these values; nothing is written."""

    def file_added(self, change: Change) -> FileChange | None:
        """The change for a file that is only in one of two candidates; None if there is none.

        `before` is None if the file is to be added, `after` is None if it is to be removed again.
        """
        del change
        return None

    def alone(self) -> AbstractContextManager[object]:
        """A context in which nobody else writes these files."""
        return nullcontext()


@dataclass(frozen=True, kw_only=True)
class FileHome:
    """The place of one text, number or choice."""

    path: Path
    place: str = ""
    """Dotted keys in a YAML or JSON file; empty for the whole file."""
    name: str = ""

    @property
    def label(self) -> str:
        """The name of the file for hashes and messages: by default, its path."""
        return self.name or str(self.path)


@dataclass(frozen=True, kw_only=True)
class FileHomes(Homes):
    """By surface, values that are whole files, or places in YAML and JSON files.

    A target can be adopted if its `TargetParts.record` contains `FileHomes(...).record()`.
    """

    homes: Mapping[str, FileHome]
    hashes: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """By label, a hash of each file as the run measured it."""

    @classmethod
    def of(cls, header: Header) -> "FileHomes | None":
        """The homes that `record` stored in run.json; None if there are none."""
        homes = header.project.config.get(_HOMES)
        if not isinstance(homes, dict) or not homes:
            return None
        read = {
            surface: FileHome(path=Path(str(home["path"])), place=str(home["place"]))
            for surface, home in homes.items()
            if isinstance(home, dict)
        }
        return cls(homes=read, hashes=measured_hashes(header) or {})

    def record(self) -> dict[str, Json]:
        """What run.json stores: each home, and a hash of each file as it is now."""
        whole = {surface: home.path.absolute() for surface, home in self.homes.items()}
        places: dict[str, Json] = {
            surface: {"path": str(path), "place": self.homes[surface].place}
            for surface, path in whole.items()
        }
        hashes: dict[str, Json] = {str(path): digest(read_bytes(path)) for path in whole.values()}
        return {_HOMES: places, FILES: hashes}

    @property
    def files(self) -> Sequence[Path]:
        return list(dict.fromkeys(home.path for home in self.homes.values()))

    def changed(self) -> list[str]:
        by_label = {home.label: home.path for home in self.homes.values()}
        return [
            str(path)
            for label, path in by_label.items()
            if self.hashes.get(label) != digest(read_bytes(path))
        ]

    def home(self, surface: str) -> FileHome:
        """The home of a surface."""
        if surface in self.homes:
            return self.homes[surface]
        message = "burnish does not know any file that contains it"
        remedy = "copy its value from the run's folder yourself"
        raise ConfigError([Problem(where=surface, message=message, remedy=remedy)])

    def value(self, surface: str) -> Value:
        home = self.home(surface)
        text = self._text(home.path)
        return value_in(text, home.label, home.place) if home.place else text

    def edited(self, values: Mapping[str, Value]) -> tuple[FileChange, ...]:
        homes = {surface: self.home(surface) for surface in values}
        by_path: dict[Path, dict[str, Value]] = {}
        labels = {home.path: home.label for home in homes.values()}
        for surface, home in homes.items():
            by_path.setdefault(home.path, {})[home.place] = values[surface]
        return tuple(self._edited(path, labels[path], each) for path, each in by_path.items())

    def _edited(self, path: Path, label: str, places: Mapping[str, Value]) -> FileChange:
        home = Path(os.path.realpath(path))
        before = read_bytes(home)
        text = str(places[""]) if "" in places else self._text(home)
        inner = {place: value for place, value in places.items() if place}
        text = with_values(label, text, inner) if inner else text
        return FileChange(path=home, before=before, after=self._content(text, before, path))

    def _text(self, path: Path) -> str:
        """The text of a file as it is in candidates."""
        return read_text(path)

    def _content(self, text: str, before: bytes, path: Path) -> bytes:
        """The new content of a file, for a text of a candidate."""
        del before, path
        return text.encode()
