"""What changed from baseline to best: the agent's files as a diff, and why its texts changed."""

import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from burnish.core.candidates import Change, diff
from burnish.core.content import Json
from burnish.core.sections import Diff, Heading, Listing, Section, Space, Text
from burnish.core.trials import TrialRow
from burnish.core.words import cell, number
from burnish.runs.audit import axis_target, proposal_source
from burnish.runs.record import RunRecord
from burnish.runs.report_sections import gains
from burnish.system import Redactor

MOST_LINES = 600
"""Of a diff; beyond that the files are better compared with a tool for it."""
_SECRET_FIELD = re.compile(
    r"""((?:^|[\s{,"'-])(?:\w*(?:api_?key|secret|password|access_key)|(?:\w+_)?token)["']?: +)"""
    r"""(?!["']?\$\{)["']?[^\s,}"']+["']?""",
    re.IGNORECASE,
)
"""A field of a file that is named like a secret, written out instead of as `${VAR}`."""
_PROSE = 700
_CRITIC = (
    ("what failed", "failing_pattern"),
    ("why", "root_cause_hypothesis"),
    ("what to change", "suggested_change_direction"),
)
_APPLIER = (("the edit", "rationale"), ("in short", "diff_summary"))


def changed_files(run: RunRecord) -> Iterator[Section]:
    """The diff: all accepted edits together, since each was made on the last."""
    yield Heading("What changed")
    if run.baseline is None or run.best is None:
        yield Text.of("Nothing was measured yet.")
        return
    changes = diff(run.baseline.trial.candidate, run.best.trial.candidate)
    if not changes:
        yield Text.of("Nothing: no candidate was better than the baseline.")
        return
    lines = _of_files(run, changes) or [line for change in changes for line in change.lines()]
    yield Diff(tuple(lines[:MOST_LINES]))
    if more := max(0, len(lines) - MOST_LINES):
        yield Text.of(f"{more} more lines are not shown: compare the files themselves.")


def _of_files(run: RunRecord, changes: Sequence[Change]) -> list[str]:
    """The diff of the exported files; empty where one of them is not there any more."""
    assert run.baseline is not None
    assert run.best is not None
    first, last = run.baseline.number, run.best.number
    lines: list[str] = []
    redactor = Redactor.from_environment()
    for name in run.files.get(last, ()):
        after = _text(run.folder / name)
        twin = name.replace(f"iter-{last:02d}", f"iter-{first:02d}")
        before = _text(run.folder / twin)
        if before is None and twin not in run.files.get(first, ()):
            twin, before, after = _as_it_was(changes, after)
        if before is None or after is None:
            return []
        old, new = before.splitlines(), after.splitlines()
        found = difflib.unified_diff(old, new, twin, name, lineterm="")
        lines += [_without_secrets(line, redactor) for line in found]
    return lines


def _without_secrets(line: str, redactor: Redactor) -> str:
    """A line as a report may have it: the files may hold what only looks like a secret."""
    return redactor.text(_SECRET_FIELD.sub(r"\g<1>[redacted]", line))


def _as_it_was(changes: Sequence[Change], after: str | None) -> tuple[str, str | None, str | None]:
    """The text that a file without a forerunner holds now, and what it was: a file of the user's.

    What stands before the text in its file is not part of it and did not change.
    """
    for change in changes:
        old, new = change.before, change.after
        if isinstance(old, str) and isinstance(new, str) and after and after.endswith(new):
            return f"{change.surface} as it was", old, new
    return "", None, None


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    except OSError:
        return None


def rationales(run: RunRecord) -> Iterator[Section]:
    """Why each accepted text is as it is."""
    yield Heading("Why the texts changed")
    edited = [r for r in run.rows if r.trial.accepted and "critic" in proposal_source(r.trial)]
    if not edited:
        yield Text.of("No edit of a text was accepted.")
        return
    won = gains(run)
    for row in edited:
        axis = cell(axis_target(row.trial), 100)
        yield Heading(f"Trial {row.number}: {axis}, Δloss {fall(won[row.number])}", level=3)
        yield Listing(tuple(_reasons(row)))
    yield Space()


def fall(gain: float | None) -> str:
    """A gain as what it does to the loss: `−0.219`."""
    return "—" if gain is None else f"{-gain:+z.3f}".replace("-", "−").replace("+0.000", "0.000")


def _reasons(row: TrialRow) -> Iterator[str]:
    source = proposal_source(row.trial)
    critic, applier = _fields(source.get("critic")), _fields(source.get("applier"))
    for parts, fields in ((_CRITIC, critic), (_APPLIER, applier)):
        for word, name in parts:
            if fields.get(name):
                yield f"{word}: {_prose(fields[name])}"
    cited = critic.get("citations")
    if isinstance(cited, list) and cited:
        yield f"cases: {_prose(', '.join(map(str, cited)))}"
    yield f"confidence: {number(critic.get('confidence'))}"


def _fields(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _prose(value: Json) -> str:
    """What a role wrote, in one line that cannot be taken for anything but text."""
    return cell(str(value), _PROSE)
