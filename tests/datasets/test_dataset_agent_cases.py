"""Agent test cases load as the agent's own runner has them."""

import json
from pathlib import Path

import pytest

from burnish.core.cases import Attachment, Case, ExpectedTool, Rubric, Turn
from burnish.core.content import Json
from burnish.datasets.agent_cases import CaseFile
from burnish.datasets.formats import read_cases
from tests.datasets.dataset_files import again, problems, put, said

FILE = """
# Cases of a clerk who looks things up.
- name: single
  input: What was the rent in March?
  ground_truth: "1200.50"
  expected_tools: [ledger]
- name: with files
  input: |
    Sum up the page.
      Keep it short.
    Grüße
  files:
    - {path: pages/p1.pdf, type: pdf, pages: [1, 2], description: the page}
    - {url: "https://example.org/a.csv", type: csv, cache: false}
    - {data: dGVh, name: tea.txt, type: text}
  retrieval_context: ["Rent rose by 3%.", "It is due on Mondays."]
  evaluations: [{type: rag, metric_type: faithfulness}]
  labels: [long, hard]
  rubrics:
    - Names the rent.
    - {id: due, text: Says when it is due., metric: quality}
- name: talk
  turns:
    - {input: "Price in 2007?", ground_truth: "60.94", turn_config: {program: "60.94"}}
    - input: And the change?
      ground_truth: "no"
      evaluations: []
      expected_tools:
        - {name: subtract, args: {a: {fuzzy: "60.94"}, b: {regex: '25\\.14?'}, c: 3}, count: 2}
- turns: [{input: One turn in a list}]
- input: No name, ${HOME}
"""


@pytest.fixture
def file(tmp_path: Path) -> CaseFile:
    return read_cases(put(tmp_path, "cases.yaml", FILE))


def test_every_kind_of_case(file: CaseFile) -> None:
    single, files, talk, listed, unnamed = file.cases
    assert (single.expected, single.turns[0].expected_tools) == (
        "1200.50",
        (ExpectedTool(name="ledger"),),
    )
    assert files.turns[0].attachments == (
        Attachment(kind="pdf", path="pages/p1.pdf", description="the page",
                   options={"pages": [1, 2]}),
        Attachment(kind="csv", url="https://example.org/a.csv", options={"cache": False}),
        Attachment(kind="text", data="dGVh", name="tea.txt"),
    )  # fmt: skip
    assert files.turns[0].context == ("Rent rose by 3%.", "It is due on Mondays.")
    assert files.extras == {"evaluations": [{"type": "rag", "metric_type": "faithfulness"}]}
    assert files.labels == ("long", "hard")
    assert files.rubrics == (
        Rubric(id="1", text="Names the rent."),
        Rubric(id="due", text="Says when it is due.", metric="quality"),
    )
    assert talk.turns[0] == Turn(
        input="Price in 2007?", expected="60.94", settings={"program": "60.94"}
    )
    arguments: dict[str, Json] = {"a": {"fuzzy": "60.94"}, "b": {"regex": "25\\.14?"}, "c": 3}
    assert talk.turns[1].expected_tools == (
        ExpectedTool(name="subtract", arguments=arguments, count=2),
    )
    assert talk.turns[1].extras == {"evaluations": []}
    assert listed.input == "One turn in a list"
    assert (unnamed.name, unnamed.input) == ("", "No name, ${HOME}")


def test_it_is_the_same_after_writing(file: CaseFile) -> None:
    assert again(file.cases) == file.cases


@pytest.mark.parametrize(
    "agent",
    [
        "name: clerk\nmodel: {provider: ollama, name: m}\ntest_cases:\n  - input: q\n",
        "name: clerk\ninstructions: {inline: x}\ntest_cases_file: more/cases.yaml\n",
    ],
)
def test_an_agent_s_file_gives_its_cases(tmp_path: Path, agent: str) -> None:
    (tmp_path / "more").mkdir()
    put(tmp_path, "more/cases.yaml", "test_cases: [{input: q}]")
    path = put(tmp_path, "agent.yaml", agent)
    assert read_cases(path).cases == (Case.single("q"),)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cases.csv", "question,answer\nq,a\n"),
        ("CASES.CSV", "input,expected\nq,a\n"),
        ("cases.jsonl", '{"query": "q", "output": "a"}\n'),
        ("cases.json", '[{"input": "q", "ground_truth": "a"}]'),
        ("cases.json", '{"test_cases": [{"input": "q", "ground_truth": "a"}]}'),
    ],
)
def test_an_agent_s_file_may_name_cases_of_any_format(tmp_path: Path, name: str, text: str) -> None:
    put(tmp_path, name, text)
    path = put(tmp_path, "agent.yaml", f"name: clerk\ntest_cases_file: {name}\n")
    assert read_cases(path).cases == (Case.single("q", "a"),)


@pytest.mark.parametrize("name", ["set.evalset.json", "set.json"])
def test_an_agent_s_file_may_name_an_evalset(tmp_path: Path, name: str) -> None:
    turn: Json = {"user_content": said("q"), "final_response": said("a", "model")}
    cases: Json = [{"eval_id": "one", "conversation": [turn]}]
    put(tmp_path, name, json.dumps({"eval_set_id": "s", "eval_cases": cases}))
    path = put(tmp_path, "agent.yaml", f"test_cases_file: {name}\n")
    assert read_cases(path).cases == (Case.single("q", "a", name="one"),)


