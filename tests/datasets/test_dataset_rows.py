"""Rows of JSON: any case fits, people's own names for columns are understood and kept."""

import json
from pathlib import Path

import pytest

from burnish.core.cases import (
    Case,
    ExpectedTool,
    Message,
    Outcome,
    Rubric,
    Scenario,
    ToolCall,
    Turn,
)
from burnish.core.content import Json
from burnish.datasets.formats import read_cases, write_cases
from tests.datasets.dataset_files import again, problems, put


def read(tmp_path: Path, *rows: Json) -> tuple[Case, ...]:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    file = read_cases(put(tmp_path, "rows.jsonl", text))
    assert again(file.cases) == file.cases
    return file.cases


@pytest.mark.parametrize("name", ["name", "id"])
@pytest.mark.parametrize("asked", ["input", "question", "prompt", "query"])
@pytest.mark.parametrize(
    "answer", ["expected", "ground_truth", "answer", "reference", "output", "expected_output"]
)
def test_the_names_people_use(tmp_path: Path, name: str, asked: str, answer: str) -> None:
    row = {name: "a", asked: "Where?", answer: "There."}
    path = put(tmp_path, "rows.jsonl", json.dumps(row) + "\n")
    file = read_cases(path)
    assert file.cases == (Case.single("Where?", "There.", name="a"),)


def test_every_part_of_a_case(tmp_path: Path) -> None:
    (case,) = read(
        tmp_path,
        {
            "id": 7,
            "question": "q",
            "answer": 42,
            "context": "one passage",
            "label": "easy",
            "topic": "birds",
            "metrics": ["equality"],
            "expected_tools": ["f", {"name": "g", "args": {"x": {"fuzzy": "1"}}, "count": 2}],
            "expected_calls": [{"name": "f", "arguments": {"x": 1}, "result": 0}],
            "history": [{"role": "user", "content": "Hi"}],
            "rubrics": ["Be kind."],
            "scenario": {"plan": "Ask twice.", "max_turns": 2},
            "recorded": {"replies": ["r"]},
            "evaluations": [{"type": "standard", "metric": "bleu"}],
            "settings": {"limit": 3},
            "extras": {"from": "elsewhere"},
        },
    )
    assert case == Case(
        name="7",
        turns=(
            Turn(
                input="q",
                expected="42",
                context=("one passage",),
                metrics=("equality",),
                expected_tools=(
                    ExpectedTool(name="f"),
                    ExpectedTool(name="g", arguments={"x": {"fuzzy": "1"}}, count=2),
                ),
                expected_calls=(ToolCall(name="f", arguments={"x": 1}, result=0),),
                settings={"topic": "birds", "limit": 3},
            ),
        ),
        labels=("easy",),
        history=(Message(role="user", content="Hi"),),
        rubrics=(Rubric(id="1", text="Be kind."),),
        scenario=Scenario(plan="Ask twice.", max_turns=2),
        recorded=Outcome(replies=("r",)),
        extras={"from": "elsewhere", "evaluations": [{"type": "standard", "metric": "bleu"}]},
    )


def test_a_row_of_turns(tmp_path: Path) -> None:
    turns: Json = [{"question": "a", "answer": "b"}, {"input": "c", "settings": {"topic": "own"}}]
    (case,) = read(tmp_path, {"turns": turns, "topic": "all"})
    assert case.turns == (
        Turn(input="a", expected="b", settings={"topic": "all"}),
        Turn(input="c", settings={"topic": "own"}),
    )


def test_other_columns_come_back_as_columns(tmp_path: Path) -> None:
    row = {"input": "q", "topic": "birds", "weight": 0.5, "nothing": None}
    path = put(tmp_path, "rows.jsonl", json.dumps(row) + "\n")
    file = read_cases(path)
    assert file.cases[0].turns[0].settings == {"topic": "birds", "weight": 0.5, "nothing": None}
    write_cases(path, file.cases)
    assert json.loads(path.read_text()) == row


def test_where_two_names_mean_one_part_the_second_is_a_setting(tmp_path: Path) -> None:
    (case,) = read(tmp_path, {"input": "q", "question": "other", "answer": None, "output": "o"})
    assert (case.input, case.expected) == ("q", "o")
    assert case.turns[0].settings == {"question": "other", "answer": None}


def test_an_agent_s_test_case_is_a_row(tmp_path: Path) -> None:
    row: Json = {
        "name": "a",
        "input": "q",
        "ground_truth": "g",
        "retrieval_context": ["c"],
        "files": [{"type": "pdf", "path": "x.pdf", "pages": [1]}],
    }
    (case,) = read(tmp_path, row)
    assert case.turns[0].context == ("c",)
    assert case.turns[0].attachments[0].options == {"pages": [1]}


