"""Why runs end: every stopper with its reason, signals, the stop file, contracts."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.cases import Split
from burnish.core.errors import Interrupted
from burnish.core.evaluations import Objective
from burnish.core.trials import SplitResult, Standing, Trial
from burnish.journal.journal import Journal
from burnish.journal.limits import Budget
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.runs.stoppers import Stops, callback_stopper, out_of_time, pure_reasons
from burnish.testing import check_metric, check_strategy, check_target
from burnish.testing import toy as toy_world
from burnish.testing.toy import Climb, proposer
from tests.runs.small import TRAIN, add_letters, driven, small

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("budget", "standing", "code"),
    [
        (Budget(max_trials=3), Standing(trials=2), None),
        (Budget(max_trials=3), Standing(trials=3), "max_trials"),
        (Budget(max_proposals=3), Standing(proposals=3), "max_proposals"),
        (
            Budget(max_tracked_candidates=2),
            Standing(tracked_candidates=2),
            "max_tracked_candidates",
        ),
        (Budget(patience=4), Standing(since_accept=3), None),
        (Budget(patience=4), Standing(since_accept=4), "patience"),
        (Budget(score_threshold=0.9), Standing(best_score=0.89), None),
        (Budget(score_threshold=0.9), Standing(best_score=0.9), "score_threshold"),
        (Budget(score_threshold=0.0), Standing(best_score=None), None),
        (Budget(pass_rate_threshold=0.9), Standing(best_score=1.0, best_pass_rate=0.89), None),
        (Budget(pass_rate_threshold=0.9), Standing(best_pass_rate=0.9), "score_threshold"),
        (Budget(pass_rate_threshold=0.0), Standing(best_score=1.0, best_pass_rate=None), None),
        (Budget(required_metrics=("a",)), Standing(best_passing={}), None),
        (Budget(required_metrics=("a", "b")), Standing(best_passing={"a": True}), None),
        (Budget(required_metrics=("a",)), Standing(best_passing={"a": True}), "required_metrics"),
    ],
)
def test_pure_reasons(budget: Budget, standing: Standing, code: str | None) -> None:
    reasons = [*pure_reasons(budget, standing)]
    assert [reason.code for reason in reasons] == ([] if code is None else [code])
    assert all(reason.detail for reason in reasons)


def test_rule_05_impure_stoppers_continue_as_journaled_and_stop_live(tmp_path: Path) -> None:
    says_stop = False
    stopper = callback_stopper("nightly window", lambda: says_stop)
    first = Stops(journal := Journal(tmp_path), impure=[stopper])
    assert first.look(Budget(), Standing(), replaying=False) is None
    assert first.look(Budget(), Standing(), replaying=False) is None
    journal.close()
    says_stop = True
    again = Stops(journal := Journal(tmp_path), impure=[stopper])
    assert again.look(Budget(), Standing(), replaying=False) is None, "the run went on here"
    assert again.look(Budget(), Standing(), replaying=False) is None, "and here"
    reason = again.look(Budget(), Standing(), replaying=False)
    assert reason is not None
    assert reason.code == "nightly window"
    journal.close()
    says_stop = False
    more = Stops(journal := Journal(tmp_path), impure=[stopper])
    assert [more.look(Budget(), Standing(), replaying=False) for _ in range(3)] == [None] * 3
    journal.close()


def test_minutes_are_active_time_of_all_sessions() -> None:
    active = 0.0
    stopper = out_of_time(2.0, lambda: active)
    assert stopper.look() is None
    active = 120.0
    reason = stopper.look()
    assert reason is not None
    assert (reason.code, reason.detail) == ("max_minutes", "2.0 of 2 minutes")


async def test_active_time_is_carried_over(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    await asyncio.sleep(0.05)
    journal.set_mark("x", "y")
    journal.close()
    again = Journal(tmp_path)
    assert again.active_seconds >= 0.05
    assert again.session == 2
    again.close()


async def test_the_stop_file_stops_after_the_trial_and_is_removed(tmp_path: Path) -> None:
    async def steps(run: Run) -> None:
        for _ in range(10):
            if run.stop_reason() is not None:
                return
            (tmp_path / "run" / "optimize.stop").touch()
            await run.evaluate(run.target.baseline, split=Split.TRAIN)

    ending = await driven(small(steps=steps), tmp_path / "run")
    assert ending.reason.code == "stop_file"
    assert ending.spent.calls == len(TRAIN)
    assert not (tmp_path / "run" / "optimize.stop").exists()


async def test_a_users_callable_stops_under_its_label(tmp_path: Path) -> None:
    setup = small(steps=add_letters, stop_callbacks={"deploy freeze": lambda: True})
    ending = await driven(setup, tmp_path / "run")
    assert ending.reason.code == "deploy freeze"
    assert ending.spent.calls == 0, "looked at before spending"


async def test_limits_are_looked_at_before_spending(tmp_path: Path) -> None:
    async def steps(run: Run) -> None:
        best = run.target.baseline
        for n in range(10):
            if run.stop_reason(run.estimate(Split.TRAIN)) is not None:
                return
            train = await run.evaluate(best, split=Split.TRAIN, repeats=n + 1)
            result = SplitResult.of(train, run.objective)
            run.record(Trial(candidate=best, phase="baseline", train=result))

    ending = await driven(small(steps=steps, budget=Budget(max_calls=15)), tmp_path / "run")
    assert ending.reason.code == "max_calls"
    assert ending.spent.calls == 12, "a third sweep of 6 would have gone over 15"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_first_signal_finishes_the_trial_in_flight(
    tmp_path: Path, number: signal.Signals
) -> None:
    setup = small(steps=_signalling(1, number))
    ending = await driven(setup, tmp_path / "run")
    assert ending.interrupted
    assert ending.spent.calls == len(TRAIN)
    assert "signal" in ending.reason.detail


async def test_the_second_signal_stops_at_once_and_the_run_can_go_on(tmp_path: Path) -> None:
    with pytest.raises(Interrupted) as raised:
        await driven(small(steps=_signalling(2, signal.SIGINT)), tmp_path / "run")
    assert raised.value.exit_code == 2
    ending = await driven(small(steps=add_letters, budget=Budget(max_trials=1)), tmp_path / "run")
    assert ending.reason.code == "max_trials"


async def test_handlers_are_put_back(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    await driven(small(steps=add_letters, budget=Budget(max_trials=1)), tmp_path / "run")
    assert signal.getsignal(signal.SIGINT) is before


def _signalling(times: int, number: signal.Signals) -> Callable[[Run], Awaitable[None]]:
    async def steps(run: Run) -> None:
        for _ in range(10):
            if run.stop_reason() is not None:
                return
            for _ in range(times):
                os.kill(os.getpid(), number)
                await asyncio.sleep(0.01)
            await run.evaluate(run.target.baseline, split=Split.TRAIN)

    return steps


def toy(**world: float) -> Setup:
    made = toy_world.ToyWorld(train=8, holdout=5, test=4, **world)  # pyright: ignore[reportArgumentType]
    return Setup(
        target=toy_world.target(made),
        metrics=(toy_world.RulesKept(),),
        objective=Objective(weights={"rules_kept": 1.0}),
        dataset=toy_world.dataset(made),
        strategy=Climb(proposer=proposer(), cycles=2, trials_per_phase=2),
    )


async def test_the_toy_strategy_keeps_the_contract(tmp_path: Path) -> None:
    ending = await check_strategy(toy, tmp_path)
    assert ending.sealed is not None


async def test_the_toy_strategy_keeps_the_contract_with_blocks_and_outages(tmp_path: Path) -> None:
    def rough() -> Setup:
        setup = toy(outage_rate=0.05, crash_rate=0.05)
        strategy = Climb(proposer=proposer(), cycles=2, trials_per_phase=2, block_size=3)
        return replace(setup, strategy=strategy)

    await check_strategy(rough, tmp_path)


async def test_the_toy_target_and_metric_keep_their_contracts() -> None:
    setup = toy()
    await check_target(setup.target, setup.dataset.train[:2])
    await check_metric(setup.metrics[0], setup.dataset.train[0], [])
