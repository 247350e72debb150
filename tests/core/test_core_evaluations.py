"""What enters a mean, what does not, and what a crash counts as."""

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import World, crashed, evaluation, lost, ran, table, worlds

from burnish.core.cases import Outcome
from burnish.core.evaluations import CaseResult, Score, mean, pass_rate, spread

swift = settings(max_examples=50, deadline=None, derandomize=True)


def turns(case: str, *values: float | None) -> CaseResult:
    """A conversation, one score a turn."""
    scores = (Score(metric="acc", value=v, turn=i) for i, v in enumerate(values))
    return CaseResult(case=case, outcome=Outcome(), scores=tuple(scores))


def judged(case: str, draw: int = 0, **verdicts: bool | None) -> CaseResult:
    """A run whose metrics gave these verdicts."""
    scores = (Score(metric=m, value=0.5, passed=v) for m, v in verdicts.items())
    return CaseResult(case=case, draw=draw, outcome=Outcome(), scores=tuple(scores))


class TestScores:
    @pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf])
    def test_a_score_is_between_0_and_1(self, value: float) -> None:
        with pytest.raises(ValueError, match=r"must be in \[0, 1\]"):
            Score(metric="acc", value=value)

    def test_what_is_missing_neither_passes_nor_fails(self) -> None:
        with pytest.raises(ValueError, match="neither pass nor fail"):
            Score(metric="acc", value=None, passed=False)
        assert Score.of_nothing("acc", "judge down").missing
        assert not Score.of_failure("acc", "boom").missing


class TestMeans:
    def test_turns_are_averaged_inside_a_case_first(self) -> None:
        found = evaluation(turns("long", 0, 0, 0, 0), turns("short", 1))
        assert found.mean_of("acc") == 0.5

    def test_a_case_with_a_missing_turn_is_missing(self) -> None:
        found = evaluation(turns("torn", 1, None), turns("whole", 0.25))
        assert found.mean_of("acc") == 0.25
        assert found.missing_cases(["acc"]) == ("torn",)
        assert found.missing_scores("acc") == 1

    def test_a_metric_that_does_not_apply_is_neither_missing_nor_0(self) -> None:
        found = evaluation(ran("a", {"acc": 1.0, "tone": 0.5}), ran("b", {"acc": 0.5}))
        assert (found.mean_of("acc"), found.mean_of("tone")) == (0.75, 0.5)
        assert found.missing_cases(["acc", "tone"]) == ()
        assert found.missing_scores("tone") == 0

    def test_sweeps_are_averaged_last(self) -> None:
        found = table([1.0, 0.0, None], [1.0, None, None])
        assert [len(sweep) for sweep in found.sweeps] == [3, 3]
        assert found.mean_of("acc") == 0.75

    def test_nothing_scored_has_no_mean(self) -> None:
        assert table([None, None]).mean_of("acc") is None
        assert evaluation().mean_of("acc") is None
        assert table([1.0]).mean_of("tone") is None

    def test_an_outage_is_missing_in_every_metric(self) -> None:
        whole = ran("a", {"acc": 1.0, "tone": 1.0})
        found = evaluation(whole, lost(ran("b", {"acc": 0.0})))
        assert found.mean_of("acc") == 1.0
        assert found.missing_cases([]) == ("b",)
        assert (found.missing_scores("acc"), found.missing_scores("tone")) == (1, 1)

    def test_a_crash_is_0_in_every_metric_though_nobody_wrote_it_down(self) -> None:
        silent = crashed(ran("b", {}))
        assert silent.scores == ()
        found = evaluation(ran("a", {"acc": 1.0}), silent)
        assert found.mean_of("acc") == 0.5
        assert found.missing_cases(["acc"]) == ()
        assert found.failed_cases() == ("b",)

    @swift
    @given(st.lists(st.floats(0, 1), min_size=1), st.randoms(use_true_random=False))
    def test_a_mean_is_the_same_in_any_order(self, values: list[float], random: Random) -> None:
        before = mean(values)
        random.shuffle(values)
        assert mean(values) == before

    def test_a_mean_is_exact(self) -> None:
        assert mean([0.1] * 10) == 0.1

    def test_spread_is_the_population_standard_deviation(self) -> None:
        assert spread([0.4]) == spread([0.2, 0.2, 0.2]) == 0.0
        assert spread([0.1, 0.3]) == pytest.approx(0.1)
        assert spread([0, 0, 1]) == pytest.approx(math.sqrt(2) / 3)


class TestCases:
    def test_only_some_cases(self) -> None:
        found = table([1.0, 0.0], [0.5, 0.0]).only({"case0"})
        assert found.cases == ("case0",)
        assert found.mean_of("acc") == 0.75

    def test_all_repeats_of_one_case(self) -> None:
        found = table([1.0, 0.0], [0.5, 0.0])
        assert [r.draw for r in found.of_case("case0")] == [0, 1]
        assert found.of_case("nowhere") == ()

    def test_a_case_missing_in_one_repeat_is_missing(self) -> None:
        assert table([1.0, 0.0], [None, 0.0]).missing_cases(["acc"]) == ("case0",)
        assert table([1.0, 0.0], [None, 0.0]).missing_cases(["tone"]) == ()


class TestPassRate:
    def test_a_case_passes_when_every_metric_does(self) -> None:
        found = evaluation(
            judged("a", x=True, y=True),
            judged("b", x=True, y=False),
            judged("c", x=False, y=False),
            judged("d", x=True, y=True),
        )
        assert pass_rate(found) == 0.5

    def test_only_the_required_metrics_when_they_are_named(self) -> None:
        found = evaluation(judged("a", x=True, y=False), judged("b", x=False, y=True))
        assert pass_rate(found) == 0.0
        assert pass_rate(found, ("x",)) == 0.5
        assert pass_rate(found, ("z",)) is None

    def test_a_metric_without_a_verdict_has_no_say(self) -> None:
        assert pass_rate(evaluation(judged("a", x=True, y=None))) == 1.0
        assert pass_rate(evaluation(judged("a", x=None))) is None

    def test_every_turn_must_pass(self) -> None:
        scores = tuple(Score(metric="x", value=1.0, passed=p) for p in (True, False))
        found = evaluation(CaseResult(case="a", outcome=Outcome(), scores=scores))
        assert pass_rate(found) == 0.0

    def test_what_is_missing_is_left_out(self) -> None:
        torn = judged("b", x=True)
        torn = CaseResult(
            case="b", outcome=Outcome(), scores=(*torn.scores, Score.of_nothing("y", "down"))
        )
        whole = judged("a", x=True, y=False)
        assert pass_rate(evaluation(whole, torn, lost(judged("c")))) == 0.0
        assert pass_rate(evaluation(torn)) is None
        assert pass_rate(evaluation(whole, torn), ("x",)) == 1.0

    def test_a_crash_does_not_pass(self) -> None:
        fine = judged("a", x=True)
        assert pass_rate(evaluation(fine, crashed(judged("b", x=True)))) == 0.5
        assert pass_rate(evaluation(fine, crashed(ran("b", {})))) == 0.5

    def test_repeats_are_averaged(self) -> None:
        found = evaluation(judged("a", 0, x=True), judged("a", 1, x=False))
        assert pass_rate(found) == 0.5

    @swift
    @given(worlds())
    def test_it_is_a_rate(self, world: World) -> None:
        found = pass_rate(world.train.candidate)
        assert found is None or 0.0 <= found <= 1.0
