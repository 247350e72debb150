"""Copies of examples: what users leave in the folders stays out, and what was adopted is undone."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.example_copies import (
    EXAMPLES,
    ROOT,
    copy_example,
    copy_examples,
    example_files,
    shipped,
)

from burnish.cli import main

LEFT = (
    "results/optimizer/2026-01-31T10-00-00_0123abcd/best.yaml",
    "results/eval/first/report.md",
    "work/results.jsonl",
    "data/__pycache__/a.cpython-311.pyc",
    ".burnish/roles/critic.yaml",
    ".burnish/index/ab12.db",
    ".env",
    ".pytest_cache/README.md",
    "policy.db",
    "policy.db-wal",
)
SHIPPED = {"task.yaml": "id: t\n", "data/a.csv": "input\n", ".gitignore": "out/\n"}
TASK = {
    "id": "words",
    "description": "notes.md is a list of different words.",
    "artifacts": {"include": ["notes.md"]},
    "mutation": {"mode": "command", "command": "python3 edit.py", "network": False},
    "scorer": {"type": "command", "command": "python3 score.py"},
    "budget": {"max_iterations": 1},
    "sandbox": "none",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A checkout with one example."""
    return tmp_path / "home"


def put(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def files_of(folder: Path) -> dict[str, str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in found}


def test_a_copy_has_nothing_of_what_a_user_left(home: Path, tmp_path: Path) -> None:
    put(home / "examples" / "own", {**SHIPPED, **dict.fromkeys(LEFT, "left")})
    assert files_of(copy_example("own", tmp_path / "one", home=home)) == SHIPPED
    every = files_of(copy_examples(tmp_path / "all", home=home))
    assert every == {f"own/{name}": text for name, text in SHIPPED.items()}
    assert {*example_files("own", home=home)} == {*every}


@pytest.mark.slow
@pytest.mark.parametrize("runs", ["", "runs", "examples/own/results/optimizer"])
def test_a_copy_has_what_was_there_before_an_adoption(
    home: Path, tmp_path: Path, runs: str
) -> None:
    example = home / "examples" / "own"
    words = {"notes.md": "one\n", "edit.py": EDITOR, "score.py": SCORER}
    put(example, {**words, "task.json": json.dumps(TASK)})
    before = files_of(example)
    for name in ("first", "second"):  # the second starts where the first one led
        run = str(home / runs / name)
        burnish("optimize", str(example / "task.json"), "-q", "-o", run)
        burnish("adopt", run, "--yes")
    assert (example / "notes.md").read_text(encoding="utf-8") == "one\ntwo\nthree\n"
    assert files_of(copy_example("own", tmp_path / "copy", home=home)) == before
    assert shipped(example / "notes.md", home=home) == b"one\n"


EDITOR = """\
from pathlib import Path

notes = Path("notes.md")
words = notes.read_text().split()
notes.write_text("".join(f"{word}\\n" for word in [*words, ["two", "three"][len(words) - 1]]))
"""
SCORER = """\
import json
from pathlib import Path

print(json.dumps({"score": len(set(Path("notes.md").read_text().split())) / 4}))
"""


def burnish(*args: str) -> None:
    with pytest.raises(SystemExit) as end:
        main([*args])
    assert end.value.code == 0


def test_a_copy_has_every_file_of_the_repository(tmp_path: Path) -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", "examples"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    tracked = {name.removeprefix("examples/") for name in listed.stdout.split("\0") if name}
    copied = {*files_of(copy_examples(tmp_path / "examples"))}
    assert {name for name in tracked if (EXAMPLES / name).exists()} <= copied
