"""`burnish data label` and `agreement`: by keyboard or piped lines, saved after each answer."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.console import Burnish, Said, refused

pytestmark = pytest.mark.slow

Label = Callable[..., Said]
ROWS = [
    {"name": "eins", "input": "1 + 1?", "expected": "2", "reply": "2"},
    {"name": "zwei", "input": "größer?\nzwei Zeilen", "reply": "\u001b[31mrot"},
    {"name": "drei", "input": "x" * 9_000, "reply": "kurz"},
]


@pytest.fixture(autouse=True)
def cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BURNISH_HOME", str(tmp_path / "state"))
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    return path


@pytest.fixture
def label(burnish: Burnish, monkeypatch: pytest.MonkeyPatch) -> Label:
    def run(typed: str, *args: str) -> Said:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        return burnish("data", "label", "cases.jsonl", *args)

    return run


def test_answers_are_saved_one_by_one(label: Label, burnish: Burnish) -> None:
    said = label("p\nmaybe\nf\nq\n", "--as", "ana")
    assert said.code == 0, said.err
    assert "'maybe' is no answer" in said.out
    assert "labelled 2 of 3 cases as ana" in said.lines
    assert "\u001b" not in said.out
    assert "more characters" in said.out
    assert max(map(len, said.lines)) <= 120
    said = label("s\n", "--as", "ana")
    assert "case 3 of 3 · drei · 2 labelled" in said.lines
    assert "labelled 2 of 3 cases as ana" in said.lines


def test_back_and_note(label: Label, cases: Path) -> None:
    label("p\nb\nf\nn\nseems odd\np\nq\n", "--as", "ana")
    rows = [json.loads(line) for line in Path(f"{cases}.labels.jsonl").read_text().splitlines()]
    assert [(row["case"], row["label"], row.get("note")) for row in rows[1:]] == [
        ("eins", "pass", None),
        ("eins", "fail", None),
        ("zwei", "pass", "seems odd"),
    ]


def test_agreement_of_two_people(label: Label, burnish: Burnish) -> None:
    label("p\nf\np\n", "--as", "ana")
    refused(burnish("data", "agreement", "cases.jsonl"), "only ana has labelled these cases")
    said = label("p\nn\nnicht klar\np\nf\n", "--as", "bob")
    assert said.lines[-1] == "next     burnish data agreement cases.jsonl"
    said = burnish("data", "agreement", "cases.jsonl")
    assert "2 cases on which ana and bob differ" in said.lines
    assert "bob: nicht klar" in said.out
    (pair,) = burnish("data", "agreement", "cases.jsonl", "--json").json["pairs"]
    assert pair["agreement"]["count"] == 1
    assert pair["differing"] == ["zwei", "drei"]


def test_changed_cases_are_an_error_until_they_are_forgotten(
    label: Label,
    burnish: Burnish,
    cases: Path,
) -> None:
    label("p\np\np\n", "--as", "ana")
    cases.write_text("\n".join(map(json.dumps, [{**ROWS[0], "reply": "3"}, *ROWS[1:2]])))
    refused(label("", "--as", "bob"), "'drei' (ana)", "'eins' (ana)", "--forget")
    said = burnish("data", "label", "cases.jsonl", "--forget")
    assert said.lines[-1] == "2 labels dropped"
    assert "labelled 0 of 2 cases as bob" in label("", "--as", "bob").lines
