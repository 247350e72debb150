"""kill -9 in each stage of a round of back-propagation, then resume: nothing lost or paid twice."""

from pathlib import Path

import pytest

from tests.crash.chains import Chain, Ended

pytestmark = pytest.mark.crash

STAGES = ["run", "role backwarder", "role aggregator", "role patcher", "run"]
"""What is called in a round, stage by stage: train, walk back, merging, patching, validation."""


def chain(folder: Path) -> Chain:
    return Chain(folder / "run", "backprop")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Chain, Ended]:
    """The run that nobody interrupts."""
    run = chain(tmp_path_factory.mktemp("whole"))
    ended = run.until_it_ends([])
    run.check_money(ended)
    return run, ended


def second_of_each_stage(calls: list[str]) -> list[int]:
    """The number of the second call of each stage of the first round."""
    kinds = [" ".join(call.split()[: 2 if call.startswith("role") else 1]) for call in calls]
    found: list[int] = []
    place = kinds.index("role backwarder")
    # Before the walk back: holdout of the baseline, then train.
    found.append(place)
    for stage in STAGES[1:]:
        place = kinds.index(stage, place)
        found.append(place + 2)
    return found


def test_killed_in_each_stage_and_resumed(whole: tuple[Chain, Ended], tmp_path: Path) -> None:
    reference, expected = whole
    # One process after the other dies, each in a later stage of the same round; what was journaled
    # is not called again, so the next one starts where the last one stopped.
    stages = second_of_each_stage(reference.calls)
    run = chain(tmp_path)
    made = 0
    for place in stages:
        left = place - made
        ended = run.attempt(f"--call={left}", concurrency=1)
        assert ended.killed, ended.errors
        made = place - 1
    ended = run.until_it_ends([])
    assert run.kills == len(STAGES)
    run.check(ended, reference, expected)
