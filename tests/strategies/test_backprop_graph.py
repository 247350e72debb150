"""Back-propagation over a graph with a loop: a fault at any node is found there and repaired."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from burnish.journal.once import DirectEffects
from burnish.strategies.backprop.packets import BackpropSettings
from tests.strategies.coordinate_runs import driven
from tests.strategies.graph_world import DESK, NODES, cases, planted, setup

pytestmark = pytest.mark.slow

LOOP = "planner retrieve compose reviewer rewrite planner retrieve compose reviewer finalize"


@pytest.mark.parametrize(("number", "node"), [*enumerate(NODES)])
def test_a_fault_is_found_where_it_is_and_repaired(tmp_path: Path, number: int, node: str) -> None:
    settings = BackpropSettings(max_rounds=1)
    # A rule that is not there, or one that says nonsense.
    made = setup(node, wrong=number % 2 == 1, train=2, holdout=1, settings=settings)
    run = driven(made, tmp_path / "run")
    trial = run.rows[1].trial
    gradients: Any = trial.details["gradients"]
    assert {each["surface"] for each in gradients} == {planted(node)}
    assert {each["case"] for each in gradients} == {"oslo", "rome"}
    assert trial.accepted
    assert trial.touched == (planted(node),)


def test_without_a_fault_the_trace_goes_through_the_loop_once() -> None:
    target = setup().target
    asked = cases(0, 1)[0]
    ran = asyncio.run(target.run(target.baseline, asked, draw=0, effects=DirectEffects()))
    nodes = [step.node.removeprefix(f"{DESK}/") for step in ran.value.trace.steps]
    assert nodes == LOOP.split()
    assert ran.value.output == asked.expected
