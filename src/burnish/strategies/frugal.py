"""The strategy `frugal`: the cheapest candidate that is not worse than the baseline by a margin.

It changes one thing at a time, and keeps what saves and does not harm. It asks no model: other
choices (such as a cheaper model), fewer demonstrations, other numbers, and texts without some of
their lines and sentences. With the goal `frontier` it also keeps what saves more and loses more,
and what costs more and is better.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

from burnish.core.cases import Split
from burnish.core.comparisons import decide
from burnish.core.content import Share, short_id
from burnish.core.errors import BaselineUnmeasured, Problem
from burnish.core.evaluations import Evaluation, Objective
from burnish.core.formatting import Heading, Section, Table, Text, cell, changes_words, number
from burnish.core.gates import OfferRule
from burnish.core.money import Spend
from burnish.core.protocols import Role, Target
from burnish.core.statistics import SAVED_WORDS, Saved, Saving, saving, unit_of
from burnish.core.surfaces import (
    Candidate,
    ChoiceSurface,
    DemosSurface,
    NumberSurface,
    Origin,
    Surface,
    TextSurface,
    Value,
    at_unit,
    diff,
    rounded,
    unit,
)
from burnish.core.trials import Decision, SplitResult, Trial, TrialRow, Verdict
from burnish.runs import progress
from burnish.runs.directory import RunRecord
from burnish.runs.first_round import FirstRound
from burnish.runs.plugins import (
    COSTS,
    Ability,
    Building,
    StrategyParts,
    StrategyPlugin,
    TargetParts,
)
from burnish.runs.report_sections import plain_report
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.runs.spec import StrategySettings
from burnish.strategies.partial_evaluations import BLOCK, Stopped, race
from burnish.strategies.parts import (
    DivisibleDemonstrations,
    DivisibleText,
    DivisibleValue,
    Part,
)
from burnish.strategies.races import Course, may_end_early
from burnish.strategies.requirements import require_baseline
from burnish.system.settings import Access, Door

_Goal: TypeAlias = Literal["cheaper", "faster", "frontier"]
_MAX_MISSING = 0.25
_AS_DEAR = 0.98
"""A point of the frontier costs less than this share of what is as good: others are its twins."""
_FLOOR = 0.5
"""Of the score of the baseline; what is worse is not on the frontier, however cheap it is."""
T = TypeVar("T")
_MOVABLE = (ChoiceSurface, DemosSurface, NumberSurface, TextSurface)


class FrugalSettings(StrategySettings):
    """What is saved, and what that may cost."""

    goal: Annotated[_Goal, Door(flag="*", panel="Options", metavar="GOAL", http=Access.CLIENT)] = (
        "cheaper"
    )
    """`cheaper` saves money (tokens, where nothing has a price), `faster` saves time, `frontier`
    saves money and keeps what no other candidate beats in both score and cost."""
    margin: Annotated[Share, Door(flag="*", panel="Options", http=Access.CLIENT)] = 0.05
    """How much lower the score may be, from 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class _Measured:
    candidate: Candidate
    holdout: Evaluation


@dataclass(frozen=True, kw_only=True)
class Point:
    """What a candidate costs, and how good it is."""

    amount: float
    score: float

    def beats(self, other: "Point") -> bool:
        """Whether nobody would want the other: it is not better, and not really cheaper."""
        return self.score >= other.score and other.amount > _AS_DEAR * self.amount


def frontier(points: Iterable[tuple[T, Point]]) -> list[tuple[T, Point]]:
    """Those that no other beats, the cheapest first; of twins the better one, then the first."""
    front: list[tuple[T, Point]] = []
    for name, point in sorted(points, key=lambda each: (-each[1].score, each[1].amount)):
        if not any(other.beats(point) for _, other in front):
            front.append((name, point))
    return front[::-1]


@dataclass(frozen=True, kw_only=True)
class _Move:
    """One thing that may be changed."""

    surface: str
    value: Value
    note: str
    kind: Literal["change", "remove"] = "change"
    smaller: tuple[Part, ...] = ()
    """What to take out instead where this is missed as a whole."""

    @property
    def key(self) -> str:
        """What is not tried again once it was refused."""
        what = self.note if self.kind == "remove" else str(self.value)
        return f"{self.kind} {self.surface} {what}"


