"""A clone to measure, and the scripts of `action/` in it, as a job of a pull request runs them."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ACTION = Path(__file__).parents[2] / "action"
NAMES = [f"case {n}" for n in range(8)]
_BURNISH = Path(sys.executable).with_name("burnish")


@dataclass(frozen=True)
class Ran:
    code: int
    said: str


def run_script(name: str, folder: Path, **variables: str) -> Ran:
    """Run a script of the action in a folder, with what is in `bin` beside it."""
    places = (folder.parent / "bin", _BURNISH.parent, os.environ["PATH"])
    done = subprocess.run(
        ["bash", str(ACTION / name)],
        cwd=folder,
        env={**os.environ, "PATH": os.pathsep.join(map(str, places)), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return Ran(code=done.returncode, said=done.stdout + done.stderr)


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    command = ["git", *who, *words]
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def clone_of_new_repository(home: Path) -> Path:
    """An empty repository with the branch main, in a folder beside its origin."""
    git(home, "init", "--quiet", "--bare", "--initial-branch=main", "origin.git")
    git(home, "init", "--quiet", "--initial-branch=main", "clone")
    git(home / "clone", "remote", "add", "origin", str(home / "origin.git"))
    return home / "clone"


def publish(folder: Path, message: str = "base") -> None:
    """Commit everything to main and push it."""
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", message)
    git(folder, "push", "--quiet", "origin", "main")


def measured_checkout(home: Path) -> Path:
    """A clone whose base branch passes seven of eight cases, with its report as the baseline."""
    folder = clone_of_new_repository(home)
    (folder / "metrics.yaml").write_text("- {type: standard, metric: equality}\n")
    replies(folder, wrong=1)
    command = ("eval", "cases.jsonl", "--metrics", "metrics.yaml", "-q", "--json", "baseline.json")
    subprocess.run([_BURNISH, *command], cwd=folder, check=False, capture_output=True)
    publish(folder)
    git(folder, "checkout", "--quiet", "-b", "change")
    return folder


def replies(folder: Path, *, wrong: int) -> None:
    rows = [
        {
            "name": name,
            "input": f"{name}?",
            "expected": "yes",
            "recorded": {"replies": ["no" if number < wrong else "yes"]},
        }
        for number, name in enumerate(NAMES)
    ]
    (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
