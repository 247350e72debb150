"""Case files: the cases of one file, with what else the file says of them as a set."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from burnish.core.cases import AS_WRITTEN, Case
from burnish.core.content import Json

__all__ = ["AS_WRITTEN", "COLUMNS", "NAMES", "SPELLING", "WRAPPED", "CaseFile"]

# The extras that a file may have.
COLUMNS = "columns"
"""The extra that keeps the columns of a file, in order."""
NAMES = "names"
"""The extra that keeps what the rows of a file call their parts, where they all agree."""
SPELLING = "spelling"
"""The extra that says whether a set is in snake_case or camelCase."""
WRAPPED = "wrapped"
"""The extra of a file whose list stands under `test_cases`."""


@dataclass(frozen=True, kw_only=True)
class CaseFile:
    """What a file of cases holds: enough to write it again."""

    cases: tuple[Case, ...]
    format: str
    """test_cases, evalset, promptiter, json, jsonl or csv."""
    eval_set_id: str = ""
    app_name: str | None = None
    name: str | None = None
    description: str | None = None
    creation_timestamp: int | float | None = None
    extras: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """How the file is built: its columns, its spelling, whether a mapping is around the list."""
