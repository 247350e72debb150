"""Metrics of EvalSets and PromptIter: their files load unchanged, and what is wrong is said."""

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case, Outcome, Turn
from burnish.core.errors import ConfigError
from burnish.core.evaluations import Score
from burnish.journal.once import DirectEffects
from burnish.metrics.eval_factory import make_metrics
from burnish.metrics.eval_metrics import EvalConfig, MetricItem, ignored_keys, read_metrics
from burnish.metrics.judged import JudgedMetric
from burnish.metrics.judges import MetricMaking, PanelRule
from burnish.models.factory import Models
from burnish.models.references import ModelRef

CASE = Case.single("What does it cost?", "12 EUR")


def making(tmp_path: Path, *, judge: str = "openai:judge") -> MetricMaking:
    ref = ModelRef.parse(judge) if judge else None
    return MetricMaking(models=Models(), folder=tmp_path, judge=ref)


def item(name: str, criterion: Any = None, **more: Any) -> MetricItem:
    return MetricItem.model_validate({"metric_name": name, "criterion": criterion or {}, **more})


async def score(tmp_path: Path, told: MetricItem, reply: str, case: Case = CASE) -> Score:
    (metric,) = make_metrics([told], making(tmp_path))
    (found,) = await metric.score(case, Outcome(replies=(reply,)), effects=DirectEffects())
    return found


RUBRIC = {"id": "r1", "content": {"text": "says the price"}, "description": "price", "type": "Q"}

JUDGED = (
    "llm_final_response",
    "llm_hallucinations",
    "llm_rubric_response",
    "llm_rubric_critic",
    "llm_rubric_reference_critic",
    "llm_rubric_knowledge_recall",
    "llm_verifier_pairwise",
)
COMPUTED = (
    "tool_trajectory_avg_score",
    "final_response_avg_score",
    "response_match_score",
)


@pytest.mark.parametrize("name", [*JUDGED, *COMPUTED])
def test_every_name_of_the_seeds_makes_its_metric(tmp_path: Path, name: str) -> None:
    told = item(name, {"llm_judge": {"rubrics": [RUBRIC]}})
    (metric,) = make_metrics([told], making(tmp_path))
    assert metric.name == name
    assert metric.threshold == (None if name == "llm_verifier_pairwise" else 1.0)
    assert isinstance(metric, JudgedMetric) == (name in JUDGED)


async def test_both_spellings_and_the_short_names_mean_the_same(tmp_path: Path) -> None:
    forms: list[dict[str, Any]] = [
        {"final_response": {"text": {"match": "contains", "case_insensitive": True}}},
        {"finalResponse": {"textStrategy": {"matchStrategy": "contains", "caseInsensitive": True}}},
        {"final_response": {"text_strategy": {"match_strategy": "contains",
                                              "caseInsensitive": True}}},
        {"type": "text", "match": "contains", "case_insensitive": True},
    ]  # fmt: skip
    for key in ("criterion", "Criterion", "strategy"):
        for form in forms:
            told = MetricItem.model_validate({"metricName": "final_response_avg_score", key: form})
            assert (await score(tmp_path, told, "it is 12 eur.")).value == 1.0
            assert (await score(tmp_path, told, "it is 13 eur.")).value == 0.0


async def test_defect_001_14_a_threshold_of_0_stays_0(tmp_path: Path) -> None:
    found = await score(tmp_path, item("final_response_avg_score", threshold=0), "no idea")
    assert (found.value, found.passed) == (0.0, True)


async def test_defect_001_14_an_empty_json_criterion_is_a_criterion(tmp_path: Path) -> None:
    told = item("final_response_avg_score", {"final_response": {"json": {}}})
    same = Case.single("q", '{"a": 1}')
    assert (await score(tmp_path, told, '{"a": 1.0}', same)).value == 1.0
    assert (await score(tmp_path, told, '{"a": 2}', same)).value == 0.0


async def test_length_alone_needs_no_reference(tmp_path: Path) -> None:
    text = {"matchStrategy": "skip", "length": {"min": 3, "max": 5}}
    told = item("final_response_avg_score", {"finalResponse": {"text": text}})
    asked = Case.single("q")
    assert (await score(tmp_path, told, "four", asked)).value == 1.0
    found = await score(tmp_path, told, "much too long", asked)
    assert found.value == 0.0
    assert "too long: 13 characters, expected 3 to 5" in found.reason


