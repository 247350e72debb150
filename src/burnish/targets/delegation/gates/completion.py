"""What is checked when a manager says that the task is done, and what a gate says of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath

from burnish.core.content import Json

CODE = frozenset((".py", ".js", ".ts", ".sh", ".c", ".h", ".java", ".go", ".rs", ".rb", ".sql"))
PROSE = frozenset((".md", ".txt", ".html", ".htm", ".rst", ".tex"))
MARKDOWN = frozenset((".md", ".markdown"))


@dataclass(frozen=True, kw_only=True)
class GateSettings:
    """How strict the gates are."""

    min_score_to_complete: float = 0.6
    """The critic's mean score of each worker's last result."""
    min_prose_bytes: int = 512
    """What counts as a document where the task asks for one."""
    strict_criteria: bool = False
    """Whether open subtasks reject; otherwise they are only noted."""
    smoke_seconds: float = 10.0


@dataclass(frozen=True, kw_only=True)
class Completion:
    """A completion as the gates see it."""

    task: str
    result: str
    """What the manager reports."""
    declared: tuple[str, ...] = ()
    """The deliverables, by path."""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Everything that was made, by path."""
    earlier_sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Of deliverables at the last attempt to complete, and of given files of the same name."""
    criticised: bool = False
    """Whether there is a critic, and something to criticise."""
    critique: float | None = None
    open_subtasks: tuple[str, ...] = ()
    schemas: Mapping[str, Json] = field(default_factory=dict[str, Json])
    settings: GateSettings = field(default_factory=GateSettings)

    @cached_property
    def delivered(self) -> dict[str, bytes]:
        """The declared files that are there."""
        return {path: self.files[path] for path in self.declared if path in self.files}

    @cached_property
    def texts(self) -> dict[str, str]:
        """Everything that was made and is text."""
        found = {path: text_in(content) for path, content in self.files.items()}
        return {path: text for path, text in found.items() if text is not None}

    @cached_property
    def delivered_texts(self) -> dict[str, str]:
        """The deliverables that are text."""
        return {path: text for path, text in self.texts.items() if path in self.delivered}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that a gate found."""

    file: str
    detail: str
    check: str
    severity: str = "error"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a gate says."""

    gate: str
    findings: tuple[Finding, ...] = ()
    ends: bool = False
    """Whether the run has failed for good: nothing may be mended any more."""

    @property
    def passed(self) -> bool:
        """Whether nothing was found that rejects."""
        return all(finding.severity != "error" for finding in self.findings)

    @property
    def first(self) -> Finding | None:
        """What rejects, the first of it."""
        return next((each for each in self.findings if each.severity == "error"), None)

    @property
    def reason(self) -> str:
        """In words, why it rejects."""
        found = self.first
        if found is None:
            return ""
        at = f"{found.file}: " if found.file else ""
        return f"{found.check}: {at}{found.detail}"


def suffix(path: str) -> str:
    """The ending of a file's name."""
    return PurePosixPath(path).suffix.lower()


def text_in(content: bytes) -> str | None:
    """The content as text; None where it is none."""
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None
