"""Case files: the cases of one file, with what else the file says of them as a set."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from burnish.core.cases import AS_WRITTEN, Case
from burnish.core.content import Json

__all__ = ["AS_WRITTEN", "CaseFile"]


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
