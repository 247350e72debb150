"""A proposer that never gave a usable answer fails the run, whatever ends the search first."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case
from burnish.core.errors import BaselineUnmeasured, ProposerFailed, RoleFailed
from burnish.core.surfaces import NumberSurface, TextSurface, Value
from burnish.delegation.training.epochs import Epochs
from burnish.journal.limits import Budget
from burnish.reports.rendering import render
from burnish.runs.directory import RunRecord
from burnish.runs.driver import drive
from burnish.runs.plugins import strategy_plugin
from burnish.runs.setup import Setup, fork
from burnish.strategies.backprop.packets import BackpropSettings
from burnish.strategies.coordinate.trials import CoordinateSettings, PhaseLimits
from burnish.strategies.edits.attempts import EditsSettings
from tests.delegation.training.test_epochs import World as EpochWorld
from tests.strategies import backprop_world, edit_world
from tests.strategies.backprop_world import Roles
from tests.strategies.coordinate_runs import driven
from tests.strategies.coordinate_runs import scripted as coordinate
from tests.strategies.reflective_runs import START, Talk, says
from tests.strategies.reflective_runs import scripted as reflective
from tests.strategies.test_coordinate_texts import made, talk

pytestmark = pytest.mark.slow

WHY = "HTTP 500 from the model"


def silent(*_: object) -> Any:
    raise RoleFailed(WHY)


def no(text: str) -> str:
    del text
    return "no"


def one_trial(made: Setup) -> Setup:
    """The run with room for one proposal."""
    return replace(made, budget=replace(made.budget, max_trials=1))


def with_backprop(roles: Roles) -> Setup:
    return backprop_world.world(roles=roles, settings=BackpropSettings(max_rounds=1))


SILENT: dict[str, tuple[str, Callable[[], Setup]]] = {
    "reflective": (
        "reflector",
        lambda: reflective(says(no), Talk(rewrite=silent), budget=Budget(max_trials=1)),
    ),
    "reflective, by calls": (
        "reflector",
        lambda: reflective(says(no), Talk(rewrite=silent), budget=Budget(max_calls=34)),
    ),
    "coordinate, critic": ("critic", lambda: made(talk(diagnose=silent), trials=1)),
    "coordinate, applier": ("applier", lambda: one_trial(made(talk(apply=silent)))),
    "backprop, backwarder": ("backwarder", lambda: with_backprop(Roles(back=silent))),
    "backprop, patcher": ("patcher", lambda: with_backprop(Roles(patch=silent))),
    "edits": (
        "editor",
        lambda: edit_world.setup(
            edit_world.Script(edits=[RoleFailed(WHY)]), budget=Budget(max_trials=1)
        ),
    ),
    "edits, nothing new": (
        "editor",
        lambda: edit_world.setup(
            edit_world.Script(edits=[RoleFailed(WHY)]),
            EditsSettings(task="t", candidates_per_iteration=2),
            budget=Budget(),
        ),
    ),
    "epochs": ("textgrad", lambda: EpochWorld(answers=silent, settings={"epochs": 2}).setup()),
}
"""By what is searched how: who is silent, and the run."""


@pytest.mark.parametrize("name", SILENT)
def test_the_run_fails_with_the_reason_and_pays_nothing_again(tmp_path: Path, name: str) -> None:
    role, setup = SILENT[name]
    told = f"the {role} never gave a usable answer: {WHY}"
    with pytest.raises(ProposerFailed, match=told):
        driven(setup(), tmp_path / "run")
    first = RunRecord.read(tmp_path / "run")
    assert first.status == "failed"
    assert told in strategy_plugin(first.header.strategy).reason(first)
    assert told in render(first)
    assert len(first.rows) >= 2, "what was asked is on record"
    with pytest.raises(ProposerFailed, match=told):
        driven(setup(), tmp_path / "run")
    again = RunRecord.read(tmp_path / "run")
    assert (again.rows, again.billed) == (first.rows, first.billed)


def test_a_failed_run_goes_on_with_more_room_and_with_whoever_answers(tmp_path: Path) -> None:
    answers = iter([RoleFailed(WHY), None])

    def rewrite(request: object, draw: int) -> str:
        if (failure := next(answers, None)) is not None:
            raise failure
        return f"{START} Say yes."

    def say(text: str) -> str:
        return "yes" if "Say yes." in text else "no"

    def setup(trials: int) -> Setup:
        return reflective(says(say), Talk(rewrite=rewrite), budget=Budget(max_trials=trials))

    with pytest.raises(ProposerFailed):
        driven(setup(1), tmp_path / "run")
    run = driven(setup(2), tmp_path / "run")
    assert run.ending.best.values["system"] == f"{START} Say yes."
    assert RunRecord.read(tmp_path / "run").status == "finished"


def test_a_fork_pays_for_no_baseline_again(tmp_path: Path) -> None:
    made = reflective(says(no), Talk(rewrite=silent), budget=Budget(max_trials=1))
    with pytest.raises(ProposerFailed):
        driven(made, tmp_path / "run")

    async def forked() -> int:
        run = fork(made, tmp_path / "run", folder=tmp_path / "fork")
        try:
            await drive(run)
        except ProposerFailed:
            return run.billed.metric_calls
        finally:
            await run.close()
        raise AssertionError("the role is as silent as before")

    assert asyncio.run(forked()) == 0


def test_answers_that_are_turned_away_are_answers(tmp_path: Path) -> None:
    echo = Talk(rewrite=lambda request, _: request.current_text)
    run = driven(reflective(says(no), echo, budget=Budget(max_trials=1)), tmp_path / "run")
    assert run.ending.reason.code == "max_trials"


def test_a_role_that_answered_once_may_fail_at_the_end(tmp_path: Path) -> None:
    def once(request: Any, draw: int) -> str:
        return f"{START} {draw}" if draw == 1 else silent()

    made = reflective(says(no), Talk(rewrite=once), budget=Budget(max_trials=2))
    assert driven(made, tmp_path / "run").ending.reason.code == "max_trials"


# -- where something else was tried -----------------------------------------------------------


def numbers_and_texts() -> Setup:
    """A number that mends half of the cases, and a critic that never answers."""

    def respond(candidate: Any, case: Case, draw: int) -> str:
        del draw
        return "yes" if candidate.values["x"] > 0.6 and case.id in ("q0", "q2", "q50") else "no"

    settings = CoordinateSettings(
        numbers=("x",),
        texts=("text",),
        repeats=1,
        max_cycles=1,
        numeric_phase=PhaseLimits(max_trials=6, patience=6),
        textual_phase=PhaseLimits(max_trials=2, patience=2),
    )
    surfaces = (NumberSurface(id="x", low=0.0, high=1.0), TextSurface(id="text", max_chars=80))
    values: dict[str, Value] = {"x": 0.1, "text": "Answer."}
    strategy = talk(diagnose=silent).strategy(settings)
    return coordinate(respond, surfaces, values, settings, strategy=strategy)


def test_numbers_that_were_tried_are_a_result_and_the_silence_is_a_warning(tmp_path: Path) -> None:
    run = driven(numbers_and_texts(), tmp_path / "run")
    assert run.of_phase("numeric")
    (told,) = [each["message"] for each in run.events("warning")]
    assert f"the critic never gave a usable answer: {WHY}" in told
    record = RunRecord.read(tmp_path / "run")
    assert record.status == "finished"
    assert f"| warning | the critic never gave a usable answer: {WHY}" in render(record)
    driven(numbers_and_texts(), tmp_path / "run")
    assert len(run.events("warning")) == 1, "a resume does not say it again"


def test_an_aggregator_that_fails_costs_its_merges_and_not_the_run(tmp_path: Path) -> None:
    run = driven(with_backprop(Roles(merge=silent)), tmp_path / "run")
    assert run.rows[1].trial.accepted
    assert "the aggregator never gave a usable answer" in run.events("warning")[0]["message"]


# -- baselines --------------------------------------------------------------------------------


def gone(*_: object) -> Any:
    raise ConnectionError("connection refused by 127.0.0.1:9")


def epochs(*, proposer: bool) -> Setup:
    made = EpochWorld(answers=silent, lost=lambda _, __: True).setup()
    assert isinstance(made.strategy, Epochs)
    return made if proposer else replace(made, strategy=replace(made.strategy, proposer=None))


UNMEASURED: dict[str, Callable[[], Setup]] = {
    "reflective": lambda: reflective(gone, Talk(rewrite=silent)),
    "coordinate": lambda: made(talk(), gone),
    "backprop": lambda: backprop_world.world(gone),
    "edits": lambda: edit_world.setup(edit_world.Script(edits=[silent]), agent=gone),  # pyright: ignore
    "epochs": lambda: epochs(proposer=True),
    "epochs, measured only": lambda: epochs(proposer=False),
}


@pytest.mark.parametrize("name", UNMEASURED)
def test_a_baseline_that_is_missing_fails_the_run_and_says_why(tmp_path: Path, name: str) -> None:
    with pytest.raises(BaselineUnmeasured, match="the baseline could not be measured: of ") as why:
        driven(replace(UNMEASURED[name](), wait_minutes=0), tmp_path / "run")
    assert "connection refused" in why.value.message or "nobody answers" in why.value.message
    assert "--retry-missing" in why.value.remedy
    record = RunRecord.read(tmp_path / "run")
    assert (record.status, len(record.rows)) == ("failed", 1)
    assert why.value.message in strategy_plugin(record.header.strategy).reason(record)
    with pytest.raises(BaselineUnmeasured):
        driven(replace(UNMEASURED[name](), wait_minutes=0), tmp_path / "run")


# -- baselines that answer nothing of use, or nothing ------------------------------------------


def no_key(*_: object) -> Any:
    raise KeyError("OPENAI_API_KEY")


RAISING: dict[str, Callable[[], Setup]] = {
    "reflective": lambda: reflective(no_key, Talk(rewrite=silent)),
    "coordinate": lambda: made(talk(), no_key),
    "coordinate, numbers": lambda: numbers_only(no_key),
    "backprop": lambda: backprop_world.world(no_key),
    "edits": lambda: edit_world.setup(edit_world.Script(edits=[silent]), agent=no_key),  # pyright: ignore
}


@pytest.mark.parametrize("name", RAISING)
def test_a_baseline_that_only_raises_fails_the_run_before_anybody_is_asked(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(BaselineUnmeasured, match="KeyError: 'OPENAI_API_KEY'") as why:
        driven(RAISING[name](), tmp_path / "run")
    assert "runs of cases ended in an error" in why.value.message
    record = RunRecord.read(tmp_path / "run")
    assert (record.status, len(record.rows)) == ("failed", 0)
    assert why.value.message in strategy_plugin(record.header.strategy).reason(record)
    assert record.billed.metric_calls == record.billed.calls


def crashes(*_: object) -> Any:
    return json.loads("Sure!")


CRASH = "the agent failed on every case of {}, in {}: JSONDecodeError: Expecting value"


def test_a_crashing_baseline_is_shown_at_once_and_a_proposer_may_mend_it(tmp_path: Path) -> None:
    made = reflective(crashes, Talk(rewrite=lambda request, _: f"{request.current_text} Help."))
    run = driven(replace(made, budget=Budget(max_trials=1)), tmp_path / "run")
    assert run.ending.reason.code == "max_trials"
    (message,) = [each["message"] for each in run.events("warning")]
    held = len(made.dataset.holdout)
    assert message.startswith(CRASH.format("holdout", f"{held} cases"))
    assert CRASH.format("holdout", f"{held} cases") in render(RunRecord.read(tmp_path / "run"))


def test_where_no_proposer_reads_the_error_a_crashing_baseline_fails_the_run(
    tmp_path: Path,
) -> None:
    made = numbers_only(crashes)
    words = CRASH.format("train", f"{len(made.dataset.train)} cases")
    with pytest.raises(BaselineUnmeasured, match=words):
        driven(made, tmp_path / "run")
    record = RunRecord.read(tmp_path / "run")
    assert (record.status, len(record.rows)) == ("failed", 1)


def numbers_only(respond: Callable[..., Any]) -> Setup:
    settings = CoordinateSettings(
        numbers=("x",),
        repeats=1,
        max_cycles=1,
        numeric_phase=PhaseLimits(max_trials=2, patience=2),
    )
    surfaces = (NumberSurface(id="x", low=0.0, high=1.0),)
    return coordinate(respond, surfaces, {"x": 0.1}, settings)