def test_what_is_wrong_with_a_named_file_is_said_of_it(tmp_path: Path) -> None:
    put(tmp_path, "cases.csv", "input,expected\nq,a,b\n")
    path = put(tmp_path, "agent.yaml", "test_cases_file: cases.csv")
    assert problems(path) == [
        "cases.csv:2: expected 2 cells, found 3 — put a cell with a comma in quotes"
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- {input: q, ground_truth: 60.94}",
         ":1 [0].ground_truth: expected text, found 60.94: put it in quotes"),
        ("- {input: q, ground_truth: true}",
         ":1 [0].ground_truth: expected text, found true: put it in quotes"),
        ("- {input: 5}", ":1 [0].input: expected text, found 5: put it in quotes"),
        ("- {ground_truth: a}", ":1 [0]: there is neither 'input' nor 'turns' — add one"),
        ("- {input: q, ground_thruth: a}",
         ":1 [0].ground_thruth: unknown key 'ground_thruth' — did you mean 'ground_truth'?"),
        ("- turns: [{input: a}]\n  ground_truth: b",
         ":2 [0].ground_truth: 'ground_truth' cannot be used with 'turns' — move it into a"
         " turn"),
        ("- {turns: []}", ":1 [0].turns: expected at least 1 item, found 0"),
        ("- {turns: }", ":1 [0].turns: expected a list, found nothing"),
        ("- {input: q, turn_config: {}}", ":1 [0].turn_config: unknown key 'turn_config' — known"
         " keys: name, input, ground_truth, expected_tools, files, retrieval_context,"
         " evaluations, turns, labels, rubrics"),
        ("- {input: q, expected_tools: [{args: {}}]}",
         ":1 [0].expected_tools[0].name: required, but missing — add it"),
        ("- {input: q, expected_tools: [{name: f, count: 0}]}",
         ":1 [0].expected_tools[0].count: expected at least 1, found 0"),
        ("- {input: q, expected_tools: [{name: f, args: {a: {regex: '('}}}]}",
         ":1 [0].expected_tools[0].args.a: regex: '(' is not a regular expression: missing ),"
         " unterminated subpattern at position 0"),
        ("- {input: q, expected_tools: [{name: f, args: {a: {fuzzy: 5}}}]}",
         ":1 [0].expected_tools[0].args.a: fuzzy: expected text, found 5: put it in quotes"),
        ("- {input: q, expected_tools: [{name: f, args: {a: {fuzzy: x, regex: y}}}]}",
         ":1 [0].expected_tools[0].args.a: expected a single key, 'fuzzy' or 'regex'"),
        ("- {input: q, files: [{type: pdf}]}",
         ":1 [0].files[0]: give one of 'path', 'url' and 'data'"),
        ("- {input: q, files: [{type: pdf, path: a, url: b}]}",
         ":1 [0].files[0]: give one of 'path', 'url' and 'data'"),
        ("- {input: q, files: [{type: movie, path: a}]}",
         ":1 [0].files[0].type: expected 'image', 'pdf', 'text', 'excel', 'word', 'powerpoint' or"
         " 'csv', found 'movie'"),
        (f"- {{input: q, files: [{', '.join(['{type: csv, path: a}'] * 11)}]}}",
         ":1 [0].files: expected at most 10 items, found 11"),
        ("- {input: a, name: x}\n- {input: b, name: x}",
         ":2 [1]: two cases have the name 'x'; the first is at bad.yaml:1 [0] — give each case its"
         " own name"),
        ("test_case: [{input: q}]",
         ": there is no 'test_cases' — did you misspell it as 'test_case'?"),
        ("name: agent", ": there is no 'test_cases' — add it"),
        ("test_cases: {a: b}", ":1 test_cases: expected a list of cases, found a mapping"),
        ("test_cases:", ":1 test_cases: there are no cases"),
        ("just text", ": expected a list of cases, found 'just text'"),
        ("", ": the file is empty"),
        ("- {input: [", ":1:12: not valid YAML: expected the node content, but found '<stream"
         " end>'"),
        ("test_cases: []\ntest_cases_file: x.yaml",
         ":2 test_cases_file: 'test_cases' and 'test_cases_file' are both given — keep one of"
         " them"),
        ("test_cases_file: 5", ":1 test_cases_file: expected a path, found 5"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(tmp_path: Path, text: str, problem: str) -> None:
    assert problems(put(tmp_path, "bad.yaml", text)) == [f"bad.yaml{problem}"]


def test_everything_is_said_at_once(tmp_path: Path) -> None:
    text = """
test_cases:
  - nam: a
    input: 5
  - turns:
      - {inptu: b}
    input: c
  - 7
"""
    assert problems(put(tmp_path, "bad.yaml", text)) == [
        "bad.yaml:3 test_cases[0].nam: unknown key 'nam' — did you mean 'name'?",
        "bad.yaml:4 test_cases[0].input: expected text, found 5: put it in quotes",
        "bad.yaml:7 test_cases[1].input: 'input' cannot be used with 'turns' — move it into a turn",
        "bad.yaml:6 test_cases[1].turns[0].input: required, but missing — add it",
        "bad.yaml:6 test_cases[1].turns[0].inptu: unknown key 'inptu' — did you mean 'input'?",
        "bad.yaml:8 test_cases[2]: expected a mapping, found 7",
    ]


def test_there_is_a_limit_to_the_number_of_cases(tmp_path: Path) -> None:
    path = put(tmp_path, "bad.yaml", "test_cases:\n" + "- {input: q}\n" * 1001)
    (problem,) = problems(path)
    assert problem == (
        "bad.yaml:1 test_cases: expected at most 1000 cases, found 1001 — split the file,"
        " or use JSONL"
    )


def test_a_file_of_cases_cannot_name_another(tmp_path: Path) -> None:
    put(tmp_path, "cases.yaml", "test_cases_file: agent.yaml")
    path = put(tmp_path, "agent.yaml", "test_cases_file: cases.yaml")
    assert problems(path) == [
        "agent.yaml test_cases_file: cases.yaml names another file of cases — name the file with"
        " the cases"
    ]
