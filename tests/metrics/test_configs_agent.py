"""Metrics of agent files, and how cases and turns set them differently."""

from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case, Failure, FailureKind, Outcome, Split, Turn
from burnish.core.errors import ConfigError
from burnish.core.evaluations import CaseResult, Evaluation, Score
from burnish.core.protocols import Metric
from burnish.journal.once import DirectEffects
from burnish.metrics.files import MetricList, make_agent_metrics, metric_name
from burnish.metrics.judged import JudgedMetric
from burnish.metrics.judges import MetricMaking
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.system import validate_config


def blocks(*told: Any) -> Any:
    return validate_config([*told], MetricList, source="agent.yaml").root


def metrics(
    folder: Path, *told: Any, cases: tuple[Case, ...] = (), judge: str = "openai:judge"
) -> tuple[Metric, ...]:
    ref = ModelRef.parse(judge) if judge else None
    making = MetricMaking(models=Models(), folder=folder, judge=ref)
    return make_agent_metrics(blocks(*told), cases, making)


async def scores(metric: Metric, case: Case, *replies: str) -> list[tuple[int | None, Any]]:
    found = await metric.score(case, Outcome(replies=replies), effects=DirectEffects())
    return [(score.turn, score.value) for score in found]


EVERY = (
    *({"type": "standard", "metric": name} for name in (
        "groundedness", "relevance", "coherence", "fluency", "bleu", "chrf", "rouge", "meteor",
        "equality", "numeric")),
    {"type": "geval", "name": "Conciseness", "criteria": "Short and direct"},
    *({"type": "rag", "metric_type": name} for name in (
        "faithfulness", "contextual_relevancy", "contextual_precision", "contextual_recall",
        "answer_relevancy")),
    {"type": "code", "grader": "graders:price"},
    {"type": "code", "grader": "graders:price", "name": "Price"},
    {"metric_name": "response_match_score", "threshold": 0.5},
)  # fmt: skip


def test_every_metric_of_an_agent_file_is_known_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "graders.py").write_text("def price(ctx):\n    return True\n", encoding="utf-8")
    made = metrics(tmp_path, *EVERY)
    expected = [
        "groundedness", "relevance", "coherence", "fluency", "bleu", "chrf", "rouge", "meteor",
        "equality", "numeric", "Conciseness", "faithfulness", "contextual_relevancy",
        "contextual_precision", "contextual_recall", "answer_relevancy", "price", "Price",
        "response_match_score",
    ]  # fmt: skip
    assert [metric.name for metric in made] == expected
    assert [metric_name(block) for block in blocks(*EVERY)] == expected
    assert len({metric.fingerprint for metric in made}) == len(made)


def test_the_type_may_be_left_out_where_the_keys_tell() -> None:
    told = [{key: value for key, value in each.items() if key != "type"} for each in EVERY]
    assert [metric_name(block) for block in blocks(*told)] == [
        metric_name(block) for block in blocks(*EVERY)
    ]


async def test_numeric_takes_its_settings(tmp_path: Path) -> None:
    (metric,) = metrics(
        tmp_path,
        {"type": "standard", "metric": "numeric", "relative_tolerance": 0.01,
         "accept_percent": True, "response_path": "answer"},
    )  # fmt: skip
    case = Case.single("q", "0.25")
    assert await scores(metric, case, '{"answer": "25.1%"}') == [(None, 1.0)]
    assert await scores(metric, case, '{"answer": "26%"}') == [(None, 0.0)]


