"""An empty list of tools means no tool, and no list means that nobody asks: in every format."""

import json
from pathlib import Path

import pytest

from burnish.core.content import Json
from burnish.datasets.formats import read_cases, write_cases
from burnish.journal.once import DirectEffects
from burnish.metrics.computed import ToolTrajectory
from tests.datasets.dataset_files import check_evalset, put, said


def python_set(turn: dict[str, Json]) -> Json:
    one: dict[str, Json] = {"user_content": said("q"), **turn}
    return {"eval_set_id": "s", "eval_cases": [{"eval_id": "a", "conversation": [one]}]}


def go_set(turn: dict[str, Json]) -> Json:
    one: dict[str, Json] = {"userContent": {"role": "user", "content": "q"}, **turn}
    return {"evalSetId": "s", "evalCases": [{"evalId": "a", "conversation": [one]}]}


ROUTINE: dict[str, Json] = {"tool_uses": [], "tool_responses": [], "intermediate_responses": []}
EVALSETS = {
    "tools": (go_set({"tools": []}), ()),
    "no tools": (go_set({}), None),
    "null": (go_set({"tools": None}), None),
    "tool_uses": (python_set({"intermediate_data": {"tool_uses": []}}), ()),
    "as ADK writes it": (python_set({"intermediate_data": ROUTINE}), ()),
    "nothing happened": (python_set({}), None),
    "something else happened": (python_set({"intermediate_data": {"tool_responses": []}}), None),
    "events without calls": (
        python_set({"intermediate_data": {"invocation_events": [{"author": "a"}]}}),
        None,
    ),
}


@pytest.mark.parametrize("name", EVALSETS)
def test_evalsets_keep_the_difference(tmp_path: Path, name: str) -> None:
    whole, expected = EVALSETS[name]
    file = check_evalset(tmp_path, whole)
    (case,) = file.cases
    assert case.turns[0].expected_calls == expected


ROWS = {"": None, ', "expected_tools": null': None, ', "expected_tools": []': ()}


@pytest.mark.parametrize("more", ROWS)
@pytest.mark.parametrize("key", ["expected_tools", "expected_calls"])
def test_rows_keep_it(tmp_path: Path, more: str, key: str) -> None:
    text = '{"name": "a", "input": "q"%s}\n' % more.replace("expected_tools", key)  # noqa: UP031
    file = read_cases(put(tmp_path, "cases.jsonl", text))
    assert getattr(file.cases[0].turns[0], key) == ROWS[more]
    write_cases(tmp_path / "again.jsonl", file.cases)
    assert read_cases(tmp_path / "again.jsonl").cases == file.cases
    assert (key in (tmp_path / "again.jsonl").read_text()) == (ROWS[more] == ())


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize("more", ["", "expected_tools: null", "expected_tools: []"])
def test_test_cases_of_an_agent_keep_it(tmp_path: Path, more: str, turns: bool) -> None:
    turn = f"{{input: q, {more}}}" if more else "{input: q}"
    case = f"{{name: a, turns: [{turn}]}}" if turns else turn.replace("input", "name: a, input")
    text = f"- {case}\n"
    file = read_cases(put(tmp_path, "cases.yaml", text))
    assert file.cases[0].turns[0].expected_tools == (() if "[]" in more else None)


USED: list[Json] = [{"name": "search", "arguments": {"q": "x"}}]


@pytest.mark.parametrize(
    ("listed", "used", "score"),
    [({"tools": []}, USED, 0.0), ({"tools": []}, [], 1.0), ({}, USED, None)],
)
async def test_a_recorded_agent_that_calls_too_much_is_scored(
    tmp_path: Path, listed: dict[str, Json], used: list[Json], score: float | None
) -> None:
    talk: dict[str, Json] = {"userContent": {"role": "user", "content": "q"}}
    case: Json = {
        "evalId": "a",
        "evalMode": "trace",
        "conversation": [{**talk, **listed}],
        "actualConversation": [{**talk, "tools": used}],
    }
    whole: Json = {"evalSetId": "s", "evalCases": [case]}
    (read,) = read_cases(put(tmp_path, "s.evalset.json", json.dumps(whole))).cases
    assert read.recorded is not None
    found = await ToolTrajectory().score(read, read.recorded, effects=DirectEffects())
    assert [each.value for each in found] == ([] if score is None else [score])
