"""kill -9 inside the pruning pass, then resume: the pass goes on, and nothing is paid twice."""

from pathlib import Path

import pytest

from tests.crash.chains import Chain
from tests.crash.test_coordinate_kill import phases_of

pytestmark = pytest.mark.crash


def _chain(folder: Path) -> Chain:
    return Chain(folder / "run", "pruning")


def test_killed_at_every_stage_of_the_pass_and_resumed(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    reference = _chain(tmp_path_factory.mktemp("reference"))
    whole = reference.until_it_ends([])
    reference.check_money(whole)
    trials = phases_of(reference)
    first = next(n for n, (phase, _) in enumerate(trials) if phase == "prune")
    assert len(trials) - first >= 3
    begun = trials[first - 1][1]
    run = _chain(tmp_path)
    # While the winner is measured anew, then inside later removals, again and again.
    assert run.attempt(f"--call={begun + 3}", concurrency=1).killed
    assert len(phases_of(run)) == first
    ended = run.until_it_ends(("--call", str(n)) for n in (5, 9, 13, 7, 15, 11))
    assert run.kills >= 4
    run.check(ended, reference, whole)
