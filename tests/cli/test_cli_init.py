"""`burnish init task`: a folder that runs at once, and never overwrites."""

import json
from pathlib import Path

import pytest

from tests.cli.console import Burnish, refused, tree


def test_a_starter_is_made_and_says_what_to_do(burnish: Burnish, tmp_path: Path) -> None:
    said = burnish("init", "task", "mine/skill")
    assert said.code == 0
    assert "burnish optimize mine/skill/task.yaml --dry-run" in said.out
    assert {*tree(tmp_path / "mine" / "skill")} == {
        *("README.md", "SKILL.md", "rubric.md", "task.schema.json", "task.yaml"),
        *(f"scripts/{name}_task.py" for name in ("edit", "run", "score")),
    }


def test_what_is_there_is_never_overwritten(burnish: Burnish, tmp_path: Path) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "SKILL.md").write_text("mine", encoding="utf-8")
    before = tree(tmp_path)
    refused(burnish("init", "task"), "these files already exist: SKILL.md", "nothing was changed")
    assert tree(tmp_path) == before
    (folder / "SKILL.md").rename(folder / "other.md")
    assert burnish("init", "task").code == 0
    assert (folder / "other.md").read_text(encoding="utf-8") == "mine"


def test_a_file_in_the_way_is_refused(burnish: Burnish, tmp_path: Path) -> None:
    (tmp_path / "task").write_text("mine", encoding="utf-8")
    refused(burnish("init", "task"), "the folder already exists")


@pytest.mark.slow
def test_the_starter_works_at_once(burnish: Burnish, tmp_path: Path) -> None:
    burnish("init", "task", "t")
    plan = burnish("optimize", "t/task.yaml", "--dry-run")
    assert plan.code == 0, plan
    assert "editor python3 scripts/edit_task.py" in plan.out
    before = tree(tmp_path / "t")
    assert burnish("optimize", "t/task.yaml", "-q", "-o", "run").code == 0
    after = tree(tmp_path / "t")
    assert {name: after[name] for name in before} == before
    lines = (tmp_path / "t" / "work" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    kept = [row["score"] for row in rows if row["decision"] in ("baseline", "keep")]
    assert kept == [0.4, 0.6, 0.8, 1.0]
