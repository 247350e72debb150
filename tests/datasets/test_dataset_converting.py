"""From one format to another nothing is lost unless it is said."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.cases import (
    Attachment,
    Case,
    ExpectedTool,
    Message,
    Outcome,
    Rubric,
    Scenario,
    ToolCall,
    Turn,
)
from burnish.core.errors import ConfigError
from burnish.datasets.agent_cases import CaseFile
from burnish.datasets.formats import convert, label_notes, read_cases, write_cases
from tests.datasets.dataset_files import again, put, said

NAMES = {
    "evalset": "x.evalset.json",
    "promptiter": "x.evalset.json",
    "test_cases": "x.yaml",
    "jsonl": "x.jsonl",
    "json": "x.json",
    "csv": "x.csv",
}
PLAIN = Case.single("Where?", "There.", name="plain")
RICH = Case(
    name="rich",
    labels=("a",),
    history=(Message(role="user", content="Hi"),),
    rubrics=(Rubric(id="1", text="Be kind."),),
    turns=(
        Turn(
            input="one",
            expected="1",
            context=("c",),
            expected_tools=(ExpectedTool(name="f"),),
            expected_calls=(ToolCall(name="g", arguments={"x": 1}),),
            attachments=(Attachment(kind="pdf", path="a.pdf"),),
            metrics=("equality",),
            settings={"level": 3},
        ),
        Turn(input="two"),
    ),
)
LOST = {
    "evalset": {"labels", "rubrics", "context", "expected tools", "files",
                "the choice of metrics", "settings for graders"},
    "promptiter": {"labels", "context", "expected tools", "files", "settings for graders"},
    "test_cases": {"earlier messages", "expected tool calls", "the choice of metrics"},
    "jsonl": set[str](),
    "json": set[str](),
    "csv": {"turns after the first", "earlier messages", "rubrics", "expected tools",
            "expected tool calls", "files", "the choice of metrics", "all of settings for graders"},
}  # fmt: skip


def losses(cases: Sequence[Case], format: str) -> list[str]:  # noqa: A002
    return convert(CaseFile(cases=tuple(cases), format=format), format)[1]


@pytest.mark.parametrize("format", NAMES)
def test_what_a_rich_case_loses(format: str) -> None:  # noqa: A002
    notes = losses([PLAIN, RICH], format)
    assert set(notes) == {
        f"{format} cannot hold {part}: lost in case 'rich'" for part in LOST[format]
    }


@pytest.mark.parametrize("format", NAMES)
def test_what_is_left_can_be_written_and_read(format: str) -> None:  # noqa: A002
    file, notes = convert(CaseFile(cases=(PLAIN, RICH), format="other"), format)
    assert bool(notes) == bool(LOST[format])
    copy = again(file, NAMES[format])
    assert (copy.format, copy.cases) == (format, file.cases)
    assert copy.cases[0] == PLAIN
    assert losses(file.cases, format) == []


@pytest.mark.parametrize("format", ["evalset", "test_cases", "csv"])
def test_nothing_is_written_where_something_would_be_lost(
    tmp_path: Path,
    format: str,  # noqa: A002
) -> None:
    path = put(tmp_path, NAMES[format], "as it was")
    with pytest.raises(ConfigError) as caught:
        write_cases(path, [PLAIN, RICH])
    assert [problem.message for problem in caught.value.problems] == losses([RICH], format)
    assert caught.value.remedy == "Convert them first, or write JSONL, which can hold everything."
    assert path.read_text() == "as it was"


def test_many_losers_are_not_all_named() -> None:
    cases = [Case(name=f"c{i}", turns=(Turn(input="q"),), labels=("x",)) for i in range(5)]
    assert losses(cases, "evalset") == [
        "evalset cannot hold labels: lost in cases 'c0', 'c1', 'c2' and 2 more"
    ]


def test_what_is_kept_in_part_is_said_so() -> None:
    scenario = Scenario(plan="p", stop_signal="enough")
    case = Case(name="s", turns=(Turn(input="q"),), scenario=scenario)
    assert losses([case], "evalset") == [
        "evalset cannot hold all of the simulated user: lost in case 's'"
    ]
    assert losses([case], "promptiter") == []
    recorded = Case(name="r", turns=(Turn(input="q"),), recorded=Outcome(replies=("a",), seconds=2))
    assert losses([recorded], "evalset") == [
        "evalset cannot hold all of the recorded run: lost in case 'r'"
    ]


def test_a_case_without_a_name_gets_its_id_where_it_needs_one() -> None:
    case = Case.single("q", "a")
    file, notes = convert(CaseFile(cases=(case,), format="jsonl"), "evalset")
    assert (file.cases[0].name, notes) == (case.id, [])


@pytest.fixture
def pictures(tmp_path: Path) -> CaseFile:
    parts = [{"text": "a"}, {"text": "b"}, {"inlineData": {"data": "aGk="}}]
    turns = [
        {"userContent": {"role": "user", "parts": parts}, "invocationId": "i"},
        {"userContent": {"role": "user", "parts": parts[:2]}},
    ]
    session = {"appName": "app", "userId": "u"}
    case = {"evalID": "p", "conversation": turns, "sessionInput": session}
    whole = {"evalSetId": "set", "description": "d", "evalCases": [case]}
    return read_cases(put(tmp_path, "pictures.evalset.json", json.dumps(whole)))


def test_an_evalset_as_csv(pictures: CaseFile) -> None:
    file, notes = convert(pictures, "csv")
    assert file.cases == (Case.single("a\nb", name="p"),)
    assert notes == [
        "csv cannot hold turns after the first: lost in case 'p'",
        "csv cannot hold 'session_input': lost in case 'p'",
        "csv cannot hold 'invocation_id': lost in case 'p'",
        "csv cannot hold messages that are more than plain text: lost in case 'p'",
    ]
    assert label_notes(pictures, "csv") == [
        "csv has no place for eval_set_id, description of the set"
    ]


def test_python_s_evalset_for_go(pictures: CaseFile, tmp_path: Path) -> None:
    file, notes = convert(pictures, "promptiter")
    assert notes == [
        "promptiter cannot hold messages that are more than plain text: lost in case 'p'"
    ]
    path = tmp_path / "go.evalset.json"
    write_cases(path, file)
    assert json.loads(path.read_text()) == {
        "evalSetId": "set",
        "description": "d",
        "evalCases": [
            {
                "evalId": "p",
                "conversation": [
                    {"invocationId": "i", "userContent": {"role": "user", "content": "a\nb"}},
                    {"userContent": {"role": "user", "content": "a\nb"}},
                ],
                "sessionInput": {"appName": "app", "userId": "u"},
            }
        ],
    }


def test_through_jsonl_and_back_the_file_is_the_same(pictures: CaseFile, tmp_path: Path) -> None:
    rows, notes = convert(pictures, "jsonl")
    assert notes == []  # the labels of the set are no part of a case
    back, lost = convert(again(rows, "x.jsonl"), "evalset")
    assert lost == []
    assert [case.turns for case in back.cases] == [case.turns for case in pictures.cases]


def test_a_conversion_to_the_same_format_changes_nothing(pictures: CaseFile) -> None:
    assert convert(pictures, "evalset") == (pictures, [])


def test_a_conversion_to_the_same_format_drops_what_it_cannot_hold(pictures: CaseFile) -> None:
    labelled = replace(pictures, cases=(replace(pictures.cases[0], labels=("x",)),))
    file, notes = convert(labelled, "evalset")
    assert notes == ["evalset cannot hold labels: lost in case 'p'"]
    assert again(file, "x.evalset.json").cases[0].turns == pictures.cases[0].turns


def test_what_a_format_refuses_is_said() -> None:
    turn = Turn(input="q", attachments=(Attachment(kind="song", path="a.mp3"),))
    with pytest.raises(ConfigError, match=r"written as a test case x\.files\[0\]\.type: expected"):
        losses([Case(name="x", turns=(turn,))], "test_cases")


def test_results_of_tools_are_mappings_for_python() -> None:
    turn = Turn(input="q", expected_calls=(ToolCall(name="f", result=3),))
    file, notes = convert(CaseFile(cases=(Case(name="x", turns=(turn,)),), format="j"), "evalset")
    [call] = file.cases[0].turns[0].expected_calls or []
    assert call.result == {"result": 3}
    assert notes == ["evalset cannot hold all of expected tool calls: lost in case 'x'"]


def test_messages_in_python_s_files_have_their_own_roles(tmp_path: Path) -> None:
    history = (Message(role="assistant", content="Hi"),)
    write_cases(
        tmp_path / "x.evalset.json", [Case(name="x", turns=(Turn(input="q"),), history=history)]
    )
    (case,) = json.loads((tmp_path / "x.evalset.json").read_text())["eval_cases"]
    assert case["context_messages"] == [said("Hi", "model")]
