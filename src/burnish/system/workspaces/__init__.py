"""Workspaces: copies of a folder to work in, what changed in them, and what may change.

A copy is never linked to its original; snapshots are compared; bounds say which differences are
allowed. Only `copies` and `snapshots` touch a disk.
"""

from burnish.system.files import remove_tree
from burnish.system.workspaces.copies import (
    DEFAULT_EXCLUDE,
    WorkspaceCopy,
    carry_over,
    copy_workspace,
    is_run_folder,
    write_files,
)
from burnish.system.workspaces.diffs import (
    DiffSummary,
    LineCount,
    Violation,
    ViolationKind,
    count_changed_lines,
    edit_violations,
    proposal_violations,
    run_violations,
    summarize_diff,
)
from burnish.system.workspaces.snapshots import (
    Bounds,
    Entry,
    EntryChange,
    Snapshot,
    diff_snapshots,
    path_problem,
    pattern_problem,
    read_contents,
    shown,
    snapshot,
)

__all__ = [
    "DEFAULT_EXCLUDE",
    "Bounds",
    "DiffSummary",
    "Entry",
    "EntryChange",
    "LineCount",
    "Snapshot",
    "Violation",
    "ViolationKind",
    "WorkspaceCopy",
    "carry_over",
    "copy_workspace",
    "count_changed_lines",
    "diff_snapshots",
    "edit_violations",
    "is_run_folder",
    "path_problem",
    "pattern_problem",
    "proposal_violations",
    "read_contents",
    "remove_tree",
    "run_violations",
    "shown",
    "snapshot",
    "summarize_diff",
    "write_files",
]
