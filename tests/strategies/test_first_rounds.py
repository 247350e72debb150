"""Limits under which a search could not end its first round, and those under which it does."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.core.surfaces import ChoiceSurface, TextSurface
from burnish.delegation.training.epochs import Epochs
from burnish.journal.limits import Budget
from burnish.runs.directory import RunRecord
from burnish.runs.driver import drive
from burnish.runs.plugins import strategy_plugin
from burnish.runs.setup import Setup, start
from burnish.strategies.backprop.packets import BackpropSettings
from burnish.strategies.coordinate.trials import CoordinateSettings
from burnish.strategies.edits.attempts import EditsSettings
from burnish.testing import CallCounter, ScriptedTarget
from tests.delegation.training.test_epochs import World, rules
from tests.strategies import backprop_world, edit_world, test_frugal
from tests.strategies.coordinate_runs import always, scripted
from tests.strategies.test_coordinate_texts import talk

pytestmark = pytest.mark.slow


def numbers() -> Setup:
    settings = CoordinateSettings(numbers=("mode",), repeats=2)
    mode = ChoiceSurface(id="mode", choices=("a", "b"))
    return scripted(always("no"), (mode,), {"mode": "a"}, settings)


def texts() -> Setup:
    settings = CoordinateSettings(texts=("text",), repeats=1, holdout_policy="skip")
    strategy = talk().strategy(settings)
    text = TextSurface(id="text")
    return scripted(always("no"), (text,), {"text": "t"}, settings, strategy=strategy)


def edits(*, many: int = 1, holdout: bool = False) -> Setup:
    settings = EditsSettings(task="make the numbers large", candidates_per_iteration=many)
    tried = [edit_world.whole(f"1\n1\n{n}\n") for n in range(2, 9)]
    return edit_world.setup(edit_world.Script(edits=tried), settings, holdout=holdout)


def frugal(holdout: int) -> Setup:
    return test_frugal.setup(data=test_frugal.dataset(holdout=holdout, test=4))


def epochs() -> Setup:
    return World(answers=rules("better"), holdout=lambda _: 0.5, settings={"repeats": 1}).setup()


@dataclass(frozen=True, kw_only=True)
class Least:
    """What a world takes: less is refused, and with `enough` a candidate is measured."""

    made: Callable[[], Setup]
    runs: int
    enough: int = 0
    """As many as `runs` if it is not given."""


WORLDS = {
    # Baseline, trial, and both again at the end: on 4 cases of train and 2 of holdout.
    "coordinate, numbers": Least(made=numbers, runs=12 + 12 + 4),
    "coordinate, texts": Least(made=texts, runs=4 + 4 + 4),
    "edits": Least(made=edits, runs=1 + 1 + 2),
    "edits, holdout": Least(made=lambda: edits(holdout=True), runs=2 + 2 + 2),
    "edits, many": Least(made=lambda: edits(many=3), runs=1 + 3 + 2),
    "backprop": Least(made=backprop_world.world, runs=4 + 8 + 8),
    "backprop, sigma": Least(
        made=lambda: backprop_world.world(settings=BackpropSettings(gate="sigma")),
        runs=4 + 12 + 8,
    ),
    # What does not save ends after a block of 8.
    "frugal": Least(made=lambda: frugal(24), runs=24 + 8 + 8, enough=24 + 24 + 8),
    "frugal, few": Least(made=lambda: frugal(6), runs=6 + 6 + 8, enough=6 + 12 + 8),
    "epochs": Least(made=epochs, runs=5 + 5 + 2),
}


def limited(made: Setup, budget: Budget, counter: CallCounter | None = None) -> Setup:
    """The setup with these limits alone, as a description builds it."""
    assert isinstance(made.target, ScriptedTarget)
    target = replace(made.target, counter=counter)
    made = replace(made, budget=budget, target=target, confirm=True)
    return replace(made, first_round=strategy_plugin(made.strategy.name).first_round(made))


def recorded(made: Setup, folder: Path) -> RunRecord:
    """The run of a setup, to its end."""

    async def go() -> None:
        run = start(made, folder=folder)
        try:
            await drive(run)
        finally:
            await run.close()

    asyncio.run(go())
    return RunRecord.read(folder)


@pytest.mark.parametrize("name", WORLDS)
def test_a_limit_is_refused_under_which_no_first_trial_could_end(name: str, tmp_path: Path) -> None:
    world, counter = WORLDS[name], CallCounter(path=tmp_path / "calls")
    made = limited(world.made(), Budget(max_metric_calls=world.runs - 1), counter)
    enough = world.enough or world.runs
    with pytest.raises(ConfigError, match=f"takes {enough}"):
        start(made, folder=tmp_path / "run")
    assert counter.calls() == []
    limited(world.made(), Budget(max_metric_calls=world.runs)).check(new=True)


@pytest.mark.parametrize("name", WORLDS)
def test_with_the_limit_that_is_named_a_candidate_is_measured(name: str, tmp_path: Path) -> None:
    world = WORLDS[name]
    enough = Budget(max_metric_calls=world.enough or world.runs)
    record = recorded(limited(world.made(), enough), tmp_path / "run")
    assert len(record.rows) >= 2
    trial = record.rows[1].trial
    assert trial.train or trial.holdout


@pytest.mark.parametrize("name", [n for n in WORLDS if n.startswith(("coord", "edits", "epochs"))])
def test_so_is_one_with_the_calls_that_are_named(name: str, tmp_path: Path) -> None:
    first = limited(WORLDS[name].made(), Budget()).first_round
    assert first is not None
    enough = Budget(max_calls=first.whole.calls)
    record = recorded(limited(WORLDS[name].made(), enough), tmp_path / "run")
    assert len(record.rows) >= 2


def test_a_suite_that_is_only_measured_takes_one_epoch() -> None:
    made = epochs()
    assert isinstance(made.strategy, Epochs)
    measured = replace(made, strategy=replace(made.strategy, proposer=None))
    first = strategy_plugin("epochs").first_round(measured)
    assert first is not None
    assert first.candidate.is_nothing
