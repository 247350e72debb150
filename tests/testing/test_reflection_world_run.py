"""Whole runs in a world for reflective search: what they return is known to be better."""

from pathlib import Path

import pytest

from burnish.journal.limits import Budget
from burnish.runs.driver import drive
from burnish.runs.setup import start
from tests.strategies.reflection_world import World, best_score, setup, true_score

pytestmark = pytest.mark.slow


async def test_a_search_without_noise_finds_texts_that_are_truly_better(tmp_path: Path) -> None:
    world = World(rules=4, train=16, holdout=16)
    made = setup(world, budget=Budget(max_metric_calls=300))
    run = start(made, folder=tmp_path / "run")
    ending = await drive(run)
    await run.close()
    began = true_score(world, made.target.baseline.values)
    ended = true_score(world, ending.best.values)
    assert began + 0.3 < ended <= best_score(world)
    assert ending.spent.metric_calls <= 300