@dataclass(frozen=True, kw_only=True)
class Frugal:
    """Goes over the surfaces until nothing more can be saved."""

    settings: FrugalSettings = field(default_factory=FrugalSettings)
    surfaces: tuple[str, ...] | None = None
    """Those that may be changed; None means all."""
    name: str = "frugal"

    @property
    def fingerprint(self) -> str:
        return short_id([self.name, 1, self.settings.model_dump(), list(self.surfaces or ())])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        return ()

    @property
    def offer_rule(self) -> OfferRule:
        margin = self.settings.margin
        saves = "faster" if self.settings.goal == "faster" else "cheaper"
        return OfferRule(tolerance=margin, margin=margin, saves=saves)

    def mismatch(self, target: Target) -> Sequence[Problem]:
        if self._movable(target):
            return ()
        return (Problem(message="there is nothing to save: no text, number, choice or demo"),)

    def _movable(self, target: Target) -> list[Surface]:
        return [
            surface
            for surface in target.surfaces
            if isinstance(surface, _MOVABLE)
            and (self.surfaces is None or surface.id in self.surfaces)
        ]

    async def search(self, run: Run) -> None:
        if run.stop_reason(self._need(run)) is not None:
            return
        start = await self._baseline(run)
        unit = unit_of(start.holdout, faster=self.settings.goal == "faster")
        if unit is None:
            raise BaselineUnmeasured(
                "nothing can be saved: the runs report neither a cost nor tokens",
                remedy="give the model a price, report usage from the agent, or use --goal faster",
            )
        try:
            await _Descent(run, self, start, unit).go()
        except Stopped:
            return

    async def _baseline(self, run: Run) -> _Measured:
        start = run.target.baseline
        held = await run.evaluate(start, split=Split.HOLDOUT, repeats=self.settings.repeats)
        result = SplitResult.of(held, run.objective)
        run.record(Trial(candidate=start, phase="baseline", holdout=result))
        run.advance(start)
        require_baseline(run, held, max_missing=_MAX_MISSING)
        return _Measured(candidate=start, holdout=held)

    def _need(self, run: Run) -> Spend:
        return run.estimate(Split.HOLDOUT, repeats=self.settings.repeats)

    def moves(self, target: Target, candidate: Candidate) -> Iterator[_Move]:
        """What may be changed in a candidate, the largest savings first."""
        surfaces = self._movable(target)
        for surface in surfaces:
            yield from _other_values(surface, candidate.values[surface.id])
        yield from _removals(surfaces, candidate)


