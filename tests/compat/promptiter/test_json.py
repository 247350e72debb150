"""PromptIter's JSON: what is written, and all that is read."""

from typing import Any

import pytest

from burnish.compat.promptiter import (
    BurnishOptions,
    EvaluationResult,
    PatchSet,
    Profile,
    RoundResult,
    RunRequest,
    RunResult,
    RunStatus,
    Slimming,
    SurfaceOverride,
    SurfacePatch,
    SurfaceValue,
    read_request,
)
from burnish.compat.promptiter.results import BackwardResult, CaseLoss, EvalSetResult, Step
from burnish.compat.promptiter.shapes import ModelValue, Snapshot
from burnish.core.errors import ConfigError

NULLS = {"PromptSyntax": None, "FewShot": None, "Model": None, "Tools": None, "Skills": None}
BODY: dict[str, Any] = {
    "train": [
        {
            "evalSetId": "t",
            "evalCaseIds": ["c1"],
            "lossHints": [
                {"evalCaseId": "c1", "metricName": "q", "severity": "P1", "reason": "too long"}
            ],
            "lossTargets": [{"metricName": "q", "nodeId": "desk/planner"}],
        }
    ],
    "validation": [{"evalSetId": "v"}],
    "InitialProfile": None,
    "TargetSurfaceIDs": ["candidate#instruction"],
    "EvaluationOptions": {"EvalCaseParallelism": 16, "EvalCaseParallelInferenceEnabled": True},
    "BackwardOptions": {"CaseParallelismEnabled": False, "CaseParallelism": 16},
    "AcceptancePolicy": {"MinScoreGain": 0.01},
    "StopPolicy": {"MaxRoundsWithoutAcceptance": 3, "TargetScore": 1.0},
    "MaxRounds": 4,
}


def test_the_newer_form_of_a_request() -> None:
    read, warnings = read_request(BODY, strict=True)
    assert not warnings
    (train,) = read.train_inputs
    assert (train.eval_set_id, train.eval_case_ids) == ("t", ("c1",))
    assert train.loss_hints[0].reason == "too long"
    assert train.loss_targets[0].node_id == "desk/planner"
    assert read.target_surface_ids == ("candidate#instruction",)
    assert (read.stop_policy.target_score, read.max_rounds) == (1.0, 4)
    assert read.backward_options.case_parallelism_enabled is False
    assert RunRequest.from_json(read.to_json()) == read


def test_the_form_of_the_seed() -> None:
    body: Any = {"TrainEvalSetIDs": ["t"], "ValidationEvalSetIDs": ["v"], "MaxRounds": 1}
    read, _ = read_request(body, strict=True)
    assert [each.eval_set_id for each in read.train_inputs] == ["t"]
    assert [each.eval_set_id for each in read.validation_inputs] == ["v"]


@pytest.mark.parametrize("key", ["MaxRounds", "maxRounds", "maxrounds", "max_rounds"])
def test_keys_are_read_in_any_letter_case(key: str) -> None:
    assert read_request({key: 3}, strict=True)[0].max_rounds == 3


def test_unknown_keys_are_refused_or_warned_of() -> None:
    body: Any = {"MaxRounds": 1, "Speed": 9, "validation": [{"evalSetId": "v", "weight": 2}]}
    with pytest.raises(ConfigError, match="Speed"):
        read_request(body, strict=True)
    read, warnings = read_request(body, strict=False)
    assert read.max_rounds == 1
    assert warnings == ["unknown fields are ignored: 'Speed', 'validation[0].weight'"]
    assert read_request({"Speed": 9}, strict=False)[1] == ["unknown field 'Speed' is ignored"]


def test_unknown_keys_of_ours_are_refused_with_the_nearest() -> None:
    body: Any = {"Speed": 9, "burnish": {"max_usdd": 1.0, "Repeats": 2}}
    with pytest.raises(ConfigError) as refused:
        read_request(body, strict=False)
    (problem,) = refused.value.problems
    assert problem.message == "unknown field 'burnish.max_usdd'"
    assert problem.remedy == "did you mean 'MaxUSD'?"
    open_keys: Any = {"Burnish": {"MetricFloors": {"quality": 0.5}}, "Burnished": {}}
    assert read_request(open_keys, strict=False)[1] == ["unknown field 'Burnished' is ignored"]


