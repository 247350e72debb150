"""What a refinement keeps on disk: each content once, whichever iterations and folders have it."""

import os
from pathlib import Path

import pytest

from burnish.testing.delegation_world import Response, RoleTurn, use
from tests.delegation.delegation_world import REFINE_FLOW, refine_world, worker
from tests.delegation.refine.refining_world import Place

LARGE, SIZE = "large.bin", 2_000_000


def _worker(turn: RoleTurn) -> Response:
    """Writes the report, and a large file that is another one each time."""
    response = worker(turn)
    done = any("made it" in answer for answer in turn.answers)
    if not isinstance(response, dict) or "summary" not in response or done:
        return response
    return use("run_command", command=f"head -c {SIZE} /dev/urandom > {LARGE}; echo made it")


def _bytes_on_disk(folder: Path) -> int:
    """A file with several names counts once."""
    files = (path.lstat() for path in folder.rglob("*") if path.is_file())
    return sum({(each.st_dev, each.st_ino): each.st_blocks * 512 for each in files}.values())


@pytest.mark.slow
def test_a_large_deliverable_is_stored_once_per_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNISH_HOME", str(tmp_path / "home"))
    place = Place(folder=tmp_path, world=refine_world(worker=_worker))
    flow = REFINE_FLOW.replace("[report.md]", f"[report.md, {LARGE}]")
    place.flow.write_text(flow, encoding="utf-8")
    place.make_seed()
    place.refine(flags={"iterations": 2})
    session = place.session()
    assert (session["best_iter"], len(session["iterations"])) == (2, 2)
    folder = place.seed / "refinement_sessions" / session["session_id"]
    # The seed's, and one of each iteration; everything else in the folder is small.
    assert 3 * SIZE <= _bytes_on_disk(folder) < 3.4 * SIZE
    runs = [folder / f"iter_{k}" / "run" for k in (1, 2)]
    for run in runs:
        assert {(run / "FINAL" / LARGE).stat().st_ino} == {
            path.stat().st_ino
            for path in (*run.glob(f"output/*/{LARGE}"), run / "workspace" / LARGE)
        }
    first, second = ((run / "FINAL" / LARGE).read_bytes() for run in runs)
    assert (runs[1] / "workspace" / "input" / LARGE).read_bytes() == first
    best = place.seed / "BEST" / LARGE
    assert best.read_bytes() == second
    assert best.stat().st_nlink == 1, "BEST is the user's to edit"
    assert os.access(best, os.W_OK)
    assert best.stat().st_mode & 0o200
