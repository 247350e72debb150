"""`burnish.evaluate`: any agent, any cases, any metrics, from a program."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import burnish
from burnish import Budget, Case, CasePolicy, aevaluate, evaluate
from burnish.core.cases import Scenario, Turn
from burnish.core.errors import ConfigError, ResumeRefused
from burnish.journal.outages import RetryPolicy
from burnish.models.chat import ChatRequest
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.projects.measurements import Evaluated
from burnish.reports.evaluation_cases import Trouble
from burnish.runs.directory import known_runs
from burnish.targets.callables import CommandTarget
from burnish.testing import ExpectedText, ScriptedBackend

pytestmark = pytest.mark.slow

CASES = [Case.single("yes", "YES", name="one"), Case.single("no", "NEIN", name="two")]


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in ("shouting", "own_words"):
        sys.modules.pop(name, None)


async def shout(query: str) -> str:
    return query.upper()


def test_a_function_cases_and_the_name_of_a_metric() -> None:
    found = evaluate(shout, cases=CASES, metric=["equality"])
    assert (found.passed, found.score("equality")) == (False, 0.5)
    assert list(found.failures) == ["two"]
    (complaint,) = found.failures["two"]
    assert (complaint.expected, complaint.actual) == ("NEIN", "NO")
    assert "failed: 1 of 2 cases fails" in found.explain()
    assert "expected  NEIN\n    actual    NO\n    reason" in found.explain()
    with pytest.raises(AssertionError, match="✗ two"):
        found.require()
    assert evaluate(shout, cases=CASES[:1], metric="equality").require().passed
    assert burnish.evaluate is evaluate


def test_cases_may_be_rows_as_in_a_file() -> None:
    rows = [{"query": "yes", "answer": "YES", "id": "one"}, CASES[1]]
    found = evaluate(shout, cases=rows, metric=["equality"])
    assert (found.score("equality"), list(found.failures)) == (0.5, ["two"])


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"inptu": "?"}, "cases: no column is plainly the question"),
        ({"input": "?", "expected": float("inf")}, "cases [1]: this value cannot be kept as JSON"),
        ({"input": "?", "name": "two"}, "two cases are called 'two'"),
        ("what?", "cases[1]: expected a row or a pair, found 'what?'"),
        (7, "cases[1]: expected a row or a pair, found 7"),
    ],
)
def test_a_row_that_is_no_case_is_refused_with_its_place(row: Any, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        evaluate(shout, cases=[CASES[1], row], metric=["equality"])
    assert told in str(caught.value)


def test_a_notebook_shows_the_verdict_and_the_metrics() -> None:
    found = evaluate(shout, cases=CASES, metric=["equality"])
    shown = getattr(found, "_repr_markdown_")().splitlines()  # noqa: B009 - as notebooks ask
    assert shown[0].endswith(" failed: 1 of 2 cases fails")
    assert "| `equality` | 0.50 |" in shown[4]


def test_nothing_is_left_behind_unless_a_folder_is_named(tmp_path: Path) -> None:
    assert evaluate(shout, cases=CASES, metric=["equality"]).folder is None
    assert list(known_runs()) == []
    home = tmp_path / "run"
    assert evaluate(shout, cases=CASES, metric=["equality"], folder=home).folder == home
    assert (home / "evaluation.json").exists()
    assert (home / "report.md").exists()


def test_the_same_folder_again_pays_nothing(tmp_path: Path) -> None:
    calls: list[str] = []

    async def counted(query: str) -> str:
        calls.append(query)
        return query.upper()

    def again(metric: str) -> Evaluated:
        return evaluate(counted, cases=CASES, metric=[metric], repeats=2, folder=tmp_path / "run")

    first = again("equality")
    assert again("equality").evaluation == first.evaluation
    assert len(calls) == 4
    with pytest.raises(ResumeRefused, match="another metric"):
        again("rouge")


def test_metrics_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    grader = "def grade(ctx):\n    return ctx.agent_response == 'NO'\n"
    (tmp_path / "own_words.py").write_text(grader, encoding="utf-8")
    found = evaluate(
        shout,
        cases=CASES,
        metric=[
            "rouge",
            {"type": "standard", "metric": "equality", "case_insensitive": True},
            "final_response_avg_score",
            "own_words:grade",
            ExpectedText(),
        ],
    )
    assert {name: found.score(name) for name in ("equality", "grade", "expected_text")} == {
        "equality": 0.5, "grade": 0.5, "expected_text": 0.5,
    }  # fmt: skip
    assert len(found.report.metrics) == 5
    (tmp_path / "metrics.yaml").write_text("[{type: standard, metric: equality}]")
    assert evaluate(shout, cases=CASES, metric=tmp_path / "metrics.yaml").score("equality") == 0.5


def test_agents_by_name_and_cases_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shouting.py").write_text("def call(query):\n    return query.upper()\n")
    (tmp_path / "cases.csv").write_text("input,expected\nyes,YES\n", encoding="utf-8")
    found = evaluate("shouting:call", cases="cases.csv", metric=["equality"])
    assert found.passed
    assert found.report.about.agent == "shouting:call"


def test_a_target_of_ones_own() -> None:
    target = CommandTarget(command=(sys.executable, "-S", "-c", "print(input().upper())"))
    assert evaluate(target, cases=CASES[:1], metric=["equality"]).passed


def test_whose_fault_it_is_and_how_often_to_try() -> None:
    calls: list[str] = []

    def agent(query: str) -> str:
        calls.append(query)
        raise LookupError("the vault is closed")

    policy = CasePolicy(
        retry=RetryPolicy(attempts=3, first_wait=0), infrastructure_errors=("LookupError",)
    )
    found = evaluate(agent, cases=CASES[:1], metric=["equality"], policy=policy)
    assert len(calls) == 3
    assert found.score("equality") is None
    assert not found.passed
    assert [c.trouble for c in found.failures["one"]] == [Trouble.MISSING]
    crashed = evaluate(agent, cases=CASES[:1], metric=["equality"])
    assert crashed.score("equality") == 0.0


def test_a_case_has_its_time() -> None:
    async def slow(query: str) -> str:
        await asyncio.sleep(3600)
        return query

    found = evaluate(slow, cases=CASES[:1], metric=["equality"], policy=CasePolicy(time_limit=0.05))
    assert "ran past the case's time limit" in found.explain()


def test_a_budget_that_is_too_small_says_so() -> None:
    with pytest.raises(ConfigError, match="cut short"):
        evaluate(shout, cases=CASES, metric=["equality"], budget=Budget(max_calls=1))


def test_a_judge_and_a_played_user() -> None:
    scenario = Case(
        name="trip", turns=(Turn(input="hello"),), scenario=Scenario(plan="Oslo.", max_turns=3)
    )

    def respond(request: ChatRequest, draw: int) -> str:
        shown = request.messages[-1].content
        if "Oslo." not in shown:
            return json.dumps({"reasoning": "r", "is_the_agent_response_valid": "valid"})
        over = "agent: OSLO" in shown
        return json.dumps({"thought": "t", "done": over, "remark": "" if over else "Oslo"})

    models = Models(backends={"openai": ScriptedBackend(respond=respond)})
    found = evaluate(
        shout,
        cases=[scenario, CASES[0]],
        metric=["llm_final_response"],
        judge=ModelRef.parse("openai:m"),
        user_simulator="openai:m",
        models=models,
    )
    assert found.score("llm_final_response") == 1.0
    assert found.evaluation.of_case("trip")[0].outcome.replies == ("HELLO", "OSLO")
    with pytest.raises(ConfigError, match="no model to simulate its user"):
        evaluate(shout, cases=[scenario], metric=["equality"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((shout, None, ["equality"]), "cases: there are none"),
        ((shout, CASES, None), "metric: nothing says how good an answer is"),
        ((shout, CASES, ["eqality"]), "there is no metric 'eqality'"),
        ((shout, CASES, ["llm_final_response"]), "but no model is named"),
        ((shout, CASES, ["equality", "equality"]), "two metrics have this name"),
        ((shout, CASES, [ExpectedText(), ExpectedText()]), "two metrics have this name"),
        (("no_such_module:call", CASES, ["equality"]), "ModuleNotFoundError"),
    ],
)
def test_what_cannot_be_measured_is_said(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        evaluate(arguments[0], cases=arguments[1], metric=arguments[2])


async def test_inside_a_running_loop() -> None:
    loop = asyncio.get_running_loop()

    async def agent(query: str) -> str:
        assert asyncio.get_running_loop() is loop
        return query.upper()

    found = await aevaluate(agent, cases=CASES, metric=["equality"])
    assert found.score("equality") == 0.5
    again = evaluate(shout, cases=CASES, metric=["equality"])  # in a loop of its own
    assert again.score("equality") == 0.5


# -- agents that are files -------------------------------------------------------------------


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    said = {"role": "model", "parts": [{"text": "2"}]}
    asked = {"role": "user", "parts": [{"text": "1+1"}]}
    turn = {"user_content": asked, "final_response": said}
    case = {
        "eval_id": "one",
        "eval_mode": "trace",
        "conversation": [turn],
        "actual_conversation": [turn],
    }
    path = tmp_path / "kept.evalset.json"
    path.write_text(json.dumps({"eval_set_id": "kept", "eval_cases": [case]}))
    config = {"metrics": [{"metric_name": "final_response_avg_score"}]}
    (tmp_path / "test_config.json").write_text(json.dumps(config))
    return path


def test_a_file_brings_its_own_cases_and_metrics(recorded: Path) -> None:
    found = evaluate(recorded)
    assert found.passed
    assert found.score("final_response_avg_score") == 1.0
    other = evaluate(str(recorded), metric=["equality"], seed=3)
    assert [each.metric for each in other.report.metrics] == ["equality"]
    assert other.report.about.seed == 3


def test_what_a_file_cannot_be_given_is_refused(recorded: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        evaluate(recorded, user_simulator="openai:m", models=Models())
    assert [p.where for p in raised.value.problems] == ["user_simulator", "models"]
