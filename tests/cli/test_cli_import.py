"""`burnish data import`: what it says, and what it writes."""

from pathlib import Path

import pytest

from burnish.datasets.formats import read_cases
from tests.cli.console import Burnish, refused
from tests.datasets.trace_logs import LANGFUSE, write_lines


@pytest.fixture
def log(tmp_path: Path) -> str:
    return str(write_lines(tmp_path / "log.jsonl", *LANGFUSE, '{"id": '))


def test_failures_become_cases(burnish: Burnish, log: str) -> None:
    said = burnish("data", "import", log, "-o", "bad.jsonl", "--where", "negative")
    assert said.code == 0, said.err
    assert said.lines == [
        "read     2 traces (langfuse)",
        "broken   1 record left out:",
        "         log.jsonl:3: not valid JSON: Expecting value",
        "matching 1 trace",
        "wrote    bad.jsonl: 1 case",
        "next     burnish data check bad.jsonl",
    ]
    (case,) = read_cases(Path("bad.jsonl")).cases
    assert (case.input, case.labels) == ("I want my money back", ("refund",))


def test_a_sample_is_said(burnish: Burnish, log: str) -> None:
    said = burnish("data", "import", log, "-o", "one.jsonl", "--sample", "1", "--seed", "3")
    assert "sample   1 of 2, seed 3" in said.lines
    assert len(read_cases(Path("one.jsonl")).cases) == 1


def test_what_is_there_is_not_overwritten(burnish: Burnish, log: str) -> None:
    Path("mine.jsonl").write_text("mine", encoding="utf-8")
    refused(burnish("data", "import", log, "-o", "mine.jsonl"), "--force")
    assert Path("mine.jsonl").read_text(encoding="utf-8") == "mine"


def test_cases_are_written_as_json_lines(burnish: Burnish, log: str) -> None:
    refused(burnish("data", "import", log, "-o", "cases.csv"), "ends in .jsonl")
    assert not Path("cases.csv").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--where", "bad"], "--where"),
        (["--where", "score<-1"], "the scores here are: helpful, user-feedback"),
        (["--reply", "keeep"], "did you mean 'keep'?"),
        (["--redact", "("], "not a regular expression"),
        (["--keep", "names"], "unknown kind 'names'"),
        (["--from", "otlp"], "unknown format"),
    ],
)
def test_wrong_flags_are_named(burnish: Burnish, log: str, flags: list[str], words: str) -> None:
    refused(burnish("data", "import", log, "-o", "x.jsonl", *flags), words)
    assert not Path("x.jsonl").exists()