class _Descent:
    """The way from the baseline to the cheapest candidate that is as good."""

    def __init__(self, run: Run, strategy: Frugal, start: _Measured, unit: Saved) -> None:
        self._run = run
        self._strategy = strategy
        self._margin = strategy.settings.margin
        self._repeats = strategy.settings.repeats
        self._start = start
        self._best = start
        self._unit: Saved = unit
        self._tried = {start.candidate.id}
        self._refused = set[str]()
        self._explores = strategy.settings.goal == "frontier"
        score = run.objective.measure(start.holdout).score or 0.0
        self._most_lost = max(self._margin, _FLOOR * score) if self._explores else self._margin
        """A score that is lower by more is of no use to anybody."""
        self._points = [start]
        """What was measured on all cases of holdout."""
        self._left = set[str]()
        """What was changed in every way already."""

    async def go(self) -> None:
        """Until no move is left: from the best, and then from every point of the frontier."""
        await self._descend()
        while (point := self._unexplored()) is not None:
            self._left.add(point.candidate.id)
            for move in self._strategy.moves(self._run.target, point.candidate):
                await self._try(move, point.candidate)

    async def _descend(self) -> None:
        moves = self._moves()
        while moves:
            move = moves.popleft()
            if move.key in self._refused:
                continue
            if await self._try(move, self._best.candidate):
                # What was taken out changes the places of what is left.
                moves = self._moves()
            else:
                self._refused.add(move.key)
                moves += _smaller(self._run, self._best.candidate, move)

    def _moves(self) -> deque[_Move]:
        return deque(self._strategy.moves(self._run.target, self._best.candidate))

    def _unexplored(self) -> _Measured | None:
        """A point of the frontier that nothing was tried from yet: the best, then the cheapest."""
        if not self._explores:
            return None
        front = [each for each, _ in frontier((p, self._place(p.holdout)) for p in self._points)]
        # What the best does without, the others mostly do not need either.
        front.sort(key=lambda each: each is not self._best)
        return next((each for each in front if each.candidate.id not in self._left), None)

    def _place(self, held: Evaluation) -> Point:
        """Where an evaluation is beside the baseline, over the cases that both have."""
        seen = saving(held, self._start.holdout, self._run.objective, self._unit)
        return Point(amount=math.inf, score=-math.inf) if seen is None else _point(seen)

    async def _try(self, move: _Move, parent: Candidate) -> bool:
        """Whether the change saves without harm; recorded whatever its result."""
        run = self._run
        origin = Origin(by=self._strategy.name, kind=move.kind, note=move.note)
        candidate = parent.child({move.surface: move.value}, origin=origin)
        if candidate.id in self._tried:
            return False
        self._tried.add(candidate.id)
        first = run.dataset.holdout[:BLOCK]
        need = run.estimate(Split.HOLDOUT, cases=first, repeats=self._repeats)
        if run.stop_reason(need) is not None:
            raise Stopped
        trial = Trial(candidate=candidate, cycle=1, phase=move.kind, touched=(move.surface,))
        if problems := await run.check(candidate, parent=parent):
            run.record(replace(trial, problems=tuple(problems)))
            return False
        held, decision = await self._decided(candidate)
        run.record(replace(trial, holdout=SplitResult.of(held, run.objective), decision=decision))
        measured = _Measured(candidate=candidate, holdout=held)
        if decision.accepted or decision.verdict is Verdict.KEEP:
            self._points.append(measured)
        if not decision.accepted:
            return False
        run.advance(candidate)
        self._best = measured
        return True

    async def _decided(self, candidate: Candidate) -> tuple[Evaluation, Decision]:
        run = self._run
        # A few cases show whether it saves anything; whether it harms takes all of them.
        first = await run.evaluate(
            candidate, split=Split.HOLDOUT, cases=run.dataset.holdout[:BLOCK], repeats=self._repeats
        )
        look = self._is_beaten if self._explores else self._costs_more
        if (lost := look(first)) is not None:
            return first, lost
        course = Course(
            order=run.dataset.holdout,
            incumbent=self._start.holdout,
            repeats=self._repeats,
            block=BLOCK,
            early=may_end_early(self._start.holdout, run.objective),
            slack=self._most_lost,
        )
        (heat,) = await race(run, [candidate], course)
        if heat.lost is not None:
            return heat.evaluation, heat.lost
        return heat.evaluation, self._kept(heat.evaluation, self._decide(heat.evaluation))

    def _is_beaten(self, first: Evaluation) -> Decision | None:
        """Whether one of the frontier costs no more and is better, or cannot be bettered."""
        seen, cases = self._place(first), set(first.cases)
        for each in self._points:
            other, whole = self._place(each.holdout.only(cases)), self._place(each.holdout)
            is_better = other.score > seen.score or whole.score >= 1
            if other.amount <= seen.amount and is_better:
                words = f"score {number(seen.score)} for {self._amount(seen)}, beside "
                words += f"{number(other.score)} for {self._amount(other)}"
                numbers = {"after": seen.amount, "other": other.amount}
                return decide("frugal", "beaten", words, numbers)
        return None

    def _kept(self, held: Evaluation, decision: Decision) -> Decision:
        """The decision; where the frontier is wanted, what is on it is kept."""
        if not self._explores or decision.code not in ("dearer", "worse"):
            return decision
        here, start = self._place(held), self._place(self._start.holdout)
        if here.score < start.score - self._most_lost:
            return decision
        if any(self._place(each.holdout).beats(here) for each in self._points):
            return decision
        words = f"on the frontier: score {number(here.score)} for {self._amount(here)}"
        return replace(decision, verdict=Verdict.KEEP, code="kept", reason=words)

    def _amount(self, point: Point) -> str:
        return f"{number(point.amount)} {SAVED_WORDS[self._unit]}"

    def _costs_more(self, first: Evaluation) -> Decision | None:
        seen = saving(first, self._best.holdout, self._run.objective, self._unit)
        if seen is None or seen.saved.mean > 0:
            return None
        return decide("frugal", "dearer", self._saving_words(seen), _numbers(seen, self._margin))

    def _decide(self, held: Evaluation) -> Decision:
        objective, margin = self._run.objective, self._margin
        beside = saving(held, self._best.holdout, objective, self._unit)
        seen = saving(held, self._start.holdout, objective, self._unit)
        missing = len(held.cases) - len(held.only(_known(held, objective)).cases)
        if beside is None or seen is None or missing > _MAX_MISSING * len(held.cases):
            return decide("frugal", "missing", "cannot tell: too many results are missing", {})
        numbers = _numbers(seen, margin)
        if beside.saved.mean <= 0 or (self._unit == "seconds" and beside.saved.low <= 0):
            return decide("frugal", "dearer", self._saving_words(beside), numbers)
        before, after = seen.scores
        words = f"score {number(before)} → {number(after)}, {margin:g} may be lost"
        # A case counts as lost where it is missing: a candidate may be the reason.
        if seen.score.mean < -margin or missing > margin * len(held.cases):
            return decide("frugal", "worse", words, numbers)
        return decide("frugal", "better", f"{self._saving_words(beside)}; {words}", numbers)

    def _saving_words(self, seen: Saving) -> str:
        more = "less" if seen.saved.mean > 0 else "more"
        amount = f"{number(seen.before)} → {number(seen.after)} {SAVED_WORDS[self._unit]}"
        return f"{abs(seen.share):.0%} {more}: {amount}"