def test_a_flood_of_unknown_keys_is_one_line_or_refused() -> None:
    some: Any = {f"k{n}": n for n in range(500)}
    with pytest.raises(ConfigError) as refused:
        read_request(some, strict=True)
    assert len(refused.value.problems) == 11
    assert refused.value.problems[-1].message == "and 490 more problems"
    _, (warning,) = read_request(some, strict=False)
    assert warning.endswith("'k9' and 490 more")
    for place in ("MaxRounds", "Burnish", "stopPolicy"):
        many: Any = {place: {f"k{n}": n for n in range(1_001)}}
        block = many[place] if place == "MaxRounds" else many
        with pytest.raises(ConfigError, match=r"it has 1,001 keys; .* at most 1,000"):
            read_request(block, strict=False)
    sets: Any = {"train": [7] * 5_000}
    with pytest.raises(ConfigError, match="it has 5,000 eval sets; a run has at most 1,000"):
        read_request(sets, strict=False)


def test_one_set_may_select_any_number_of_cases() -> None:
    cases = [f"c{n}" for n in range(20_000)]
    body: Any = {"train": [{"evalSetId": "t", "evalCaseIds": cases}]}
    assert read_request(body, strict=True)[0].train[0].eval_case_ids == tuple(cases)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (["MaxRounds"], "must be an object"),
        ({"Teacher": {"model": "x"}}, "a runner cannot be sent"),
        ({"judge": "x"}, "a runner cannot be sent"),
        ({"MaxRounds": "many"}, "MaxRounds"),
        ({"StopPolicy": {"TargetScore": float("nan")}}, "TargetScore"),
        ({"Burnish": {"Repeats": 0}}, "Repeats"),
        ({"Burnish": {"Gate": "luck"}}, "Gate"),
    ],
)
def test_a_body_that_is_no_request(body: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_request(body, strict=False)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"Burnish": {"MaxCalls": 1, "maxcalls": 10_000}}, "Burnish.maxcalls"),
        ({"burnish": {"MaxCalls": 1}, "Burnish": {}}, "Burnish"),
        ({"train": [{"evalSetId": "t", "EvalSetID": "u"}]}, "train.0.EvalSetID"),
    ],
)
def test_two_spellings_of_a_key_are_refused(body: Any, where: str) -> None:
    with pytest.raises(ConfigError, match="it is given twice, in two spellings") as refused:
        read_request(body, strict=False)
    assert [problem.where for problem in refused.value.problems] == [where]
    floors: Any = {"Burnish": {"MetricFloors": {"quality": 0.5, "Quality": 0.4}}}
    assert read_request(floors, strict=False)[0].options.metric_floors["Quality"] == 0.4


def test_a_long_name_is_not_echoed() -> None:
    body: Any = {"Burnish": {"MetricFloors": {"m" * 1_000_000: "high"}}}
    with pytest.raises(ConfigError) as refused:
        read_request(body, strict=False)
    assert len(str(refused.value)) < 500


def test_what_burnish_adds_has_one_key() -> None:
    assert "Burnish" not in RunRequest().to_json()
    told = RunRequest(burnish=BurnishOptions(repeats=3, metric_floors={"q_1": 0.5})).to_json()
    assert RunRequest.from_json(told).options.metric_floors == {"q_1": 0.5}


def test_a_slip_of_the_pen_in_python_is_refused() -> None:
    with pytest.raises(ValueError, match="max_round"):
        RunRequest(max_round=3)  # pyright: ignore[reportCallIssue]


def test_a_runner_has_no_json() -> None:
    told = RunRequest(teacher=str).to_json()
    assert (told["Teacher"], told["Judge"]) == (None, None)


