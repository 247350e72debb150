"""Agents of frameworks: improved as they are, written back into their source, and undone."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.docs.docs_examples import copy_of

pytestmark = pytest.mark.slow

EXAMPLES = {"agent_pydantic_ai": "pydantic_ai", "agent_langgraph": "langgraph"}


def burnish(here: Path, *words: str) -> str:
    """What a command prints beside the stand-in for the model that rewrites."""
    program = Path(sys.executable).with_name("burnish")
    command = [sys.executable, "../agent_pydantic_ai/offline.py", str(program), *words]
    home = {"BURNISH_HOME": str(here / "home")}
    done = subprocess.run(
        command, cwd=here, env={**os.environ, **home}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("name", "library"), EXAMPLES.items())
def test_an_agent_is_improved_written_back_and_undone(
    name: str, library: str, tmp_path: Path
) -> None:
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    homes = {each: copy_of(each, tmp_path) for each in {name, "agent_pydantic_ai"}}
    here = homes[name]
    source = (here / "desk.py").read_bytes()
    told = burnish(here, "optimize", "agent.yaml", "-o", "runs/a", "--progress", "none")
    assert "0.000 → 1.000" in told
    assert (here / "desk.py").read_bytes() == source
    burnish(here, "adopt", "a", "--yes")
    assert b"in euros" in (here / "desk.py").read_bytes()
    burnish(here, "adopt", "a", "--undo", "--yes")
    assert (here / "desk.py").read_bytes() == source
