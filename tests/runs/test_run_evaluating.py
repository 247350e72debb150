"""Evaluating through a Run: what raises and what is missing, time limits, blocks and look-ahead."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from burnish.core.cases import Case, Outcome, Split
from burnish.core.errors import BurnishError
from burnish.core.evaluations import Evaluation, Score
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Effects
from burnish.core.surfaces import Candidate
from burnish.journal.limits import Budget
from burnish.journal.outages import RetryPolicy
from burnish.runs.case_work import CasePolicy
from burnish.runs.directory import look_into
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.targets.callables.target import AgentUnreachable
from tests.runs.small import (
    TRAIN,
    Agent,
    add_letters,
    answer,
    driven,
    only_result,
    opened,
    small,
)


async def evaluated(setup: Setup, folder: Path, *, repeats: int = 1) -> Evaluation:
    run = opened(setup, folder)
    try:
        return await run.evaluate(run.target.baseline, split=Split.TRAIN, repeats=repeats)
    finally:
        await run.close()


async def test_results_stand_in_the_order_of_cases_and_repeats(tmp_path: Path) -> None:
    found = await evaluated(small(), tmp_path / "run", repeats=2)
    assert [(r.case, r.draw) for r in found.results] == [
        (case.id, draw) for case in TRAIN for draw in (0, 1)
    ]


async def test_law_4_an_agents_exception_scores_0_with_its_text(tmp_path: Path) -> None:
    def crash(candidate: Candidate, case: Case, draw: int) -> str:
        raise ValueError("no JSON in sight")

    found = await evaluated(small(agent=crash), tmp_path / "run")
    result = only_result(found, "t0")
    assert result.outcome.failed
    assert result.scores == (
        Score(
            metric="expected_text",
            value=0.0,
            passed=False,
            reason="ValueError: no JSON in sight",
        ),
    )


async def test_law_4_an_outage_is_missing_never_0(tmp_path: Path) -> None:
    def outage(candidate: Candidate, case: Case, draw: int) -> str:
        raise ConnectionError("nobody there")

    agent = Agent(outage)
    found = await evaluated(small(agent=agent), tmp_path / "run")
    result = only_result(found, "t0")
    assert result.outcome.missing
    assert result.scores[0].value is None
    assert len(agent.calls) == len(TRAIN), "the user's callable is not retried unless configured"


async def test_law_4_retries_where_configured_then_missing_with_its_attempts(
    tmp_path: Path,
) -> None:
    def outage(candidate: Candidate, case: Case, draw: int) -> str:
        raise ConnectionError("nobody there")

    agent = Agent(outage)
    policy = CasePolicy(retry=RetryPolicy(attempts=3, first_wait=0.0))
    found = await evaluated(small(agent=agent, case_policy=policy), tmp_path / "run")
    assert only_result(found, "t0").outcome.failure.attempts == 3
    assert len(agent.calls) == 3 * len(TRAIN)


@pytest.mark.parametrize(("error", "paid"), [(ConnectionError, 3), (AgentUnreachable, 1)])
async def test_an_attempt_that_may_have_been_paid_is_counted(
    tmp_path: Path, error: type[Exception], paid: int
) -> None:
    """A connection that broke may have been paid for, one that was turned away was not."""
    away = {"status": 503} if error is AgentUnreachable else {}
    asked = Counter[str]()

    def third_time(candidate: Candidate, case: Case, draw: int) -> str:
        run = f"{candidate.id} {case.id} {draw}"
        asked[run] += 1
        if asked[run] < 3:
            raise error("come back later", **away)
        return answer(candidate, case, draw)

    policy = CasePolicy(retry=RetryPolicy(attempts=3, first_wait=0.0))
    setup = small(agent=third_time, case_policy=policy, steps=add_letters)
    ending = await driven(replace(setup, budget=Budget(max_trials=1)), tmp_path / "run")
    assert set(asked.values()) == {3}
    assert ending.spent.calls == paid * ending.spent.metric_calls


async def test_law_4_listed_errors_are_not_the_agents_fault(tmp_path: Path) -> None:
    def lookup(candidate: Candidate, case: Case, draw: int) -> str:
        raise LookupError("vault sealed")

    policy = CasePolicy(infrastructure_errors=("LookupError",))
    found = await evaluated(small(agent=lookup, case_policy=policy), tmp_path / "run")
    assert only_result(found, "t0").outcome.missing


async def test_law_4_running_past_the_time_limit_is_the_agents_failure(tmp_path: Path) -> None:
    async def slow(candidate: Candidate, case: Case, draw: int) -> str:
        await asyncio.sleep(0 if case.id == "t1" else 3600)
        return "<1>"

    policy = CasePolicy(time_limit=0.5)
    found = await evaluated(small(agent=slow, case_policy=policy), tmp_path / "run")
    late, fine = only_result(found, "t0"), only_result(found, "t1")
    assert late.outcome.failed
    assert late.scores[0].value == 0
    assert late.scores[0].reason == "the agent ran past the case's time limit of 0.5 s"
    assert fine.scores[0].value == 1


async def test_law_4_the_agents_own_timeout_error_is_not_the_time_limit(tmp_path: Path) -> None:
    def slow_tool(candidate: Candidate, case: Case, draw: int) -> str:
        raise TimeoutError("the tool took too long")

    policy = CasePolicy(time_limit=5)
    found = await evaluated(small(agent=slow_tool, case_policy=policy), tmp_path / "run")
    reason = only_result(found, "t0").scores[0].reason
    assert reason == "TimeoutError: the tool took too long"


async def test_law_4_output_that_is_no_text_is_the_agents_failure(tmp_path: Path) -> None:
    found = await evaluated(
        small(agent=lambda _, __, ___: "half \ud83d of a pair"), tmp_path / "run"
    )
    result = only_result(found, "t0")
    assert result.outcome.failed
    assert "cannot be kept as JSON" in result.scores[0].reason


async def test_errors_of_burnish_itself_are_not_an_agents_failure(tmp_path: Path) -> None:
    def refused(candidate: Candidate, case: Case, draw: int) -> str:
        raise BurnishError("the key was refused")

    agent = Agent(refused)
    with pytest.raises(BurnishError, match="refused"):
        await evaluated(small(agent=agent), tmp_path / "run")


@dataclass(frozen=True, kw_only=True)
class Odd:
    """A metric of the user's that does what it likes."""

    name: str = "expected_text"
    fingerprint: str = "odd"

    def estimate(self, case: Case) -> Spend:
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        if case.id == "t0":
            raise KeyError("label")
        if case.id == "t1":
            return []
        return [Score(metric=self.name, value=1.0)]


