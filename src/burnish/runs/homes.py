"""Where the values of a candidate live: the user's files that `burnish adopt` changes.

The plug-in of a target says it with `TargetPlugin.homes`. Planning, the diff, writing all files or
none and undoing it are the same for every target, and know nothing but what stands here.
"""

import difflib
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
from burnish.core.surfaces import Value
from burnish.runs.directory import Header
from burnish.system import read_bytes, read_text
from burnish.system.restoration import digest
from burnish.system.yaml import value_in, with_values

FILES = "files"
"""Where `Project.config` keeps hashes of the files that the run measured."""
_HOMES = "homes"
_AFTER_NEWLINE = re.compile(r"(?<=\n)")
_BOM = "\ufeff"


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """A file as it is and as it will be."""

    path: Path
    """Where the file really lies: links are followed."""
    before: bytes = field(repr=False)
    after: bytes = field(repr=False)

    @classmethod
    def of(cls, path: Path, loaded: str, new: str) -> "FileChange":
        """A file with another text, if it still has the one that was loaded; its BOM stays."""
        before = read_bytes(path)
        text = before.decode()
        if text.removeprefix(_BOM) != loaded:
            raise changed_meanwhile(path)
        bom = _BOM if text.startswith(_BOM) else ""
        home = Path(os.path.realpath(path))
        return cls(path=home, before=before, after=f"{bom}{new}".encode())

    def diff(self, name: str) -> list[str]:
        """The change as a unified diff, for people."""
        old, new = (lines_of(text.decode()) for text in (self.before, self.after))
        return [line.rstrip("\r\n") for line in difflib.unified_diff(old, new, name, name)]


def changed_meanwhile(path: Path) -> ConfigError:
    """Someone else wrote the file while it was about to be edited."""
    message = "someone changed it just now; nothing of it was overwritten"
    remedy = "look at it, then give the command again"
    return ConfigError([Problem(where=str(path), message=message, remedy=remedy)])


def lines_of(text: str) -> list[str]:
    """The lines with their ends. Only a newline ends one: U+2028 and the like are text."""
    return [line for line in _AFTER_NEWLINE.split(text) if line]


def measured_hashes(header: Header) -> Mapping[str, Json] | None:
    """Hashes of the files that a run measured, by name; None where it kept none."""
    hashes = header.project.config.get(FILES)
    return hashes if isinstance(hashes, dict) else None


class Homes(ABC):
    """The user's files that hold the values of a target.

    It is made for every look at a run, so it reads no file before `load`.
    """

    movable: ClassVar[bool] = False
    """Whether `--file` may say where the project file lies now; the header names that file then."""

    @property
    def place(self) -> str:
        """The folder that messages name; empty where each file is named whole."""
        return ""

    @property
    @abstractmethod
    def files(self) -> Sequence[Path]:
        """The files that must be there."""

    def load(self) -> None:
        """Read what the rest needs; what is wrong with the files is raised here."""
        return

    @abstractmethod
    def changed(self) -> list[str]:
        """The files that are not what the run measured, as messages name them."""

    @abstractmethod
    def value(self, surface: str) -> Value:
        """What stands there now; ConfigError where a surface has no place in the files."""

    @abstractmethod
    def edited(self, values: Mapping[str, Value]) -> tuple[FileChange, ...]:
        """What becomes of the files when surfaces get these values; nothing is written."""

    def alone(self) -> AbstractContextManager[object]:
        """Keeps others away who write these files, while an adoption goes on."""
        return nullcontext()


@dataclass(frozen=True, kw_only=True)
class FileHome:
    """The home of one text, number or choice."""

    path: Path
    place: str = ""
    """Keys in a YAML or JSON file, with dots between them; empty for the whole file."""
    name: str = ""
    """What hashes and messages call the file; its path where empty."""

    @property
    def label(self) -> str:
        """What hashes and messages call the file."""
        return self.name or str(self.path)


@dataclass(frozen=True, kw_only=True)
class FileHomes(Homes):
    """Values that are whole files, or stand at places in YAML and JSON files, by surface.

    A target that puts `FileHomes(...).record()` into `TargetParts.record` can be adopted.
    """

    homes: Mapping[str, FileHome]
    hashes: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What the run measured, by the label of each file."""

    @classmethod
    def of(cls, header: Header) -> "FileHomes | None":
        """The homes that `record` left in run.json; None where there are none."""
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
        """What run.json keeps: each home, and a hash of each file as it is now."""
        whole = {surface: home.path.absolute() for surface, home in self.homes.items()}
        places: dict[str, Json] = {
            surface: {"path": str(path), "place": self.homes[surface].place}
            for surface, path in whole.items()
        }
        hashes: dict[str, Json] = {str(path): digest(read_bytes(path)) for path in whole.values()}
        return {_HOMES: places, FILES: hashes}

    @property
    def files(self) -> Sequence[Path]:
        """Each file once."""
        return list(dict.fromkeys(home.path for home in self.homes.values()))

    def changed(self) -> list[str]:
        """Those whose hash is another one."""
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
        message = "it stands in no file that burnish knows of"
        remedy = "take its value from the run's folder and put it in yourself"
        raise ConfigError([Problem(where=surface, message=message, remedy=remedy)])

    def value(self, surface: str) -> Value:
        """The text of the file, or the value at the place in it."""
        home = self.home(surface)
        text = self._text(home.path)
        return value_in(text, home.label, home.place) if home.place else text

    def edited(self, values: Mapping[str, Value]) -> tuple[FileChange, ...]:
        """Whole texts, then the values at places in them."""
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
        """A file as the target has it in its candidates."""
        return read_text(path)

    def _content(self, text: str, before: bytes, path: Path) -> bytes:
        """A text of a candidate as the content of the file that holds `before`."""
        del before, path
        return text.encode()