def _point(seen: Saving) -> Point:
    return Point(amount=seen.after, score=seen.scores[1])


def _known(held: Evaluation, objective: Objective) -> set[str]:
    return {case for case in held.cases if objective.case_score(held, case) is not None}


def _numbers(seen: Saving, margin: float) -> dict[str, float]:
    return {
        "before": seen.before,
        "after": seen.after,
        "saved": seen.saved.mean,
        "score_change": seen.score.mean,
        "margin": margin,
    }


def _other_values(surface: Surface, now: Value) -> Iterator[_Move]:
    """Other choices, the ends of a number's range and what is halfway to them."""
    values: list[Value] = []
    if isinstance(surface, ChoiceSurface):
        values = [*surface.choices]
    elif isinstance(surface, NumberSurface) and isinstance(now, int | float):
        values = [at_unit(surface, share) for share in (0.0, 1.0)]
        values += [_halfway(surface, now, share) for share in (0.0, 1.0)]
    for value in values:
        if value != now:
            yield _Move(surface=surface.id, value=value, note=f"{surface.id}: {now} → {value}")


def _halfway(surface: NumberSurface, now: float, share: float) -> float:
    value = at_unit(surface, (unit(surface, now) + share) / 2)
    is_continuous = surface.step is None and not surface.integer
    return rounded(surface, value) if is_continuous else value


def _removals(surfaces: Sequence[Surface], candidate: Candidate) -> Iterator[_Move]:
    for name, divided in _divided(surfaces, candidate).items():
        for part in divided.parts:
            yield from _removal(name, divided, part)


def _removal(name: str, divided: DivisibleValue, part: Part) -> Iterator[_Move]:
    value = divided.without(part)
    if isinstance(value, str) and not value.strip():
        for smaller in part.smaller:  # A text is never empty.
            yield from _removal(name, divided, smaller)
        return
    note = f"without {part.what}"
    yield _Move(surface=name, value=value, note=note, kind="remove", smaller=part.smaller)


def _smaller(run: Run, candidate: Candidate, move: _Move) -> Iterator[_Move]:
    """The moves that take out a part of what cannot be taken out as a whole."""
    if move.smaller:
        divided = _divided(run.target.surfaces, candidate)[move.surface]
        for part in move.smaller:
            yield from _removal(move.surface, divided, part)


def _divided(surfaces: Sequence[Surface], candidate: Candidate) -> dict[str, DivisibleValue]:
    """By surface, in the order of their names, the texts and demonstrations that are not empty."""
    divided: dict[str, DivisibleValue] = {}
    for surface in sorted(surfaces, key=lambda each: each.id):
        value = candidate.values[surface.id]
        if isinstance(surface, TextSurface) and isinstance(value, str) and value:
            divided[surface.id] = DivisibleText(value)
        elif isinstance(surface, DemosSurface) and isinstance(value, tuple) and value:
            divided[surface.id] = DivisibleDemonstrations(value)
    return divided


