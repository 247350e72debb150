"""Cases that a client sends: data is read, everything else is refused with its place."""

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import ConfigError
from burnish.datasets.agent_cases import CaseFile
from burnish.datasets.client_cases import read_client_cases
from burnish.datasets.formats import read_cases
from tests.datasets.dataset_files import put

MODEL = {"provider": "openai", "name": "m", "endpoint": "http://127.0.0.1:9", "api_key": "${KEY}"}
JUDGED = {"type": "geval", "name": "leak", "criteria": "c", "model": MODEL}
EVALUATIONS = [JUDGED, {"type": "code", "grader": "os:system"}]
ROW: dict[str, Any] = {
    "name": "one",
    "input": "q",
    "ground_truth": "a",
    "retrieval_context": ["c"],
    "labels": ["hard"],
    "expected_tools": ["look", {"name": "find", "args": {"path": "/a", "url": "b"}, "count": 2}],
    "files": [{"type": "pdf", "data": "aGk=", "name": "a.pdf", "pages": [1], "description": "d"}],
    "rubrics": ["kind", {"id": "r", "text": "short", "metric": "m"}],
}
"""What every format of rows and test cases may hold."""
WIDE: dict[str, Any] = {
    **ROW,
    "expected_calls": [{"name": "find", "arguments": {"model": 1}, "result": {"grader": "x:y"}}],
    "metrics": ["m"],
    "history": [
        {
            "role": "user",
            "content": "hi",
            "images": [{"media_type": "image/png", "base64": "aGk="}],
        }
    ],
    "scenario": {"plan": "p", "stop_signal": "s", "max_turns": 2},
    "recorded": {"replies": ["r"]},
    "extras": {"route": ["planner"]},
    "settings": None,
    "evaluations": None,
}
"""What rows may hold beyond that; null says nothing."""


def invocation(**more: Any) -> dict[str, Any]:
    return {"user_content": {"role": "user", "parts": [{"text": "hi"}]}, **more}


def evalset(*invocations: Any, **more: Any) -> dict[str, Any]:
    case = {"eval_id": "e", "conversation": [*invocations], **more}
    return {"eval_set_id": "s", "eval_cases": [case]}


HI = invocation()
FULL_SET = evalset(
    invocation(
        invocation_id="i",
        final_response={"role": "model", "parts": [{"text": "a", "thought": False}]},
        creation_timestamp=1.5,
        intermediate_data={
            "tool_uses": [{"name": "find", "id": "1", "args": {"url": "x"}}],
            "tool_responses": [{"name": "find", "id": "1", "response": {"path": "/x"}}],
            "intermediate_responses": [["agent", [{"text": "hm"}]]],
        },
    ),
    session_input={"app_name": "a", "user_id": "u", "state": {"model": "x"}},
    context_messages=[
        {"role": "user", "parts": [{"inline_data": {"mime_type": "image/png", "data": "aGk="}}]}
    ],
    creation_timestamp=1,
)
CAMEL_SET = {
    "evalSetId": "s",
    "name": "n",
    "evalCases": [
        {
            "evalId": "e",
            "conversation": [
                {
                    "userContent": {"role": "user", "content": "hi"},
                    "finalResponse": {"role": "assistant", "content": "a"},
                    "tools": [{"name": "find", "arguments": {"a": 1}, "result": "x"}],
                    "metricNames": ["m"],
                }
            ],
            "rubrics": [{"id": "1", "content": {"text": "kind"}}],
            "sessionInput": {"appName": "a", "userId": "u"},
        }
    ],
}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", WIDE),
        ("a.jsonl", {"turns": [{"question": "q", "files": ROW["files"]}, {"input": "r"}]}),
        ("a.json", [WIDE, {"prompt": "p", "output": 3}]),
        ("a.json", {"test_cases": [WIDE]}),
        ("a.json", CAMEL_SET),
        ("a.yaml", [ROW, {"turns": [{"input": "q", "files": ROW["files"]}]}]),
        ("a.yml", {"test_cases": [ROW]}),
        ("a.evalset.json", FULL_SET),
        ("a.evalset.json", CAMEL_SET),
        ("a.evalset.json", evalset(invocation(), eval_mode="trace", actual_conversation=[HI])),
    ],
)
def test_data_is_read_as_from_any_other_file(tmp_path: Path, name: str, content: Any) -> None:
    path = put(tmp_path, name, json.dumps(content))
    assert read_client_cases(path) == read_cases(path)


