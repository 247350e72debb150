"""A trail: candidates that each beat their parent on a minibatch, and now and then a race.

Holdout is expensive, so it decides about several steps at once, and with small limits on a part of
its cases. What the limits allow is asked once and kept in the journal: a resume with other limits
goes the same way.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from burnish.core.cases import Split
from burnish.core.content import Json
from burnish.core.formatting import (
    Facts,
    Heading,
    Listing,
    Section,
    Table,
    cell,
    number,
)
from burnish.core.money import NOTHING, Spend, total
from burnish.core.surfaces import Candidate
from burnish.core.trials import Standing
from burnish.journal.limits import Budget
from burnish.runs import progress
from burnish.runs import report_sections as sections
from burnish.runs.directory import RunRecord, result_of
from burnish.runs.first_round import FirstRound
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.runs.spec import StrategySettings
from burnish.strategies.partial_evaluations import Heat, Holdout, Stopped

Step = TypeVar("Step")
LEAST_HOLDOUT = 8
"""The fewest cases of holdout that a search decides on, if there are so many."""
ROUNDS_AHEAD = 14
"""Rounds that the limits should leave room for beside the decisions on holdout."""
DECISIONS_AHEAD = 3
"""Runs over holdout that they should leave room for: the baseline, and a winner twice."""


def fits(run: Run, need: Spend) -> bool:
    """Whether the limits leave room for so much, beside what is measured after the search."""
    return run.budget.spend_limit(run.standing.spent, need + run.closing.reserve) is None


# -- On which cases holdout decides ---------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Deciding:
    """On how many cases of holdout a search decides, as the journal keeps it."""

    cases: int


async def choose_holdout(run: Run, holdout: Holdout, *, repeats: int, round_cost: Spend) -> None:
    """Decide on a part of holdout if the limits leave too few rounds beside all of it."""
    held = run.dataset.holdout
    if len(held) <= LEAST_HOLDOUT:
        return
    rounds = round_cost.times(ROUNDS_AHEAD)

    def has_room(count: int) -> bool:
        once = run.estimate(Split.HOLDOUT, cases=held[:count], repeats=repeats)
        return fits(run, rounds + once.times(DECISIONS_AHEAD))

    def fitting() -> _Deciding:
        return _Deciding(cases=deciding_cases(len(held), has_room))

    request: Json = {"forked_from": run.directory.header.forked_from}
    deciding = await run.remember("deciding cases", request, _Deciding, fitting)
    holdout.decide_on(deciding.cases)


def deciding_cases(whole: int, has_room: Callable[[int], bool]) -> int:
    """On how many cases of holdout to decide: as many as fit, but not fewer than the least."""
    counts = range(whole, LEAST_HOLDOUT, -1)
    return next((count for count in counts if has_room(count)), min(whole, LEAST_HOLDOUT))


def planned_cases(
    setup: Setup, settings: StrategySettings, *, minibatch: int, asking: Spend, proposals: int = 1
) -> int:
    """How many cases of holdout will decide, as far as that is known before the start.

    `asking` is what a proposal costs beside its cases; a round has so many `proposals`.
    """
    repeats = settings.repeats

    def runs(split: Split, count: int) -> Spend:
        return progress.sweeps(setup, split, repeats, most=count)

    rounds = (runs(Split.TRAIN, minibatch).times(2) + asking).times(proposals * ROUNDS_AHEAD)
    last = progress.last_sweeps(setup)

    def has_room(count: int) -> bool:
        need = rounds + runs(Split.HOLDOUT, count).times(DECISIONS_AHEAD) + last
        return setup.budget.spend_limit(NOTHING, need) is None

    return deciding_cases(len(setup.dataset.holdout), has_room)


def first_round(
    setup: Setup,
    *,
    repeats: int,
    minibatch: int,
    asking: Spend,
    least_holdout: int = LEAST_HOLDOUT,
    proposals: int = 1,
    races: int = 2,
) -> FirstRound:
    """What the baseline, one round and what is measured after the search take.

    `asking` is what a proposal costs beside its cases. `races` is how often a round runs candidates
    over the cases of holdout that decide, which are at least `least_holdout`.
    """

    def runs(split: Split, count: int) -> Spend:
        # Nobody knows yet which cases these are.
        cheapest = sorted(progress.case_costs(setup, split), key=lambda cost: cost.calls)
        return total(cheapest[:count]).times(repeats)

    held, looks = runs(Split.HOLDOUT, least_holdout), runs(Split.TRAIN, minibatch).times(2)
    candidate = held.times(races) + (looks + asking).times(proposals)
    return progress.first_round(setup, baseline=held, candidate=candidate)


def deciding_line(setup: Setup, held: int) -> Iterator[str]:
    """The line of `--dry-run` about a part of holdout."""
    if held < (whole := len(setup.dataset.holdout)):
        yield (
            f"decides   on {held} of {whole} holdout cases: beside all of them the limits leave "
            f"no room for {ROUNDS_AHEAD} rounds"
        )


# -- The trail ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _LastChance:
    """Whether the limits leave no room for another round, as the journal keeps it."""

    now: bool


class Trail(Generic[Step]):
    """The tip of a trail, and when holdout decides on it."""

    def __init__(self, run: Run, *, trials: int = 1, asks: int = 1) -> None:
        self._run = run
        self._trials = trials
        """Trials of a round."""
        self._asks = asks
        """Requests to a role in a round."""
        self._runs_at_race = 0
        """Runs of cases up to the last race over holdout."""
        self.tip: Candidate | None = None
        """None where the tip is the incumbent."""
        self.undecided: Step | None = None
        """The step that made the tip, until it is run over holdout."""

    def keep(self, candidate: Candidate, step: Step) -> None:
        """Go on from a candidate on which holdout has not decided."""
        self.tip, self.undecided = candidate, step

    def raced(self, candidate: Candidate, heat: Heat, *, leads: bool) -> None:
        """Holdout has decided on a candidate."""
        self._runs_at_race, self.undecided = self._run.runs_used, None
        # A tip that is far behind was luck on the minibatches; one that is not may get there.
        self.tip = None if leads or heat.behind else candidate

    def leave(self) -> bool:
        """Go back to the incumbent from a tip that did not win on holdout; whether there is one."""
        if self.tip is None or self.undecided is not None:
            return False
        self.tip = None
        return True

    async def is_due(self, room: Spend, *, once: Spend) -> bool:
        """Whether holdout is to decide on a new tip.

        A race costs as much as was used since the one before, so at most half of the budget goes
        into deciding: `once` is what a run over its cases costs. It is due at once if this may be
        the last chance, because there is no `room` for another round.
        """
        enough = self._run.runs_used - self._runs_at_race >= once.metric_calls
        return enough or await self.last_chance(room, screened=True)

    async def last_chance(self, room: Spend, *, screened: bool = False) -> bool:
        """Whether the limits leave no room for another round and for holdout after it.

        `room` is what these cost; `screened` says that the current round is paid for. A fork takes
        over the answers of the earlier run, so that it goes the same way, and says yes where its
        own limits are nearer.
        """
        run = self._run
        need = room + run.closing.reserve

        def near() -> _LastChance:
            over = nearly_over(
                run.budget, run.standing, need, trials=self._trials, proposals=self._asks
            )
            return _LastChance(now=over)

        async def asked(forked_from: str) -> bool:
            request: Json = {"trial": run.trial, "screened": screened, "forked_from": forked_from}
            return (await run.remember("last chance", request, _LastChance, near)).now

        own = run.directory.header.forked_from
        return await asked("") or (bool(own) and await asked(own))


@dataclass(frozen=True, kw_only=True)
class _Screen:
    """The screening of a short round, as the journal keeps it."""

    cases: int | None = None
    """On how many it is; None for a whole round."""


async def short_round(
    run: Run, whole: Spend, *, known: Callable[[], int], cost: Callable[[int], Spend]
) -> int | None:
    """On how many cases a candidate is screened if no `whole` round fits into the limits.

    `known` is how many cases the parent is known to fail on, without another look, and `cost` that
    of a round that screens on so many. None for a whole round. The answer is kept in the journal;
    a fork has its own.
    """

    def fitting() -> _Screen:
        sizes = range(-1, -1, -1) if fits(run, whole) else range(known() or -1, -1, -1)
        return _Screen(cases=next((n for n in sizes if fits(run, cost(n))), None))

    request: Json = {"trial": run.trial, "forked_from": run.directory.header.forked_from}
    screen = await run.remember("screening", request, _Screen, fitting)
    if screen.cases is None and not fits(run, whole) and run.stop_reason(whole) is not None:
        raise Stopped  # the limits were lowered since
    return screen.cases


def nearly_over(
    budget: Budget, standing: Standing, need: Spend, *, trials: int = 1, proposals: int = 1
) -> bool:
    """Whether one more round would reach a foreseeable limit; it adds at most one candidate."""
    counts = (
        (budget.max_trials, standing.trials + trials),
        (budget.patience, standing.since_accept + trials),
        (budget.max_proposals, standing.proposals + proposals),
        (budget.max_tracked_candidates, standing.tracked_candidates + 1),
    )
    near = any(limit is not None and count >= limit for limit, count in counts)
    return near or budget.spend_limit(standing.spent, need) is not None


# -- The report -----------------------------------------------------------------------------------


def trail_report(
    run: RunRecord,
    *,
    summary: Iterable[tuple[str, str]],
    found: Iterable[Section],
    trials: Iterable[Section],
    method: Sequence[str],
) -> Iterator[Section]:
    """The sections of a report; `found` comes before what changed, and `trials` after it."""
    yield from sections.headline(run)
    yield Heading("Result")
    yield Facts(tuple(summary))
    yield from found
    yield from sections.changes_made(run)
    yield from trials
    yield from sections.adoption(run)
    yield Heading("Method")
    ways = (sections.started_with(run), *method, *_part_that_decided(run))
    yield Listing((*ways, *sections.provenance(run), *sections.CAVEATS))


def metrics_on_holdout(run: RunRecord) -> Iterator[Section]:
    """By metric, its mean for the baseline and for the best."""
    sides = [sections.passing_means(result_of(row, "holdout")) for row in (run.baseline, run.best)]
    names = sorted({name for side in sides for name in side})
    rows = ((cell(name, 60), *(number(side.get(name)) for side in sides)) for name in names)
    yield Heading("Metrics on holdout")
    yield Table(("metric", "baseline", "best"), tuple(rows))


def _part_that_decided(run: RunRecord) -> Iterator[str]:
    """The point about a search whose limits were too small for all of holdout."""
    baseline, whole = result_of(run.baseline, "holdout"), run.header.cases.get("holdout", 0)
    held = 0 if baseline is None else len({*baseline.scores, *baseline.errors})
    if 0 < held < whole:
        yield (
            f"{held} of {whole} holdout cases decided: the limits left too few rounds beside all "
            "of them, so a small difference may be luck"
        )
