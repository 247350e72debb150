"""Progress in lines, quiet, or as JSON, when nobody looks at a terminal."""

from pathlib import Path

import pytest

from tests.cli.console import Burnish

pytestmark = pytest.mark.slow


def test_lines_when_stdout_is_no_terminal(burnish: Burnish, toy: Path) -> None:
    auto = burnish("optimize", str(toy), "-o", "a").lines
    lines = burnish("optimize", str(toy), "-o", "b", "--progress", "lines").lines
    assert [line.split("$")[0] for line in auto[:-6]] == [line.split("$")[0] for line in lines[:-6]]
    assert max(map(len, auto[:-6])) <= 100
    assert not any("\x1b" in line for line in auto)


def test_quiet_prints_only_the_end(burnish: Burnish, toy: Path) -> None:
    said = burnish("optimize", str(toy), "-q")
    heads = [line[:9].strip() for line in said.lines if not line.startswith(" ")]
    assert heads == ["claim", "changed", "loss", "stopped", "spent", "report", "best", "next"]
    assert said.err == ""


def test_quiet_and_none_are_the_same(burnish: Burnish, toy: Path) -> None:
    quiet = burnish("optimize", str(toy), "-q", "-o", "a").lines
    none = burnish("optimize", str(toy), "--progress", "none", "-o", "b").lines
    assert quiet[:4] == none[:4]


def test_json_leaves_the_end_to_stderr(burnish: Burnish, toy: Path) -> None:
    said = burnish("optimize", str(toy), "--progress", "json", "--max-trials", "1")
    assert {"run_started", "trial_recorded", "run_finished"} <= {r["kind"] for r in said.records}
    assert [line.split()[0] for line in said.err.splitlines()][:3] == ["claim", "changed", "loss"]


def test_a_resume_tells_only_what_is_new(burnish: Burnish, stopped: Path) -> None:
    said = burnish("runs", "resume", "part", "--progress", "json", "--max-trials", "4")
    trials = [r["data"]["trial"] for r in said.records if r["kind"] == "trial_recorded"]
    assert trials == [3, 4]


@pytest.mark.parametrize("view", ["lines", "json", "none"])
def test_errors_stand_on_stderr_in_every_view(burnish: Burnish, toy: Path, view: str) -> None:
    said = burnish("optimize", str(toy), "--progress", view, "-o", "toy.yaml")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("error: ")
