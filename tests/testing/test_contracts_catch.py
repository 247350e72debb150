"""The contracts catch what they are there for: a contract nobody can break is no contract."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case, Outcome, Split
from burnish.core.errors import ReplayDiverged
from burnish.core.evaluations import Score
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Effects, Receipt
from burnish.core.surfaces import Candidate, TextSurface
from burnish.core.trials import Trial
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.testing import (
    ExpectedText,
    ScriptedTarget,
    check_executor,
    check_metric,
    check_strategy,
    check_target,
)
from tests.runs.small import TRAIN, add_letters, small


def made(kind: type[ScriptedTarget], *, leaf: bool = True) -> ScriptedTarget:
    return kind(
        respond=lambda _, __, ___: "yes",
        surfaces=(TextSurface(id="text", max_chars=10),),
        values={"text": "hello"},
        leaf=leaf,
    )


def silent(candidate: Candidate, case: Case, draw: int) -> Outcome:
    return Outcome(replies=())


def good() -> ScriptedTarget:
    return made(ScriptedTarget)


@dataclass(frozen=True, kw_only=True)
class Escapes(ScriptedTarget):
    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        return {"../agent.yaml": b""}


async def test_a_good_target_passes() -> None:
    await check_target(good(), TRAIN[:2])


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        (replace(good(), values={}), "every surface"),
        (replace(good(), values={"text": "x" * 11}), "out of its own bounds"),
        (replace(good(), surfaces=(*good().surfaces, *good().surfaces)), "same id"),
        (replace(good(), price=NOTHING), "its run is a call"),
        (replace(good(), respond=silent), "one reply per turn"),
        (made(Escapes), "leaves the candidate's folder"),
        (made(ScriptedTarget, leaf=False), "counts twice"),
    ],
)
async def test_a_bad_target_is_caught(target: ScriptedTarget, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        await check_target(target, TRAIN[:1])


@dataclass(frozen=True, kw_only=True)
class Scripted(ExpectedText):
    script: Callable[[], Score]

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        return [self.script()]


_fickle = itertools.cycle([0.25, 0.75])


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (lambda: Score(metric="other", value=1.0), "under the name 'other'"),
        (lambda: Score(metric="expected_text", value=0.0, passed=False), "no reason"),
        (lambda: Score(metric="expected_text", value=next(_fickle)), "not repeatable"),
    ],
)
async def test_a_bad_metric_is_caught(script: Callable[[], Score], sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        await check_metric(Scripted(script=script), TRAIN[0], [])


class Hasty:
    """Gives results as they come."""

    def __init__(self, concurrency: int) -> None:
        self.concurrency = concurrency

    async def map(
        self, units: Iterable[Any], work: Callable[[Any], Awaitable[Any]]
    ) -> AsyncGenerator[Any, None]:
        places = asyncio.Semaphore(self.concurrency)

        async def placed(unit: Any) -> Any:
            async with places:
                return await work(unit)

        for done in asyncio.as_completed([placed(unit) for unit in units]):
            yield await done


async def test_an_executor_that_loses_the_order_is_caught() -> None:
    with pytest.raises(AssertionError, match="out of order"):
        await check_executor(Hasty)


def test_a_strategy_that_remembers_by_itself_is_caught(tmp_path: Path) -> None:
    attempts = itertools.count()

    async def forgetful(run: Run) -> None:
        salt = next(attempts)
        for number in range(6):
            if run.stop_reason() is not None:
                return
            text = "{q}" if number == 0 else f"{{q}} {salt} {number}"
            candidate = Candidate(values={"text": text})
            await run.evaluate(candidate, split=Split.TRAIN)
            run.record(Trial(candidate=candidate, phase="baseline" if number == 0 else "x"))

    def setup() -> Setup:
        return small(steps=forgetful)

    with pytest.raises(ReplayDiverged):
        asyncio.run(check_strategy(setup, tmp_path))


async def test_a_good_strategy_passes(tmp_path: Path) -> None:
    def setup() -> Setup:
        made = small(steps=add_letters)
        return replace(made, budget=replace(made.budget, max_trials=5))

    ending = await check_strategy(setup, tmp_path)
    assert ending.reason.code == "max_trials"


async def test_a_target_that_spends_through_effects_counts_once() -> None:
    receipt = await good().run(good().baseline, TRAIN[0], draw=0, effects=_NoEffects())
    assert receipt == Receipt(value=Outcome(replies=("yes",)), spend=Spend(calls=1))


class _NoEffects:
    async def once(self, call: Any, perform: Any) -> Any:
        raise AssertionError("nothing here spends")
