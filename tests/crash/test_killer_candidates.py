"""A candidate that kills burnish is run once, and counts as failed when the run goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from burnish.runs.directory import RunRecord
from tests.crash.killer_child import FILE
from tests.crash.nursery import ROOT

pytestmark = pytest.mark.crash


def driven(folder: Path) -> int:
    child = subprocess.run(
        [sys.executable, "-m", "tests.crash.killer_child", str(folder)],
        cwd=ROOT,
        env={**os.environ, "BURNISH_HOME": str(folder / "home")},
        check=False,
        timeout=120,
    )
    return child.returncode


def test_it_is_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / FILE).write_text("echo 1\n")
    assert driven(tmp_path) == -signal.SIGKILL
    starts = (tmp_path / "starts").read_text().count("run")
    assert driven(tmp_path) == 0
    rows = RunRecord.read(tmp_path / "run").rows
    decisions = [row.trial.details.get("decision") for row in rows[1:]]
    assert decisions == ["crash", "keep", "discard"]
    assert rows[1].trial.decision is not None
    assert "burnish was killed while this candidate ran" in rows[1].trial.decision.reason
    # The two others ran once each, and the killer not again.
    assert (tmp_path / "starts").read_text().count("run") == starts + 2
