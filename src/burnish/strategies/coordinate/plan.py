"""The plan of coordinate descent, and what changed from baseline to best."""

import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from burnish.core.cases import Split
from burnish.core.content import Json
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
from burnish.runs.directory import RunRecord
from burnish.runs.ledger import axis_target, proposal_source
from burnish.runs.progress import (
    NOTHING_PAID,
    agent_line,
    asking,
    budget_limits,
    notes,
    role_label,
    sealed_cases,
    shown_by,
    surface_words,
    sweeps,
    time_limits,
)
from burnish.runs.report_sections import gains
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.headroom import Expected, expected
from burnish.strategies.coordinate.numeric import warm_up
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.settings import CoordinateSettings, PhaseLimits
from burnish.system import Redactor


def plan_lines(setup: Setup, strategy: Coordinate) -> Iterator[str]:
    """The lines of `--dry-run`."""
    costs = _expected_costs(setup, strategy)
    yield from _what(setup)
    yield from _axes(setup, strategy.settings)
    yield from _cases(setup, strategy.settings)
    yield from _phases(strategy)
    limits = [*search_limits(setup, strategy), *time_limits(setup)]
    yield f"limits    {', '.join(limits)}"
    yield from _costs(costs, strategy.settings)
    yield from notes(setup)
    yield NOTHING_PAID


def _expected_costs(setup: Setup, strategy: Coordinate) -> Expected:
    """What the search is expected to cost, as well as can be told beforehand."""
    settings = strategy.settings
    skip = settings.holdout_policy == "skip"
    train = sweeps(setup, Split.TRAIN, settings.repeats)
    holdout = NOTHING if skip else sweeps(setup, Split.HOLDOUT, settings.repeats)
    return expected(
        settings,
        baseline=train + holdout,
        train=train,
        holdout=holdout,
        roles=asking(strategy.roles),
        sealed=sweeps(setup, Split.TEST, 2 * setup.test_repeats),
    )


def _what(setup: Setup) -> Iterator[str]:
    yield from agent_line(setup)
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
        yield f"  {surface.kind:<7} {surface.id}: {surface_words(surface, values[surface.id])}"


def _cases(setup: Setup, settings: CoordinateSettings) -> Iterator[str]:
    data = setup.dataset
    held = "not used" if settings.holdout_policy == "skip" else len(data.holdout)
    yield f"cases     train {len(data.train)}, holdout {held}, {sealed_cases(setup)}"
    yield f"repeats   {settings.repeats}; a gain counts from {settings.accept_sigma:g} × its noise"
    if data.holdout and settings.holdout_policy != "skip":
        yield f"can show  {shown_by(len(data.holdout))}"


def _phases(strategy: Coordinate) -> Iterator[str]:
    settings = strategy.settings
    if settings.demonstrations:
        yield f"phase     demonstrations: {_phase(settings.demonstration_phase)}"
    if settings.numbers:
        limits = settings.numeric_phase
        start = warm_up(min(limits.patience, limits.max_trials))
        yield f"phase     numeric: {_phase(limits)}; warm-up {counted(start, 'point')}, then TPE"
    if settings.texts:
        roles = " and ".join(f"{role.name} {role_label(role)}".strip() for role in strategy.roles)
        yield f"phase     textual: {_phase(settings.textual_phase)}; {roles}"


def _phase(limits: PhaseLimits) -> str:
    return f"at most {counted(limits.max_trials, 'trial')}, patience {limits.patience}"


def search_limits(setup: Setup, strategy: Coordinate) -> list[str]:
    """What ends a search."""
    return [f"max_cycles {strategy.settings.max_cycles}", *budget_limits(setup.budget)]


def _costs(costs: Expected, settings: CoordinateSettings) -> Iterator[str]:
    yield f"a trial   about {spending(costs.train)} on train"
    if costs.holdout.calls:
        always = settings.holdout_policy == "every_trial"
        when = "" if always else " where train improves"
        yield f"          + {spending(costs.holdout)} on holdout{when}"
    if costs.roles.calls:
        yield f"          + {spending(costs.roles)} for critic and applier in a textual phase"
    if costs.sealed.calls:
        yield f"reserved  about {spending(costs.sealed)} for the sealed test"
    least, most = counted(costs.least_trials, "trial"), counted(costs.most_trials, "trial")
    yield f"the run   about {spending(costs.least)} if nothing helps ({least}),"
    yield f"          at most about {spending(costs.most)} ({most})"
    yield "          by the length of prompts and references; tools, reasoning and what judges"
    yield "          read come on top"


# -- What changed from baseline to best -----------------------------------------------------------


_MOST_LINES = 600
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
        lines += [_without_secrets(line, redactor) for line in delta]
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
