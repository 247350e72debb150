"""Calls that hang, or cancel themselves: they cost their case, never the run."""

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case, Outcome, Split
from burnish.core.errors import BaselineUnmeasured
from burnish.core.evaluations import Score
from burnish.core.surfaces import Candidate
from burnish.core.trials import SplitResult, StopReason, Trial
from burnish.journal.limits import Budget
from burnish.runs.case_work import CasePolicy
from burnish.runs.directory import Header, RunRecord
from burnish.runs.run import Run
from burnish.targets.callables import CallableTarget
from burnish.testing import ExpectedText
from tests.runs.small import (
    TEST,
    TRAIN,
    add_letters,
    answer,
    driven,
    longer,
    only_result,
    opened,
    small,
)

pytestmark = pytest.mark.slow

GRACE = 0.5


async def hang(*_: object) -> str:
    await asyncio.Event().wait()
    return "never"


async def cancels(*_: object) -> str:
    raise asyncio.CancelledError


async def cancels_itself(*_: object) -> str:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(3600)
    return "never"


async def awaits_something_cancelled(*_: object) -> str:
    inner = asyncio.ensure_future(asyncio.sleep(3600))
    asyncio.get_running_loop().call_soon(inner.cancel)
    await inner
    return "never"


def cancels_in_a_thread(*_: object) -> str:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    "call", [cancels, cancels_itself, awaits_something_cancelled, cancels_in_a_thread]
)
async def test_law_4_a_call_that_cancels_itself_fails_its_case_only(
    tmp_path: Path, call: Callable[..., Any]
) -> None:
    async def agent(query: str) -> str:
        return "<1>" if query == TRAIN[1].turns[0].input else await call()

    def in_thread(query: str) -> str:
        return "<1>" if query == TRAIN[1].turns[0].input else call()

    threaded = call is cancels_in_a_thread
    target = CallableTarget(agent=in_thread if threaded else agent)
    found = await _evaluated(target, tmp_path / "run")
    failed, fine = only_result(found, "t0"), only_result(found, "t1")
    assert failed.outcome.failed
    assert not failed.outcome.missing
    assert failed.scores[0].value == 0
    assert "CancelledError" in failed.scores[0].reason
    assert fine.scores[0].value == 1


async def test_a_metric_that_cancels_itself_scores_nothing(tmp_path: Path) -> None:
    class Cancelling(ExpectedText):
        async def score(self, case: Case, outcome: Outcome, **more: Any) -> list[Score]:
            raise asyncio.CancelledError

    results: list[Any] = []

    async def steps(run: Run) -> None:
        results.append(await run.evaluate(run.target.baseline, split=Split.TRAIN))

    await driven(small(steps=steps, metrics=(Cancelling(),)), tmp_path / "run")
    score = only_result(results[0], "t0").scores[0]
    assert (score.value, score.reason) == (None, "the metric raised CancelledError")


def test_every_new_run_says_how_long_a_call_may_take(tmp_path: Path) -> None:
    asyncio.run(driven(small(), tmp_path / "run"))
    assert Header.read(tmp_path / "run").call_limit == 300


async def test_a_call_past_the_limit_of_the_run_is_the_agents_failure(tmp_path: Path) -> None:
    target = CallableTarget(agent=hang)
    await driven(small(target=target), tmp_path / "run")
    _set_call_limit(tmp_path / "run", 0.05)
    found = await _evaluated(target, tmp_path / "run")
    result = only_result(found, "t0")
    assert result.outcome.failed
    assert result.scores[0].reason == "the agent ran past the time limit for one call of 0.05 s"


async def test_a_time_limit_that_is_set_replaces_the_usual_one(tmp_path: Path) -> None:
    async def slow(query: str) -> str:
        await asyncio.sleep(0.2)
        return "<0>"

    target = CallableTarget(agent=slow)
    policy = CasePolicy(time_limit=60)
    await driven(small(target=target, case_policy=policy), tmp_path / "run")
    _set_call_limit(tmp_path / "run", 0.05)
    found = await _evaluated(target, tmp_path / "run", case_policy=policy)
    assert only_result(found, "t0").scores[0].value == 1