@pytest.mark.parametrize(
    ("reply", "value"), [("x" * 40, 1.0), ("x" * 20, 0.5), ("x" * 70, 0.5), ("x" * 80, 0.0)]
)
async def test_length_compliance_has_a_best_and_an_acceptable_range(
    tmp_path: Path, reply: str, value: float
) -> None:
    told = item(
        "final_response_length_compliance",
        {"length": {"min": 18, "max": 72, "preferredMin": 32, "preferredMax": 58}},
    )
    assert (await score(tmp_path, told, reply)).value == value


async def test_schema_and_trees_are_the_users_keys_and_stay_as_they_are(tmp_path: Path) -> None:
    tree = {"traceId": True, "deep": {"requestId": True}}
    told = item("final_response_avg_score", {"finalResponse": {"json": {"ignoreTree": tree}}})
    case = Case.single("q", '{"traceId": 1, "deep": {"requestId": 2, "n": 3}}')
    reply = '{"traceId": 9, "deep": {"requestId": 8, "n": 3}}'
    assert (await score(tmp_path, told, reply, case)).value == 1.0


def test_the_metric_takes_its_kind_from_the_evaluator_name(tmp_path: Path) -> None:
    told = item("quality", evaluator_name="final_response_avg_score")
    assert [metric.name for metric in make_metrics([told], making(tmp_path))] == ["quality"]


async def test_a_metric_may_wait_to_be_asked_for(tmp_path: Path) -> None:
    told = item("final_response_avg_score", require_explicit_selection=True)
    (metric,) = make_metrics([told], making(tmp_path))
    asked = Turn(input="a", expected="x", metrics=("final_response_avg_score",))
    case = Case(turns=(Turn(input="a", expected="x"), asked))
    found = await metric.score(case, Outcome(replies=("x", "x")), effects=DirectEffects())
    assert [each.turn for each in found] == [1]


def judged(criterion: dict[str, Any], tmp_path: Path) -> JudgedMetric[Any, Any]:
    (metric,) = make_metrics([item("llm_final_response", {"llm_judge": criterion})],
                             making(tmp_path))  # fmt: skip
    assert isinstance(metric, JudgedMetric)
    return metric  # pyright: ignore[reportUnknownVariableType]


def test_judges_are_taken_with_model_samples_weight_and_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_MODEL", "big-model")
    metric = judged(
        {
            "judgeModels": [
                {
                    "providerName": "openai",
                    "modelName": "$JUDGE_MODEL",
                    "baseURL": "${JUDGE_URL}",
                    "apiKey": "$JUDGE_KEY",
                    "numSamples": 3,
                    "weight": 2.0,
                    "generationConfig": {"max_tokens": 512, "temperature": 1.0, "stream": False},
                },
                {"provider_name": "gemini", "model_name": "g"},
            ],
            "modelsAggregator": "weighted_avg",
        },
        tmp_path,
    )
    first, second = metric.panel.judges
    assert metric.panel.rule is PanelRule.WEIGHTED_AVG
    assert (first.client.ref.label, first.samples, first.weight) == ("openai:big-model", 3, 2.0)
    assert (first.client.ref.base_url, first.client.ref.api_key) == (
        "${JUDGE_URL}",
        "${JUDGE_KEY}",
    )
    assert first.client.ref.settings.temperature == 1.0
    assert (second.client.ref.label, second.samples) == ("google:g", 1)
    assert second.client.ref.settings.temperature == 0.0, "the prompt's own, where none is given"


def test_nulls_as_go_writes_them_are_nothing(tmp_path: Path) -> None:
    metric = judged({"judgeModel": None, "rubrics": None, "template": None}, tmp_path)
    assert metric.panel.judges[0].client.ref.label == "openai:judge"


