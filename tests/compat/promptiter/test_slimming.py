"""Results without their large parts, in the shape of PromptIter."""

from typing import Any

import pytest

from burnish.compat.promptiter import Slimming
from burnish.core.content import Json


def evaluation() -> dict[str, Any]:
    cases: list[Any] = [{"EvalCaseID": "c1", "Trace": {"Steps": []}, "Metrics": []}]
    return {
        "OverallScore": 0.5,
        "EvalSets": [{"EvalSetID": "v", "OverallScore": 0.5, "Cases": cases}],
    }


def result() -> dict[str, Any]:
    profile: dict[str, Any] = {"StructureID": "s", "Overrides": []}
    one: dict[str, Any] = {
        "Round": 1,
        "InputProfile": profile,
        "Train": evaluation(),
        "Losses": [{"EvalCaseID": "c1"}],
        "Backward": {"Cases": []},
        "Aggregation": {"Surfaces": []},
        "Patches": {"Patches": []},
        "OutputProfile": profile,
        "Validation": evaluation(),
        "Acceptance": {"Accepted": True},
        "Stop": None,
    }
    return {
        "AppName": "app",
        "ID": "x",
        "Status": "succeeded",
        "BaselineValidation": evaluation(),
        "AcceptedProfile": profile,
        "Rounds": [one],
        "ErrorMessage": "",
    }


@pytest.mark.parametrize(
    ("omit", "gone"),
    [
        (Slimming(omit_backward=True), {"Backward"}),
        (Slimming(omit_aggregation=True), {"Aggregation"}),
        (Slimming(omit_patches=True), {"Patches"}),
        (Slimming(omit_profiles=True), {"InputProfile", "OutputProfile"}),
        (Slimming(omit_losses=True), {"Losses"}),
        (Slimming(), set[str]()),
    ],
)
def test_what_is_left_out_is_null_and_the_rest_stays(omit: Slimming, gone: set[str]) -> None:
    full = result()
    slim: Any = omit.slimmed(result())
    (was,), (one,) = full["Rounds"], slim["Rounds"]
    assert one == {name: None if name in gone else value for name, value in was.items()}
    assert list(one) == list(was), "keys keep their place"
    accepted = None if omit.omit_profiles else full["AcceptedProfile"]
    assert {**slim, "Rounds": None} == {**full, "AcceptedProfile": accepted, "Rounds": None}


def test_without_cases_the_scores_stay() -> None:
    slim: Any = Slimming(omit_evaluation_cases=True).slimmed(result())
    (one,) = slim["Rounds"]
    bare = {"EvalSetID": "v", "OverallScore": 0.5, "Cases": None}
    for found in (slim["BaselineValidation"], one["Train"], one["Validation"]):
        assert found == {"OverallScore": 0.5, "EvalSets": [bare]}


def test_what_was_given_stays_as_it_is_and_odd_shapes_pass() -> None:
    given = result()
    everything = Slimming(
        omit_evaluation_cases=True,
        omit_backward=True,
        omit_aggregation=True,
        omit_patches=True,
        omit_profiles=True,
        omit_losses=True,
    )
    everything.slimmed(given)
    assert given == result()
    shapes: list[Json] = [None, [], {"Rounds": None}, {"Rounds": [None, {"Train": None}]}]
    for odd in shapes:
        assert everything.slimmed(odd) == odd
