"""Every strategy, cut at ten points, ends as if nothing had happened; nightly runs cut more."""

from pathlib import Path

import pytest

from tests.crash.sweep import Sweep
from tests.crash.worlds import STRATEGIES

pytestmark = pytest.mark.crash

POINTS = 10


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_run_that_is_cut_ends_as_the_whole_one(name: str, tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, name, seed=7)
    sweep.run(POINTS)
    assert sweep.points.total() >= POINTS
