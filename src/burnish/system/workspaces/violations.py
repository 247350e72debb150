"""Checks what was done in a workspace against its bounds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from burnish.core.errors import Problem
from burnish.system.workspaces.diffs import Contents, LineCount, count_changed_lines, text_of
from burnish.system.workspaces.paths import Bounds, folders_of, look_alike, path_problem, shown
from burnish.system.workspaces.snapshots import EntryChange, Snapshot, diff_snapshots

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

_OURS = "edit the artifacts only"


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One bound that was broken, where, and what would be allowed."""

    kind: ViolationKind
    message: str
    path: str = ""
    remedy: str = ""

    @property
    def problem(self) -> Problem:
        return Problem(where=shown(self.path), message=self.message, remedy=self.remedy)

    def __str__(self) -> str:
        return str(self.problem)


def edit_violations(
    bounds: Bounds, before: Snapshot, after: Snapshot, *, old: Contents, new: Contents
) -> list[Violation]:
    """What an edit changed that it may not change.

    `old` and `new` hold the contents of the artifacts that differ (more does no harm).
    """
    changes = [c for c in diff_snapshots(before, after) if not bounds.is_scratch(c.path)]
    edited = [c for c in changes if bounds.is_artifact(c.path) and not c.is_folder]
    others = [c for c in changes if c not in edited and not _is_way_to(c, edited)]
    violations = [_foreign(bounds, change) for change in others]
    for change in edited:
        violations += _wrong_with(bounds, change, new.get(change.path))
    violations += _confusable(before, after)
    return [*violations, *_too_much(bounds, [change.path for change in edited], old, new)]


def run_violations(bounds: Bounds, before: Snapshot, after: Snapshot) -> list[Violation]:
    """What a run changed outside its scratch folders, including artifacts."""
    changes = [c for c in diff_snapshots(before, after) if not bounds.is_scratch(c.path)]
    own = [c for c in diff_snapshots(before, after) if bounds.is_scratch(c.path)]
    return [
        Violation(kind=_foreign(bounds, c).kind, path=c.path, message=f"a run {_did(c)} it",
                  remedy="list it as scratch if the run is meant to write it")
        for c in changes if not _is_way_to(c, own)
    ]  # fmt: skip


def proposal_violations(
    bounds: Bounds, texts: Mapping[str, str | None], *, old: Contents
) -> list[Violation]:
    """What is wrong with new texts before they are written; None removes a file."""
    violations: list[Violation] = []
    for path, text in texts.items():
        if problem := path_problem(path):
            violations.append(Violation(kind="outside", path=path, message=problem, remedy=_OURS))
        elif not bounds.is_artifact(path):
            kind = "tampering" if bounds.is_protected(path) else "outside"
            violations.append(
                Violation(kind=kind, path=path, message=_not_declared(kind), remedy=_OURS)
            )
        elif text is not None:
            violations += _wrong_content(bounds, path, text.encode("utf-8", "surrogatepass"))
            violations += _wrong_type(bounds, path)
    new = {p: t.encode("utf-8", "surrogatepass") for p, t in texts.items() if t is not None}
    changed = [path for path in texts if old.get(path) != new.get(path)]
    return [*violations, *_too_much(bounds, changed, old, new)]


def _is_way_to(change: EntryChange, others: Sequence[EntryChange]) -> bool:
    """Whether a folder was added or removed only because of an allowed file in it."""
    if not change.is_folder or change.kind not in ("added", "removed"):
        return False
    return any(other.kind == change.kind and change.path in folders_of(other.path)
               for other in others)  # fmt: skip


def _foreign(bounds: Bounds, change: EntryChange) -> Violation:
    touched = bounds.is_protected(change.path) or change.kind != "added"
    kind = "tampering" if touched else "outside"
    message = f"{_not_declared(kind)}, and the candidate {_did(change)} it"
    return Violation(kind=kind, path=change.path, message=message, remedy=_OURS)


def _not_declared(kind: str) -> str:
    return "it is not yours to touch" if kind == "tampering" else "it is not a declared artifact"


def _did(change: EntryChange) -> str:
    if change.renamed_from:
        return f"renamed {shown(change.renamed_from)} to"
    if change.kind == "kind" and change.before and change.after:
        return f"made a {change.after.kind} of the {change.before.kind}: changed"
    words = {"mode": "changed the mode of", "links": "linked", "content": "changed"}
    return words.get(change.kind, change.kind)


def _wrong_with(bounds: Bounds, change: EntryChange, content: bytes | None) -> Iterator[Violation]:
    path, after = change.path, change.after
    if after is None:
        yield from _wrong_type(bounds, path)
        return
    if after.kind != "file" or after.links > 1:
        message = f"it became a {'hard link' if after.kind == 'file' else after.kind}"
        yield Violation(kind="link", path=path, message=message, remedy="write a plain file")
        return
    before = change.before
    if after.mode & 0o7111 if before is None else before.mode != after.mode:
        mode = "644 or 664" if before is None else f"{before.mode:o}"
        message = f"its mode is {after.mode:o}"
        yield Violation(kind="mode", path=path, message=message, remedy=f"leave it at {mode}")
    yield from _wrong_type(bounds, path)
    if content is None:
        message = "its content cannot be read"
        yield Violation(kind="binary", path=path, message=message, remedy="write UTF-8 text")
    else:
        yield from _wrong_content(bounds, path, content)


def _wrong_type(bounds: Bounds, path: str) -> Iterator[Violation]:
    if not bounds.allows_type(path):
        remedy = f"allowed are: {', '.join(bounds.file_types)}"
        message = "files of this type may not be edited"
        yield Violation(kind="file_type", path=path, message=message, remedy=remedy)


def _wrong_content(bounds: Bounds, path: str, content: bytes) -> Iterator[Violation]:
    if len(content) > bounds.max_file_bytes:
        message = f"it has {len(content):,} bytes, {bounds.max_file_bytes:,} are allowed"
        yield Violation(kind="binary", path=path, message=message, remedy="shorten it")
        return
    try:
        is_text = "\0" not in content.decode("utf-8")
    except UnicodeDecodeError:
        is_text = False
    if not is_text:
        message = "its content is binary"
        yield Violation(kind="binary", path=path, message=message, remedy="write UTF-8 text")


def _confusable(before: Snapshot, after: Snapshot) -> Iterator[Violation]:
    """New names that some file system would treat as the same as an existing name."""
    taken: dict[str, list[str]] = {}
    for path in after.entries:
        taken.setdefault(look_alike(path), []).append(path)
    for path in after.entries:
        twins = [other for other in taken[look_alike(path)] if other != path]
        if path not in before.entries and twins:
            message = f"its name differs from '{shown(twins[0])}' only as some file systems ignore"
            yield Violation(kind="name", path=path, message=message, remedy="choose another name")


def _too_much(
    bounds: Bounds, paths: Sequence[str], old: Contents, new: Contents
) -> Iterator[Violation]:
    if bounds.max_files is not None and len(paths) > bounds.max_files:
        message = f"{len(paths)} files were changed, {bounds.max_files} are allowed"
        yield Violation(kind="file_count", message=message, remedy="change fewer files")
    if bounds.max_changed_lines is None:
        return
    counts = (count_changed_lines(text_of(old.get(p)), text_of(new.get(p))) for p in paths)
    changed = sum(counts, LineCount()).changed
    if changed > bounds.max_changed_lines:
        message = f"{changed} lines were changed (added and removed), "
        message += f"{bounds.max_changed_lines} are allowed"
        yield Violation(kind="changed_lines", message=message, remedy="make a smaller edit")