WRONG: list[tuple[list[Any], str]] = [
    ([{"metricNme": "x"}], "did you mean 'metricName'?"),
    (["x"], "expected a mapping, found 'x'"),
    ([{"threshold": 1}], "metric_name: required, but missing"),
    (
        [{"metricName": "a", "criterion": {"finalResponse": {"txt": {}}}}],
        "unknown key 'txt' — did you mean 'text'?",
    ),
    (
        [
            {
                "metricName": "b",
                "criterion": {
                    "llmJudge": {
                        "judgeModel": {"modelName": "m"},
                        "judgeModels": [{"modelName": "m"}],
                    }
                },
            }
        ],
        "set judge_model or judge_models, not both",
    ),
    (
        [
            {
                "metricName": "c",
                "criterion": {
                    "finalResponse": {"json": {"ignoreTree": {"a": True}, "onlyTree": {"b": True}}}
                },
            }
        ],
        "ignore_tree and only_tree exclude each other",
    ),
    ([{"metricName": "d", "criterion": {"type": "vibes"}}], "unknown type of criterion"),
]


@pytest.mark.parametrize(("told", "words"), WRONG)
def test_what_is_wrong_in_a_file_is_said_with_its_place(
    tmp_path: Path, told: list[Any], words: str
) -> None:
    path = tmp_path / "x.metrics.json"
    path.write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_metrics(path)
    assert words in str(caught.value)
    assert "x.metrics.json" in str(caught.value)


def test_everything_that_cannot_be_made_is_said_at_once(tmp_path: Path) -> None:
    items = [
        item("llm_rubric_respons"),
        item("llm_final_response"),
        item("final_response_length_compliance"),
        item("llm_judge_template"),
    ]
    with pytest.raises(ConfigError) as caught:
        make_metrics(items, making(tmp_path, judge=""))
    told = str(caught.value)
    assert "did you mean 'llm_rubric_response'?" in told
    assert "but no model is named" in told
    assert "does not say how long" in told
    assert "needs criterion.llmJudge.template" in told


def test_what_is_no_key_is_refused_unseen(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        judged({"judge_model": {"model_name": "m", "api_key": "${sk-live-1234"}}, tmp_path)
    assert "neither a key nor the name of a variable" in str(caught.value)
    assert "1234" not in str(caught.value)


def test_two_metrics_of_one_name_cannot_be_told_apart(tmp_path: Path) -> None:
    twice = [item("response_match_score"), item("response_match_score")]
    with pytest.raises(ConfigError, match="two metrics have this name"):
        make_metrics(twice, making(tmp_path))


def test_what_has_no_effect_is_named() -> None:
    judge = {"model_name": "m", "variant": "qwen", "think": True}
    told = item("llm_final_response", {"llm_judge": {"judge_model": judge}})
    assert ignored_keys([told]) == [
        "llm_final_response: variant, think of the judge m has no effect here"
    ]


def test_the_older_form_names_thresholds(tmp_path: Path) -> None:
    path = tmp_path / "test_config.json"
    older = {
        "criteria": {
            "response_match_score": 0.8,
            "tool_trajectory_avg_score": {
                "threshold": 0,
                "criterion": {"tool_trajectory": {"subset_matching": True}},
            },
        },
        "numRuns": 2,
    }
    path.write_text(json.dumps(older), encoding="utf-8")
    first, second = read_metrics(path)
    assert (first.metric_name, first.threshold) == ("response_match_score", 0.8)
    assert second.threshold == 0
    assert second.criterion.tool_trajectory is not None
    assert second.criterion.tool_trajectory.subset_matching
    assert EvalConfig.model_validate(older).num_runs == 2


def test_a_metrics_file_round_trips(tmp_path: Path) -> None:
    source: list[dict[str, Any]] = [
        {
            "metricName": "final_response_avg_score",
            "threshold": 1.0,
            "criterion": {
                "finalResponse": {
                    "text": {"length": {"min": 350, "max": 850}, "matchStrategy": "skip"},
                    "json": {"onlyTree": {"userId": True}, "schema": {"type": "object"}},
                    "rouge": {"rougeType": "rougeLsum", "threshold": {"f1": 0.4}},
                }
            },
        },
        {
            "metricName": "llm_rubric_critic",
            "threshold": 0.98,
            "criterion": {
                "llmJudge": {
                    "rubrics": [RUBRIC],
                    "judgeModel": {"modelName": "m", "baseURL": "${U}", "numSamples": 3},
                }
            },
            "extension": {"platformWeight": 2},
        },
    ]
    path = tmp_path / "a.metrics.json"
    path.write_text(json.dumps(source), encoding="utf-8")
    items = read_metrics(path)
    dumps = [item.model_dump(mode="json", by_alias=True, exclude_unset=True) for item in items]
    assert dumps == source
