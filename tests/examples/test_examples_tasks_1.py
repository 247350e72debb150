"""The examples of skills and prompt templates, run as their READMEs say, in a copy."""

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
LEFT = {"results", "work", "__pycache__"}
SIX = {
    "primary_score",
    "clarity",
    "coverage",
    "constraint_obedience",
    "violation_count",
    "length_tokens",
}


def copy_of(name: str, tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns(*LEFT)
    return shutil.copytree(EXAMPLES / name, tmp_path / "examples" / name, ignore=ignored)


def sources(folder: Path) -> Mapping[str, bytes]:
    """Every file of an example but what its runs left."""
    files = (path for path in folder.rglob("*") if path.is_file())
    here = ((path.relative_to(folder), path) for path in files)
    return {str(name): path.read_bytes() for name, path in here if not LEFT & {*name.parts}}


def run_as_shown(name: str, tmp_path: Path, *, with_word: str) -> list[dict[str, Any]]:
    """The rows of results.jsonl after a README's command; its own files are as they were."""
    here = copy_of(name, tmp_path)
    before = sources(here)
    readme = (here / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\$ (.+)$", readme, re.MULTILINE)
    command = next(line for line in shown if with_word in line)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {key: value for key, value in os.environ.items() if not key.startswith("EXAMPLE_")}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        env={**kept, "PATH": path},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sources(here) == before
    lines = (here / "work" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def verdicts_in(readme: Path) -> list[str]:
    """What the table of a README says becomes of each edit."""
    found: list[str] = []
    table = r"^\| (\d+(?:, \d+)*) \| .+ \| \*\*(\w+)\*\*"
    for numbers, word in re.findall(table, readme.read_text(encoding="utf-8"), re.MULTILINE):
        found += [word] * len(numbers.split(","))
    return found


def test_the_skill_gets_better_and_hacks_are_turned_down(tmp_path: Path) -> None:
    rows = run_as_shown("skill_quality", tmp_path, with_word="task.yaml")
    words = [row["decision"] for row in rows]
    assert words == ["baseline", *verdicts_in(EXAMPLES / "skill_quality" / "README.md")]
    assert rows[0]["metrics"].keys() >= SIX
    assert (rows[0]["score"], rows[-1]["score"]) == (0.4133, 1.0)
    padded, tempting = rows[4], rows[3]["score"]
    assert padded["score"] > tempting
    assert "length_tokens <= 220 is broken" in padded["reason"]
    assert "violation_count <= 0 is broken" in rows[6]["reason"]
    assert rows[2]["reason"].startswith("rubric.md: ")
    assert "lower length_tokens decides" in rows[10]["reason"]


def test_the_skill_is_judged_by_metrics_alone(tmp_path: Path) -> None:
    rows = run_as_shown("skill_quality", tmp_path, with_word="task_metrics.yaml")
    assert (rows[0]["score"], rows[-1]["score"]) == (0.125, 1.0)
    stuffed = next(row for row in rows if row["rationale"].startswith("list the words"))
    assert stuffed["decision"] == "discard"
    assert "structure == 1 is broken" in stuffed["reason"]


def test_the_template_keeps_its_placeholders_and_learns_nothing_by_heart(tmp_path: Path) -> None:
    rows = run_as_shown("prompt_template", tmp_path, with_word="task.yaml")
    words = [row["decision"] for row in rows]
    assert words == ["baseline", *verdicts_in(EXAMPLES / "prompt_template" / "README.md")]
    by_heart = rows[3]
    assert (by_heart["score"], by_heart["holdout"]["score"]) == (0.8333, 0.1667)
    assert "placeholders_kept == 1 is broken" in rows[4]["reason"]
    best = rows[8]
    assert (best["score"], best["holdout"]["score"]) == (1.0, 1.0)
    assert all(row["metrics"]["placeholders_kept"] for row in rows if row["decision"] == "keep")
