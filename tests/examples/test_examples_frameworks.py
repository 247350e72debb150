"""Agents of frameworks: improved as they are, written back into their source, and undone."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.console import START, finish, forked
from tests.docs.docs_examples import copy_of

from burnish.system.extras import extra_named

pytestmark = pytest.mark.slow

EXTRAS = ("langgraph", "crewai", "dspy", "google-adk", "openai-agents")
EXAMPLES = [
    "agent_pydantic_ai",
    *(f"agent_{each.replace('-', '_')}" for each in EXTRAS if not extra_named(each).missing),
]
"""Those whose library is here: `make check PART=frameworks` has the others."""


def burnish(here: Path, *words: str, code: int = 0) -> str:
    """What a command prints."""
    said = finish(forked(*words, cwd=here, BURNISH_HOME=str(here / "home")))
    assert said.code == code, said
    return said.out


def improved(here: Path) -> str:
    """What the search prints, beside the stand-in for the model that rewrites."""
    search = ("optimize", "agent.yaml", "-o", "runs/a", "--progress", "none")
    program = [sys.executable, "-c", START, *search]
    done = subprocess.run(
        [sys.executable, "../agent_pydantic_ai/offline.py", *program],
        cwd=here,
        env={**os.environ, "BURNISH_HOME": str(here / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_agent_is_evaluated_improved_written_back_and_undone(name: str, tmp_path: Path) -> None:
    homes = {each: copy_of(each, tmp_path) for each in {name, "agent_pydantic_ai"}}
    here = homes[name]
    (call,) = re.findall(r"call: (desk:\w+)", (here / "agent.yaml").read_text(encoding="utf-8"))
    cases = "input,expected\n2 lamps at 3,6 euros\n3 rugs at 5,15 euros\n"
    (here / "two.csv").write_text(cases, encoding="utf-8")
    evaluate = ("eval", call, "--cases", "two.csv", "--progress", "none")
    assert "0 passed, 2 failed" in burnish(here, *evaluate, code=1)
    source = (here / "desk.py").read_bytes()
    told = improved(here)
    assert re.search(r"sealed test.* 0\.000 → 1\.000", told), told
    assert (here / "desk.py").read_bytes() == source
    burnish(here, "adopt", "a", "--yes")
    assert b"in euros" in (here / "desk.py").read_bytes()
    assert "all 2 cases pass" in burnish(here, *evaluate)
    burnish(here, "adopt", "a", "--undo", "--yes")
    assert (here / "desk.py").read_bytes() == source