def test_csv_is_read_as_from_any_other_file(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", "id,question,answer,context,label\n1,q,a,c,x;y\n2,r,,,\n")
    assert read_client_cases(path) == read_cases(path)


def refused(tmp_path: Path, name: str, content: Any) -> list[str]:
    """The places that are refused."""
    text = content if isinstance(content, str) else json.dumps(content)
    with pytest.raises(ConfigError) as caught:
        read_client_cases(put(tmp_path, name, text))
    for problem in caught.value.problems:
        assert problem.message
    assert all(problem.remedy for problem in caught.value.problems[:10])
    return [problem.where for problem in caught.value.problems]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.yaml"])
def test_all_offences_are_listed_together(tmp_path: Path, name: str) -> None:
    rows: list[Any] = [
        {"input": "q"},
        {
            "input": "r",
            "evaluations": EVALUATIONS,
            "files": [{"type": "text", "path": "/etc/hosts"}, {"type": "text", "url": "http://x"}],
        },
        {"turns": [{"input": "s"}, {"input": "t", "turn_config": {"a": 1}}]},
    ]
    content = "\n".join(map(json.dumps, rows)) if name == "a.jsonl" else rows
    assert refused(tmp_path, name, content) == [
        "cases[1].evaluations[0].model",
        "cases[1].evaluations[1].grader",
        "cases[1].files[0].path",
        "cases[1].files[1].url",
        "cases[1].evaluations[0].model.api_key",
        "cases[2].turns[1].a",
    ]


UNLISTED: list[tuple[dict[str, Any], str]] = [
    ({"Evaluations": EVALUATIONS[1:]}, "Evaluations[0].grader"),
    ({"extras": {"evaluations": EVALUATIONS[1:]}}, "evaluations[0].grader"),
    ({"extras": {"expected_runner_enabled": True}}, "expected_runner_enabled"),
    ({"turns": [{"input": "a", "extras": {"evaluations": []}}]}, "evaluations"),
    ({"settings": {"file": "/etc/hosts"}}, "file"),
    ({"turn_config": {"grader": "a:b"}}, "grader"),
    ({"metadata": {"a": 1}}, "metadata"),
    ({"tags": ["a"]}, "tags"),
    ({"model": "openai:gpt-4o"}, "model"),
    ({"judge_model": MODEL | {"api_key": "x"}}, "judge_model"),
    ({"filePath": "/etc/hosts"}, "filePath"),
    ({"files": [{"type": "text", "data": "aGk=", "cache": True}]}, "files[0].cache"),
    ({"files": [{"type": "text", "options": {"path": "/x"}}]}, "files[0].path"),
    ({"attachments": [{"kind": "text", "path": "/x"}]}, "attachments[0].path"),
    ({"history": [{"role": "user", "content": "a", "verbatim": {}}]}, "history[0].verbatim"),
    ({"тип": 1}, "тип"),
    ({"a b": 1}, '["a b"]'),
]


@pytest.mark.parametrize(("row", "place"), UNLISTED)
def test_a_field_that_is_not_listed_is_refused(
    tmp_path: Path, row: dict[str, Any], place: str
) -> None:
    whole = row if "turns" in row else {"input": "q", **row}
    dot = "" if place.startswith("[") else "."
    assert refused(tmp_path, "a.jsonl", whole) == [f"cases[0]{dot}{place}"]


@pytest.mark.parametrize("name", ["a.evalset.json", "a.json"])
def test_an_evalset_is_held_to_the_same(tmp_path: Path, name: str) -> None:
    whole = evalset(invocation(), expectedRunnerEnabled=True)
    assert refused(tmp_path, name, whole) == ["cases[0].expected_runner_enabled"]


@pytest.mark.parametrize(
    "whole",
    [
        evalset(invocation(), evaluations=EVALUATIONS[1:]),
        evalset(invocation()) | {"metricsFile": "x"},
        evalset(invocation()) | {"model": MODEL | {"api_key": "k"}},
    ],
)
def test_an_evalset_has_no_other_fields(tmp_path: Path, whole: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="unknown key"):
        read_client_cases(put(tmp_path, "a.evalset.json", json.dumps(whole)))


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({"input": "a ${KEY}"}, "input"),
        ({"input": "$${KEY}"}, "input"),
        ({"id": "${KEY}", "input": "a"}, "name"),
        ({"input": "a", "expected": "${KEY}"}, "expected"),
        ({"input": "a", "context": ["b", "${KEY}"]}, "context[1]"),
        ({"input": "a", "labels": ["${KEY}"]}, "labels[0]"),
        ({"input": "a", "expected_tools": ["${KEY}"]}, "expected_tools[0].name"),
        (
            {"input": "a", "expected_tools": [{"name": "b", "args": {"c": {"d": ["${KEY}"]}}}]},
            "expected_tools[0].arguments.c.d[0]",
        ),
        (
            {"input": "a", "expected_tools": [{"name": "b", "args": {"${KEY}": 1}}]},
            'expected_tools[0].arguments["${KEY}"]',
        ),
        ({"turns": [{"input": "a"}, {"input": "${KEY}"}]}, "turns[1].input"),
        ({"input": "a", "scenario": {"plan": "${KEY}"}}, "scenario.plan"),
        ({"input": "a", "history": [{"role": "user", "content": "${KEY}"}]}, "history[0].content"),
        ({"input": "a", "recorded": {"replies": ["${KEY}"]}}, "recorded.replies[0]"),
        (
            {"input": "a", "files": [{"type": "text", "data": "aGk=", "description": "${KEY}"}]},
            "files[0].description",
        ),
    ],
)
def test_a_variable_is_refused_wherever_it_hides(
    tmp_path: Path, row: dict[str, Any], place: str
) -> None:
    assert refused(tmp_path, "a.jsonl", row) == [f"cases[0].{place}"]


