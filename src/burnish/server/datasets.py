"""The datasets of a service: files of cases in its data folder, by name."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.datasets.case_files import CaseFile
from burnish.evaluation.datasets.formats import read_cases
from burnish.server.errors import DatasetMissing
from burnish.system import write_atomic

NAME = r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,80}(\.evalset)?\.(jsonl|json|csv|yaml|yml)$"
DatasetName = Annotated[str, Field(pattern=NAME, max_length=100)]
_NAME = re.compile(NAME)


@dataclass(frozen=True, kw_only=True)
class Datasets:
    """Files of cases in one folder. A name is no path: nothing else can be reached."""

    folder: Path

    def names(self) -> list[str]:
        """What is there."""
        if not self.folder.is_dir():
            return []
        return sorted(each.name for each in self.folder.iterdir() if _NAME.match(each.name))

    def path(self, name: str) -> Path:
        """The file of a dataset; DatasetMissing where there is none."""
        path = self._at(name)
        if not path.is_file() or path.is_symlink():
            raise DatasetMissing(
                f"there is no dataset '{name}'", remedy="GET /api/v1/datasets lists them"
            )
        return path.resolve()

    def read(self, name: str) -> CaseFile:
        """The cases; ConfigError with all that is wrong."""
        return read_cases(self.path(name))

    def write(self, name: str, content: bytes) -> CaseFile:
        """Keep a dataset, if it can be read; one of the same name is replaced."""
        path = self._at(name)
        self.folder.mkdir(parents=True, exist_ok=True)
        trial = path.with_name(f"_trial.{path.name}")
        write_atomic(trial, content)
        try:
            cases = read_cases(trial)
            trial.replace(path)
        except ConfigError as error:
            raise ConfigError(_renamed(error.problems, trial.name, name)) from None
        finally:
            trial.unlink(missing_ok=True)
        return cases

    def delete(self, name: str) -> None:
        """Remove a dataset."""
        self.path(name).unlink()

    def _at(self, name: str) -> Path:
        if not _NAME.match(name) or "\n" in name:
            message = f"'{name}' cannot name a dataset"
            remedy = "use a name such as holdout.jsonl: letters, digits, '-', '_' and a suffix"
            raise ConfigError([Problem(where="name", message=message, remedy=remedy)])
        return self.folder / name


def _renamed(problems: Sequence[Problem], trial: str, name: str) -> list[Problem]:
    """The problems as they are told of the file that was sent."""
    return [
        Problem(message=each.message, where=each.where.replace(trial, name), remedy=each.remedy)
        for each in problems
    ]
