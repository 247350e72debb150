"""Requests that are refused before anything is paid, and where sets and metrics come from."""

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.compat.promptiter import (
    BurnishOptions,
    Engine,
    EvalSetInput,
    EvaluationStack,
    Profile,
    RunRequest,
    read_request,
)
from burnish.core.cases import Case, Outcome
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError
from burnish.journal.once import DirectEffects
from tests.compat.promptiter.desk import (
    MODEL,
    PLANNER,
    WRITE,
    Aggregate,
    Backward,
    Bench,
    Optimize,
    Quality,
    cases,
    desk,
    request,
)


def sets(**more: Any) -> EvalSetInput:
    return EvalSetInput.from_json({"evalSetId": "t", **more})


def hint(**more: str) -> dict[str, Any]:
    usual = {"evalCaseId": "c1", "metricName": "quality", "reason": "too short"}
    return {"train_eval_set_ids": (), "train": (sets(lossHints=[{**usual, **more}]),)}


def target(*pairs: tuple[str, str]) -> dict[str, Any]:
    told = [{"metricName": metric, "nodeId": node} for metric, node in pairs]
    return {"train_eval_set_ids": (), "train": (sets(lossTargets=told),)}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"train_eval_set_ids": ()}, "train evaluation sets are empty"),
    ({"validation_eval_set_ids": ()}, "validation evaluation sets are empty"),
    ({"train": (sets(),)}, "given twice, as inputs and as ids"),
    ({"train_eval_set_ids": (" ",)}, "an eval set id is empty"),
    ({"train_eval_set_ids": ("../secrets",)}, "cannot be a path"),
    ({"train_eval_set_ids": ("nowhere",)}, "nowhere"),
    ({"train_eval_set_ids": (), "train": (sets(evalCaseIds=[""]),)}, "an eval case id is empty"),
    ({"train_eval_set_ids": (), "train": (sets(evalCaseIds=["c9"]),)}, "no case 'c9'"),
    (hint(evalCaseId=""), "no eval case id"),
    (hint(metricName=""), "no metric name"),
    (hint(reason=""), "no reason"),
    (hint(severity="bad"), "the unknown severity 'bad'"),
    (hint(evalCaseId="c9"), "a loss hint names an unknown case: 'c9'"),
    (hint(metricName="speed"), "no metric 'speed'"),
    (
        {
            "train_eval_set_ids": (),
            "train": (
                sets(
                    evalCaseIds=["c1"],
                    lossHints=[{"evalCaseId": "c2", "metricName": "quality", "reason": "x"}],
                ),
            ),
        },
        "not among the chosen cases",
    ),
    (
        {
            "train_eval_set_ids": (),
            "train": (
                *target(("quality", PLANNER))["train"],
                *target((" quality ", PLANNER))["train"],
            ),
        },
        "two loss targets for 'quality'",
    ),
    (target(("", PLANNER)), "needs a metric and a node"),
    (target(("quality", "")), "needs a metric and a node"),
    (target(("quality", "nobody")), 'node "nobody" is unknown'),
    (target(("speed", PLANNER)), "no metric 'speed'"),
    (target(("quality", PLANNER), ("quality", PLANNER)), "two loss targets for 'quality'"),
    (
        {
            "validation_eval_set_ids": (),
            "validation": (
                EvalSetInput.from_json(
                    {"evalSetId": "v", "lossTargets": [{"metricName": "q", "nodeId": PLANNER}]}
                ),
            ),
        },
        "loss targets only apply to train sets",
    ),
    ({"max_rounds": 0}, "at least one round"),
    ({"stop_policy": {"max_rounds_without_acceptance": -1}}, "cannot be negative"),
    ({"evaluation_options": {"eval_case_parallelism": -1}}, "cannot be negative"),
    ({"backward_options": {"case_parallelism": -1}}, "cannot be negative"),
    ({"aggregation_options": {"surface_parallelism": -1}}, "cannot be negative"),
    ({"optimizer_options": {"surface_parallelism": -1}}, "cannot be negative"),
    ({"target_surface_ids": ()}, "target surface ids are empty"),
    ({"target_surface_ids": ("",)}, "a surface id is empty"),
    ({"target_surface_ids": (MODEL,)}, f'target surface id "{MODEL}" is unknown'),
    ({"initial_profile": Profile(structure_id="other")}, "to structure 'other'"),
    ({"burnish": BurnishOptions(protected_cases=("c9",))}, "no validation set has this case"),
    ({"burnish": BurnishOptions(metric_floors={"speed": 1.0})}, "no such metric"),
    ({"burnish": BurnishOptions(max_usd=1.0)}, "the price of a call is not known"),
]


