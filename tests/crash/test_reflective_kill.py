"""kill -9 wherever a reflective search spends, then resume: nothing lost, nothing twice."""

import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from tests.crash.chains import Chain

pytestmark = pytest.mark.crash

THREE, MERGE = "reflective-three", "reflective-merge"


def chain(folder: Path, name: str) -> Chain:
    return Chain(folder / "run", name)


def rows_of(run: Chain) -> list[dict[str, Any]]:
    """The trials, each with the calls that were spent when it was recorded."""
    lines = (run.folder / "trials.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    spent = accumulate(row["spend"]["calls"] for row in rows)
    return [{**row, "calls": calls} for row, calls in zip(rows, spent, strict=True)]


@pytest.mark.parametrize("name", [THREE, MERGE])
def test_killed_again_and_again_at_calls(name: str, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    whole, run = chain(tmp_path / "whole", name), chain(tmp_path, name)
    expected = whole.until_it_ends([])
    every = (("--call", str(n)) for n in (1, 12, 9, 5, 14, 3, 11, 17, 8, 13, 2, 10, 16, 7, 12, 15))
    ended = run.until_it_ends(every)
    assert run.kills >= 9
    run.check(ended, whole, expected)


@pytest.mark.parametrize(
    ("name", "into"),
    [
        # In the first trial: a look at the parent, the reflection, screening, the race, and the
        # second run of the winner.
        ("reflective", (2, 4, 6, 15, 35)),
        # With three proposals: the third look, between reflections, screening, two races.
        (THREE, (8, 11, 16, 30)),
    ],
)
def test_killed_in_each_part_of_a_round(tmp_path: Path, name: str, into: tuple[int, ...]) -> None:
    whole = chain(tmp_path / "whole", name)
    whole.folder.parent.mkdir()
    expected = whole.until_it_ends([])
    begun, rows = rows_of(whole)[0]["calls"], rows_of(whole)
    assert rows[1]["calls"] - begun > max(into)
    for place in into:
        home = tmp_path / f"at-{place}"
        home.mkdir()
        run = chain(home, name)
        assert run.attempt(f"--call={begun + place}", concurrency=1).killed
        assert len(rows_of(run)) == 1
        run.check(run.until_it_ends([]), whole, expected)


def test_killed_in_a_merge(tmp_path: Path) -> None:
    whole = chain(tmp_path, MERGE)
    expected = whole.until_it_ends([])
    rows = rows_of(whole)
    merge = next(n for n, row in enumerate(rows) if row["trial"]["phase"] == "merge")
    begun, paid = rows[merge - 1]["calls"], rows[merge]["calls"]
    for place in (2, (paid - begun) // 2):
        home = tmp_path / f"at-{place}"
        home.mkdir()
        run = chain(home, MERGE)
        killed = run.attempt(f"--call={begun + place}", concurrency=1)
        assert killed.killed
        assert len(rows_of(run)) == merge
        run.check(run.until_it_ends([]), whole, expected)