class FrugalPlugin(StrategyPlugin):
    """`--goal cheaper`, `--goal faster` and `--goal frontier`."""

    name: ClassVar[str] = "frugal"
    Settings: ClassVar[type[StrategySettings]] = FrugalSettings
    needs: ClassVar[tuple[type[Surface], ...]] = (
        TextSurface,
        NumberSurface,
        ChoiceSurface,
        DemosSurface,
    )
    requires: ClassVar[tuple[Ability, ...]] = (COSTS,)
    needs_holdout: ClassVar[bool] = True
    ends: ClassVar[Mapping[str, str]] = {"finished": "nothing more can be saved"}

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        names = (*parts.numbers(), *parts.demonstrations(), *parts.texts())
        return StrategyParts(
            strategy=Frugal(settings=building.spec.strategy.settings, surfaces=names)
        )

    def first_round(self, setup: Setup) -> FirstRound:
        assert isinstance(setup.strategy, Frugal)
        repeats = setup.strategy.settings.repeats
        whole = progress.sweeps(setup, Split.HOLDOUT, repeats)
        first = progress.sweeps(setup, Split.HOLDOUT, repeats, most=BLOCK)
        # What does not save ends there; a race over all cases begins with room for them again.
        rest = whole.minus(first).at_least(first)
        return progress.first_round(setup, baseline=whole, candidate=first, usual=rest)

    def plan(self, setup: Setup) -> Iterable[str]:
        assert isinstance(setup.strategy, Frugal)
        settings, surfaces = setup.strategy.settings, setup.strategy.surfaces or ()
        saved = "seconds" if settings.goal == "faster" else "USD, or tokens without a price"
        yield from progress.agent_line(setup)
        yield f"strategy  frugal, seed {setup.seed}"
        yield f"saves     {saved}; the score may be lower by {settings.margin:g}"
        if settings.goal == "frontier":
            yield "keeps     whatever no other candidate beats in both score and cost"
        yield f"changes   {', '.join(surfaces)}"
        holdout = len(setup.dataset.holdout)
        yield f"cases     holdout {holdout} decide, {progress.sealed_cases(setup)}"
        yield f"can show  {progress.shown_by(holdout)}"
        yield f"limits    {', '.join(progress.budget_limits(setup.budget)) or 'none'}"
        yield self.first_round(setup).line()
        yield from progress.notes(setup)
        yield progress.NOTHING_PAID

    def report(self, run: RunRecord) -> Iterable[Section]:
        yield from plain_report(run, self.reason(run))
        if any(row.trial.kept for row in run.rows):
            yield from _frontier(run)
        else:
            yield from _steps(run)


def _frontier(run: RunRecord) -> Iterator[Section]:
    """What no other candidate beats in both score and cost, the cheapest first."""
    rows = [
        row for row in run.rows if row.trial.decision and (row.trial.accepted or row.trial.kept)
    ]
    places = [(row, Point(amount=_amount(row, "after"), score=_score(row))) for row in rows]
    start = run.baseline
    if start is not None and places:
        places.insert(0, (start, Point(amount=_amount(rows[0], "before"), score=_score(start))))
    best = run.best
    yield Heading("Cost and score")
    yield Text.of(
        "No other candidate that was measured is as good and cheaper than one of these. "
        "`burnish adopt RUN --trial N` adopts one. These are the cases of holdout, which chose "
        "them: only what is offered was measured on others."
    )
    yield Table(
        ("trial", "what", _unit(rows), "score", ""),
        tuple(
            (
                str(row.number),
                cell("; ".join(_changes(run, row)) or "the start", 80),
                number(point.amount),
                number(point.score),
                "offered" if best is not None and row.number == best.number else "",
            )
            for row, point in frontier(places)
        ),
    )


def _changes(run: RunRecord, row: TrialRow) -> list[str]:
    """What differs from the start; values that are short to tell come first."""
    if run.baseline is None:
        return []
    changes = diff(run.baseline.trial.candidate, row.trial.candidate)
    return changes_words(sorted(changes, key=lambda each: len(str(each.after))))


def _unit(rows: Iterable[TrialRow]) -> str:
    """What the amounts are, which the reasons of the decisions say."""
    reasons = [row.trial.decision.reason for row in rows if row.trial.decision]
    told = (words for words in SAVED_WORDS.values() if any(words in each for each in reasons))
    return next(told, "amount a case")


def _amount(row: TrialRow, side: str) -> float:
    return row.trial.decision.numbers.get(side, math.nan) if row.trial.decision else math.nan


def _score(row: TrialRow) -> float:
    result = row.trial.holdout
    score = None if result is None else result.measurement.score
    return math.nan if score is None else score


def _steps(run: RunRecord) -> Iterator[Section]:
    """The accepted candidates: each costs less than the one before it."""
    rows = [row for row in run.rows if row.trial.accepted and row.trial.decision is not None]
    yield Heading("Cost and score")
    if not rows:
        yield Text.of("Nothing cheaper is as good.")
        return
    yield Text.of(
        "Each step costs less than the one before it. `burnish adopt RUN --trial N` adopts one."
    )
    yield Table(
        ("trial", "what", _unit(rows), "score"),
        tuple(
            (
                str(row.number),
                cell(row.trial.candidate.origin.note, 60),
                number(row.trial.decision.numbers.get("after") if row.trial.decision else None),
                number(row.trial.holdout.measurement.score if row.trial.holdout else None),
            )
            for row in rows
        ),
    )
