"""How commands are isolated is said before the start, with what would isolate them better."""

import shlex
import sys
from pathlib import Path

import pytest

from burnish.system.sandbox import probe_bubblewrap, probe_landlock
from tests.cli.console import Burnish
from tests.projects.artifacts.task_world import top, write_task

pytestmark = [pytest.mark.slow, pytest.mark.on_disk]
NEEDS_BWRAP = pytest.mark.skipif(not probe_bubblewrap().works, reason="no bubblewrap")
INSTALL = "sudo apt-get install bubblewrap"
SECOND = "Landlock" if probe_landlock().works else "limits only"
AGENT = """
import pathlib
seen = [str(path) for path in pathlib.Path(__file__).parent.rglob("journal.db")]
pathlib.Path("report.md").write_text("# Heat " + "It is warm. " * 60 + str(seen))
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.chdir(tmp_path)
    Path("agent.py").write_text(AGENT)
    workflow("auto")


def workflow(sandbox: str) -> None:
    """A workflow that runs a program, named with its full path."""
    Path("flow.yaml").write_text(
        "workflow: {name: coder}\n"
        "orchestration:\n"
        "  engine: command\n"
        f'  command: {{command: "{shlex.quote(sys.executable)} {Path.cwd()}/agent.py", '
        "critique: {enabled: false}}\n"
        f"deliverables: [report.md]\nsandbox: {sandbox}\n"
    )


@pytest.fixture
def without_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PATH with a package manager, and no bubblewrap."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "apt-get").write_text("#!/bin/sh\n")
    (tools / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))


@pytest.mark.usefixtures("without_bubblewrap")
def test_a_dry_run_of_a_workflow_says_it(burnish: Burnish) -> None:
    said = burnish("delegate", "flow.yaml", "--task", "Report.", "--dry-run").out
    [line] = [line for line in said.splitlines() if line.startswith("sandbox ")]
    assert SECOND in line
    assert "there is no program 'bwrap'" in line
    assert INSTALL in line


@pytest.mark.usefixtures("without_bubblewrap")
def test_a_delegation_says_it_before_it_starts(burnish: Burnish) -> None:
    said = burnish("delegate", "flow.yaml", "--task", "Report.", "-o", "run")
    first = said.out.splitlines()[0]
    assert first.startswith(f"! commands run with {SECOND}")
    assert INSTALL in first
    assert said.code == 0, said.out


@pytest.mark.usefixtures("without_bubblewrap")
def test_a_dry_run_of_a_task_says_it(burnish: Burnish, tmp_path: Path) -> None:
    write_task(tmp_path, top(sandbox="auto", mutation={"mode": "command", "command": "true"}))
    said = burnish("optimize", "task.json", "--dry-run").out
    [line] = [line for line in said.splitlines() if line.startswith("sandbox ")]
    assert SECOND in line
    assert INSTALL in line


@pytest.mark.usefixtures("without_bubblewrap")
def test_isolation_that_is_required_is_refused_before_the_start(
    burnish: Burnish, tmp_path: Path
) -> None:
    workflow("bwrap")
    write_task(tmp_path, top(sandbox="bwrap", mutation={"mode": "command", "command": "true"}))
    for arguments in (
        ("delegate", "flow.yaml", "--task", "Report.", "-o", "run"),
        ("delegate", "flow.yaml", "--task", "Report.", "--dry-run"),
        ("optimize", "task.json", "-o", "run"),
    ):
        said = burnish(*arguments)
        assert said.code == 1
        assert INSTALL in said.err + said.out
        assert not Path("run").exists()


@NEEDS_BWRAP
def test_a_program_that_is_named_with_its_path_runs_and_sees_no_run(burnish: Burnish) -> None:
    workflow("bwrap")
    said = burnish("delegate", "flow.yaml", "--task", "Report.", "-o", "run")
    assert said.code == 0, said.out
    assert Path("run/FINAL/report.md").read_text().endswith("[]")
    assert Path("run/journal.db").exists()
