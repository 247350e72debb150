"""What an edit changes: files, lines, and a summary for people."""

from dataclasses import dataclass

from burnish.core.candidates import Candidate, diff
from burnish.core.errors import Problem
from burnish.system.workspaces import count_changed_lines, summarize_diff

MOST_CHARS = 6000
"""Of a file's diff in the ledger; the candidate itself is there whole."""


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """How one file differs."""

    path: str
    added: int
    removed: int
    diff: str
    """The unified diff, as much of it as a summary holds."""

    @property
    def changed(self) -> int:
        """Lines added and lines removed, together."""
        return self.added + self.removed


@dataclass(frozen=True, kw_only=True)
class Changes:
    """How two candidates differ."""

    files: tuple[FileChange, ...]

    @classmethod
    def between(cls, before: Candidate, after: Candidate) -> "Changes":
        """What was changed."""
        found = [
            file_change(change.surface, str(change.before or ""), str(change.after or ""))
            for change in diff(before, after)
        ]
        return cls(files=tuple(found))

    @property
    def changed(self) -> int:
        """Changed lines, of all files together."""
        return sum(file.changed for file in self.files)

    def problems(self, *, max_files: int | None, max_lines: int | None) -> list[Problem]:
        """What is too much."""
        found: list[Problem] = []
        if max_files is not None and len(self.files) > max_files:
            told = f"the edit touches {len(self.files)} files, {max_files} are allowed"
            found.append(Problem(message=told, remedy="touch fewer files"))
        if max_lines is not None and self.changed > max_lines:
            told = f"the edit changes {self.changed} lines, {max_lines} are allowed"
            found.append(Problem(message=told, remedy="make a smaller edit"))
        return found


def file_change(path: str, before: str, after: str) -> FileChange:
    """How a file differs, line by line."""
    count = count_changed_lines(before, after)
    shown = summarize_diff({path: before.encode()}, {path: after.encode()}, max_chars=MOST_CHARS)
    return FileChange(path=path, added=count.added, removed=count.removed, diff=shown.text)
