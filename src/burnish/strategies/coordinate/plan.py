"""The plan of coordinate descent, and what changed from baseline to best."""

import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from burnish.core.cases import Split
from burnish.core.formatting import (
    Diff,
    Heading,
    Listing,
    Section,
    Space,
    Text,
    cell,
    counted,
    number,
    spending,
)
from burnish.core.money import NOTHING
from burnish.core.surfaces import Change, diff
from burnish.core.trials import TrialRow
from burnish.runs import progress
from burnish.runs.directory import RunRecord
from burnish.runs.ledger import axis_target, proposal_source
from burnish.runs.report_sections import gains
from burnish.runs.setup import Setup
from burnish.strategies import pruning_report
from burnish.strategies.coordinate.headroom import Expected, accepted_by_luck, expected
from burnish.strategies.coordinate.numeric import warm_up
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.settings import CoordinateSettings
from burnish.system import Redactor


def plan_lines(setup: Setup, strategy: Coordinate) -> Iterator[str]:
    """The lines of `--dry-run`."""
    yield from _what(setup)
    yield from _axes(setup, strategy.settings)
    yield from _cases(setup, strategy.settings)
    yield from _phases(strategy)
    limits = [*search_limits(setup, strategy), *progress.time_limits(setup)]
    yield f"limits    {', '.join(limits)}"
    yield from _costs(setup, strategy)
    yield from progress.notes(setup)
    yield progress.NOTHING_PAID


def _what(setup: Setup) -> Iterator[str]:
    yield from progress.agent_line(setup)
    yield f"strategy  {setup.strategy.name}, seed {setup.seed}"
    weights = setup.objective.weights.items()
    mean = ", ".join(f"{metric} × {weight:g}" for metric, weight in weights)
    extra = [
        f"{rate:g} {name.replace('_', ' ')}"
        for name, rate in vars(setup.objective.penalties).items()
        if rate
    ]
    yield f"loss      1 − the weighted mean of {mean}{''.join(f' + {each}' for each in extra)}"
    if setup.objective.constraints:
        yield f"only if   {', '.join(map(str, setup.objective.constraints))}"


def _axes(setup: Setup, settings: CoordinateSettings) -> Iterator[str]:
    values = setup.target.baseline.values
    # Without anybody who writes, texts stay as they are.
    surfaces = [each for each in setup.target.surfaces if settings.texts or each.kind != "text"]
    yield f"axes      {len(surfaces)}"
    for surface in surfaces:
        words = progress.surface_words(surface, values[surface.id])
        yield f"  {surface.kind:<7} {surface.id}: {words}"


def _cases(setup: Setup, settings: CoordinateSettings) -> Iterator[str]:
    data = setup.dataset
    held = len(data.holdout) if settings.uses_holdout else "not used"
    yield f"cases     train {len(data.train)}, holdout {held}, {progress.sealed_cases(setup)}"
    yield f"repeats   {settings.repeats}; a gain counts from {settings.accept_sigma:g} × its noise"
    yield f"by luck   {accepted_by_luck(settings, data).words}"
    if data.holdout and settings.uses_holdout:
        yield f"can show  {progress.shown_by(len(data.holdout))}"


def _phases(strategy: Coordinate) -> Iterator[str]:
    for name, limits in strategy.settings.phases.items():
        more = ""
        if name == "numeric":
            start = warm_up(min(limits.patience, limits.max_trials))
            more = f"; warm-up {counted(start, 'point')}, then TPE"
        if name == "textual":
            roles = [f"{role.name} {progress.role_label(role)}".strip() for role in strategy.roles]
            more = f"; {' and '.join(roles)}"
        trials = counted(limits.max_trials, "trial")
        yield f"phase     {name}: at most {trials}, patience {limits.patience}{more}"


def search_limits(setup: Setup, strategy: Coordinate) -> list[str]:
    """What ends a search."""
    return [f"max_cycles {strategy.settings.max_cycles}", *progress.budget_limits(setup.budget)]


def search_cost(setup: Setup, strategy: Coordinate) -> str:
    """What a whole run costs if nothing helps, and at most."""
    costs = _expected(setup, strategy)
    least, most = (spending(each, tokens=False) for each in (costs.least, costs.most))
    return f"the run {least} to {most}"


def _expected(setup: Setup, strategy: Coordinate) -> Expected:
    settings = strategy.settings
    uses_holdout, repeats = settings.uses_holdout, settings.repeats
    train = progress.sweeps(setup, Split.TRAIN, repeats)
    holdout = progress.sweeps(setup, Split.HOLDOUT, repeats) if uses_holdout else NOTHING
    return expected(
        settings,
        baseline=train + holdout,
        train=train,
        holdout=holdout,
        roles=progress.asking(strategy.roles),
        sealed=progress.last_sweeps(setup),
    )


def _costs(setup: Setup, strategy: Coordinate) -> Iterator[str]:
    settings, costs = strategy.settings, _expected(setup, strategy)
    yield f"a trial   about {spending(costs.train)} on train"
    if costs.holdout.calls:
        always = settings.holdout_policy == "every_trial"
        when = "" if always else " where train improves"
        yield f"          + {spending(costs.holdout)} on holdout{when}"
    if costs.roles.calls:
        yield f"          + {spending(costs.roles)} for critic and applier in a textual phase"
    yield from progress.reserved(setup)
    yield from pruning_report.plan_lines(setup, settings)
    least, most = counted(costs.least_trials, "trial"), counted(costs.most_trials, "trial")
    yield f"the run   about {spending(costs.least)} if nothing helps ({least}),"
    yield f"          at most about {spending(costs.most)} ({most})"
    yield "          estimated from the length of prompts and references; tools, reasoning and what"
    yield "          judges read are extra"


_MOST_LINES = 600
"""Of a diff; beyond that the files are better compared with a tool for it."""
_SECRET_FIELD = re.compile(
    r"""((?:^|[\s{,"'-])(?:\w*(?:api_?key|secret|password|access_key)|(?:\w+_)?token)["']?: +)"""
    r"""(?!["']?\$\{)["']?[^\s,}"']+["']?""",
    re.IGNORECASE,
)
"""A field of a file that is named like a secret, written out instead of as `${VAR}`."""
_REASONS = (
    ("what failed", "critic", "failing_pattern"),
    ("why", "critic", "root_cause_hypothesis"),
    ("what to change", "critic", "suggested_change_direction"),
    ("the edit", "applier", "rationale"),
    ("in short", "applier", "diff_summary"),
)


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
    yield Diff(tuple(lines[:_MOST_LINES]))
    if more := max(0, len(lines) - _MOST_LINES):
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
        delta = difflib.unified_diff(old, new, twin, name, lineterm="")
        lines += [redactor.text(_SECRET_FIELD.sub(r"\g<1>[redacted]", each)) for each in delta]
    return lines


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
    answers = {name: each for name, each in source.items() if isinstance(each, dict)}
    for words, role, name in _REASONS:
        if text := answers.get(role, {}).get(name):
            yield f"{words}: {cell(str(text), 700)}"
    critic = answers.get("critic", {})
    cited = critic.get("citations")
    if isinstance(cited, list) and cited:
        yield f"cases: {cell(', '.join(map(str, cited)), 700)}"
    yield f"confidence: {number(critic.get('confidence'))}"