def test_a_metric_may_name_its_own_judge(tmp_path: Path) -> None:
    own = {"provider": "ollama", "name": "llama3", "temperature": 0.4}
    first, second = metrics(
        tmp_path,
        {"type": "standard", "metric": "fluency", "model": own},
        {"type": "standard", "metric": "coherence"},
    )
    assert isinstance(first, JudgedMetric)
    assert isinstance(second, JudgedMetric)
    judge: Any = first.panel.judges[0].client.ref  # pyright: ignore[reportUnknownMemberType]
    assert (judge.label, judge.settings.temperature) == ("ollama:llama3", 0.4)
    other: Any = second.panel.judges[0].client.ref  # pyright: ignore[reportUnknownMemberType]
    assert (other.label, other.settings.temperature) == ("openai:judge", 0.0)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"type": "standard", "metric": "equalty"}, "equality"),
        ({"type": "standrd", "metric": "equality"}, "[0].type: expected one of 'code', 'geval', "
         "'rag', 'standard', found 'standrd' — did you mean 'standard'?"),
        ({"threshold": 0.5}, "set the type: `type: standard`, or code, geval, rag"),
        ("equality", "expected a mapping, found 'equality'"),
        ({"type": "geval", "name": "x"}, "criteria: required, but missing"),
        ({"type": "code", "grader": "no colon"}, "grader"),
        ({"type": "rag", "metric_type": "faithfulness", "treshold": 0.7}, "'threshold'"),
        ({"metric": "numeric", "absolute_tolerance": -1}, "absolute_tolerance"),
        (
            {"metric": "fluency", "model": {"provider": "anthropic", "name": "c",
                                            "auth_provider": "bedrock"}},
            "auth_provider 'bedrock' is not supported",
        ),
        (
            {"metric": "fluency", "model": {"provider": "azure_openai", "name": "c"}},
            "azure_openai needs a base_url",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(told: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        blocks(told)
    assert words in str(caught.value)


def test_a_judge_that_nobody_named_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="but no model is named"):
        metrics(tmp_path, {"type": "standard", "metric": "fluency"}, judge="")


def test_metrics_that_are_switched_off_are_left_out(tmp_path: Path) -> None:
    made = metrics(tmp_path, {"metric": "equality"}, {"metric": "numeric", "enabled": False})
    assert [metric.name for metric in made] == ["equality"]


EXACT: dict[str, Any] = {"type": "standard", "metric": "equality"}
LOOSE: dict[str, Any] = {"type": "standard", "metric": "equality", "case_insensitive": True}
NUMBER: dict[str, Any] = {"type": "standard", "metric": "numeric"}


async def test_a_turns_list_replaces_its_cases_and_a_cases_the_agents(tmp_path: Path) -> None:
    own = Case(
        name="own",
        turns=(
            Turn(input="a", expected="YES"),
            Turn(input="b", expected="7", extras={"evaluations": [NUMBER]}),
        ),
        extras={"evaluations": [LOOSE]},
    )
    plain = Case(name="plain", turns=(Turn(input="c", expected="YES"),))
    equality, numeric = metrics(tmp_path, EXACT, cases=(own, plain))
    assert (equality.name, numeric.name) == ("equality", "numeric")
    assert await scores(equality, own, "yes", "7") == [(0, 1.0)]
    assert await scores(numeric, own, "yes", "7.0") == [(1, 1.0)]
    assert await scores(equality, plain, "yes") == [(None, 0.0)]
    assert await scores(numeric, plain, "yes") == []


def test_a_setting_that_changes_anywhere_changes_the_fingerprint(tmp_path: Path) -> None:
    one = Case(name="c", turns=(Turn(input="a"),), extras={"evaluations": [EXACT]})
    two = Case(name="c", turns=(Turn(input="a"),), extras={"evaluations": [LOOSE]})
    first = metrics(tmp_path, EXACT, cases=(one,))[0]
    second = metrics(tmp_path, EXACT, cases=(two,))[0]
    assert first.fingerprint != second.fingerprint


def test_what_is_wrong_in_a_case_is_said_with_its_name(tmp_path: Path) -> None:
    bad = Case(name="odd", turns=(Turn(input="a", extras={"evaluations": [{"metric": "x"}]}),))
    worse = Case(name="twice", turns=(Turn(input="b"),), extras={"evaluations": [EXACT, LOOSE]})
    with pytest.raises(ConfigError) as caught:
        metrics(tmp_path, EXACT, cases=(bad, worse))
    assert "evaluations of odd turn 1" in str(caught.value)
    assert "two metrics have this name" in str(caught.value)


# -- the defects that come from adding up -------------------------------------------------------


def measured(*results: CaseResult) -> Evaluation:
    return Evaluation(candidate="c", split=Split.TRAIN, results=results)


def answered(case: str, *values: float | None) -> CaseResult:
    scored = tuple(
        Score(metric="equality", value=v, turn=n) if v is not None
        else Score.of_nothing("equality", "the judge was away")
        for n, v in enumerate(values)
    )  # fmt: skip
    return CaseResult(case=case, outcome=Outcome(replies=("r",) * len(values)), scores=scored)


def test_defect_000_1_a_crash_is_not_rewarded() -> None:
    crash = Outcome(failure=Failure(kind=FailureKind.AGENT, message="boom"))
    wrong = measured(answered("a", 1.0), answered("b", 0.0), answered("c", 0.0))
    crashed = measured(
        answered("a", 1.0),
        CaseResult(case="b", outcome=crash),
        CaseResult(case="c", outcome=crash),
    )
    assert wrong.mean_of("equality") == crashed.mean_of("equality") == pytest.approx(1 / 3)


def test_defect_000_8_a_missing_turn_is_not_averaged_as_0() -> None:
    found = measured(answered("a", 1.0, None), answered("b", 1.0, 1.0))
    assert found.results[0].value("equality") is None
    assert found.mean_of("equality") == 1.0
    assert found.missing_cases(["equality"]) == ("a",)


def test_defect_000_11_a_score_of_0_counts() -> None:
    found = measured(answered("a", 1.0), answered("b", 0.0), answered("c", 0.0))
    assert found.mean_of("equality") == pytest.approx(1 / 3)


def test_defect_001_4_cases_that_crashed_do_not_drop_out() -> None:
    crash = Outcome(failure=Failure(kind=FailureKind.AGENT, message="boom"))
    found = measured(
        answered("a", 1.0),
        *(CaseResult(case=name, outcome=crash) for name in ("b", "c")),
    )
    assert found.mean_of("equality") == pytest.approx(1 / 3)
    assert found.failed_cases() == ("b", "c")


def test_defect_001_4_a_metric_without_a_score_beside_a_pass_is_no_pass() -> None:
    passed = Score(metric="equality", value=1.0, passed=True)
    away = Score.of_nothing("fluency", "the judge was away")
    result = CaseResult(case="a", outcome=Outcome(replies=("r",)), scores=(passed, away))
    assert result.passed(("equality", "fluency")) is None
    assert result.passed(("equality",)) is True
