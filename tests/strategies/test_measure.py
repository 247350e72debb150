"""The strategy `measure`, and cases that carry what was said."""

from pathlib import Path

import pytest

from burnish.core.cases import Case, Dataset, Failure, FailureKind, Outcome, Turn
from burnish.core.errors import ConfigError
from burnish.core.evaluations import Objective
from burnish.projects.launch import launch_in
from burnish.runs.setup import Setup
from burnish.strategies.measure import Measure
from burnish.targets.callables.target import RecordedTarget
from burnish.testing.doubles import ExpectedText


def recorded(name: str, reply: str, expected: str = "yes") -> Case:
    outcome = Outcome(replies=(reply,))
    return Case(name=name, turns=(Turn(input=name, expected=expected),), recorded=outcome)


def setup(measure: Measure, *cases: Case) -> Setup:
    return Setup(
        target=RecordedTarget(),
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(train=cases),
        strategy=measure,
    )


def test_recorded_cases_are_scored_and_never_run(tmp_path: Path) -> None:
    measure = Measure()
    ending = launch_in(setup(measure, recorded("a", "yes"), recorded("b", "no")), tmp_path / "run")
    assert measure.evaluation is not None
    assert measure.evaluation.mean_of("expected_text") == 0.5
    assert ending.spent.metric_calls == 0


def test_a_recorded_crash_is_a_crash(tmp_path: Path) -> None:
    crash = Outcome(failure=Failure(kind=FailureKind.AGENT, message="boom"))
    case = Case(name="a", turns=(Turn(input="a", expected="yes"),), recorded=crash)
    measure = Measure()
    launch_in(setup(measure, case), tmp_path / "run")
    assert measure.evaluation is not None
    assert measure.evaluation.mean_of("expected_text") == 0.0
    assert measure.evaluation.results[0].scores[0].reason == "boom"


def test_another_recording_is_another_run(tmp_path: Path) -> None:
    launch_in(setup(Measure(), recorded("a", "yes")), tmp_path / "run")
    with pytest.raises(Exception, match="data"):
        launch_in(setup(Measure(), recorded("a", "no")), tmp_path / "run")


def test_a_case_without_a_recording_has_nobody_to_run_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not recorded, and there is no agent"):
        launch_in(setup(Measure(), Case.single("hello", name="a")), tmp_path / "run")