def test_what_nobody_expands_is_text(tmp_path: Path) -> None:
    row = {"input": "`${user.name}`, $HOME, ${1}, ${}, ${x:-y}, $(ls), {name}, {{name}}"}
    assert (
        read_client_cases(put(tmp_path, "a.jsonl", json.dumps(row))).cases[0].input == row["input"]
    )


def test_variables_in_csv_and_in_evalsets(tmp_path: Path) -> None:
    assert refused(tmp_path, "a.csv", "input,expected\na,b\nc,${KEY}\n") == ["cases[1].expected"]
    state = {"state": {"k": "${KEY}"}}
    whole = evalset(invocation(), session_input=state)
    assert refused(tmp_path, "a.evalset.json", whole) == ["cases[0].session_input.state.k"]


def test_columns_of_csv(tmp_path: Path) -> None:
    text = "input,grader,path,difficulty,empty\na,,,,\nb,os:system,/etc/hosts,hard,\n"
    assert refused(tmp_path, "a.csv", text) == [
        "cases[1].grader",
        "cases[1].path",
        "cases[1].difficulty",
    ]


def test_columns_of_csv_that_are_no_part_of_a_case(tmp_path: Path) -> None:
    text = "input,question,recorded,extras,metrics\na,b,c,d,e\n"
    columns = ("question", "recorded", "extras", "metrics")
    assert refused(tmp_path, "a.csv", text) == [f"cases[0].{column}" for column in columns]


@pytest.mark.parametrize("text", ['["\\u0024{KEY}"]', '["\\ud800"]'], ids=["var", "half"])
def test_json_in_a_text_is_looked_at_as_it_will_be_read(tmp_path: Path, text: str) -> None:
    cell = text.replace('"', '""')
    (place,) = refused(tmp_path, "a.csv", f'input,context\na,"{cell}"\n')
    assert place in ("cases[0].context[0]", "cases[0]")


@pytest.mark.parametrize("text", ["[" * 20_000, f"[{'9' * 5_000}]", '{"a":' * 20_000])
def test_json_in_a_text_that_nobody_can_read_is_a_text(tmp_path: Path, text: str) -> None:
    cell = text.replace('"', '""')
    read = read_client_cases(put(tmp_path, "a.csv", f'input,context\na,"{cell}"\n'))
    assert read.cases[0].turns[0].context == (text,)
    called = evalset(invocation(tools=[{"name": "f", "arguments": text}]))
    with pytest.raises(ConfigError, match="expected a mapping, or JSON of one"):
        read_client_cases(put(tmp_path, "a.evalset.json", json.dumps(called)))


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("- &a {input: a, evaluations: &e [{grader: 'a:b'}]}\n- {input: b, evaluations: *e}\n",
         ["cases[0].evaluations[0].grader", "cases[1].evaluations[0].grader"]),
        ("- &a {input: a}\n- {<<: [*a, {evaluations: [{grader: 'a:b'}]}]}\n",
         ["cases[1].evaluations[0].grader"]),
        ("- {<<: {files: [{type: text, path: /etc/hosts}]}, input: a}\n",
         ["cases[0].files[0].path"]),
        ('- {"inp\\u0075t": a, "eval\\u0075ations": [{"gr\\u0061der": "a:b"}]}\n',
         ["cases[0].evaluations[0].grader"]),
        ("test_cases_file: /etc/hosts\n", ["test_cases_file"]),
        ("test_cases: [{input: a}]\ntest_cases_file: other.yaml\n", ["test_cases_file"]),
        ("- {input: a, expected_tools: [{name: b, args: {'${KEY}': 1}}]}\n",
         ['cases[0].expected_tools[0].arguments["${KEY}"]']),
    ],
)  # fmt: skip
def test_yaml_hides_nothing(tmp_path: Path, text: str, places: list[str]) -> None:
    assert refused(tmp_path, "a.yaml", text) == places