async def test_law_4_a_metric_that_raises_is_missing_and_one_that_says_nothing_is_absent(
    tmp_path: Path,
) -> None:
    found = await evaluated(small(metrics=(Odd(),)), tmp_path / "run")
    assert only_result(found, "t0").scores[0].reason == "the metric raised KeyError: 'label'"
    assert found.missing_cases(["expected_text"]) == ("t0",)
    assert only_result(found, "t1").scores == ()
    assert found.mean_of("expected_text") == 1.0


async def test_law_1_a_second_evaluation_costs_nothing(tmp_path: Path) -> None:
    agent = Agent()
    run = opened(small(agent=agent), tmp_path / "run")
    first = await run.evaluate(run.target.baseline, split=Split.TRAIN)
    spent, calls = run.spent, len(agent.calls)
    second = await run.evaluate(run.target.baseline, split=Split.TRAIN)
    more = await run.evaluate(run.target.baseline, split=Split.TRAIN, repeats=2)
    await run.close()
    assert first == second
    assert calls == len(TRAIN) == spent.calls == spent.metric_calls
    assert len(agent.calls) == 2 * len(TRAIN), "the second repeat is new, the first is not"
    assert more.sweeps[0] == first.results


@pytest.mark.parametrize("concurrency", [1, 3, 64])
async def test_law_8_concurrency_changes_nothing(tmp_path: Path, concurrency: int) -> None:
    async def jittery(candidate: Candidate, case: Case, draw: int) -> str:
        await asyncio.sleep(int(case.id[1:]) % 3 / 1000)
        return f"<{case.id[1:]}>"

    setup = small(agent=jittery, concurrency=concurrency)
    found = await evaluated(setup, tmp_path / "run", repeats=3)
    assert [r.outcome.output for r in found.results] == [
        f"<{case.id[1:]}>" for case in TRAIN for _ in range(3)
    ]


async def first_block(run: Run, *, look_ahead: int) -> Evaluation:
    blocks = run.blocks(run.target.baseline, split=Split.TRAIN, block_size=2, look_ahead=look_ahead)
    async with aclosing(blocks) as parts:
        async for part in parts:
            return part
    raise AssertionError("there is no block")


async def test_rule_03_a_gate_may_end_an_evaluation_early(tmp_path: Path) -> None:
    agent = Agent()
    run = opened(small(agent=agent, concurrency=1), tmp_path / "run")
    part = await first_block(run, look_ahead=0)
    await run.close()
    assert part.cases == ("t0", "t1")
    assert [case for _, case, _ in agent.calls] == ["t0", "t1"]
    assert run.spent.calls == 2


async def test_rule_03_what_look_ahead_began_in_vain_is_billed_and_not_spent(
    tmp_path: Path,
) -> None:
    async def slowly(candidate: Candidate, case: Case, draw: int) -> str:
        await asyncio.sleep(0 if case.id in {"t0", "t1"} else 3600)
        return "x"

    run = opened(small(agent=slowly, concurrency=4), tmp_path / "run")
    await first_block(run, look_ahead=1)
    assert run.spent.calls == 2
    assert 2 < run.billed.calls <= 4
    await run.close()


@pytest.mark.parametrize("turns", range(1, 4))
async def test_a_run_that_ends_stores_what_was_paid_but_not_stored_yet(
    tmp_path: Path, turns: int
) -> None:
    answered = asyncio.Event()

    def agent(candidate: Candidate, case: Case, draw: int) -> str:
        answered.set()
        return "no idea"

    run = opened(small(agent=agent), tmp_path / "run")
    evaluating = asyncio.create_task(
        run.evaluate(run.target.baseline, split=Split.TRAIN, cases=TRAIN[:1])
    )
    await answered.wait()
    for _ in range(turns):  # the result takes a turn of its own before it is stored
        await asyncio.sleep(0)
    await run.close()
    evaluating.cancel()
    await asyncio.wait([evaluating])
    with look_into(tmp_path / "run") as journal:
        states = [row.state for row in journal.effects() if row.kind == "run"]
    assert states == ["done"]
