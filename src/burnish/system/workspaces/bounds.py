"""Which files of a workspace may be edited, and by how much."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from burnish.system.workspaces.paths import covers, matches


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What one edit may do. Patterns are relative to the workspace; upper and lower case differ."""

    include: tuple[str, ...]
    """The artifacts: files that may be edited, made and removed."""
    exclude: tuple[str, ...] = ()
    """Files, or whole folders, that are no artifacts though `include` names them."""
    protect: tuple[str, ...] = ()
    """What may not be touched whatever else is said, by an edit or by a run."""
    scratch: tuple[str, ...] = ()
    """Where commands write what they like; artifacts are never among it."""
    file_types: tuple[str, ...] = ()
    """Endings such as '.md'; none named, and all are allowed."""
    max_files: int | None = None
    max_changed_lines: int | None = None
    max_file_bytes: int = 4 * 1024 * 1024

    def is_protected(self, path: str) -> bool:
        """Whether a path is protected by name."""
        return covers(self.protect, path)

    def is_artifact(self, path: str) -> bool:
        """Whether a file of this path may be edited."""
        if not matches(path, self.include) or covers(self.exclude, path):
            return False
        return not self.is_protected(path)

    def is_scratch(self, path: str) -> bool:
        """Whether changes of this path say nothing."""
        if self.is_protected(path) or self.is_artifact(path):
            return False
        return covers(self.scratch, path)

    def allows_type(self, path: str) -> bool:
        """Whether files of this type may be edited."""
        name = PurePosixPath(path).name
        return not self.file_types or any(name.endswith(ending) for ending in self.file_types)

    def artifacts_among(self, paths: Iterable[str]) -> list[str]:
        """Those of the paths that are artifacts, in order."""
        return sorted(path for path in paths if self.is_artifact(path))
