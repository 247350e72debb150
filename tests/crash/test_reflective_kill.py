"""kill -9 wherever a reflective search spends, then resume: nothing lost, nothing twice."""

import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from tests.crash.chains import Chain, Ended

pytestmark = pytest.mark.crash

Reference = tuple[Chain, Ended]
KINDS = ("trail", "three", "merge")


def chain(folder: Path) -> Chain:
    return Chain(folder / "run", child="tests.crash.reflective_child")


def rows_of(run: Chain) -> list[dict[str, Any]]:
    """The trials, each with the calls that were spent when it was recorded."""
    lines = (run.folder / "trials.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    spent = accumulate(row["spend"]["calls"] for row in rows)
    return [{**row, "calls": calls} for row, calls in zip(rows, spent, strict=True)]


@pytest.fixture(scope="module", params=KINDS)
def reference(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The run that nobody interrupts, and its kind."""
    run = chain(tmp_path_factory.mktemp(request.param))
    ended = run.until_it_ends([], f"--kind={request.param}")
    run.check_money(ended)
    return request.param, run, ended


def test_killed_again_and_again_at_calls(reference: Any, tmp_path: Path) -> None:
    kind, whole, expected = reference
    run = chain(tmp_path)
    every = (("--call", str(n)) for n in (1, 12, 9, 5, 14, 3, 11, 17, 8, 13, 2, 10, 16, 7, 12, 15))
    ended = run.until_it_ends(every, f"--kind={kind}")
    assert run.kills >= 9
    run.check(ended, whole, expected)


def test_killed_at_its_file_operations(reference: Any, tmp_path: Path) -> None:
    kind, whole, expected = reference
    run = chain(tmp_path)
    ended = run.until_it_ends((("--file", str(n)) for n in range(3, 36, 5)), f"--kind={kind}")
    assert run.kills >= 4
    run.check(ended, whole, expected)


@pytest.mark.parametrize(
    ("kind", "into"),
    [
        # In the first trial: a look at the parent, the reflection, screening, the race, and the
        # second run of the winner.
        ("trail", (2, 4, 6, 15, 35)),
        # With three proposals: the third look, between reflections, screening, two races.
        ("three", (8, 11, 16, 30)),
    ],
)
def test_killed_in_each_part_of_a_round(tmp_path: Path, kind: str, into: tuple[int, ...]) -> None:
    whole = chain(tmp_path / "whole")
    whole.folder.parent.mkdir()
    expected = whole.until_it_ends([], f"--kind={kind}")
    begun, rows = rows_of(whole)[0]["calls"], rows_of(whole)
    assert rows[1]["calls"] - begun > max(into)
    for place in into:
        home = tmp_path / f"at-{place}"
        home.mkdir()
        run = chain(home)
        assert run.attempt(f"--call={begun + place}", f"--kind={kind}", concurrency=1).killed
        assert len(rows_of(run)) == 1
        run.check(run.until_it_ends([], f"--kind={kind}"), whole, expected)


def test_killed_in_a_merge(tmp_path: Path) -> None:
    whole = chain(tmp_path)
    expected = whole.until_it_ends([], "--kind=merge")
    rows = rows_of(whole)
    merge = next(n for n, row in enumerate(rows) if row["trial"]["phase"] == "merge")
    begun, paid = rows[merge - 1]["calls"], rows[merge]["calls"]
    for place in (2, (paid - begun) // 2):
        home = tmp_path / f"at-{place}"
        home.mkdir()
        run = chain(home)
        killed = run.attempt(f"--call={begun + place}", "--kind=merge", concurrency=1)
        assert killed.killed
        assert len(rows_of(run)) == merge
        run.check(run.until_it_ends([], "--kind=merge"), whole, expected)