@pytest.mark.parametrize("way", ["stop_file", "signal"])
async def test_a_hanging_call_does_not_keep_a_run_from_stopping(tmp_path: Path, way: str) -> None:
    folder = tmp_path / "run"

    async def agent(candidate: Candidate, case: Case, draw: int) -> str:
        if str(candidate.values["text"]).count("x") < 1:
            return answer(candidate, case, draw)
        if way == "stop_file":
            (folder / "optimize.stop").touch()
        if way == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
        return await hang()

    setup = small(
        steps=add_letters,
        agent=_once_each(agent) if way == "signal" else agent,
        grace_seconds=GRACE,
        test=TEST,
    )
    ending = await driven(setup, folder)
    assert ending.reason.code == way
    assert "the current trial was dropped, since no call ended for 0.5 s" in ending.reason.detail
    assert ending.interrupted == (way == "signal")
    assert ending.sealed is None, "it would hang as well"
    assert not (folder / "optimize.stop").exists()
    assert len((folder / "trials.jsonl").read_text().splitlines()) == 1
    more = small(steps=add_letters, budget=Budget(max_trials=3), test=TEST)
    resumed = await driven(more, folder)
    assert resumed.reason.code == "max_trials"
    assert resumed.sealed is not None


async def test_a_hanging_call_does_not_outlast_the_minutes_of_a_run(tmp_path: Path) -> None:
    async def steps(run: Run) -> None:
        await run.evaluate(run.target.baseline, split=Split.TRAIN)

    budget = Budget(max_minutes=1e-9)
    setup = small(steps=steps, agent=hang, budget=budget, grace_seconds=GRACE)
    words = "not be measured: max_minutes: 0.0 of 1e-09 minutes; the current trial was dropped"
    with pytest.raises(BaselineUnmeasured, match=words) as error:
        await driven(setup, tmp_path / "run")
    assert error.value.remedy == "raise the limit, then resume the run (`burnish runs resume run`)"
    record = RunRecord.read(tmp_path / "run")
    assert (record.status, record.rows) == ("failed", ())
    more = small(steps=add_letters, budget=Budget(max_trials=1))
    assert (await driven(more, tmp_path / "run")).reason.code == "max_trials"


async def test_a_signal_ends_a_sealed_test_that_hangs(tmp_path: Path) -> None:
    async def agent(candidate: Candidate, case: Case, draw: int) -> str:
        if not case.id.startswith("s"):
            return answer(candidate, case, draw)
        if case.id == "s10":
            os.kill(os.getpid(), signal.SIGTERM)
        return await hang()

    limited = Budget(max_trials=2)
    setup = small(steps=add_letters, agent=agent, budget=limited, test=TEST, grace_seconds=GRACE)
    ending = await driven(setup, tmp_path / "run")
    assert ending.interrupted
    assert ending.sealed is None
    resumed = await driven(small(steps=add_letters, budget=limited, test=TEST), tmp_path / "run")
    assert resumed.reason.code == "max_trials"
    assert resumed.sealed is not None


async def test_going_over_recorded_trials_is_no_hanging(tmp_path: Path) -> None:
    async def steps(run: Run) -> None:
        best = run.target.baseline
        while run.stop_reason() is None:
            if run.replaying:
                await asyncio.sleep(0.6)
            best = longer(best)
            train = await run.evaluate(best, split=Split.TRAIN)
            result = SplitResult.of(train, run.objective)
            run.record(Trial(candidate=best, phase="letters", train=result, touched=("text",)))
            run.advance(best)

    first = await driven(small(steps=steps, budget=Budget(max_trials=2)), tmp_path / "run")
    late = small(steps=steps, budget=Budget(max_minutes=1e-9), grace_seconds=0.1)
    again = await driven(late, tmp_path / "run")
    assert again.reason.code == "max_minutes"
    assert again.best.id == first.best.id


