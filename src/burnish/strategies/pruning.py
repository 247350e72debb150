"""The pruning pass: after a search, parts of the winner are taken out one at a time.

What is not missed leaves. An edit that does nothing gets in by luck now and then, and the results
that let it in would keep it for ever: so winner and candidates are measured under new draws, unless
the target always gives the same answer. The plan has a line about it, the report a section.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

from burnish.core.cases import Case, Split
from burnish.core.comparisons import Pair
from burnish.core.content import Json
from burnish.core.evaluations import CaseResult, Evaluation
from burnish.core.formatting import (
    Heading,
    Section,
    Table,
    Text,
    alternatives,
    cell,
    counted,
    money,
    number,
    spending,
)
from burnish.core.gates import Guards, OfferRule, guarded, not_worse
from burnish.core.money import Spend, to_usd, total
from burnish.core.protocols import surfaces_of
from burnish.core.surfaces import Candidate, Origin
from burnish.core.trials import Decision, SplitResult, Trial, TrialDetails, TrialRow, Verdict
from burnish.journal.limits import Budget
from burnish.runs.closing import SHARE, closing_share, closing_trials, pays_for
from burnish.runs.directory import RunRecord, loss_of
from burnish.runs.events import PRUNE, PhaseEnded, PhaseStarted, SearchEnded, read_all
from burnish.runs.progress import last_sweeps, sweeps
from burnish.runs.recorder import Ancestor
from burnish.runs.report_sections import SPLITS, why
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.strategies.partial_evaluations import BLOCK, Heat, Stopped, race
from burnish.strategies.parts import LineageStep, Part, SurfaceParts, parts_of
from burnish.strategies.races import Course, may_end_early
from burnish.strategies.requirements import PruningSettings

_NEW_DRAWS = 1_000_000
"""The first draw of the pass: no search gets this far."""
_ENOUGH_ALIKE = 6
"""Results that repeat, after which the target is taken to be deterministic."""
ALL_TRIED, NO_NOISE, _ENOUGH, OUT_OF_BUDGET, _BROKEN_OFF = (
    "every part was tried",
    "the answers vary, and the rule of this run does not measure by how much",
    "as many trials were made as there are parts",
    "its share of the budget is used",
    "the run was stopped",
)
"""Why a pass ends."""


@dataclass(frozen=True, kw_only=True)
class Winner:
    """A candidate that leads, with its results."""

    candidate: Candidate
    results: Mapping[Split, Evaluation] = field(default_factory=dict[Split, Evaluation])

    @classmethod
    def of(cls, candidate: Candidate, *evaluations: Evaluation | None) -> "Winner":
        """A candidate with the evaluations that there are."""
        present = [each for each in evaluations if each is not None]
        return cls(candidate=candidate, results={each.split: each for each in present})


@dataclass(frozen=True, kw_only=True)
class _Pruned:
    """The result of a pass."""

    leader: Winner
    """Who leads now; the same as before if nothing left."""
    changed: bool = False
    search_on: bool = False
    """Whether the search goes on: a resume of a run whose pass had ended may have more budget."""


class _Unknowable(Exception):
    """Not an error: nothing can be taken out, since nobody knows the noise."""


@dataclass(frozen=True, kw_only=True)
class PruneDetails(TrialDetails):
    """What the journal keeps about the removal of a part."""

    optional: ClassVar[frozenset[str]] = TrialDetails.optional | {"part", "brought_by", "size"}

    parents: tuple[str, ...] = ()
    part: str | None = None
    """What was taken out, in a few words."""
    brought_by: int | None = None
    """The trial that brought it."""
    size: int | None = None
    """Its characters."""


class PrunableSearch(Protocol):
    """A search in numbered rounds that goes on from a pruned leader."""

    @property
    def number(self) -> int:
        """The last round."""
        ...

    @property
    def leader(self) -> Winner:
        """Who leads, with its results."""
        ...

    def lead(self, leader: Winner) -> None:
        """Let another candidate lead, which was measured elsewhere."""
        ...


class Pruner:
    """Prunes the winner of a search."""

    def __init__(
        self,
        run: Run,
        *,
        by: str,
        rule: OfferRule,
        repeats: int,
        guards: Guards | None = None,
        uses_holdout: bool = True,
        active: bool = True,
    ) -> None:
        self._run = run
        self._by = by
        self._rule = rule
        self._repeats = repeats
        self._guards = guards or Guards()
        self._active = active
        has_holdout = uses_holdout and bool(run.dataset.holdout)
        self._splits = (Split.HOLDOUT, Split.TRAIN) if has_holdout else (Split.TRAIN,)
        self._number = 0
        self._pruned: str | None = None
        """Who led after the last pass."""
        if active:
            run.closing.set_aside(_removal_cost(run, self._splits, repeats))

    @property
    def is_paid(self) -> bool:
        """Whether the limits pay for a pass."""
        return self._active and self._run.closing.may_have_pass

    def leave_out(self) -> None:
        """Make no pass: a part of holdout cannot tell what is not missed."""
        if self._active:
            self._active = False
            self._run.closing.give_back()

    async def alternate(
        self, search: PrunableSearch, go: Callable[[], Awaitable[str]], *, unit: str = "round"
    ) -> None:
        """Search and prune the leader, until nothing is left to try or to spend.

        `go` searches until there is a reason to stop, and says why nothing is left to try, if so.
        """
        search_on = True
        while search_on:
            ended = await go()
            if ended:
                event = SearchEnded(cycle=search.number, reason=ended)
                self._run.tell(event, f"{unit}:{search.number}:{ended}")
            pruned = await self.prune(search.leader, cycle=search.number)
            if pruned.changed:
                search.lead(pruned.leader)
            search_on = pruned.search_on and not ended

    async def prune(self, winner: Winner, *, cycle: int = 0) -> _Pruned:
        """Make a pass, if there is something to take out and a budget for it."""
        run = self._run
        nothing = _Pruned(leader=winner)
        if not self._active or winner.candidate.id in (run.target.baseline.id, self._pruned):
            return nothing
        surfaces = list(surfaces_of(run.target, winner.candidate).values())
        parts = parts_of(_steps(run.ancestry(winner.candidate)), surfaces)
        if not any(each.parts for each in parts.values()) or not run.closing.begin():
            return nothing
        self._number += 1
        run.tell(PhaseStarted(cycle=cycle, phase=PRUNE), f"prune:{self._number}")
        work = _Pass(
            run,
            winner,
            parts,
            rule=self._rule,
            repeats=self._repeats,
            guards=self._guards,
            splits=self._splits,
            origin=Origin(kind=PRUNE, by=self._by),
            cycle=cycle,
        )
        ended = await work.go()
        is_broken_off = run.stopped is not None and ended == _BROKEN_OFF
        search_on = run.closing.end()
        event = PhaseEnded(
            cycle=cycle, phase=PRUNE, reason=ended, trials=work.trials, accepts=work.accepts
        )
        last = f"stopped:{run.trial}" if is_broken_off else "end"
        run.tell(event, f"prune:{self._number}:{last}")
        self._pruned = work.leader.candidate.id
        return _Pruned(leader=work.leader, changed=work.accepts > 0, search_on=search_on)


def _removal_cost(run: Run, splits: Sequence[Split], repeats: int) -> Spend:
    """The most that a first removal costs: the winner is measured anew as well."""
    return total(run.estimate(split, repeats=repeats) for split in splits).times(2)


def _steps(line: Sequence[Ancestor]) -> list[LineageStep]:
    """The way to the winner, each step with its gain over the one that was measured before."""
    steps: list[LineageStep] = []
    before: float | None = None
    for ancestor in line:
        loss = ancestor.loss
        gain = None if loss is None or before is None else before - loss
        steps.append(LineageStep(trial=ancestor.trial, candidate=ancestor.candidate, gain=gain))
        before = before if loss is None else loss
    return steps


class _Pass:
    """One pass over the parts of a winner."""

    def __init__(
        self,
        run: Run,
        winner: Winner,
        parts: Mapping[str, SurfaceParts],
        *,
        rule: OfferRule,
        repeats: int,
        guards: Guards,
        splits: Sequence[Split],
        origin: Origin,
        cycle: int,
    ) -> None:
        self._run = run
        self._winner = winner
        self._parts = parts
        self._rule = rule
        self._repeats = repeats
        self._guards = guards
        self._splits = splits
        self._origin = origin
        self._cycle = cycle
        self._draw = _NEW_DRAWS
        self._before = Winner(candidate=winner.candidate)
        """The winner under the draws of this pass."""
        self._now = self._before
        self._fresh = self._before
        """The candidate that is being measured."""
        self._removed: dict[str, list[Part]] = {}
        self._missed: set[str] = set()
        """Surfaces of which a part is missed."""
        order = list(run.dataset.holdout)
        run.rng("race order").shuffle(order)
        self._order = tuple(order)
        self.trials = self.accepts = 0

    @property
    def leader(self) -> Winner:
        """Who leads now."""
        return self._now if self.accepts else self._winner

    async def go(self) -> str:
        """Try the parts, the least supported first, what they consist of last; why it ended."""
        queue = sorted(
            (part for each in self._parts.values() for part in each.parts),
            key=lambda part: part.rank,
        )
        most = sum(part.rules for part in queue)
        tried: set[str] = set()
        try:
            while queue and self.trials < most and not self._run.closing.over:
                part = queue.pop(0)
                # Everything together is missed if a part of it is.
                is_missed = part.whole and part.surface in self._missed
                candidate = self._without(part)
                if is_missed or candidate.id in (*tried, self._now.candidate.id):
                    continue
                tried.add(candidate.id)
                if not await self._leaves(part, candidate):
                    self._missed.add(part.surface)
                    queue += part.smaller
        except _Unknowable:
            return NO_NOISE
        except Stopped:
            reason = self._run.stopped
            return OUT_OF_BUDGET if reason and reason.code.startswith("max_") else _BROKEN_OFF
        return _ENOUGH if queue and self.trials >= most else ALL_TRIED

    def _without(self, part: Part) -> Candidate:
        removed = [*self._removed.get(part.surface, ()), part]
        value = self._parts[part.surface].without(removed)
        origin = replace(self._origin, note=f"without {part.what}")
        return self._now.candidate.child({part.surface: value}, origin=origin)

    async def _leaves(self, part: Part, candidate: Candidate) -> bool:
        """Measure the candidate without a part, and decide; whether the part leaves.

        What fails its check, such as a text without a placeholder, is missed without a trial.
        """
        run = self._run
        if await run.check(candidate, parent=self._now.candidate, again=True):
            return False
        await self._begin()
        self._require_room(self._need)
        trial, decision = await self._measured(self._trial(part, candidate))
        run.record(replace(trial, decision=decision))
        self.trials += 1
        if not decision.accepted:
            return False
        self.accepts += 1
        self._removed.setdefault(part.surface, []).append(part)
        self._now = replace(self._fresh, candidate=candidate)
        run.advance(candidate)
        return True

    def _trial(self, part: Part, candidate: Candidate) -> Trial:
        source: dict[str, Json] = {"kind": PRUNE, "part": part.what, "brought_by": part.trial}
        details = PruneDetails(
            axis_target=part.surface,
            proposal_source=source,
            parents=candidate.parents,
            part=part.what,
            brought_by=part.trial,
            size=part.size,
        )
        return Trial(
            candidate=candidate,
            phase=PRUNE,
            cycle=self._cycle,
            touched=(part.surface,),
            details=details.to_json(),
        )

    async def _measured(self, trial: Trial) -> tuple[Trial, Decision]:
        """The trial with its results, split by split while the part is not missed."""
        run, candidate = self._run, trial.candidate
        self._fresh = Winner(candidate=candidate)
        decisions: list[Decision] = []
        whole = True
        for split in self._splits:
            heat = await self._run_over(split, candidate)
            self._fresh = _with(self._fresh, heat.evaluation)
            result = SplitResult.of(heat.evaluation, run.objective)
            trial = replace(trial, **{split.value: result})
            decisions.append(heat.lost or self._decided(split, heat.evaluation))
            if split is Split.HOLDOUT:
                whole = heat.whole
            if not decisions[-1].accepted:
                break
        details: dict[str, Json] = {**trial.details}
        if not whole:
            details["whole_holdout"] = False
        if self._rule.primary != "loss":
            details["primary"] = self._primary()
        return replace(trial, details=details), _together(self._splits, decisions)

    async def _run_over(self, split: Split, candidate: Candidate) -> Heat:
        """All cases of a split; on holdout, it ends where the part is clearly missed."""
        run = self._run
        now = await self._result_of_now(split)
        early = self._rule.primary == "loss" and may_end_early(now, run.objective)
        if split is not Split.HOLDOUT or not early:
            return Heat(evaluation=await self._evaluate(candidate, split), whole=True)
        noise = 2**0.5 * run.objective.measure(now).std
        course = Course(
            order=self._order,
            incumbent=now,
            repeats=self._repeats,
            block=BLOCK,
            early=True,
            draw=self._draw,
            slack=max(self._rule.tolerance, self._rule.accept_sigma * noise),
        )
        return (await race(run, [candidate], course))[0]

    def _decided(self, split: Split, evaluation: Evaluation) -> Decision:
        """Compare with the winner so far, then with the winner before the pass.

        Each removal may lose a little within its noise. All together may lose no more than one
        may.
        """
        objective, rule = self._run.objective, self._rule
        pair = Pair(candidate=evaluation, incumbent=self._now.results[split])
        decision = not_worse(rule=rule, objective=objective, pair=pair, other="the winner")
        if decision.accepted and split is self._splits[0]:
            decision = guarded(decision, pair=pair, objective=objective, guards=self._guards)
        if not decision.accepted or self._now is self._before:
            return decision
        return not_worse(
            rule=rule,
            objective=objective,
            pair=Pair(candidate=evaluation, incumbent=self._before.results[split]),
            other="the unpruned winner",
        )

    def _primary(self) -> Json:
        name, objective = self._rule.primary, self._run.objective
        values = {
            split.value: objective.measure(evaluation).values.get(name)
            for split, evaluation in self._fresh.results.items()
        }
        return {"name": name, **values}

    async def _begin(self) -> None:
        """Decide once under which draws this pass measures."""
        split = self._splits[0]
        if self._before.results or split not in self._winner.results:
            return
        if await self._repeats_itself(split):
            self._draw = 0
        elif self._repeats == 1 or not self._rule.accept_sigma:
            # Luck on both splits would take out what helps: nobody knows how much luck there is.
            raise _Unknowable
        await self._result_of_now(split)

    async def _repeats_itself(self, split: Split) -> bool:
        """Whether the target gives the same answers again: then results of the search count."""
        earlier = self._winner.results[split]
        name = self._rule.primary
        if len(earlier.sweeps) > 1:
            return all(
                _alike(first, other, name)
                for case in earlier.cases
                for first, *others in [earlier.of_case(case)]
                for other in others
            )
        cases = self._order if split is Split.HOLDOUT else self._run.dataset.cases(split)
        few = [case for case in cases if earlier.of_case(case.id)][:_ENOUGH_ALIKE]
        self._require_room(self._run.estimate(split, cases=few) + self._need)
        again = await self._evaluate(self._before.candidate, split, few, repeats=1)
        pairs = ((earlier.of_case(each.id), again.of_case(each.id)) for each in few)
        return all(_alike(old[0], new[0], name) for old, new in pairs)

    async def _result_of_now(self, split: Split) -> Evaluation:
        """The leading candidate under the draws of this pass; only the winner is not known yet."""
        if split not in self._now.results:
            evaluation = await self._evaluate(self._now.candidate, split)
            self._before = self._now = _with(self._before, evaluation)
        return self._now.results[split]

    async def _evaluate(
        self,
        candidate: Candidate,
        split: Split,
        cases: Sequence[Case] | None = None,
        *,
        repeats: int | None = None,
    ) -> Evaluation:
        repeats = self._repeats if repeats is None else repeats
        return await self._run.evaluate(
            candidate, split=split, cases=cases, repeats=repeats, draw=self._draw
        )

    @property
    def _need(self) -> Spend:
        """The most that the next removal costs, and what the winner still lacks."""
        run, repeats = self._run, self._repeats
        lacking = [split for split in self._splits if split not in self._now.results]
        return total(run.estimate(split, repeats=repeats) for split in (*self._splits, *lacking))

    def _require_room(self, need: Spend) -> None:
        if self._run.stop_reason(need) is not None:
            raise Stopped


def _with(leader: Winner, evaluation: Evaluation) -> Winner:
    return replace(leader, results={**leader.results, evaluation.split: evaluation})


def _alike(one: CaseResult, other: CaseResult, primary: str) -> bool:
    """Whether two runs of a case came to the same scores."""
    outcomes = one.outcome, other.outcome
    numbers = [
        {**{score.metric: score.value for score in result.scores}} for result in (one, other)
    ]
    measured = [outcome.measures.get(primary) for outcome in outcomes]
    failed = [outcome.failed for outcome in outcomes]
    return numbers[0] == numbers[1] and measured[0] == measured[1] and failed[0] == failed[1]


def _together(splits: Sequence[Split], decisions: Sequence[Decision]) -> Decision:
    """One decision from those on the splits; the last one is the verdict."""
    last = decisions[-1]
    by_split = list(zip(splits, decisions, strict=False))
    codes = {Verdict.ACCEPT: "not missed", Verdict.CANNOT_TELL: last.code}
    return Decision(
        gate=PRUNE,
        verdict=last.verdict,
        code=codes.get(last.verdict, "missed"),
        reason="; ".join(f"{split.value}: {each.reason}" for split, each in by_split),
        numbers={
            f"{split.value}_{name}": number
            for split, each in by_split
            for name, number in each.numbers.items()
        },
        missing=last.missing,
    )


# -- The plan and the report -----------------------------------------------------------------------


def pruning_plan(setup: Setup, settings: PruningSettings) -> Iterator[str]:
    """What a search leaves for pruning its winner, as a line of a plan."""
    if not settings.prune:
        return
    budget = setup.budget
    if not will_prune(setup, settings):
        yield f"pruning   none: {SHARE:.0%} of the limits do not pay for one look at the winner"
        return
    amounts = _amounts(budget, closing_share(budget, last_sweeps(setup)))
    if amounts:
        yield f"reserved  at most {', '.join(amounts)} for pruning the winner"
    else:
        yield "pruning   at most as many trials as the winner has parts"


def will_prune(setup: Setup, settings: PruningSettings) -> bool:
    """Whether the winner is pruned, as far as the limits before the start tell."""
    splits = (Split.TRAIN, Split.HOLDOUT) if settings.uses_holdout else (Split.TRAIN,)
    first = total(sweeps(setup, split, 2 * settings.repeats) for split in splits)
    return settings.prune and pays_for(setup.budget, last_sweeps(setup), first)


def _amounts(budget: Budget, share: Spend) -> list[str]:
    """The share of each limit that is set."""
    words = {
        "max_metric_calls": f"{share.metric_calls:,} metric calls",
        "max_calls": f"{share.calls:,} calls",
        "max_tokens": f"{share.tokens:,} tokens",
        "max_usd": money(to_usd(share.nano_usd)),
        "max_minutes": f"{SHARE * (budget.max_minutes or 0):g} minutes",
        "max_trials": counted(closing_trials(budget), "trial"),
    }
    return [text for name, text in words.items() if getattr(budget, name) is not None]


def pruning_section(run: RunRecord) -> Iterator[Section]:
    """Which parts of the winner were taken out, which stayed, and what that cost."""
    rows = [row for row in run.rows if row.trial.phase == PRUNE]
    if not rows:
        return
    gone = [row for row in rows if row.trial.accepted]
    size = sum(PruneDetails.of(row.trial).size or 0 for row in gone)
    ends = [each.reason for each in read_all(run.events, PhaseEnded) if each.phase == PRUNE]
    cost = spending(total(row.spend for row in rows))
    yield Heading("What was taken out again")
    yield Text.of(
        "After the search, parts of the winner were taken out one at a time and the rest was "
        "measured again. What is not missed left: "
        f"{len(gone)} of {counted(len(rows), 'part')}, {counted(size, 'character')}. "
        f"It cost {cost}, and ended since {alternatives(dict.fromkeys(ends)) or 'the run did'}."
    )
    yield Table(
        ("#", "part", "brought by trial", *SPLITS, "missed"),
        tuple(_row(row) for row in rows),
    )


def _row(row: TrialRow) -> tuple[str, ...]:
    details = PruneDetails.of(row.trial)
    brought = "—" if details.brought_by is None else str(details.brought_by)
    mark = "✓ no" if row.trial.accepted else "yes"
    return (
        str(row.number),
        cell(details.part or "—", 60),
        brought,
        *(_measured(row, split) for split in SPLITS),
        f"{mark}: {cell(why(row.trial), 160)}",
    )


def _measured(row: TrialRow, split: str) -> str:
    """The loss, or the primary number of a task."""
    primary = PruneDetails.of(row.trial).primary
    if not isinstance(primary, dict):
        return number(loss_of(row, split))
    value = primary.get(split)
    return f"{value:.4g}" if isinstance(value, int | float) else "—"
