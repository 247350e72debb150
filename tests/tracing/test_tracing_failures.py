"""Steps of an agent that raises, or runs out of time, are kept: they can be walked back too."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from burnish import Case, Dataset, Objective, Setup, Turn, step
from burnish.core.cases import Outcome
from burnish.projects import launch_in
from burnish.runs.case_work import CasePolicy
from burnish.strategies.backprop.packets import terminal_steps
from burnish.strategies.measure import Measure
from burnish.targets.callables.programs import CallableTarget
from burnish.testing.doubles import ExpectedText
from burnish.tracing.recorder import recording


async def broken(query: str) -> str:
    with step("planner", inputs=query) as planning:
        planning.output = f"plan for {query}"
    with step("writer"):
        if query == "slow":
            await asyncio.sleep(3600)
        if query != "fine":
            raise ValueError("no words")
    return "well"


def outcome_of(folder: Path, *turns: str) -> Outcome:
    measure = Measure()
    case = Case(name="a", turns=tuple(Turn(input=said, expected="well") for said in turns))
    setup = Setup(
        target=CallableTarget(agent=broken),
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(train=(case,)),
        strategy=measure,
        case_policy=CasePolicy(time_limit=1),
    )
    launch_in(setup, folder / "run")
    assert measure.evaluation is not None
    return measure.evaluation.results[0].outcome


@pytest.mark.parametrize("said", ["odd", "slow"])
def test_the_steps_before_a_failure_are_kept(tmp_path: Path, said: str) -> None:
    outcome = outcome_of(tmp_path, said)
    assert outcome.failed
    assert [each.node for each in outcome.trace.steps] == ["planner", "writer"]
    assert outcome.trace.steps[0].output == f"plan for {said}"
    assert outcome.trace.steps[1].error


def test_the_turns_before_a_failure_are_kept(tmp_path: Path) -> None:
    steps = outcome_of(tmp_path, "fine", "odd").trace.steps
    assert [each.turn for each in steps] == [0, 0, 1, 1]
    assert steps[2].predecessors == (steps[1].id,)


def test_a_retry_follows_the_tries_that_failed() -> None:
    with recording() as recorder:
        with step("planner") as plan:
            pass
        for failing in (True, True, False):
            with suppress(ValueError), step("writer", after=[plan]):
                if failing:
                    raise ValueError("no words")
    trace = recorder.trace()
    assert [each.predecessors for each in trace.steps] == [
        (),
        ("planner-1",),
        ("planner-1", "writer-1"),
        ("planner-1", "writer-2"),
    ]
    assert [each.id for each in terminal_steps(trace)] == ["writer-3"]


def test_a_try_that_failed_last_is_where_the_run_ended() -> None:
    with recording() as recorder:
        with step("planner") as plan:
            pass
        for _ in range(2):
            with suppress(ValueError), step("writer", after=[plan]):
                raise ValueError("no words")
    assert [each.id for each in terminal_steps(recorder.trace())] == ["writer-2"]
