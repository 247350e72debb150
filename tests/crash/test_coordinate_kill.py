"""kill -9 in each kind of phase of coordinate descent, then resume: nothing lost, nothing twice."""

import json
from collections import Counter
from itertools import accumulate
from pathlib import Path

import pytest

from tests.crash.chains import Chain, Ended

pytestmark = pytest.mark.crash

Reference = tuple[Chain, Ended]
PHASES = ("demonstrations", "numeric", "textual")


def chain(folder: Path) -> Chain:
    return Chain(folder / "run", "coordinate")


def phases_of(run: Chain) -> list[tuple[str, int]]:
    """Each trial's phase, and how many calls were spent when it was recorded."""
    lines = (run.folder / "trials.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    spent = accumulate(row["spend"]["calls"] for row in rows)
    return [(row["trial"]["phase"], calls) for row, calls in zip(rows, spent, strict=True)]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """The run that nobody interrupts."""
    run = chain(tmp_path_factory.mktemp("reference"))
    ended = run.until_it_ends([])
    run.check_money(ended)
    kinds = Counter(phase for phase, _ in phases_of(run))
    assert all(kinds[phase] >= 3 for phase in PHASES), kinds
    return run, ended


@pytest.mark.parametrize("phase", PHASES)
def test_killed_in_a_phase_and_resumed(reference: Reference, tmp_path: Path, phase: str) -> None:
    trials = phases_of(reference[0])
    number = next(n for n, (name, _) in enumerate(trials) if name == phase)
    begun, paid = trials[number - 1][1], trials[number][1]
    run = chain(tmp_path)
    # In the middle of the phase's first trial: what was before it is kept, it is begun again.
    assert run.attempt(f"--call={begun + max(1, (paid - begun) // 2)}", concurrency=1).killed
    assert len(phases_of(run)) == number
    assert phases_of(run) == trials[:number]
    ended = run.until_it_ends([])
    assert run.kills == 1
    run.check(ended, *reference)
