"""The examples of tasks over code and configuration, run as their READMEs say, in a copy."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.docs.docs_console import Command, run_command
from tests.docs.docs_examples import Step, run_readme
from tests.example_copies import example_files

pytestmark = pytest.mark.slow

NAMES = ("fast_code", "config_tuning")
CONFIG = "examples/config_tuning/config.yaml"
RESULTS = "examples/config_tuning/results/results.jsonl"


def typed(line: str, folder: Path) -> str:
    """What a command prints, typed by a person who has no model and no network."""
    with contextlib.chdir(folder):
        return run_command(Command(line=line, shown=()), folder, place="here")


def patch_of(step: Step, row: Mapping[str, Any]) -> str:
    return step.files[f"examples/fast_code/{row['folder']}/diff.patch"].decode()


@pytest.mark.parametrize("name", NAMES)
def test_every_file_of_an_example_is_small(name: str) -> None:
    for path, content in example_files(name).items():
        assert len(content.splitlines()) <= 120, path


def test_code_gets_faster_and_every_cheat_is_turned_down(tmp_path: Path) -> None:
    first, done, adopted = run_readme("fast_code", tmp_path)
    assert done.sources == first.sources
    rows = done.rows("examples/fast_code/results/results.jsonl")
    start, wrong, memorised, reaching, tampering, broken, better, same = rows
    require_reasons(wrong, memorised, reaching, tampering, broken)
    warned = [line for line in done.out.splitlines() if line.startswith("! ")]
    assert any("tampering" in line and "scripts/score.py" in line for line in warned)
    assert better["decision"] == "keep"
    own = "not sure: cpu_seconds, wrong_answers are measured by the candidate's own process"
    assert own in " ".join(done.out.split())
    for now, then in ((better, start), (better["holdout"], start["holdout"])):
        assert now["metrics"]["wrong_answers"] == 0
        assert now["score"] * 4 < then["score"]
    assert same["decision"] == "discard"
    assert "a tie within" in same["reason"]
    assert "+    for _, step in sorted(changes):" in patch_of(done, same)
    require_editor_without_holdout(done, memorised)
    require_adopting(tmp_path, done, adopted)


def require_reasons(
    wrong: Mapping[str, Any],
    memorised: Mapping[str, Any],
    reaching: Mapping[str, Any],
    tampering: Mapping[str, Any],
    broken: Mapping[str, Any],
) -> None:
    """Each cheat and mistake is turned down for what it is."""
    refused = (wrong, memorised, reaching, tampering)
    assert [row["decision"] for row in refused] == ["discard"] * len(refused)
    assert "wrong_answers <= 0 is broken" in wrong["reason"]
    assert wrong["holdout"] is None
    assert memorised["metrics"]["wrong_answers"] == 0
    assert memorised["holdout"]["metrics"]["wrong_answers"] > 0
    assert "wrong_answers <= 0 is broken" in memorised["reason"]
    assert reaching["reason"].startswith("scripts/score.py: it is not yours to touch")
    assert reaching["score"] is None
    assert "tampering" in tampering["reason"]
    assert "scripts/score.py" in tampering["reason"]
    assert broken["decision"] == "crash"
    assert "name 'sweep' is not defined" in broken["reason"]


def require_adopting(folder: Path, before: Step, adopted: Step) -> None:
    """The file changes when it is told to, and only that file; and it can be put back."""
    name = "examples/fast_code/bookings.py"
    changed = [each for each, text in before.sources.items() if adopted.files[each] != text]
    assert changed == [name]
    assert b"sorted(changes)" in adopted.files[name]
    typed(adopted.line.replace("--yes", "--undo"), folder)
    assert Step.taken(folder).sources == before.sources


def require_editor_without_holdout(done: Step, memorised: Mapping[str, Any]) -> None:
    """The idea that learns answers by heart takes every case it finds: none is holdout's."""
    patch = patch_of(done, memorised)
    train, holdout = (counts_in(done, f"cases/{name}.json") for name in ("train", "holdout"))
    assert all(f"{size}: " in patch for size in train)
    assert not any(f"{size}: " in patch for size in holdout)


def counts_in(step: Step, name: str) -> list[int]:
    cases = json.loads(step.files[f"examples/fast_code/{name}"])
    return [case["made"]["count"] for case in cases if "made" in case]


def test_a_configuration_is_tuned_by_its_numbers_and_by_edits(tmp_path: Path) -> None:
    start, tuned, edited = run_readme("config_tuning", tmp_path)
    assert tuned.sources == edited.sources == start.sources
    first, *rows = tuned.rows(RESULTS)
    require_gain(first, [row for row in rows if row["decision"] == "keep"][-1])
    require_edits(edited.rows(RESULTS), edited.files["examples/config_tuning/README.md"].decode())
    runs = sorted((tmp_path / RESULTS).parent.glob("optimizer/*"))  # named after their time
    by_numbers, by_edits = (
        (run / "candidates" / "best" / "config.yaml").read_text(encoding="utf-8") for run in runs
    )
    assert "# The queue of a small image service." in by_numbers
    assert "first: [video, photo, icon]" in by_numbers
    assert by_numbers != start.files[CONFIG].decode()
    assert "first: [icon, photo, video]" in by_edits
    for run, best in zip(runs, (by_numbers, by_edits), strict=True):
        typed(f"burnish adopt {run} --yes", tmp_path)
        assert (tmp_path / CONFIG).read_text(encoding="utf-8") == best
        typed(f"burnish adopt {run} --undo", tmp_path)


def require_edits(rows: Sequence[Mapping[str, Any]], readme: str) -> None:
    """What became of each edit is what the README shows."""
    start, *edits = rows[-7:]
    shown = [line for line in readme.splitlines() if line[:1] == "["]
    for row, line in zip(edits, shown, strict=True):
        assert row["decision"] in line
        assert f"latency_ms {row['score']:.4g} " in line
    words = [row["decision"] for row in edits]
    assert words == ["discard", "keep", "keep", "keep", "keep", "discard"]
    assert edits[0]["constraints"] == [
        {"constraint": "memory_mb <= 400", "value": 735.0, "holds": False}
    ]
    require_gain(start, edits[4])


def require_gain(start: Mapping[str, Any], best: Mapping[str, Any]) -> None:
    """Less than half the time on both traffics, with the memory that there is."""
    assert best["score"] < start["score"] / 2
    assert best["holdout"]["score"] < start["holdout"]["score"] / 2
    assert best["metrics"]["memory_mb"] <= 400
