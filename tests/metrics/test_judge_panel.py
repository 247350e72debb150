"""Panels: every rule in a table, samples by majority, and holes that are never filled in."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.cases import Case, Scenario, Turn
from burnish.core.errors import ConfigError
from burnish.metrics.geval import Coherence
from burnish.metrics.judges import Judge, Panel, PanelRule, of_judges, of_samples
from burnish.metrics.turns import Verdict
from burnish.models.chat import ChatRequest
from burnish.models.errors import ModelUnavailable
from tests.metrics.judge_bench import CASE, KINDS, panel, prompt, said, score

R = PanelRule


def verdicts(values: Sequence[float | None], threshold: float) -> list[Verdict]:
    """What judges say who score these values."""
    return [
        Verdict.missing("down")
        if v is None
        else Verdict(value=v, passed=v >= threshold, reason="x")
        for v in values
    ]


def settled(
    values: Sequence[float | None],
    rule: PanelRule,
    threshold: float = 0.5,
    weights: Sequence[float] = (),
) -> Verdict:
    return of_judges(
        verdicts(values, threshold),
        names=[f"judge-{n}" for n in range(1, len(values) + 1)],
        weights=weights or [1.0] * len(values),
        rule=rule,
        threshold=threshold,
    )


@pytest.mark.parametrize(
    ("rule", "values", "weights", "threshold", "value", "passed"),
    [
        (R.ALL_PASS, (1, 1, 1), (), 1.0, 1.0, True),
        (R.ALL_PASS, (1, 0.6, 1), (), 0.5, 0.6, True),
        (R.ALL_PASS, (1, 0.4, 1), (), 0.5, 0.4, False),
        (R.ALL_PASS, (1, 0, 1), (), 0.0, 0.0, True),
        (R.ANY_PASS, (0, 0.7, 0), (), 0.5, 0.7, True),
        (R.ANY_PASS, (0, 0.3, 0), (), 0.5, 0.3, False),
        (R.MAJORITY_PASS, (1, 1, 0), (), 1.0, 2 / 3, True),
        (R.MAJORITY_PASS, (1, 0, 0), (), 1.0, 1 / 3, False),
        (R.MAJORITY_PASS, (1, 0), (), 1.0, 0.5, False),
        (R.MAJORITY_PASS, (0.6, 0.6, 0.1), (), 0.5, 2 / 3, True),
        (R.AVG, (0.9, 0.2, 0.4), (), 0.5, 0.5, True),
        (R.AVG, (0.9, 0.2, 0.3), (), 0.5, 1.4 / 3, False),
        (R.AVG, (0.1, 0.2, 0.3), (), 0.0, 0.2, True),
        (R.WEIGHTED_AVG, (1, 0), (3, 1), 0.7, 0.75, True),
        (R.WEIGHTED_AVG, (1, 0), (1, 3), 0.5, 0.25, False),
        (R.WEIGHTED_MAJORITY, (1, 0, 0), (3, 1, 1), 1.0, 0.6, True),
        (R.WEIGHTED_MAJORITY, (1, 0, 0), (2, 1, 1), 1.0, 0.5, False),
    ],
)
def test_every_rule(
    rule: PanelRule,
    values: Sequence[float],
    weights: Sequence[float],
    threshold: float,
    value: float,
    passed: bool,
) -> None:
    found = settled(values, rule, threshold, weights)
    assert (found.value, found.passed) == (pytest.approx(value), passed)
    word = "passed" if passed else "failed"
    agreed = passed and all(each >= threshold for each in values)
    assert found.reason.startswith("" if agreed else f"{rule.value} {word} at {value:.3g}: judge-1")
    assert bool(found.reason) != agreed


@pytest.mark.parametrize(
    ("rule", "values", "value", "passed"),
    [
        (R.ALL_PASS, (0, None, 1), 0.0, False),
        (R.ALL_PASS, (0.3, None, 1), None, None),
        (R.ALL_PASS, (1, None, 1), None, None),
        (R.ANY_PASS, (1, None, 0), 1.0, True),
        (R.ANY_PASS, (0.9, None, 0), None, None),
        (R.MAJORITY_PASS, (1, 1, None), None, None),
        (R.AVG, (1, None), None, None),
        (R.WEIGHTED_AVG, (1, None), None, None),
        (R.WEIGHTED_MAJORITY, (1, 1, None), None, None),
        (R.ALL_PASS, (None, None), None, None),
    ],
)
def test_a_hole_stands_only_where_it_cannot_change_the_outcome(
    rule: PanelRule, values: Sequence[float | None], value: float | None, passed: bool | None
) -> None:
    found = settled(values, rule)
    assert (found.value, found.passed) == (value, passed)
    assert "no verdict (down)" in found.reason


def test_a_zero_that_stands_beside_a_hole_keeps_to_a_threshold_of_zero() -> None:
    found = settled((0, None), R.ALL_PASS, 0.0)
    assert (found.value, found.passed) == (0.0, True)


@given(
    values=st.lists(st.floats(0, 1), min_size=2, max_size=5),
    weights=st.lists(st.floats(0.01, 100), min_size=5, max_size=5),
    rule=st.sampled_from(list(PanelRule)),
)
@settings(max_examples=50)
def test_a_panel_stays_between_its_judges(
    values: list[float], weights: list[float], rule: PanelRule
) -> None:
    found = settled(values, rule, 0.5, weights[: len(values)])
    assert found.value is not None
    assert found.passed is not None
    if rule not in (R.MAJORITY_PASS, R.WEIGHTED_MAJORITY):
        assert min(values) - 1e-9 <= found.value <= max(values) + 1e-9
    if len({v >= 0.5 for v in values}) == 1 and rule is not R.AVG:
        assert found.passed is (values[0] >= 0.5)


@pytest.mark.parametrize(
    ("values", "value", "passed"),
    [
        ((1, 0, 1), 1, True),
        ((0, 1, 0), 0, False),
        ((0.4, 0.7, 0.8), 0.7, True),
        ((1, 0), 0, False),
        ((1, 1, None), 1, True),
        ((1, 0, None), None, None),
        ((0, 0, None), 0, False),
        ((0, None), 0, False),
        ((1, None), None, None),
        ((None, None, None), None, None),
    ],
)
def test_samples_go_by_majority_and_a_tie_fails(
    values: Sequence[float | None], value: float | None, passed: bool | None
) -> None:
    found = of_samples(verdicts(values, 0.5))
    assert (found.value, found.passed) == (value, passed)
    kept = found.details["samples"]
    assert isinstance(kept, list)
    assert [each["value"] for each in kept if isinstance(each, dict)] == list(values)


def coherence(
    *judges: Callable[[ChatRequest, int], str] | str,
    rule: PanelRule = R.ALL_PASS,
    samples: int = 1,
    threshold: float | None = None,
) -> Coherence:
    asked = panel(*judges, rule=rule, samples=samples)
    return Coherence(panel=asked, prompt=prompt("judge_coherence"), threshold=threshold)


def rated(number: int) -> str:
    return said(reasoning=f"it is a {number}", score=number)


def down(request: ChatRequest, draw: int) -> str:
    raise ModelUnavailable("no connection")


async def test_samples_are_draws_of_their_own() -> None:
    found = await score(coherence(lambda _, draw: rated((5, 1, 4)[draw]), samples=3))
    assert (found.value, found.passed) == (1.0, None)
    worse = await score(coherence(lambda _, draw: rated((5, 1)[draw]), samples=2))
    assert (worse.value, worse.passed, worse.reason) == (0.0, None, "1 of 5: it is a 1")


async def test_one_of_three_judges_is_down() -> None:
    found = await score(coherence(rated(5), down, rated(5)))
    assert found.missing
    assert "openai:judge-2: no verdict (judge_coherence could not be asked" in found.reason
    certain = await score(coherence(rated(5), down, rated(1)))
    assert (certain.value, certain.passed) == (0.0, None)


async def test_two_of_three_pass_by_majority_and_the_reason_agrees() -> None:
    metric = coherence(rated(5), rated(5), rated(3), rule=R.MAJORITY_PASS, threshold=1.0)
    found = await score(metric)
    assert (found.value, found.passed) == (pytest.approx(2 / 3), True)
    assert found.reason == (
        "majority_pass passed at 0.667: openai:judge-1: pass at 1; "
        "openai:judge-2: pass at 1; openai:judge-3: fail at 0.5 (3 of 5: it is a 3)"
    )
    judges = found.details["judges"]
    assert isinstance(judges, list)
    assert judges[2] == {
        "judge": "openai:judge-3",
        "value": 0.5,
        "passed": False,
        "reason": "3 of 5: it is a 3",
        "details": {"raw": 3},
    }


@pytest.mark.parametrize(
    ("threshold", "passed"), [(None, None), (0.0, True), (0.25, True), (0.26, False), (1.0, False)]
)
async def test_a_threshold_is_taken_as_it_is(threshold: float | None, passed: bool | None) -> None:
    assert (await score(coherence(rated(2), threshold=threshold))).passed is passed


def test_what_no_panel_can_be() -> None:
    client = panel("x").judges[0].client
    with pytest.raises(ConfigError, match="there is no judge"):
        Panel(judges=())
    with pytest.raises(ConfigError, match="samples must be at least 1, found 0"):
        Judge(client=client, samples=0)
    for weight in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="the weight must be above 0"):
            Judge(client=client, weight=weight)


def test_the_estimate_counts_turns_judges_and_samples() -> None:
    asked = panel("a", "b", samples=3)
    assert asked.estimate(CASE).calls == 6
    assert asked.estimate(CASE, calls=2).calls == 12
    two = Case(turns=(Turn(input="a"), Turn(input="b")))
    assert asked.estimate(two).calls == 12
    talk = Case(turns=(Turn(input="a"),), scenario=Scenario(plan="p", max_turns=4))
    assert asked.estimate(talk).calls == 24
    endless = Case(turns=(Turn(input="a"),), scenario=Scenario(plan="p"))
    assert asked.estimate(endless).calls == 120


def test_a_panel_is_known_by_models_samples_weights_and_rule() -> None:
    made = [
        panel("a"),
        panel("a", samples=2),
        panel("a", "a"),
        panel("a", "a", rule=R.AVG),
        panel("a", "a", weights=(1, 2)),
    ]
    assert len({each.fingerprint for each in made}) == 5


@pytest.mark.parametrize("threshold", [-0.1, 1.5, float("nan")])
def test_a_threshold_must_be_a_share(threshold: float) -> None:
    metric = KINDS["geval"].make(panel("x"))
    with pytest.raises(ConfigError, match=r"geval\.threshold: a threshold must be from 0 to 1"):
        replace(metric, threshold=threshold)
