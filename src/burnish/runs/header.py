"""run.json: what a run was started with. Written once, never changed."""

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.errors import JournalTrouble, ResumeRefused
from burnish.system import Redactor, read_bytes, write_atomic

NAME = "run.json"
SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Project:
    """Where a run came from, so that it can be set up again."""

    kind: str = "python"
    """The name of a project kind, or `python` for a run started from a program."""
    file: str = ""
    config: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What was found at the start and is needed afterwards: originals, and their hashes."""
    spec: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The description of the run; secrets out, `${VAR}` kept. A run that goes on is built from
    it. Empty where a program started the run."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a run was started with."""

    schema: int = SCHEMA
    id: str
    strategy: str
    seed: int
    started_at: str
    burnish: str
    """The version that started it."""
    python: str = field(default_factory=platform.python_version)
    project: Project = field(default_factory=Project)
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    """Hashes of everything that decides what happens. A resume must find them unchanged."""
    cases: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many cases each split has."""
    forked_from: str = ""
    call_limit: float | None = None
    """Seconds for one call of a Python function where no time limit is set; None in runs that were
    started before there was such a limit."""
    sealed_test: str = "unread"
    """`spent` when the run this one was forked from had read it."""

    def write(self, folder: Path) -> None:
        """Write run.json."""
        data = codec(Header).encode(self)
        write_atomic(folder / NAME, json.dumps(data, indent=2, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, folder: Path) -> "Header":
        """Read run.json; files of earlier schemas are read too."""
        try:
            header = codec(Header).decode(json.loads(read_bytes(folder / NAME)))
            if header.schema > SCHEMA:
                raise JournalTrouble(
                    f"{folder / NAME} was written by a newer burnish", remedy="upgrade burnish"
                )
        except ValueError as error:
            raise JournalTrouble(
                f"{folder / NAME} is damaged, or not the header of a run",
                remedy="restore it from a backup, or start a new run",
            ) from error
        return header

    def redacted(self, redactor: Redactor) -> "Header":
        """The header as it may be kept."""
        return codec(Header).decode(redactor.json(codec(Header).encode(self)))

    def require_same(self, inputs: Mapping[str, str]) -> None:
        """Refuse a resume when anything that decides what happens has changed."""
        names = sorted(set(self.inputs) | set(inputs))
        changed = [name for name in names if self.inputs.get(name) != inputs.get(name)]
        if changed:
            raise ResumeRefused(
                f"run {self.id} was started with another {', '.join(changed)}",
                remedy="put it back as it was to resume, or start from what is known with "
                f"--fork {self.id}: a new run that does not pay again for what is unchanged",
            )
