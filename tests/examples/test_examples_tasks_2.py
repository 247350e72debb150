"""The examples of tasks over code and configuration, run as their READMEs say, in a copy."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = ("fast_code", "config_tuning")


def copy_of(name: str, tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("results", "__pycache__")
    return shutil.copytree(EXAMPLES / name, tmp_path / "examples" / name, ignore=ignored)


def shown_in(readme: Path, *, with_word: str) -> str:
    """The command of a README that has this word in it."""
    commands = re.findall(r"^\$ (.+)$", readme.read_text(encoding="utf-8"), re.MULTILINE)
    return next(command for command in commands if with_word in command)


def typed(command: str, folder: Path) -> str:
    """What a command prints, typed by a person who has no model and no network."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BURNISH_")}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**kept, **nowhere, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def sources(folder: Path) -> Mapping[str, bytes]:
    """Every file of an example but what its runs left."""
    left = {"results", "__pycache__"}
    files = (path for path in folder.rglob("*") if path.is_file() and not left & {*path.parts})
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def rows_of(here: Path) -> list[dict[str, Any]]:
    text = (here / "results" / "results.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def patch_of(here: Path, row: Mapping[str, Any]) -> str:
    return (here / row["folder"] / "diff.patch").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_every_file_of_an_example_is_small(name: str) -> None:
    for path, content in sources(EXAMPLES / name).items():
        assert len(content.splitlines()) <= 120, path


def test_code_gets_faster_and_every_cheat_is_turned_down(tmp_path: Path) -> None:
    here = copy_of("fast_code", tmp_path)
    before = sources(here)
    told = typed(shown_in(here / "README.md", with_word="burnish optimize"), tmp_path)
    assert sources(here) == before
    start, wrong, memorised, reaching, tampering, broken, better, same = rows_of(here)
    require_reasons(wrong, memorised, reaching, tampering, broken)
    warned = [line for line in told.splitlines() if line.startswith("! ")]
    assert any("tampering" in line and "scripts/score.py" in line for line in warned)
    assert better["decision"] == "keep"
    for now, then in ((better, start), (better["holdout"], start["holdout"])):
        assert now["metrics"]["wrong_answers"] == 0
        assert now["score"] * 4 < then["score"]
    assert same["decision"] == "discard"
    assert "a tie within" in same["reason"]
    assert "+    for _, step in sorted(changes):" in patch_of(here, same)
    require_adopting(here, tmp_path, before)


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


def require_adopting(here: Path, tmp_path: Path, before: Mapping[str, bytes]) -> None:
    """The file changes when it is told to, and only that file; and it can be put back."""
    adopt = shown_in(here / "README.md", with_word="burnish adopt")
    assert "changed  examples/fast_code/bookings.py" in typed(adopt, tmp_path)
    after = sources(here)
    assert [name for name in before if before[name] != after[name]] == ["bookings.py"]
    assert b"sorted(changes)" in after["bookings.py"]
    typed(adopt.replace("--yes", "--undo"), tmp_path)
    assert sources(here) == before


def test_what_decides_never_reaches_the_editor(tmp_path: Path) -> None:
    """The idea that learns answers by heart takes every case it finds: none is holdout's."""
    here = copy_of("fast_code", tmp_path)
    typed("burnish optimize examples/fast_code/task.yaml --max-trials 2 --repeats 1", tmp_path)
    patch = patch_of(here, rows_of(here)[2])
    sizes = {name: counts_in(here / "cases" / f"{name}.json") for name in ("train", "holdout")}
    assert all(f"{size}: " in patch for size in sizes["train"])
    assert not any(f"{size}: " in patch for size in sizes["holdout"])


def counts_in(path: Path) -> list[int]:
    cases = json.loads(path.read_text(encoding="utf-8"))
    return [case["made"]["count"] for case in cases if "made" in case]


def test_a_configuration_is_tuned_by_its_numbers(tmp_path: Path) -> None:
    here = copy_of("config_tuning", tmp_path)
    before = sources(here)
    typed(shown_in(here / "README.md", with_word="coordinate"), tmp_path)
    assert sources(here) == before
    start, *rows = rows_of(here)
    best = [row for row in rows if row["decision"] == "keep"][-1]
    require_gain(start, best)
    (file,) = (here / "results" / "optimizer").glob("*/candidates/best/config.yaml")
    text = file.read_text(encoding="utf-8")
    assert "# The queue of a small image service." in text
    assert "first: [video, photo, icon]" in text
    assert text != before["config.yaml"].decode()
    typed("burnish adopt examples/config_tuning/results/optimizer/* --yes", tmp_path)
    assert (here / "config.yaml").read_text(encoding="utf-8") == text


def test_the_same_configuration_is_improved_by_edits(tmp_path: Path) -> None:
    here = copy_of("config_tuning", tmp_path)
    before = sources(here)
    readme = here / "README.md"
    typed(shown_in(readme, with_word="--max-trials"), tmp_path)
    assert sources(here) == before
    start, *rows = rows_of(here)
    shown = [line for line in readme.read_text(encoding="utf-8").splitlines() if line[:1] == "["]
    for row, line in zip(rows, shown, strict=True):
        assert row["decision"] in line
        assert f"latency_ms {row['score']:.4g} " in line
    words = [row["decision"] for row in rows]
    assert words == ["discard", "keep", "keep", "keep", "keep", "discard"]
    assert rows[0]["constraints"] == [
        {"constraint": "memory_mb <= 400", "value": 735.0, "holds": False}
    ]
    require_gain(start, rows[4])
    typed("burnish adopt examples/config_tuning/results/optimizer/* --yes", tmp_path)
    assert "first: [icon, photo, video]" in (here / "config.yaml").read_text(encoding="utf-8")


def require_gain(start: Mapping[str, Any], best: Mapping[str, Any]) -> None:
    """Less than half the time on both traffics, with the memory that there is."""
    assert best["score"] < start["score"] / 2
    assert best["holdout"]["score"] < start["holdout"]["score"] / 2
    assert best["metrics"]["memory_mb"] <= 400
