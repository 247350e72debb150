"""Which files a source means, and what is in them."""

import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from burnish.core.errors import ConfigError, FileTrouble, Problem
from burnish.system import read_bytes
from burnish.targets.retrieval.chunks import SourceSettings

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=://)")

MARKDOWN = frozenset({".md", ".markdown", ".mdown", ".mkd"})
HTML = frozenset({".html", ".htm", ".xhtml"})
PDF = frozenset({".pdf"})
TABLES = frozenset({".csv", ".tsv"})
JSON = frozenset({".json", ".jsonl", ".ndjson"})
_PLAIN = frozenset({".txt", ".text", ".rst", ".adoc", ".log"})
KNOWN = MARKDOWN | HTML | PDF | TABLES | JSON | _PLAIN
"""What is taken from a folder. A file that is named or matched may end in anything."""


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """One file of a source."""

    name: str
    """Its path from the folder of the settings."""
    path: Path

    @property
    def suffix(self) -> str:
        """How its name ends, in lower case."""
        return self.path.suffix.lower()

    def trouble(self, message: str, *, line: int = 0, remedy: str = "") -> ConfigError:
        """What is wrong with it."""
        where = f"{self.path}:{line}" if line else str(self.path)
        return ConfigError([Problem(where=where, message=message, remedy=remedy)])

    def read(self) -> bytes:
        """What it holds."""
        try:
            return read_bytes(self.path)
        except FileTrouble as error:
            problem = Problem(where=str(self.path), message=error.message, remedy=error.remedy)
            raise ConfigError([problem]) from error

    def read_text(self) -> str:
        """What it holds, as UTF-8, with plain line ends."""
        try:
            text = self.read().decode("utf-8").removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            known = "text, Markdown, HTML, PDF, CSV and JSON"
            message = f"it is not UTF-8 text (at byte {error.start})"
            raise self.trouble(message, remedy=f"save it as UTF-8; {known} can be read") from error
        return text.replace("\r\n", "\n").replace("\r", "\n")


def find_files(settings: SourceSettings) -> list[SourceFile]:
    """The files that a source names, in the order of their names."""
    source = _local(settings.source)
    found = sorted(set(_matches(settings.folder, source)))
    if not found:
        message = "there is no such file, and no file that matches"
        remedy = f"a relative source is taken from {settings.folder}"
        raise ConfigError([Problem(where=settings.source, message=message, remedy=remedy)])
    return [SourceFile(name=_name(path, settings.folder), path=path) for path in found]


def _local(source: str) -> str:
    scheme = _SCHEME.match(source)
    if scheme is None:
        return source
    if scheme[0].lower() == "file":
        return unquote(urlsplit(source).path)
    message = f"sources at {scheme[0]}:// are not read: burnish reads files of this machine"
    remedy = "copy the files beside the agent and name their path"
    raise ConfigError([Problem(where=source, message=message, remedy=remedy)])


def _matches(folder: Path, source: str) -> Iterator[Path]:
    named = folder / Path(source).expanduser()
    if named.is_dir():
        yield from _in_folder(named)
    elif named.exists() or not glob.has_magic(source):
        yield from [named] if named.is_file() else []
    else:
        for each in glob.glob(source, root_dir=folder, recursive=True):  # noqa: PTH207 - absolute ones too
            if (folder / each).is_file():
                yield folder / each


def _in_folder(folder: Path) -> Iterator[Path]:
    for place, inside, files in os.walk(folder):
        inside[:] = [name for name in inside if not name.startswith(".")]
        for name in files:
            path = Path(place, name)
            if path.suffix.lower() in KNOWN and not name.startswith(".") and path.is_file():
                yield path


def _name(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()
