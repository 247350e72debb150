"""The last measurement: both sides of a case beside each other, whatever changes meanwhile."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case, Dataset, Failure, FailureKind, Outcome, Split
from burnish.core.errors import Interrupted, StrategyMisbehaved
from burnish.core.evaluations import Objective, Score
from burnish.core.protocols import Effects
from burnish.core.surfaces import Candidate, Origin
from burnish.core.trials import Decision, SplitResult, Trial, Verdict
from burnish.journal.limits import Budget
from burnish.runs.directory import RunRecord
from burnish.runs.driver import Ending, drive
from burnish.runs.events import Claim
from burnish.runs.run import Run
from burnish.runs.setup import Setup, fork
from burnish.testing.doubles import FreeMetric, luck
from tests.runs.small import Ear, driven, small

HOLDOUT = tuple(Case.single(f"held question {n}", name=f"h{n:02}") for n in range(20))
TEST = tuple(Case.single(f"sealed question {n}", name=f"s{n:02}") for n in range(20))
BASES = pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "fresh"])
AT_ONCE = pytest.mark.parametrize("concurrency", [1, 4, 8])


@dataclass
class World:
    """An agent and a judge that remember in which order they were asked once the search is over."""

    change: Callable[[int], float] = lambda call: 0.0
    """What the judge adds at this call."""
    gain: float = 0.0
    respond: Callable[[str, Case], Any] = lambda side, case: side
    """What a side says; `old` is the baseline."""
    runs: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    judged: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    calls: int = 0

    async def run(self, candidate: Candidate, case: Case, draw: int) -> Outcome:
        side = "new" if "x" in str(candidate.values["text"]) else "old"
        if is_last(case, draw):
            self.runs.append((case.id, side))
        said = self.respond(side, case)
        said = await said if asyncio.iscoroutine(said) else said
        if isinstance(said, Outcome):
            return said
        return Outcome(replies=(said,), measures={"draw": float(draw)})

    def setup(self, *, sealed: bool, texts: Sequence[str] = ("{q} x",), **rest: Any) -> Setup:
        async def search(run: Run) -> None:
            baseline = run.target.baseline
            await measured(run, baseline, "baseline")
            for text in texts:
                candidate = baseline.child({"text": text}, origin=Origin(by="test"))
                await measured(run, candidate, "tries")
                run.advance(candidate)

        made = small(steps=search, agent=self.run, metrics=(Judge(world=self),), **rest)
        return replace(
            made,
            confirm=True,
            objective=Objective(weights={"judge": 1.0}),
            dataset=Dataset(train=HOLDOUT[:1], holdout=HOLDOUT[1:], test=TEST if sealed else ()),
        )


@dataclass(frozen=True, kw_only=True)
class Judge(FreeMetric):
    """Noise that depends on case, side and draw, and a change that depends on the call."""

    world: World
    name: str = "judge"

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        del effects
        side, draw = outcome.output, int(outcome.measures["draw"])
        self.world.calls += 1
        if is_last(case, draw):
            self.world.judged.append((case.id, side))
        noise = 0.02 * (luck(case.id, side, draw) - 0.5)
        better = self.world.gain if side == "new" else 0.0
        value = 0.4 + noise + better + self.world.change(self.world.calls)
        # In the search the new one looks better, so that it is what is measured at last.
        value += 0.1 if side == "new" and not is_last(case, draw) else 0.0
        return [Score(metric=self.name, value=value)]


def is_last(case: Case, draw: int) -> bool:
    """Whether it belongs to the last measurement."""
    return case.id.startswith("s") or draw >= 1_000_000


async def measured(run: Run, candidate: Candidate, phase: str) -> None:
    holdout = SplitResult.of(await run.evaluate(candidate, split=Split.HOLDOUT), run.objective)
    taken = Decision(gate="test", verdict=Verdict.ACCEPT, code="better", reason="always")
    decision = None if phase == "baseline" else taken
    run.record(Trial(candidate=candidate, phase=phase, holdout=holdout, decision=decision))


def drift(call: int) -> float:
    return 0.0005 * call


def decay(call: int) -> float:
    return -drift(call)


def sides(order: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """By case, the sides in their order."""
    return {case: [side for each, side in order if each == case] for case, _ in order}


def claim_of(ending: Ending, *, sealed: bool) -> Claim:
    assert ending.claim is not None
    assert ending.claim.basis == ("sealed test" if sealed else "fresh draws")
    return ending.claim


# -- The order ------------------------------------------------------------------------------------


@BASES
async def test_both_sides_of_a_case_are_measured_beside_each_other(
    tmp_path: Path, *, sealed: bool
) -> None:
    world = World()
    ending = await driven(world.setup(sealed=sealed, concurrency=1), tmp_path / "run")
    claim_of(ending, sealed=sealed)
    count = 20 if sealed else 19
    assert len(world.runs) == len(world.judged) == 2 * count
    for order in (world.runs, world.judged):
        assert [case for case, _ in order[::2]] == [case for case, _ in order[1::2]]
        assert [side for _, side in order[:8]] == [
            "old",
            "new",
            "new",
            "old",
            "new",
            "old",
            "old",
            "new",
        ]
        first = [side for _, side in order[::2]]
        assert abs(first.count("old") - first.count("new")) <= 1


@BASES
async def test_repeats_are_beside_each_other_too(tmp_path: Path, *, sealed: bool) -> None:
    world = World()
    setup = world.setup(sealed=sealed, concurrency=1, test_repeats=2)
    await driven(setup, tmp_path / "run")
    assert len(world.runs) == 4 * (20 if sealed else 19)
    for order in (world.runs, world.judged):
        # Each side goes first in one of the two.
        for turns in sides(order).values():
            assert turns in (["old", "new", "new", "old"], ["new", "old", "old", "new"])


@BASES
@AT_ONCE
async def test_the_side_that_answers_sooner_does_not_meet_the_judge_sooner(
    tmp_path: Path, *, sealed: bool, concurrency: int
) -> None:
    async def slowly(side: str) -> str:
        for _ in range(50 if side == "old" else 0):
            await asyncio.sleep(0)
        return side

    world = World(respond=lambda side, case: slowly(side))
    await driven(world.setup(sealed=sealed, concurrency=concurrency), tmp_path / "run")
    assert sides(world.judged) == sides(world.runs)
    first = [turns[0] for turns in sides(world.judged).values()]
    assert abs(first.count("old") - first.count("new")) <= 1


async def test_both_sides_are_one_measurement_to_who_watches(tmp_path: Path) -> None:
    ear = Ear()
    await driven(World().setup(sealed=True), tmp_path / "run", ear)
    ticks = [tick for tick in ear.ticks if tick.split is Split.TEST]
    assert [tick.done for tick in ticks] == [*range(1, 41)]
    assert {tick.total for tick in ticks} == {40}
    assert len({tick.candidate for tick in ticks}) == 2


# -- What is claimed ------------------------------------------------------------------------------


@BASES
@AT_ONCE
@pytest.mark.parametrize("change", [drift, decay])
async def test_a_judge_that_drifts_is_no_gain(
    tmp_path: Path, change: Callable[[int], float], *, sealed: bool, concurrency: int
) -> None:
    world = World(change=change)
    ending = await driven(world.setup(sealed=sealed, concurrency=concurrency), tmp_path / "run")
    claim = claim_of(ending, sealed=sealed)
    assert claim.verdict == "not shown"
    assert claim.gain is not None
    assert abs(claim.gain.mean) < 0.005


@BASES
@AT_ONCE
async def test_a_real_gain_is_still_claimed(
    tmp_path: Path, *, sealed: bool, concurrency: int
) -> None:
    world = World(change=decay, gain=0.02)
    ending = await driven(world.setup(sealed=sealed, concurrency=concurrency), tmp_path / "run")
    assert claim_of(ending, sealed=sealed).verdict == "improved"


@BASES
async def test_an_agent_that_is_missing_on_one_side_only_is_measured_to_the_end(
    tmp_path: Path, *, sealed: bool
) -> None:
    def respond(side: str, case: Case) -> str | Outcome:
        gone = Failure(kind=FailureKind.INFRASTRUCTURE, message="connection reset")
        breaks = side == "new" and (case.id.startswith("s") or world.judged)
        return Outcome(failure=gone) if breaks else side

    world = World(respond=respond)
    ending = await driven(world.setup(sealed=sealed, concurrency=4), tmp_path / "run")
    assert len(world.runs) == 2 * (20 if sealed else 19)
    assert ending.claim is not None
    assert ending.claim.verdict == "not shown"


# -- Stopping, resuming, forking ------------------------------------------------------------------


@BASES
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_a_resume_measures_the_rest_beside_each_other(
    tmp_path: Path, *, sealed: bool, concurrency: int
) -> None:
    def respond(side: str, case: Case) -> str:
        if len(world.runs) == 14:
            raise Interrupted("killed")
        return side

    whole = World()
    expected = await driven(whole.setup(sealed=sealed), tmp_path / "whole")
    world = World(respond=respond)
    with pytest.raises(Interrupted):
        await driven(world.setup(sealed=sealed, concurrency=concurrency), tmp_path / "run")
    assert RunRecord.read(tmp_path / "run").sealed is None
    assert not [each for each in RunRecord.read(tmp_path / "run").events if each.kind == "claim"]
    rest = World()
    ending = await driven(rest.setup(sealed=sealed, concurrency=concurrency), tmp_path / "run")
    assert ending.claim == expected.claim
    assert ending.spent.metric_calls == expected.spent.metric_calls
    # What was measured is not measured again; at most one row a place had one of its sides.
    assert len(rest.runs) <= len(whole.runs) - 14 + concurrency
    halves = [turns for turns in sides(rest.runs).values() if len(turns) == 1]
    assert len(halves) <= concurrency


async def test_a_limit_does_not_end_it_in_the_middle(tmp_path: Path) -> None:
    world = World()
    # 38 calls are the search; the 40 of the test are reserved.
    setup = world.setup(sealed=True, budget=Budget(max_calls=78))
    ending = await driven(setup, tmp_path / "run")
    assert len(world.runs) == 40
    assert ending.spent.calls == 78
    claim_of(ending, sealed=True)


async def forked(world: World, folder: Path, *, sealed: bool, **rest: Any) -> Ending:
    run = fork(world.setup(sealed=sealed, **rest), folder / "old", folder=folder / "new")
    try:
        return await drive(run)
    finally:
        await run.close()


@BASES
async def test_a_fork_with_the_same_winner_pays_nothing(tmp_path: Path, *, sealed: bool) -> None:
    before = await driven(World().setup(sealed=sealed), tmp_path / "old")
    world = World()
    after = await forked(world, tmp_path, sealed=sealed)
    assert not world.calls
    assert not after.spent.calls
    assert before.claim is not None
    assert after.claim is not None
    assert after.claim.best_score == before.claim.best_score
    assert (after.claim.verdict == "looked at before") is sealed


async def test_a_fork_with_another_winner_claims_nothing(tmp_path: Path) -> None:
    """It takes over what was measured of the baseline, at another time."""
    await driven(World().setup(sealed=True), tmp_path / "old")
    world = World(change=lambda call: 0.05)
    ending = await forked(world, tmp_path, sealed=True, texts=("{q} x", "{q} xx"))
    assert claim_of(ending, sealed=True).verdict == "looked at before"
    assert len(world.runs) == 20, "of the search, only what the first one did not try"


async def test_a_search_may_not_read_the_sealed_test(tmp_path: Path) -> None:
    async def peeking(run: Run) -> None:
        await run.evaluate(run.target.baseline, split=Split.TEST)

    setup = replace(small(steps=peeking), dataset=Dataset(train=HOLDOUT, test=TEST))
    with pytest.raises(StrategyMisbehaved, match="read once, after the search"):
        await driven(setup, tmp_path / "run")
