"""Commands in messages can be typed as they stand, however the program was started."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.console import SMALL

SCRIPT = f"#!{sys.executable}\nfrom burnish.cli import main\nmain()\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with a script as pip installs it, a project and a run."""
    script = tmp_path / ".venv" / "bin" / "burnish"
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT, encoding="utf-8")
    script.chmod(0o755)
    (tmp_path / "toy.yaml").write_text(SMALL, encoding="utf-8")
    return tmp_path


def said(words: Sequence[str], cwd: Path, *, path: str = "/usr/bin:/bin") -> str:
    """What a command prints, with this PATH."""
    done = subprocess.run(
        words,
        cwd=cwd,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_a_program_that_a_shell_does_not_find_is_named_as_it_was_typed(checkout: Path) -> None:
    burnish = ".venv/bin/burnish"
    printed = said([burnish, "optimize", "toy.yaml", "-o", "run", "--progress", "none"], checkout)
    assert f"next     {burnish} " in printed
    assert f"`{burnish} runs list`" in said([burnish, "runs", "show", "none"], checkout)
    assert f"see `{burnish} optimize --help`" in said([burnish, "optimize", "--no"], checkout)


def test_a_program_that_a_shell_finds_is_burnish(checkout: Path) -> None:
    bin_folder = f"{checkout}/.venv/bin"
    for typed in (".venv/bin/burnish", f"{bin_folder}/burnish"):
        printed = said([typed, "runs", "show", "none"], checkout, path=f"{bin_folder}:/bin")
        assert "`burnish runs list`" in printed


def test_a_shell_that_finds_another_program_needs_the_path(checkout: Path) -> None:
    other = checkout / "other" / "burnish"
    other.parent.mkdir()
    other.write_text(SCRIPT, encoding="utf-8")
    other.chmod(0o755)
    printed = said([".venv/bin/burnish", "runs", "show", "none"], checkout, path=str(other.parent))
    assert "`.venv/bin/burnish runs list`" in printed


def test_in_another_folder_it_is_named_by_its_whole_path(checkout: Path) -> None:
    words = [".venv/bin/burnish", "init", "--yes", "--model", "ollama:m", "--folder", "first"]
    printed = said(words, checkout)
    assert f"next     cd first\n         {checkout}/.venv/bin/burnish eval agent.yaml" in printed


def test_a_module_is_named_with_its_python(checkout: Path) -> None:
    printed = said([sys.executable, "-m", "burnish", "runs", "show", "none"], checkout)
    assert f"`{sys.executable} -m burnish runs list`" in printed