@pytest.mark.parametrize(("wrong", "told"), WRONG)
def test_a_request_that_is_refused(tmp_path: Path, wrong: dict[str, Any], told: str) -> None:
    bench = Bench(tmp_path)
    with pytest.raises(BurnishError) as caught:
        bench.engine.check(request(**wrong))
    assert told in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"burnish": BurnishOptions(metric_floors={"m" * 1_000_000: 1.0})},
        {"burnish": BurnishOptions(protected_cases=("c" * 1_000_000,))},
        {"target_surface_ids": ("s" * 1_000_000,)},
        target(("quality", "n" * 1_000_000)),
    ],
)
def test_a_long_name_is_not_echoed(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(BurnishError) as caught:
        Bench(tmp_path).engine.check(request(**wrong))
    assert len(str(caught.value)) < 1_000


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        Bench(tmp_path).engine.check(RunRequest())
    assert len(caught.value.problems) == 4


def test_a_request_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="found NoneType"):
        Bench(tmp_path).engine.check(None)  # pyright: ignore[reportArgumentType]


def test_spaces_around_ids_do_not_count() -> None:
    sent: Json = {"TrainEvalSetIDs": [" t "], "TargetSurfaceIDs": [f"{WRITE}\n"]}
    read, _ = read_request(sent, strict=True)
    assert (read.train_eval_set_ids, read.target_surface_ids) == (("t",), (WRITE,))


def test_a_good_request(tmp_path: Path) -> None:
    Bench(tmp_path).engine.check(request())
    Bench(tmp_path).engine.check(request(burnish=BurnishOptions(protected_cases=("c1", "v/c2"))))


@pytest.mark.parametrize("name", ["backwarder", "aggregator", "optimizer"])
def test_an_engine_needs_all_three_stages(tmp_path: Path, name: str) -> None:
    stages: dict[str, Any] = {
        "backwarder": Backward(),
        "aggregator": Aggregate(),
        "optimizer": Optimize(),
    }
    with pytest.raises(ConfigError, match=f"there is no {name}"):
        Engine(desk(), Bench(tmp_path).stack, **{**stages, name: None})


def test_a_case_of_train_and_validation_is_refused(tmp_path: Path) -> None:
    shared = {"t": cases("one"), "v": [*cases("two"), Case.single("One  question 1", name="x")]}
    with pytest.raises(ConfigError, match="is in both"):
        Bench(tmp_path, sets=shared).engine.check(request())


def test_one_id_in_two_sets_is_two_cases(tmp_path: Path) -> None:
    found = Bench(tmp_path).stack.load(request())
    assert [case.id for case in found.dataset.train] == ["t/c1", "t/c2"]
    assert [case.id for case in found.dataset.holdout] == ["v/c1", "v/c2"]


def test_some_cases_of_a_set_and_a_set_named_twice(tmp_path: Path) -> None:
    stack = Bench(tmp_path, sets={"t": cases("a", 3), "v": cases("b")}).stack
    one, two = sets(evalCaseIds=["c3"]), sets(evalCaseIds=["c1"])
    asked = request(train_eval_set_ids=(), train=(one, two))
    assert [case.id for case in stack.load(asked).dataset.train] == ["t/c1", "t/c3"]


def test_a_target_in_one_of_two_sets_only(tmp_path: Path) -> None:
    bench = Bench(tmp_path, sets={"t": cases("a"), "u": cases("c"), "v": cases("b")})
    first = sets(lossTargets=[{"metricName": "quality", "nodeId": PLANNER}])
    asked = request(train_eval_set_ids=(), train=(first, EvalSetInput(eval_set_id="u")))
    with pytest.raises(ConfigError, match="differs from set to set"):
        bench.engine.check(asked)


