"""The example of tracking: spans of a whole run, sent over OTLP to a collector."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.docs_examples import copy_of

pytestmark = pytest.mark.slow
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="burnish[otel] is missing")


def test_the_collector_prints_the_tree_of_spans(tmp_path: Path) -> None:
    here = copy_of("tracking", tmp_path)
    copy_of("agent_pydantic_ai", tmp_path)
    agent = "../agent_pydantic_ai"
    program = str(Path(sys.executable).with_name("burnish"))
    words = ("optimize", f"{agent}/agent.yaml", "--track", "otel", "--progress", "none")
    done = subprocess.run(
        [sys.executable, "collector.py", sys.executable, f"{agent}/offline.py", program, *words],
        cwd=here,
        env={**os.environ, "BURNISH_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tree = done.stdout[done.stdout.index("burnish auto") :].splitlines()
    assert tree[1] == "  trial 0"
    assert tree[2].startswith("    invoke_agent  × ")
    assert "    invoke_agent reflector" in tree
    assert any(line.startswith("      chat ") for line in tree)