def test_lines_end_where_lines_end(tmp_path: Path) -> None:
    text = '\ufeff{"input": "a\u2028b"}\r\n\r\n{"input": "c"}'
    file = read_cases(put(tmp_path, "rows.ndjson", text))
    assert [case.input for case in file.cases] == ["a\u2028b", "c"]


@pytest.mark.parametrize("content", ['[{"prompt": "q"}]', '{"test_cases": [{"input": "q"}]}'])
def test_a_json_file_may_be_a_list_of_rows(tmp_path: Path, content: str) -> None:
    assert read_cases(put(tmp_path, "rows.json", content)).cases == (Case.single("q"),)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"input": "a"', ": not valid JSON: Expecting ',' delimiter"),
        (b"[1]", ": expected a JSON object, found a list"),
        (b'"text"', ": expected a JSON object, found 'text'"),
        (b'{"input": "\xff"}', ": not UTF-8 text (at byte 11 of the line) — save it as UTF-8"),
        (b'{"input": "a", "input": "b"}', ": key 'input' appears twice — remove one"),
        (b'{"expected": "a"}', " input: required, but missing — add it"),
        (b'{"question": ["a"]}', " question: expected text, found a list"),
        (b'{"input": "a", "answer": true}', " answer: expected text, found true"),
        (b'{"input": "a", "context": [1]}', " context[0]: expected text, found 1"),
        (b'{"input": "a", "turns": [{"input": "b"}]}',
         " input: 'input' cannot be used with 'turns' — move it into a turn"),
        (b'{"turns": []}', " turns: expected at least 1 item, found 0"),
        (b'{"turns": 5}', " turns: expected a list, found 5"),
        (b'{"turns": [{"answer": "b"}]}', " turns[0].input: required, but missing — add it"),
        (b'{"turns": [{"input": "b", "ground_truth": []}]}',
         " turns[0].ground_truth: expected text, found a list"),
        (b'{"turns": [{"input": "b", "expectd": "c"}]}',
         " turns[0].expectd: unknown key 'expectd' — did you mean 'expected'?"),
        (b'{"input": "a", "history": [{"role": "bot", "content": "x"}]}',
         " history[0].role: expected 'system', 'user', 'assistant' or 'tool', found 'bot'"),
        (b'{"input": "a", "recorded": {"reply": "x"}}',
         " recorded.reply: unknown key 'reply' — remove it"),
        (b'{"input": "a", "recorded": {"trace": {"steps": [{"id": "1"}]}}}',
         " recorded.trace.steps[0].node: required, but missing — add it"),
        (b'{"input": "a", "expected_tools": [{"nme": "f"}]}',
         " expected_tools[0].name: required, but missing — add it"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_row(tmp_path: Path, line: bytes, problem: str) -> None:
    path = put(tmp_path, "rows.jsonl", b'{"input": "good"}\n' + line + b"\n")
    assert problems(path)[0] == f"rows.jsonl:2{problem}"


@pytest.mark.parametrize("value", ["NaN", "1e999", '"\\ud800"'])
def test_what_json_cannot_say(tmp_path: Path, value: str) -> None:
    path = put(tmp_path, "rows.jsonl", f'{{"input": "q", "x": {value}}}')
    (problem,) = problems(path)
    assert problem.startswith("rows.jsonl:1: this value cannot be kept as JSON")


def test_everything_is_said_in_the_order_of_the_file(tmp_path: Path) -> None:
    lines = ['{"a": 1}', "oops", '{"id": 1, "input": "q"}', '{"id": "1", "input": "r"}', "{}"]
    assert problems(put(tmp_path, "rows.jsonl", "\n".join(lines))) == [
        "rows.jsonl:1 input: required, but missing — add it",
        "rows.jsonl:2: not valid JSON: Expecting value",
        "rows.jsonl:4: two cases have the name '1'; the first is at rows.jsonl:3 — give each"
        " case its own name",
        "rows.jsonl:5 input: required, but missing — add it",
    ]


def test_a_flood_of_problems_is_cut(tmp_path: Path) -> None:
    found = problems(put(tmp_path, "rows.jsonl", "oops\n" * 150))
    assert len(found) == 11
    assert found[-1] == "and 140 more problems"


def test_problems_in_a_json_list_have_lines_too(tmp_path: Path) -> None:
    text = '[{"input": "a"},\n {"input": 5, "expected": {}},\n 7]'
    assert problems(put(tmp_path, "rows.json", text)) == [
        "rows.json:2 [1].expected: expected text, found a mapping",
        "rows.json:3 [2]: expected a mapping, found 7",
    ]


def test_many_rows_take_time_in_proportion(tmp_path: Path) -> None:
    text = "".join(f'{{"id": "{i}", "question": "q{i}", "topic": "t"}}\n' for i in range(5000))
    file = read_cases(put(tmp_path, "rows.jsonl", text))
    assert len(file.cases) == 5000
    assert file.cases[-1].name == "4999"
