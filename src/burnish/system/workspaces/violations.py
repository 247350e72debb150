"""What a candidate did that it may not do."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from burnish.core.errors import Problem
from burnish.system.workspaces.paths import shown

ViolationKind: TypeAlias = Literal[
    "outside",  # a new file, or a path, that is not among the declared artifacts
    "tampering",  # something that is not an artifact, or is protected, was changed or removed
    "file_type",
    "file_count",
    "changed_lines",
    "binary",
    "mode",
    "link",  # a symbolic or hard link in the place of a file, or a folder in it
    "name",  # a name that some file systems take for another one's
]


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One bound that was broken, where, and what would be right."""

    kind: ViolationKind
    message: str
    path: str = ""
    remedy: str = ""

    @property
    def problem(self) -> Problem:
        """The same as something that can be shown with others."""
        return Problem(where=shown(self.path), message=self.message, remedy=self.remedy)

    def __str__(self) -> str:
        return str(self.problem)
