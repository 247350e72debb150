"""The parallelism options of a request: how many of what go at once."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from burnish.compat.promptiter.plan import RunPlan, Stages
from burnish.core.cases import Case, Outcome
from burnish.core.evaluations import Score
from burnish.core.protocols import Effects
from burnish.journal.once import DirectEffects
from burnish.runs.setup import Setup
from burnish.strategies.backprop.strategy import Backprop
from tests.compat.promptiter.desk import Bench, Quality, cases, request


def setup(bench: Bench, **options: Any) -> Setup:
    """What a run with these options is made of."""
    stages = Stages(backwarder=bench.backward, aggregator=bench.aggregate, optimizer=bench.optimize)
    return RunPlan.of(request(**options), bench.target, stages, bench.stack).setup(unwatched)


def unwatched(stage: str, found: object, /) -> None:
    """Nobody looks."""
    del stage, found


@pytest.mark.parametrize(
    ("options", "widths"),
    [
        ({}, (16, 16, 16)),
        ({"backward_options": {"case_parallelism": 2}}, (2, 16, 16)),
        ({"backward_options": {"case_parallelism_enabled": False}}, (1, 16, 16)),
        ({"aggregation_options": {"surface_parallelism": 3}}, (16, 3, 16)),
        ({"optimizer_options": {"surface_parallelism_enabled": False}}, (16, 16, 1)),
    ],
)
def test_every_stage_has_a_width(
    tmp_path: Path, options: dict[str, Any], widths: tuple[int, int, int]
) -> None:
    strategy = setup(Bench(tmp_path), **options).strategy
    assert isinstance(strategy, Backprop)
    found = strategy.settings
    stages = (found.backward_parallelism, found.aggregation_parallelism, found.patch_parallelism)
    assert stages == widths


@pytest.mark.parametrize(
    ("options", "cases_at_once"),
    [
        ({"eval_case_parallelism": 5}, 5),
        ({"eval_case_parallelism": 5, "eval_case_parallel_inference_enabled": False}, 1),
        ({"eval_case_parallelism": 5, "eval_case_parallel_evaluation_enabled": False}, 5),
    ],
)
def test_cases_at_once(tmp_path: Path, options: dict[str, Any], cases_at_once: int) -> None:
    assert setup(Bench(tmp_path), evaluation_options=options).concurrency == cases_at_once


@pytest.mark.parametrize(("enabled", "most"), [(True, 3), (False, 1)])
async def test_scoring_one_after_the_other_where_it_is_asked_for(
    tmp_path: Path, enabled: bool, most: int
) -> None:
    inside: list[int] = [0, 0]

    @dataclass(frozen=True, kw_only=True)
    class Slow(Quality):
        async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
            inside[0] += 1
            inside[1] = max(inside)
            await asyncio.sleep(0)
            inside[0] -= 1
            return await super().score(case, outcome, effects=effects)

    options = {"eval_case_parallel_evaluation_enabled": enabled}
    usual, slow = Quality(), Slow()
    made = setup(Bench(tmp_path, metrics=[slow]), evaluation_options=options)
    (metric,) = made.metrics
    assert (metric.name, metric.fingerprint) == (usual.name, usual.fingerprint)
    said = Outcome(replies=("[cited]",))
    asked = (metric.score(each, said, effects=DirectEffects()) for each in cases("train", 3))
    scores = await asyncio.gather(*asked)
    assert [score.value for each in scores for score in each] == [1.0, 1.0, 1.0]
    assert inside == [0, most]
