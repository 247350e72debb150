"""kill -9 around the notes of people, then resume: taken in once, at the same place."""

import json
from pathlib import Path

import pytest

from tests.crash.chains import Chain
from tests.crash.test_coordinate_kill import phases_of

pytestmark = pytest.mark.crash


def _notes(run: Chain) -> list[tuple[str, int]]:
    lines = (run.folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
    events = [event for event in map(json.loads, lines) if event["kind"] == "steered"]
    return [(event["data"]["action"], event["data"]["trial"]) for event in events]


def test_killed_right_after_taking_in_notes_and_resumed(tmp_path: Path) -> None:
    reference = Chain(tmp_path / "reference" / "run", "steered")
    reference.folder.parent.mkdir()
    expected = reference.until_it_ends([])
    assert _notes(reference) == [("pin", 2), ("tell", 2), ("try", 3)]
    spent = [calls for _, calls in phases_of(reference)]
    run = Chain(tmp_path / "run", "steered")
    # At the first call after the hint was taken in, and after the candidate was.
    assert run.attempt(f"--call={spent[1] + 1}", concurrency=1).killed
    assert _notes(run) == [("pin", 2), ("tell", 2)]
    assert run.attempt(f"--call={spent[2] - spent[1] + 1}", concurrency=1).killed
    assert _notes(run) == _notes(reference)
    ended = run.until_it_ends([])
    run.check(ended, reference, expected)
    assert _notes(run) == _notes(reference)
