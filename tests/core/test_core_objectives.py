"""The objective: the loss and its penalties, what a crash is charged, and what is unknown."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import ACC, crashed, evaluation, lost, ran, table

from burnish.core.comparisons import Pair, compare
from burnish.core.evaluations import (
    Constraint,
    Floor,
    Objective,
    Operator,
    Penalties,
    TieBreaker,
    floors_from,
    prefers,
)
from burnish.core.money import NANO

DEAR = replace(ACC, penalties=Penalties(cost_per_usd=0.1))
SLOW = replace(ACC, penalties=Penalties(latency_per_sec=0.01))


class TestLoss:
    def test_it_is_one_minus_the_weighted_mean(self) -> None:
        found = Objective(weights={"acc": 3.0, "tone": 1.0}).measure(
            evaluation(
                ran("a", {"acc": 1.0, "tone": 0.0, "extra": 0.0}),
                ran("b", {"acc": 0.5, "tone": 0.4, "extra": 0.0}),
            )
        )
        assert found.loss == pytest.approx(1 - (3 * 0.75 + 1 * 0.2) / 4)
        assert found.score == pytest.approx(1 - (found.loss or 0))
        assert found.components == pytest.approx({"acc": 0.75, "tone": 0.2, "extra": 0.0})
        assert found.cases == 2

    @settings(max_examples=50, deadline=None, derandomize=True)
    @given(
        scores=st.lists(st.floats(0, 1), min_size=2, max_size=2),
        weights=st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=2),
    )
    def test_it_is_between_0_and_1(self, scores: list[float], weights: list[float]) -> None:
        objective = Objective(weights={"a": weights[0], "b": weights[1]})
        loss = objective.measure(evaluation(ran("c", {"a": scores[0], "b": scores[1]}))).loss
        assert loss is not None
        assert 1 - max(scores) - 1e-9 <= loss <= 1 - min(scores) + 1e-9
        assert 0 <= loss <= 1

    def test_repeats_give_a_mean_and_a_spread(self) -> None:
        found = ACC.measure(table([1.0, 0.5], [0.5, 0.0]))
        assert found.runs == pytest.approx((0.25, 0.75))
        assert (found.loss, found.std) == pytest.approx((0.5, 0.25))

    def test_it_is_unknown_without_a_weighted_metric(self) -> None:
        found = Objective(weights={"acc": 1.0, "tone": 1.0}).measure(table([1.0]))
        assert (found.loss, found.score, found.runs) == (None, None, ())
        assert "loss" not in found.values

    def test_what_is_missing_is_told(self) -> None:
        whole = [ran("a", {"acc": 1.0, "tone": None}), ran("b", {"acc": None, "tone": None})]
        found = ACC.measure(evaluation(*whole, lost(ran("c", {}))))
        assert found.loss == 0.0
        assert found.missing == {"acc": 2, "tone": 3}
        assert found.missing_cases == ("b", "c")

    @pytest.mark.parametrize("weight", [0.0, -1.0, math.nan, math.inf])
    def test_weights_are_above_0(self, weight: float) -> None:
        with pytest.raises(ValueError, match="weight above 0"):
            Objective(weights={"acc": weight})

    def test_the_score_of_one_case(self) -> None:
        objective = Objective(weights={"acc": 3.0, "tone": 1.0})
        found = evaluation(
            ran("a", {"acc": 1.0, "tone": 0.0}),
            ran("a", {"acc": 0.0, "tone": 1.0}, draw=1),
            ran("b", {"acc": 0.3}),
            ran("c", {"acc": 0.3, "tone": None}),
        )
        scores = [objective.case_score(found, case) for case in ("a", "b", "c", "d")]
        assert scores == pytest.approx([0.5, 0.3, None, None])


class TestPenalties:
    def test_cost_is_that_of_one_sweep(self) -> None:
        runs = [
            ran(case, {"acc": 1.0}, draw=draw, nano_usd=NANO)
            for draw in range(3)
            for case in ("a", "b")
        ]
        found = DEAR.measure(evaluation(*runs))
        assert found.loss == pytest.approx(0.2)
        assert found.penalties == pytest.approx({"cost_per_usd": 0.2})
        assert found.values["cost_usd"] == 2.0
        assert DEAR.measure(evaluation(*runs[:2])).loss == pytest.approx(found.loss)

    def test_latency_is_that_of_the_mean_case(self) -> None:
        runs = [ran("a", {"acc": 0.5}, seconds=1.0), ran("b", {"acc": 0.5}, seconds=3.0)]
        found = SLOW.measure(evaluation(*runs))
        assert found.loss == pytest.approx(0.52)
        assert found.values["latency_sec"] == 2.0

    def test_both(self) -> None:
        both = replace(ACC, penalties=Penalties(cost_per_usd=0.1, latency_per_sec=0.01))
        found = both.measure(evaluation(ran("a", {"acc": 1.0}, nano_usd=NANO, seconds=5.0)))
        assert found.loss == pytest.approx(0.15)
        assert found.penalties == pytest.approx({"cost_per_usd": 0.1, "latency_per_sec": 0.05})

    def test_each_sweep_has_its_own(self) -> None:
        runs = [ran("a", {"acc": 1.0}, draw=i, seconds=s) for i, s in enumerate((10.0, 30.0))]
        found = SLOW.measure(evaluation(*runs))
        assert found.runs == pytest.approx((0.1, 0.3))
        assert (found.loss, found.std) == pytest.approx((0.2, 0.1))

    def test_an_unknown_price_is_unknown_and_not_0(self) -> None:
        runs = evaluation(ran("a", {"acc": 1.0}, nano_usd=None), ran("b", {"acc": 1.0}))
        found = DEAR.measure(runs)
        assert found.loss is None
        assert "cost_usd" not in found.values
        assert ACC.measure(runs).loss == 0.0

    def test_an_outage_costs_nothing(self) -> None:
        runs = [ran("a", {"acc": 1.0}, nano_usd=NANO, seconds=2.0), lost(ran("b", {}))]
        found = DEAR.measure(evaluation(*runs))
        assert (found.values["cost_usd"], found.values["latency_sec"]) == (1.0, 2.0)

    @pytest.mark.parametrize("rate", [-0.1, math.nan, math.inf])
    def test_rates_are_numbers_from_0(self, rate: float) -> None:
        with pytest.raises(ValueError, match="cannot be negative"):
            Penalties(cost_per_usd=rate)
        with pytest.raises(ValueError, match="cannot be negative"):
            Penalties(latency_per_sec=rate)


class TestCrashes:
    dear = ran("a", {"acc": 1.0}, nano_usd=4 * NANO, seconds=4.0)
    cheap = ran("b", {"acc": 1.0}, nano_usd=2 * NANO, seconds=2.0)
    third = ran("c", {"acc": 1.0}, nano_usd=NANO, seconds=1.0)

    def test_one_is_charged_the_mean_of_the_finished(self) -> None:
        found = ACC.measure(evaluation(self.dear, self.cheap, crashed(self.third))).values
        assert (found["cost_usd"], found["latency_sec"]) == (9.0, 3.0)

    def test_one_that_cost_more_is_charged_what_it_cost(self) -> None:
        slow = crashed(self.third)
        slow = replace(slow, outcome=replace(slow.outcome, nano_usd=9 * NANO, seconds=9.0))
        found = ACC.measure(evaluation(self.dear, self.cheap, slow)).values
        assert (found["cost_usd"], found["latency_sec"]) == (15.0, 5.0)

    def test_one_is_charged_at_least_its_floor(self) -> None:
        runs = evaluation(self.dear, self.cheap, crashed(self.third))
        floors = {"c": Floor(usd=10.0, seconds=12.0), "a": Floor(usd=99.0, seconds=99.0)}
        found = ACC.measure(runs, floors=floors).values
        assert (found["cost_usd"], found["latency_sec"]) == (16.0, 6.0)

    def test_floors_are_the_dearest_run_of_each_case(self) -> None:
        again = replace(self.dear, draw=1, outcome=replace(self.dear.outcome, nano_usd=None))
        assert floors_from(evaluation(self.dear, again, lost(self.cheap))) == {
            "a": Floor(usd=4.0, seconds=4.0)
        }

    def test_when_all_crash_nothing_is_known_of_the_usual(self) -> None:
        found = DEAR.measure(evaluation(crashed(self.dear), crashed(self.cheap)))
        assert (found.loss, found.values["failed_cases"]) == (1.0, 2.0)


class TestConstraints:
    @pytest.mark.parametrize(
        ("op", "verdicts"),
        [
            ("<=", [True, True, False]),
            ("<", [True, False, False]),
            (">=", [False, True, True]),
            (">", [False, False, True]),
            ("==", [False, True, False]),
            ("!=", [True, False, True]),
        ],
    )
    @pytest.mark.parametrize("blur", [0.0, 1e-12, -1e-12])
    def test_each_operator(self, op: Operator, verdicts: list[bool], blur: float) -> None:
        constraint = Constraint(metric="x", op=op, value=0.3)
        found = [constraint.holds({"x": value + blur}) for value in (0.2, 0.1 + 0.2, 0.4)]
        assert found == verdicts

    def test_what_is_unknown_cannot_be_told(self) -> None:
        assert Constraint(metric="x", op="!=", value=1).holds({"y": 1.0}) is None

    def test_as_text(self) -> None:
        assert str(Constraint(metric="cost_usd", op="<=", value=2.5)) == "cost_usd <= 2.5"

    def test_what_they_may_speak_of(self) -> None:
        runs = evaluation(
            ran("a", {"acc": 1.0, "tone": 0.5}, measures={"steps": 3.0, "odd": 1.0}),
            ran("b", {"acc": 1.0}, measures={"steps": 5.0}),
        )
        assert set(ACC.measure(runs).values) == {
            "acc",
            "tone",
            "steps",
            "loss",
            "cost_usd",
            "latency_sec",
            "failed_cases",
        }
        assert ACC.measure(runs).values["steps"] == 4.0

    def test_the_pass_rate_is_that_of_the_required(self) -> None:
        runs = evaluation(crashed(ran("a", {"x": 1.0})))
        assert replace(ACC, required=("x",)).measure(runs).values["pass_rate"] == 0.0


class TestWhatIsKept:
    """A search compares with the same incumbent again and again."""

    runs = evaluation(ran("a", {"acc": 1.0}, seconds=2.0), ran("b", {"acc": 0.5}, seconds=2.0))

    def test_an_evaluation_is_measured_once_by_each_objective(self) -> None:
        alike = Objective(weights=dict(ACC.weights))
        found = ACC.measure(self.runs)
        assert alike.measure(self.runs) is found
        assert SLOW.measure(self.runs).loss == 0.25 + 0.02
        assert ACC.measure(self.runs) is found

    def test_floors_make_a_difference_only_where_a_run_failed(self) -> None:
        floors = {"a": Floor(usd=10.0), "b": Floor(usd=10.0)}
        assert ACC.measure(self.runs, floors=floors) is ACC.measure(self.runs)
        failed = evaluation(self.runs.results[0], crashed(self.runs.results[1]))
        charged = ACC.measure(failed, floors=floors).values["cost_usd"]
        assert charged > ACC.measure(failed).values["cost_usd"]

    def test_comparing_measures_no_copy_of_what_is_whole(self) -> None:
        found = compare(Pair(candidate=self.runs, incumbent=self.runs), ACC, max_missing=0.0)
        assert found.pair.candidate is found.pair.incumbent is found.highest is self.runs
        assert found.incumbent is ACC.measure(self.runs)

    def test_scores_of_cases_are_those_of_the_objective_that_asks(self) -> None:
        runs = evaluation(ran("a", {"acc": 1.0, "tone": 0.0}))
        both = Objective(weights={"acc": 1.0, "tone": 1.0})
        assert [each.case_score(runs, "a") for each in (ACC, both, ACC)] == [1.0, 0.5, 1.0]
        assert ACC.case_score(runs, "nowhere") is None


@pytest.mark.parametrize(
    ("prefer", "new", "old", "verdict"),
    [
        ("lower", 1.0, 2.0, True),
        ("lower", 2.0, 1.0, False),
        ("higher", 2.0, 1.0, True),
        ("higher", 1.0, 2.0, False),
        ("lower", 0.1 + 0.2, 0.3, None),
        ("higher", 0.1 + 0.2, 0.3, None),
    ],
)
def test_tie_breakers(prefer: str, new: float, old: float, verdict: bool | None) -> None:
    breaker = TieBreaker(metric="x", prefer="lower" if prefer == "lower" else "higher")
    assert prefers(breaker, new, old) is verdict
