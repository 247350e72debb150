"""`--require improved`: exit code 0 only if a gain was shown, and no payment where none can be."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import typer

from burnish.cli.optimization import OptimizeRequest, RunOpening, optimize_project
from burnish.cli.options import Requirement
from burnish.runs.directory import RunRecord
from tests.cli.console import Burnish, Said, refused
from tests.projects.optimizer_world import EchoBackend, echo_models, optimizer, write_world

pytestmark = pytest.mark.slow

SEALED = """\
kind: toy
world: {train: 24, holdout: 12, test: 16, noise: 0.05, counter: calls.txt}
strategy: {name: climb, repeats: 2}
"""
UNSEALED = SEALED.replace("test: 16", "test: 0")
REQUIRED = ("--require", "improved")
GAIN = ("--max-trials", "4")
NO_GAIN = ("--max-trials", "1")
NOTHING_BETTER = "required: improved; the run says nothing better was found\n"


@pytest.fixture
def sealed(burnish: Burnish) -> str:
    del burnish  # it has gone to the folder of the test
    Path("toy.yaml").write_text(SEALED, encoding="utf-8")
    return "toy.yaml"


@pytest.fixture
def unsealed(sealed: str) -> str:
    Path(sealed).write_text(UNSEALED, encoding="utf-8")
    return sealed


def can_show_none(said: Said, *words: str) -> None:
    """It was refused, and no run was made."""
    refused(said, "a gain is required, and this run can show none: ", *words)
    assert not Path("r").exists()


@pytest.mark.parametrize("command", [("optimize",), ("test", "optimize")])
def test_a_gain_that_the_sealed_test_shows_is_a_success(
    burnish: Burnish, sealed: str, command: tuple[str, ...]
) -> None:
    said = burnish(*command, sealed, "-q", "-o", "r", *GAIN, *REQUIRED)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("claim    sealed test, looked at once: ")


def test_no_gain_is_code_4_and_the_last_line_says_why(burnish: Burnish, sealed: str) -> None:
    assert burnish("optimize", sealed, "-q", "-o", "first", *NO_GAIN).code == 0
    said = burnish("optimize", sealed, "-q", "-o", "r", *NO_GAIN, *REQUIRED)
    assert (said.code, said.err) == (4, NOTHING_BETTER)
    assert said.lines[-1] == "next     burnish runs show r"
    assert RunRecord.read(Path("r")).status == "finished"


def test_a_gain_that_may_be_luck_is_code_4(burnish: Burnish, sealed: str) -> None:
    Path(sealed).write_text(SEALED.replace("test: 16", "test: 2"), encoding="utf-8")
    said = burnish("optimize", sealed, "-q", "-o", "r", *GAIN, *REQUIRED)
    assert said.code == 4
    assert said.err.startswith(
        "required: improved; the run says not sure: sealed test, looked at once: score 0.000 → "
    )
    assert said.err.endswith(", not distinguishable from noise\n")


def test_fresh_draws_show_a_gain_too_and_a_resume_may_be_what_it_takes(
    burnish: Burnish, unsealed: str
) -> None:
    said = burnish("optimize", unsealed, "-q", "-o", "r", *NO_GAIN, *REQUIRED)
    assert (said.code, said.err) == (4, NOTHING_BETTER)
    more = burnish("runs", "resume", "r", "-q", *GAIN, *REQUIRED)
    assert (more.code, more.err) == (0, "")
    assert "claim    measured again on fresh draws of holdout: " in more.out
    again = burnish("optimize", "--resume", "r", "-q", *REQUIRED)
    assert (again.code, again.err) == (0, "")


def test_the_events_are_printed_as_usual(burnish: Burnish, sealed: str) -> None:
    flags = ("--progress", "json", *NO_GAIN)
    usual = burnish("optimize", sealed, *flags, "-o", "usual")
    said = burnish("optimize", sealed, *flags, "-o", "r", *REQUIRED)
    assert (usual.code, said.code) == (0, 4)
    assert [each["kind"] for each in said.records] == [each["kind"] for each in usual.records]
    assert said.err.endswith(NOTHING_BETTER)


def test_it_is_no_part_of_the_run(burnish: Burnish, unsealed: str) -> None:
    burnish("optimize", unsealed, "-q", "-o", "usual", *GAIN)
    paid = Path("calls.txt").read_text()
    Path("calls.txt").unlink()
    burnish("optimize", unsealed, "-q", "-o", "r", *GAIN, *REQUIRED)
    assert sorted(Path("calls.txt").read_text()) == sorted(paid)
    usual, required = (json.loads(Path(run, "run.json").read_text()) for run in ("usual", "r"))
    for header in (usual, required):
        del header["id"], header["started_at"]
    assert usual == required


def test_an_error_stays_code_1(burnish: Burnish, sealed: str) -> None:
    said = burnish("optimize", sealed, "-q", "-o", "r", "--max-calls", "1", *REQUIRED)
    refused(said, "the baseline could not be measured")


def test_an_interrupted_run_stays_code_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Impatient(EchoBackend):
        async def complete(self, ref: Any, request: Any, *, draw: int) -> Any:
            if len(self.asked) == 20:
                os.kill(os.getpid(), signal.SIGINT)
            return await super().complete(ref, request, draw=draw)

    monkeypatch.chdir(tmp_path)
    write_world(tmp_path, lambda data: optimizer(data).update(sealed_cases_file="sealed.yaml"))
    request = OptimizeRequest(
        way=RunOpening(output_dir=Path("r")), quiet=True, require=Requirement.IMPROVED
    )
    with pytest.raises(typer.Exit) as end:
        optimize_project(request, models=echo_models(Impatient(respond=lambda _, __: "")))
    assert end.value.exit_code == 2
    assert RunRecord.read(Path("r")).status == "interrupted"


def test_a_word_that_it_does_not_know(burnish: Burnish, sealed: str) -> None:
    said = burnish("optimize", sealed, "-o", "r", "--require", "better")
    refused(said, "'--require'", "'better' is not one of 'improved'")


# -- Runs that can show no gain --------------------------------------------------------------------


@pytest.mark.parametrize("flags", [(), ("--dry-run",)])
def test_without_sealed_test_and_fresh_draws_nothing_is_paid(
    burnish: Burnish, unsealed: str, flags: tuple[str, ...]
) -> None:
    said = burnish("optimize", unsealed, "-o", "r", "--no-confirm", *flags, *REQUIRED)
    can_show_none(said, "it has no sealed test", "seal some cases, twenty or more", "confirm: true")
    assert not Path("calls.txt").exists()


def test_one_sealed_case_that_is_run_once_shows_nothing(burnish: Burnish, sealed: str) -> None:
    text = SEALED.replace("test: 16", "test: 1").replace("repeats: 2", "repeats: 1")
    Path(sealed).write_text(text, encoding="utf-8")
    said = burnish("optimize", sealed, "-o", "r", *REQUIRED)
    can_show_none(said, "one case that is run once shows no spread", "give it more cases")


def test_a_test_that_was_looked_at_before_shows_none(burnish: Burnish, sealed: str) -> None:
    assert burnish("optimize", sealed, "-q", "-o", "first", *GAIN).code == 0
    paid = Path("calls.txt").read_text()
    said = burnish("optimize", "--fork", "first", "-o", "r", *REQUIRED)
    can_show_none(said, "had read the sealed test", "seal other cases, and start a new run")
    assert Path("calls.txt").read_text() == paid


def test_a_resumed_fork_of_a_read_test_shows_none(burnish: Burnish, sealed: str) -> None:
    assert burnish("optimize", sealed, "-q", "-o", "first", *GAIN).code == 0
    assert burnish("optimize", "--fork", "first", "-q", "-o", "forked", *NO_GAIN).code == 0
    said = burnish("runs", "resume", "forked", *GAIN, *REQUIRED)
    can_show_none(said, "had read the sealed test", "seal other cases, and start a new run")


def test_a_resumed_run_keeps_what_it_was_started_with(burnish: Burnish, unsealed: str) -> None:
    assert burnish("optimize", unsealed, "-q", "-o", "one", "--no-confirm", *NO_GAIN).code == 0
    said = burnish("runs", "resume", "one", *GAIN, *REQUIRED)
    can_show_none(said, "its winner is not measured again", ", and start a new run")


@pytest.mark.parametrize(
    "mode", [("--print-baseline",), ("--suggest-axes",), ("--report-only", "x")]
)
def test_what_makes_no_candidates_shows_none(
    burnish: Burnish, sealed: str, mode: tuple[str, ...]
) -> None:
    said = burnish("optimize", sealed, *mode, *REQUIRED)
    refused(said, f"{mode[0]} makes no candidates, so --require cannot be met")


def test_a_measurement_shows_none(burnish: Burnish) -> None:
    row = {"input": "Is it open?", "expected": "yes", "recorded": {"replies": ["yes"]}}
    Path("cases.jsonl").write_text(json.dumps(row), encoding="utf-8")
    Path("metrics.yaml").write_text("- {type: standard, metric: equality}\n", encoding="utf-8")
    flags = ("--metrics", "metrics.yaml", "-q", "-o", "measured")
    assert burnish("eval", "cases.jsonl", *flags).code == 0
    said = burnish("runs", "resume", "measured", *REQUIRED)
    refused(said, "--require: this run is a measurement", "leave it out")
