"""`python -m burnish` is the command `burnish`."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.console import START


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["optimize", "--hlep"]])
def test_it_says_what_the_command_says(tmp_path: Path, arguments: list[str]) -> None:
    # A module of the user's own in the current folder stands in nobody's way.
    (tmp_path / "typer.py").write_text("raise RuntimeError", encoding="utf-8")
    (tmp_path / "pydantic.py").write_text("raise RuntimeError", encoding="utf-8")

    def said(*start: str) -> tuple[int, str, str]:
        command = [sys.executable, *start, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    code, out, err = said("-m", "burnish")
    # Commands in messages are named as this one was started.
    err = err.replace(f"`{sys.executable} -m burnish ", "`burnish ")
    assert (code, out, err) == said("-P", "-c", START)
