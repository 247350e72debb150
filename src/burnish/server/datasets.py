"""The datasets of a service: files of cases in its data folder, by name."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, TypeVar

from pydantic import Field

from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.datasets.case_files import CaseFile
from burnish.evaluation.datasets.client_cases import check_client_cases, read_client_cases
from burnish.server.errors import DatasetMissing
from burnish.system import write_atomic

NAME = r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,80}(\.evalset)?\.(jsonl|json|csv|yaml|yml)$"
DatasetName = Annotated[str, Field(pattern=NAME, max_length=100)]
_NAME = re.compile(NAME)
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Datasets:
    """Files of cases in one folder. A name is no path: nothing else can be reached.

    Clients write here, so whatever lies here is read as data: a file with fields that a client may
    not use is refused when it is sent, and when it is used, however it came here.
    """

    folder: Path

    def names(self) -> list[str]:
        """What is there."""
        if not self.folder.is_dir():
            return []
        return sorted(each.name for each in self.folder.iterdir() if _NAME.match(each.name))

    def path(self, name: str) -> Path:
        """The file of a dataset that may be used; DatasetMissing where there is none."""
        path = self._file(name)
        _about(name, lambda: check_client_cases(path))
        return path

    def read(self, name: str) -> CaseFile:
        """The cases; ConfigError with all that is wrong."""
        path = self._file(name)
        return _about(name, lambda: read_client_cases(path))

    def write(self, name: str, content: bytes) -> CaseFile:
        """Keep a dataset, if it can be read; one of the same name is replaced."""
        path = self._at(name)
        _require_text(name, content)
        # Elsewhere: nobody can name a file that was not found good, and two may send one at once.
        with TemporaryDirectory() as elsewhere:
            trial = Path(elsewhere) / name
            trial.write_bytes(content)
            cases = read_client_cases(trial)
        self.folder.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        write_atomic(path, content)
        return cases

    def delete(self, name: str) -> None:
        """Remove a dataset, whatever is in it."""
        self._file(name).unlink()

    def _file(self, name: str) -> Path:
        path = self._at(name)
        if not path.is_file() or path.is_symlink():
            raise DatasetMissing(
                f"there is no dataset '{name}'", remedy="GET /api/v1/datasets lists them"
            )
        return path.resolve()

    def _at(self, name: str) -> Path:
        if not _NAME.match(name) or "\n" in name:
            message = f"'{name}' cannot name a dataset"
            remedy = "use a name such as holdout.jsonl: letters, digits, '-', '_' and a suffix"
            raise ConfigError([Problem(where="name", message=message, remedy=remedy)])
        return self.folder / name


def _require_text(name: str, content: bytes) -> None:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        message = f"it is not UTF-8 text (at byte {error.start})"
        problem = Problem(where=name, message=message, remedy="send it as UTF-8")
        raise ConfigError([problem]) from None


def _about(name: str, look: Callable[[], T]) -> T:
    """What a look at a dataset gives; its problems say which dataset they are about."""
    try:
        return look()
    except ConfigError as error:
        raise ConfigError(
            [
                each if name in each.where else replace(each, where=f"{name} {each.where}".strip())
                for each in error.problems
            ]
        ) from None
