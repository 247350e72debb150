"""What is different between two snapshots."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from burnish.system.workspaces.snapshots import Entry, Snapshot

ChangeKind: TypeAlias = Literal["added", "removed", "content", "mode", "kind", "links"]


@dataclass(frozen=True, kw_only=True)
class Change:
    """One entry that is not what it was; the first kind of difference that applies."""

    path: str
    kind: ChangeKind
    before: Entry | None = None
    after: Entry | None = None
    renamed_from: str = ""
    """Where an added file of the same content was before, and is no more."""

    @property
    def is_folder(self) -> bool:
        """Whether it is about a folder, before and after."""
        return {entry.kind for entry in (self.before, self.after) if entry} == {"folder"}


def diff_snapshots(before: Snapshot, after: Snapshot) -> list[Change]:
    """Every entry that was added, removed or changed, by path."""
    found: list[Change] = []
    gone = _gone_by_digest(before.entries, after.entries)
    for path in sorted({*before.entries, *after.entries}):
        old, new = before.entries.get(path), after.entries.get(path)
        kind = _kind(old, new)
        if kind is not None:
            source = gone.get(new.digest, "") if kind == "added" and new and new.size else ""
            found.append(Change(path=path, kind=kind, before=old, after=new, renamed_from=source))
    return found


def _kind(old: Entry | None, new: Entry | None) -> ChangeKind | None:
    if old is None or new is None:
        return "added" if old is None else "removed"
    if old == new:
        return None
    if old.kind != new.kind:
        return "kind"
    if (old.digest, old.size) != (new.digest, new.size):
        return "content"
    return "mode" if old.mode != new.mode else "links"


def _gone_by_digest(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> dict[str, str]:
    return {e.digest: p for p, e in before.items() if e.kind == "file" and p not in after}
