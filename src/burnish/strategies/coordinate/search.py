"""The strategy `coordinate`: its plan, phases in cycles until one brings no gain, its changes."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from burnish.core.cases import Split
from burnish.core.content import Json, codec, short_id
from burnish.core.errors import Problem
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
from burnish.core.gates import OfferRule
from burnish.core.money import NOTHING
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import (
    Change,
    ChoiceSurface,
    DemosSurface,
    NumberSurface,
    TextSurface,
    diff,
)
from burnish.core.trials import TrialRow
from burnish.journal.limits import Budget
from burnish.models.roles import ModelRole
from burnish.runs import progress
from burnish.runs.directory import RunRecord
from burnish.runs.events import PhaseEnded, PhaseStarted, SearchEnded
from burnish.runs.first_round import FirstRound
from burnish.runs.ledger import axis_target, proposal_source
from burnish.runs.report_sections import gains
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.demonstrations import DemonstrationPhase, NumericPhase
from burnish.strategies.coordinate.numeric import warm_up
from burnish.strategies.coordinate.phases import (
    NOTHING_TO_GAIN,
    STOPPED,
    Expected,
    Phase,
    TextualPhase,
    accepted_by_luck,
    costs_ahead,
    expected,
    headroom_of,
)
from burnish.strategies.coordinate.trials import (
    PHASES,
    CoordinateSettings,
    CritiqueRequest,
    Edit,
    EditRequest,
    Gradient,
    Incumbent,
    Memory,
    TrialRunner,
)
from burnish.system import Redactor

_VERSION = 3


@dataclass(frozen=True, kw_only=True)
class Coordinate:
    """Coordinate descent: demonstrations, then numbers, then texts, again and again.

    Each phase starts where the one before it ended, and each accept inside a phase moves the
    incumbent, so that gains add up. A numeric phase has its own study: what was learned under
    another text does not count.
    """

    settings: CoordinateSettings = field(default_factory=CoordinateSettings)
    critic: Role[CritiqueRequest, Gradient] | None = None
    applier: Role[EditRequest, Edit] | None = None
    name: str = "coordinate"

    @property
    def fingerprint(self) -> str:
        return short_id([_VERSION, self.settings.model_dump(exclude={"max_cycles"})])

    @property
    def offer_rule(self) -> OfferRule:
        settings = self.settings
        return OfferRule(
            accept_sigma=settings.accept_sigma,
            max_missing=settings.max_errored_fraction,
            splits=(Split.TRAIN, Split.HOLDOUT),
        )

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        return [role for role in (self.critic, self.applier) if role is not None]

    def audit_header(self, target: Target, budget: Budget) -> Mapping[str, Json]:
        """The search as HoloDeck's run.json tells it."""
        settings = self.settings
        surfaces = {surface.id: codec(type(surface)).encode(surface) for surface in target.surfaces}
        phases = {name: getattr(settings, name) for name in PHASES}
        limits = {name: value for name, value in vars(budget).items() if value}
        config: dict[str, Json] = {
            "axes": {
                "numeric": [surfaces[name] for name in settings.numbers],
                "textual": [surfaces[name] for name in settings.texts],
                "demonstrations": surfaces.get(settings.demonstrations),
            },
            "repeats": settings.repeats,
            "accept_sigma": settings.accept_sigma,
            "max_errored_fraction": settings.max_errored_fraction,
            "min_confidence": settings.min_confidence,
            "holdout_eval_policy": settings.holdout_policy,
            "budget": {
                "global": {"max_cycles": settings.max_cycles, **limits},
                **{name: limit.model_dump(mode="json") for name, limit in phases.items()},
            },
        }
        agents: dict[str, Json] = {
            role.name: {"model": role.client.ref.label, "agent_path": str(role.prompt.source)}
            for role in self.roles
            if isinstance(role, ModelRole)
        }
        return {"optimizer_config": config, "subagents": agents}

    def steerable(self, target: Target) -> Mapping[str, Sequence[str]]:
        """What people may send to a run; a hint needs somebody who writes."""
        settings, kinds = self.settings, {surface.id: surface for surface in target.surfaces}
        demos = (settings.demonstrations,) if settings.demonstrations else ()
        axes = [*demos, *settings.numbers, *settings.texts]
        own = [name for name in axes if not isinstance(kinds.get(name), DemosSurface)]
        hints: dict[str, Sequence[str]] = {"tell": ()} if settings.texts else {}
        return {"try": own, **hints, "pin": axes}

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """The surfaces in the settings must exist, be of the right kind and within bounds."""
        surfaces = {surface.id: surface for surface in target.surfaces}
        demos = (self.settings.demonstrations,) if self.settings.demonstrations else ()
        axes = [
            *((name, (NumberSurface, ChoiceSurface)) for name in self.settings.numbers),
            *((name, (TextSurface,)) for name in self.settings.texts),
            *((name, (DemosSurface,)) for name in demos),
        ]
        problems = [
            Problem(where=name, message="there is no such surface, or it is of another kind")
            for name, kinds in axes
            if not isinstance(surfaces.get(name), kinds)
        ]
        if not problems:
            remedy = "change the value it starts with, or the bounds of the axis"
            problems = [
                replace(problem, remedy=remedy)
                for name, _ in axes
                for problem in surfaces[name].problems(target.baseline.values[name])
            ]
        if not axes:
            problems.append(Problem(message="there is nothing to tune: no axis is given"))
        if self.settings.texts and (self.critic is None or self.applier is None):
            problems.append(Problem(message="texts need a critic and an applier"))
        return problems

    async def search(self, run: Run) -> None:
        memory = Memory()
        runner = TrialRunner(run, self.settings, cycle=0, phase="baseline", memory=memory)
        if run.stop_reason(runner.need) is not None:
            return
        incumbent = await runner.baseline()
        costs = costs_ahead(run, self.settings, self.roles, runner.paid)
        run.tell(headroom_of(run, self.settings, incumbent, costs), "headroom")
        cycle, reason = 0, NOTHING_TO_GAIN if incumbent.perfect else ""
        if not reason and run.stop_reason() is not None:
            reason = STOPPED
        while not reason:
            cycle += 1
            before, incumbent = incumbent, await self._cycle(run, cycle, incumbent, memory)
            reason = self._over(run, cycle, before, incumbent)
        if reason != STOPPED:
            run.tell(SearchEnded(cycle=cycle, reason=reason), f"cycle:{cycle}:{reason}")

    def _over(self, run: Run, cycle: int, before: Incumbent, after: Incumbent) -> str:
        if run.stopped is not None:
            return STOPPED
        if after.perfect:
            return NOTHING_TO_GAIN
        if after is before:
            return "dry_cycle"
        # A limit that was lowered or raised since does not change recorded cycles.
        is_last = cycle >= self.settings.max_cycles and not run.replaying
        return "max_cycles" if is_last else ""

    async def _cycle(self, run: Run, cycle: int, incumbent: Incumbent, memory: Memory) -> Incumbent:
        for phase in self._phases(run, cycle, memory):
            if incumbent.perfect:
                break
            run.tell(PhaseStarted(cycle=cycle, phase=phase.name), f"cycle:{cycle}:{phase.name}")
            incumbent, reason = await phase.go(incumbent)
            event = PhaseEnded(
                cycle=cycle,
                phase=phase.name,
                reason=reason,
                trials=phase.trials,
                accepts=phase.accepts,
            )
            # A stopped phase continues when the run is resumed, and then ends again.
            last = f"stopped:{run.trial}" if reason == STOPPED else "end"
            run.tell(event, f"cycle:{cycle}:{phase.name}:{last}")
            if run.stopped is not None:
                break
        return incumbent

    def _phases(self, run: Run, cycle: int, memory: Memory) -> Iterator[Phase]:
        settings = self.settings
        common: dict[str, Any] = {
            "run": run,
            "settings": settings,
            "cycle": cycle,
            "memory": memory,
        }
        if settings.demonstrations:
            yield DemonstrationPhase(limits=settings.demonstration_phase, **common)
        if settings.numbers:
            yield NumericPhase(limits=settings.numeric_phase, **common)
        if settings.texts and self.critic is not None and self.applier is not None:
            yield TextualPhase(
                limits=settings.textual_phase, critic=self.critic, applier=self.applier, **common
            )


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


def first_round(setup: Setup, strategy: Coordinate) -> FirstRound:
    """The baseline and a trial of the cheapest phase, which begins with room for all its cases."""
    settings = strategy.settings
    once = progress.all_sweeps(setup, settings.splits, settings.repeats)
    only_texts = {*settings.phases} == {TextualPhase.name}
    asking = progress.asking(strategy.roles) if only_texts else NOTHING
    return progress.first_round(setup, baseline=once, candidate=once + asking)


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
    least, most = counted(costs.least_trials, "trial"), counted(costs.most_trials, "trial")
    yield f"the run   about {spending(costs.least)} if nothing helps ({least}),"
    yield f"          at most about {spending(costs.most)} ({most})"
    yield "          estimated from the length of prompts and references; tools, reasoning and what"
    yield "          judges read are extra"
    yield first_round(setup, strategy).line()


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
