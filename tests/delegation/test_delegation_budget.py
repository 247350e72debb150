"""The budget envelope: every limit ends or bounds a run, and the arithmetic behind it."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.core.errors import ConfigError
from burnish.delegation.envelope import Envelope, Tally
from burnish.delegation.result import WEIGHTS, delegation_loss
from burnish.testing.delegation_world import (
    COMPLETE,
    Response,
    RoleTurn,
    delegation,
    plan,
    use,
    uses,
)
from tests.delegation.delegation_world import DelegationWorld, in_order, writer
from tests.delegation.runs import events, run, with_loop


@pytest.mark.slow
async def test_loops(tmp_path: Path) -> None:
    result = await run(tmp_path, DelegationWorld(), with_loop("budget: {max_loops: 2}"))
    assert (result.status, result.reason, result.iterations) == ("partial", "max_loops", 2)
    assert [path.name for path in result.deliverables] == ["report.md"], "what is there is kept"
    assert result.budget["budget_remaining_pct"] == 0


@pytest.mark.slow
async def test_workers(tmp_path: Path) -> None:
    manager = in_order(plan("report.md"), delegation("a", "b", "c"), delegation("d"))
    world = DelegationWorld(manager=manager)
    result = await run(tmp_path, world, with_loop("budget: {max_total_workers: 2}"))
    assert (result.status, result.reason) == ("partial", "max_total_workers")
    assert result.budget["workers"] == {"spawned": 2, "max": 2}
    assert any("1 of 3 delegations" in event["msg"] for event in events(result))


@pytest.mark.slow
async def test_tokens(tmp_path: Path) -> None:
    world = DelegationWorld()
    result = await run(tmp_path, world, with_loop("budget: {max_total_tokens: 300}"))
    assert (result.status, result.reason) == ("partial", "max_total_tokens")
    assert len(world.turns) == 1, "looked at before the next call"


@pytest.mark.slow
async def test_tool_calls(tmp_path: Path) -> None:
    def worker(turn: RoleTurn) -> Response:
        if any("the budget is used up (max_tool_calls)" in said for said in turn.answers):
            return {"summary": "had to stop"}
        if not turn.answers:
            return uses(("file_list", {}), ("file_list", {"path": "."}))
        return use("file_list", path=f"x{len(turn.answers)}")

    result = await run(
        tmp_path, DelegationWorld(worker=worker), with_loop("budget: {max_tool_calls: 3}")
    )
    assert result.budget["tool_calls"] == {"used": 3, "max": 3}
    assert any("had to stop" in event["msg"] for event in events(result))


@pytest.mark.slow
async def test_wall_time(tmp_path: Path) -> None:
    world = DelegationWorld()
    result = await run(tmp_path, world, with_loop("budget: {max_wall_time: 0.000001}"))
    assert (result.status, result.reason, world.turns) == ("partial", "max_wall_time", [])


@pytest.mark.slow
async def test_workers_in_one_iteration_and_rounds(tmp_path: Path) -> None:
    def restless(turn: RoleTurn) -> Response:
        return use("file_list", path=f"x{len(turn.answers)}")

    manager = in_order(plan("report.md"), delegation("a", "a", "a"), COMPLETE)
    world = DelegationWorld(manager=manager, worker=restless)
    lines = ("budget: {max_workers_per_iteration: 2, max_loops: 2}", "max_rounds: 2")
    result = await run(tmp_path, world, with_loop(*lines))
    home = tmp_path / "run/iterations/002/delegations"
    assert sorted(path.name for path in home.iterdir()) == ["a", "a-2"]
    assert len(world.turns_of("worker")) == 6
    assert any("never answered" in event["msg"] for event in events(result))


@pytest.mark.slow
async def test_a_worker_that_turns_in_circles_is_ended(tmp_path: Path) -> None:
    world = DelegationWorld(worker=lambda _: use("file_list"))
    result = await run(tmp_path, world, with_loop("budget: {max_loops: 2}"))
    assert len(world.turns_of("worker")) == 3
    assert any("3 times in a row" in event["msg"] for event in events(result))


@pytest.mark.slow
async def test_a_worker_without_an_answer_is_asked_once_more(tmp_path: Path) -> None:
    def worker(turn: RoleTurn) -> Response:
        if not turn.answers:
            return writer()(turn)
        again = "not a valid answer" in turn.text
        return '```json\n{"summary": "wrote it"}\n```' if again else "I wrote it."

    assert (await run(tmp_path, DelegationWorld(worker=worker))).status == "complete"


@pytest.mark.parametrize("name", vars(Envelope()))
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        Envelope(**{name: 0})


@given(st.integers(0, 200), st.integers(0, 900), st.integers(0, 2 * 10**7), st.floats(0, 9000))
def test_what_remains_is_a_share_and_nothing_of_it_means_a_limit_is_reached(
    loops: int, workers: int, tokens: int, seconds: float
) -> None:
    tally = Tally(
        envelope=Envelope(), tokens_spent=lambda: tokens, loops=loops, workers=workers,
        seconds=seconds,
    )  # fmt: skip
    assert 0 <= tally.remaining <= 1
    if tally.exhausted():
        assert tally.remaining == 0


def test_the_loss_of_a_run_that_was_seen() -> None:
    loss = delegation_loss(
        eval_score=0.975, critique_score=0.62, rejections=2, max_rejections=2,
        budget_remaining=0.583, status="complete",
    )  # fmt: skip
    assert loss.total == pytest.approx(0.29485)
    nothing = delegation_loss(
        eval_score=None, critique_score=None, rejections=0, max_rejections=2,
        budget_remaining=None, status="",
    )  # fmt: skip
    assert nothing.total == pytest.approx(0.40)
    assert math.fsum(WEIGHTS.values()) == pytest.approx(1)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_of_nan_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="not a score"):
        delegation_loss(
            eval_score=bad, critique_score=1, rejections=0, max_rejections=1,
            budget_remaining=1, status="complete",
        )  # fmt: skip