def test_values_have_all_six_keys_and_models_only_what_is_set() -> None:
    assert SurfaceValue(text="x").to_json() == {"Text": "x", **NULLS}
    named = SurfaceValue(model=ModelValue(name="deepseek-v3.2")).to_json()
    assert named == {"Text": None, **NULLS, "Model": {"Name": "deepseek-v3.2"}}


def test_profiles_and_patches() -> None:
    value = SurfaceValue(text="new")
    profile = Profile(structure_id="s", overrides=(SurfaceOverride(surface_id="a", value=value),))
    assert profile.to_json() == {
        "StructureID": "s",
        "Overrides": [{"SurfaceID": "a", "Value": {"Text": "new", **NULLS}}],
    }
    patches = PatchSet(patches=(SurfacePatch(surface_id="a", value=value, reason="why"),))
    assert patches.to_json() == {
        "Patches": [{"SurfaceID": "a", "Value": {"Text": "new", **NULLS}, "Reason": "why"}]
    }


def test_sparse_values_of_other_producers_are_read() -> None:
    read = Snapshot.from_json(
        {
            "StructureID": "any string",
            "Nodes": None,
            "Surfaces": [
                {"SurfaceID": "a/b#instruction", "NodeID": "a/b", "Value": {"Text": "hello"}}
            ],
        }
    )
    assert read.surfaces[0].value.text == "hello"
    assert read.nodes == ()


def test_the_keys_of_a_result() -> None:
    told = RunResult(status=RunStatus.SUCCEEDED, rounds=(RoundResult(round=1),)).to_json()
    assert list(told) == [
        "AppName", "ID", "Status", "CurrentRound", "Structure", "BaselineValidation",
        "AcceptedProfile", "Rounds", "ErrorMessage",
    ]  # fmt: skip
    assert told["Status"] == "succeeded"
    (first,) = told["Rounds"] if isinstance(told["Rounds"], list) else []
    assert isinstance(first, dict)
    assert list(first) == [
        "Round", "InputProfile", "Train", "Losses", "Backward", "Aggregation", "Patches",
        "OutputProfile", "Validation", "Acceptance", "Stop",
    ]  # fmt: skip
    assert RunResult.from_json(told) == RunResult(
        status=RunStatus.SUCCEEDED, rounds=(RoundResult(round=1),)
    )


def test_the_keys_of_a_step() -> None:
    assert list(Step().to_json()) == [
        "StepID", "InvocationID", "ParentInvocationID", "AgentName", "Branch", "NodeID",
        "NodeType", "StartedAt", "EndedAt", "PredecessorStepIDs", "AppliedSurfaceIDs", "Input",
        "Output", "Usage", "Tools", "Skills", "Error",
    ]  # fmt: skip
    assert Step().to_json()["StartedAt"] == "0001-01-01T00:00:00Z"


def test_a_slim_result_keeps_scores_and_decisions() -> None:
    measured = EvaluationResult(
        overall_score=0.5,
        eval_sets=(EvalSetResult.from_json({"EvalSetID": "v", "Cases": [{"EvalCaseID": "c"}]}),),
    )
    found = RoundResult(
        round=1, train=measured, losses=(CaseLoss(),), backward=BackwardResult(), patches=PatchSet()
    )
    whole = RunResult(
        baseline_validation=measured, accepted_profile=Profile(), rounds=(found,), current_round=1
    )
    slim = Slimming(
        omit_evaluation_cases=True,
        omit_backward=True,
        omit_patches=True,
        omit_profiles=True,
        omit_losses=True,
    )
    told = RunResult.from_json(whole.to_json(slim))
    assert told.accepted_profile is None
    assert told.baseline_validation is not None
    assert told.baseline_validation.overall_score == 0.5
    assert told.baseline_validation.eval_sets[0].cases == ()
    assert (told.rounds[0].backward, told.rounds[0].patches, told.rounds[0].losses) == (
        None,
        None,
        (),
    )
    assert whole.rounds[0].backward is not None