@pytest.mark.parametrize(
    "text",
    ["- !include /etc/hosts\n", "- input: !!python/name:os.system\n", "- !env {input: a}\n"],
)
def test_yaml_has_no_tags_of_its_own(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="is not allowed"):
        read_client_cases(put(tmp_path, "a.yaml", text))


def test_only_the_first_offences_are_listed(tmp_path: Path) -> None:
    rows = "".join(f'{{"input": "q", "evaluations": [{n}]}}\n' for n in range(50))
    places = refused(tmp_path, "a.jsonl", rows)
    assert places == [*(f"cases[{n}].evaluations" for n in range(10)), ""]


def test_what_is_told_is_short_and_has_no_values(tmp_path: Path) -> None:
    row = {"input": "q", "x" * 100_000: 1, "judge": {"api_key": "sk-of-the-client-0123456789"}}
    with pytest.raises(ConfigError) as caught:
        read_client_cases(put(tmp_path, "a.jsonl", json.dumps(row)))
    assert len(str(caught.value)) < 1500
    assert "sk-of-the-client" not in str(caught.value)


DEEP = "[" * 150 + "]" * 150


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "[" * 100_000),
        ("a.jsonl", "[" * 100_000),
        ("a.evalset.json", '{"a":' * 100_000),
        ("a.jsonl", f'{{"input": "a", "recorded": {DEEP}}}'),
        ("a.json", f'[{{"input": "a", "recorded": {DEEP}}}]'),
        ("a.evalset.json", f'{{"eval_set_id": "a", "eval_cases": [{DEEP}]}}'),
        ("a.evalset.json", f'{{"eval_set_id": "a", "eval_cases": [], "x": {DEEP}}}'),
        ("a.yaml", "[" * 500),
        ("a.yaml", "{a: " * 2000),
        ("a.yaml", "- " * 2000),
        ("a.yaml", f"- input: a\n  x: {DEEP}\n"),
    ],
)
def test_what_is_nested_too_deeply(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        read_client_cases(put(tmp_path, name, text))


def test_yaml_that_would_take_hours(tmp_path: Path) -> None:
    merged = [f"- &m{n} {{<<: [*m0, *m{n - 1}], k{n}: 1}}\n" for n in range(1, 5000)]
    with pytest.raises(ConfigError, match="more than 100 aliases"):
        read_client_cases(put(tmp_path, "a.yaml", "- &m0 {a: 1}\n" + "".join(merged)))
    with pytest.raises(ConfigError, match="more than 500,000 characters"):
        read_client_cases(put(tmp_path, "a.yaml", "- input: a\n" * 50_000))
    doubled = "".join(f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 9)}]\n" for n in range(1, 9))
    with pytest.raises(ConfigError, match="unfold into too much"):
        read_client_cases(put(tmp_path, "a.yaml", f"k0: &k0 [x]\n{doubled}"))


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.yaml", '- input: "\\ud800"\n'), ("a.jsonl", '{"input": "\\ud800"}')],
)
def test_what_has_no_json_form(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(ConfigError, match="cannot be kept as JSON"):
        read_client_cases(put(tmp_path, name, text))


def test_what_is_no_case_is_for_the_reader_to_say(tmp_path: Path) -> None:
    for name, text in {"a.json": "3", "a.yaml": "", "a.jsonl": "[]", "a.csv": ""}.items():
        with pytest.raises(ConfigError, match=rf"^{name}"):
            read_client_cases(put(tmp_path, name, text))


def test_the_whole_file_comes_back(tmp_path: Path) -> None:
    file = read_client_cases(put(tmp_path, "a.jsonl", json.dumps(WIDE)))
    assert isinstance(file, CaseFile)
    (case,) = file.cases
    assert case.turns[0].attachments[0].data == "aGk="
    assert case.extras == {"route": ["planner"]}
