"""The stand-in for a model: it reads what burnish asks, answers by a function, and steps aside."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.models.roles import in_force
from burnish.testing.servers import HttpRequest
from burnish.testing.standin import (
    Judging,
    Rewriting,
    ShownCase,
    model_or_standin,
    one_more_rule,
    read_request,
    run_beside,
)

RECORDS = """Case c1
Input: How much?
Expected answer: Result: 5 g
The agent's answer: 2 + 3 = 5
5
Wrong by final_response_avg_score: not found
Not good enough by llm_rubric_response (worth 0.50)
- unit is not met (no unit)
- value is met
Earlier answer, worth 0.00: 4

Case c2
Input: And now?
Expected answer: Result: 6 g
The agent's answer: (nothing)
The agent failed: ValueError: no number"""


def asked(role: str, **told: str) -> HttpRequest:
    """A request as the role's own prompt words it."""
    messages = in_force(role, Path("nowhere")).messages(told)
    body = {"messages": [{"role": each.role, "content": each.content} for each in messages]}
    return HttpRequest(method="POST", path="/v1/chat/completions", query="", headers={}, json=body)


def test_a_request_to_rewrite_is_read_as_it_was_meant() -> None:
    request = asked(
        "reflector",
        field="skill",
        current_text="Weigh.\n",
        records=RECORDS,
        other_texts="The text system:\nBe brief.\n\nThe text rule:\nNo jokes.",
        rejected="",
        must_keep="",
        max_chars="8000",
    )
    assert read_request(request) == Rewriting(
        field="skill",
        text="Weigh.\n",
        others={"system": "Be brief.", "rule": "No jokes."},
        cases=[
            ShownCase(
                id="c1",
                asked="How much?",
                expected="Result: 5 g",
                said="2 + 3 = 5\n5",
                error="",
                failed_rubrics=("unit",),
            ),
            ShownCase(
                id="c2",
                asked="And now?",
                expected="Result: 6 g",
                said="",
                error="ValueError: no number",
            ),
        ],
    )


def test_a_request_to_judge_is_read_as_it_was_meant() -> None:
    request = asked(
        "judge_rubric_response",
        conversation="(none)",
        user_prompt="How much?",
        agent_response="5",
        reference="5 g",
        rubrics="value: The number is right.\nunit: There is a unit: g.",
    )
    rubrics = {"value": "The number is right.", "unit": "There is a unit: g."}
    wanted = Judging(asked="How much?", reply="5", reference="5 g", rubrics=rubrics)
    assert read_request(request) == wanted


def test_anything_else_is_nothing_to_answer() -> None:
    body = {"messages": [{"role": "user", "content": "Hello?"}]}
    other = HttpRequest(method="POST", path="/v1/chat/completions", query="", headers={}, json=body)
    assert read_request(other) is None


def test_a_rule_is_stated_once_and_only_where_a_case_reveals_it() -> None:
    case = ShownCase(id="c1", asked="?", expected="5 g", said="5", error="")
    request = Rewriting(field="skill", text="Weigh.\n", others={}, cases=[case])
    told, text = one_more_rule(
        request, lambda case: ["Say the unit."] if "g" not in case.said else []
    )
    assert (told, text) == ("case c1 asks for it: Say the unit.", "Weigh.\nSay the unit.\n")
    again = replace(request, text=text)
    assert one_more_rule(again, lambda case: ["Say the unit."])[1] == text
    assert one_more_rule(request, lambda case: [])[1] == request.text


def same(request: Rewriting) -> tuple[str, str]:
    return "nothing to say", request.text


@pytest.mark.slow
async def test_a_model_that_is_named_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAMPLE_MODEL", "gpt-of-mine")
    monkeypatch.delenv("EXAMPLE_BASE_URL", raising=False)
    async with model_or_standin(same) as standing_in:
        assert not standing_in
        assert (os.environ["EXAMPLE_MODEL"], os.environ["EXAMPLE_BASE_URL"]) == ("gpt-of-mine", "")
    assert "EXAMPLE_BASE_URL" not in os.environ


@pytest.mark.slow
async def test_a_command_runs_beside_the_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EXAMPLE_MODEL", raising=False)
    monkeypatch.setenv("EXAMPLE_API_KEY", "a-key-of-my-own")
    seen = tmp_path / "seen.json"
    program = (
        "import json, os, pathlib, sys\n"
        "told = {n: v for n, v in os.environ.items() if n.startswith('EXAMPLE_')}\n"
        f"pathlib.Path({str(seen)!r}).write_text(json.dumps(told))\n"
        "sys.exit(7)\n"
    )
    assert await run_beside([sys.executable, "-c", program], same) == 7
    told = json.loads(seen.read_text(encoding="utf-8"))
    assert told["EXAMPLE_MODEL"] == "stand-in"
    assert told["EXAMPLE_BASE_URL"].startswith("http://127.0.0.1:")
    assert told["EXAMPLE_API_KEY"] == "none-is-needed-offline"
    assert os.environ["EXAMPLE_API_KEY"] == "a-key-of-my-own"
    assert "EXAMPLE_MODEL" not in os.environ