def test_a_case_that_wants_a_teacher_where_there_is_none(tmp_path: Path) -> None:
    taught = Case.single("who?", name="c3")
    taught = Case(name="c3", turns=taught.turns, extras={"expected_runner_enabled": True})
    bench = Bench(tmp_path, sets={"t": [*cases("a"), taught], "v": cases("b")})
    with pytest.raises(ConfigError, match="takes its reference from a teacher"):
        bench.engine.check(request())
    bench.engine.check(request(teacher=str.upper))


# -- files ---------------------------------------------------------------------------------


def write_set(folder: Path, name: str, *asked: str) -> None:
    said = [
        {
            "evalId": f"c{n}",
            "conversation": [
                {
                    "invocationId": f"i{n}",
                    "userContent": {"role": "user", "content": text},
                    "finalResponse": {"role": "assistant", "content": "[cited]"},
                }
            ],
            "sessionInput": {"appName": "app", "userId": "user"},
        }
        for n, text in enumerate(asked, start=1)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    whole = {"evalSetId": name, "name": name, "evalCases": said}
    (folder / f"{name}.evalset.json").write_text(json.dumps(whole), encoding="utf-8")


def write_metrics(folder: Path, name: str, *metrics: str, minimum: int = 1) -> None:
    told = [
        {
            "metricName": metric,
            "evaluatorName": "final_response_length_compliance",
            "threshold": 1.0,
            "criterion": {"length": {"min": minimum, "max": 400}},
        }
        for metric in metrics
    ]
    (folder / f"{name}.metrics.json").write_text(json.dumps(told), encoding="utf-8")


@pytest.fixture
def files(tmp_path: Path) -> EvaluationStack:
    folder = tmp_path / "data" / "app"
    write_set(folder, "t", "one?", "two?")
    write_set(folder, "v", "three?")
    return EvaluationStack(app_name="app", data_dir=tmp_path / "data", output_dir=tmp_path / "out")


def test_sets_and_metrics_lie_side_by_side(files: EvaluationStack) -> None:
    folder = files.data_dir / "app"
    write_metrics(folder, "t", "length", "only_train")
    write_metrics(folder, "v", "length")
    found = files.load(request())
    assert [case.input for case in found.dataset.train] == ["one?", "two?"]
    assert found.dataset.holdout[0].expected == "[cited]"
    assert {name: list(metrics) for name, metrics in found.names.items()} == {
        "t": ["length", "only_train"],
        "v": ["length"],
    }


async def test_a_set_is_scored_by_its_own_metrics(files: EvaluationStack) -> None:
    folder = files.data_dir / "app"
    write_metrics(folder, "t", "length", "only_train")
    write_metrics(folder, "v", "length", minimum=100)
    found = files.load(request())
    said = Outcome(replies=("short",))
    values = {
        (case.id, metric.name): [
            score.value for score in await metric.score(case, said, effects=DirectEffects())
        ]
        for case in (*found.dataset.train[:1], *found.dataset.holdout)
        for metric in found.metrics
    }
    assert values["t/c1", "length"] == [1.0]
    assert values["t/c1", "only_train"] == [1.0]
    assert values["v/c1", "only_train"] == []
    assert values["v/c1", "length"][0] != 1.0


def test_one_metrics_file_for_both_sets(files: EvaluationStack, tmp_path: Path) -> None:
    write_metrics(files.data_dir / "app", "shared", "length")
    stack = EvaluationStack(
        app_name="app", data_dir=files.data_dir, output_dir=tmp_path, shared_metrics="shared"
    )
    assert [metric.name for metric in stack.load(request()).metrics] == ["length"]


def test_missing_metrics_are_said_with_their_place(files: EvaluationStack) -> None:
    with pytest.raises(ConfigError, match=r"t\.metrics\.json"):
        files.load(request())


def test_an_evaluator_of_ones_own(files: EvaluationStack, tmp_path: Path) -> None:
    told = [{"metricName": "mine", "evaluatorName": "house_rules", "threshold": 0.5}]
    path = files.data_dir / "app" / "own.metrics.json"
    path.write_text(json.dumps(told), encoding="utf-8")
    stack = EvaluationStack(
        app_name="app",
        data_dir=files.data_dir,
        output_dir=tmp_path,
        shared_metrics="own",
        evaluators={"house_rules": lambda item: Quality(name=item.metric_name)},
    )
    assert [metric.name for metric in stack.load(request()).metrics] == ["mine"]
    assert WRITE in request().target_surface_ids