async def test_a_trial_whose_calls_end_is_finished_however_long_it_takes(tmp_path: Path) -> None:
    async def agent(candidate: Candidate, case: Case, draw: int) -> str:
        (tmp_path / "run" / "optimize.stop").touch()
        await asyncio.sleep(0.1)
        return answer(candidate, case, draw)

    setup = small(steps=add_letters, agent=agent, grace_seconds=60.0, concurrency=1)
    ending = await driven(setup, tmp_path / "run")
    assert ending.reason.code == "stop_file"
    assert "dropped" not in ending.reason.detail
    assert ending.spent.calls == len(TRAIN)


async def test_once_the_search_is_over_only_a_signal_stops_the_run(tmp_path: Path) -> None:
    setup = small(budget=Budget(max_minutes=1e-9))
    run = opened(setup, tmp_path / "run")
    (tmp_path / "run" / "optimize.stop").touch()
    assert _code(run.closing.outside_reason(searching=True)) == "stop_file"
    (tmp_path / "run" / "optimize.stop").unlink()
    assert _code(run.closing.outside_reason(searching=True)) == "max_minutes"
    assert _code(run.closing.outside_reason(searching=False)) == ""
    run.ask_to_stop("enough")
    assert _code(run.closing.outside_reason(searching=False)) == "signal"
    await run.close()


async def test_cancelling_from_outside_is_no_stop(tmp_path: Path) -> None:
    inside = asyncio.Event()

    async def agent(*_: object) -> str:
        inside.set()
        return await hang()

    task = asyncio.create_task(driven(small(steps=add_letters, agent=agent), tmp_path / "run"))
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_agent_that_hangs_in_a_thread_keeps_nobody(tmp_path: Path) -> None:
    free = threading.Event()

    def agent(query: str) -> str:
        free.wait()
        return query

    policy = CasePolicy(time_limit=0.05)
    found = await _evaluated(CallableTarget(agent=agent), tmp_path / "run", case_policy=policy)
    hanging = [each for each in threading.enumerate() if each.name == "burnish agent"]
    assert only_result(found, "t0").outcome.failed
    assert hanging
    assert all(each.daemon for each in hanging)
    free.set()
    for each in hanging:
        each.join()


def _code(reason: StopReason | None) -> str:
    return "" if reason is None else reason.code


def _once_each(agent: Callable[..., Any]) -> Callable[..., Any]:
    """Only the first call that gets there sends a signal; the others hang."""
    sent: list[str] = []

    async def called(candidate: Candidate, case: Case, draw: int) -> str:
        if str(candidate.values["text"]).count("x") >= 1:
            if sent:
                return await hang()
            sent.append(case.id)
        return await agent(candidate, case, draw)

    return called


def _set_call_limit(folder: Path, seconds: float | None) -> None:
    """Make it a run that was started with another limit, or before there was one."""
    path = folder / "run.json"
    header = json.loads(path.read_text())
    header.pop("call_limit")
    path.write_text(json.dumps(header if seconds is None else {**header, "call_limit": seconds}))


async def _evaluated(target: CallableTarget, folder: Path, **more: Any) -> Any:
    found: list[Any] = []

    async def steps(run: Run) -> None:
        found.append(await run.evaluate(run.target.baseline, split=Split.TRAIN))

    await driven(small(steps=steps, target=target, **more), folder)
    return found[0]


async def test_calls_that_block_the_loop_in_turn_are_not_late_for_it(tmp_path: Path) -> None:
    async def agent(query: str) -> str:
        await asyncio.sleep(0)
        time.sleep(1.3)  # noqa: ASYNC251 - as those do who do not know better
        return "<0>"

    policy = CasePolicy(time_limit=5)
    setup: dict[str, Any] = {"case_policy": policy, "concurrency": len(TRAIN)}
    found = await _evaluated(CallableTarget(agent=agent), tmp_path / "run", **setup)
    assert not any(result.outcome.failed for result in found.results)
