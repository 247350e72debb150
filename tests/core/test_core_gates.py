"""Each gate by example: what it accepts, every reason to reject, and when it cannot tell."""

from dataclasses import replace

import pytest
from worlds import ACC, crashed, evaluation, lost, ran, table, with_losses

from burnish.core.comparisons import Pair
from burnish.core.evaluations import (
    Constraint,
    Evaluation,
    Objective,
    Operator,
    Penalties,
    TieBreaker,
)
from burnish.core.gates import improves_on_minibatch, min_gain, sigma, strict
from burnish.core.trials import Decision, Verdict


def losses(new: float, old: float) -> Pair:
    """Two evaluations without noise."""
    return Pair(candidate=with_losses(new), incumbent=with_losses(old))


def around(mean: float, std: float) -> Evaluation:
    """Two sweeps with this mean loss and this spread."""
    return with_losses(mean - std, mean + std)


class TestSigma:
    def test_the_seeds_accepted_example(self) -> None:
        train = Pair(candidate=around(0.184, 0.011), incumbent=around(0.221, 0.007))
        holdout = Pair(candidate=around(0.196, 0.010), incumbent=around(0.184, 0.0098))
        found = sigma(objective=ACC, train=train, holdout=holdout)
        assert (found.verdict, found.code) == (Verdict.ACCEPT, "better")
        assert found.numbers == pytest.approx(
            {
                "train_mean": 0.184,
                "train_std": 0.011,
                "best_train_mean_before": 0.221,
                "best_train_std": 0.007,
                "train_improvement": 0.037,
                "accept_sigma": 1.0,
                "noise_bar": 0.013,
                "holdout_mean": 0.196,
                "holdout_std": 0.010,
                "best_holdout_mean_before": 0.184,
                "best_holdout_std": 0.0098,
                "holdout_regression": 0.012,
                "holdout_noise_bar": 0.014,
            },
            abs=5e-4,
        )
        assert found.reason == (
            "train improved 0.037 > noise bar 0.013 (1σ); "
            "holdout got worse by 0.012 < its noise 0.014"
        )

    def test_the_seeds_rejected_example(self) -> None:
        train = Pair(candidate=around(0.171, 0.018), incumbent=around(0.184, 0.0108))
        found = sigma(objective=ACC, train=train)
        assert (found.verdict, found.code) == (Verdict.REJECT, "noise")
        assert found.reason == (
            "train improved 0.013 < noise bar 0.021 (1σ), indistinguishable from noise"
        )

    @pytest.mark.parametrize(
        ("new", "old", "code", "reason"),
        [
            (0.3, 0.5, "better", "train improved 0.200 > noise bar 0.000 (1σ)"),
            (0.5, 0.5, "tie", "train is as good as before, and a tie is no improvement"),
            (0.5, 0.3, "worse", "train got worse by 0.200"),
            (0.3 + 1e-12, 0.3, "tie", "train is as good as before, and a tie is no improvement"),
            (0.30001, 0.3, "worse", "train got worse by 0.00001"),
        ],
    )
    def test_without_noise(self, new: float, old: float, code: str, reason: str) -> None:
        found = sigma(objective=ACC, train=losses(new, old))
        assert (found.code, found.reason) == (code, reason)

    def test_a_gain_as_large_as_the_noise_is_enough(self) -> None:
        train = Pair(candidate=around(0.3, 0.1), incumbent=with_losses(0.4, 0.4))
        assert sigma(objective=ACC, train=train).accepted
        assert sigma(objective=ACC, train=train, accept_sigma=1.01).code == "noise"

    @pytest.mark.parametrize(
        ("held", "code", "words"),
        [
            (losses(0.2, 0.4), "better", "holdout improved 0.200"),
            (losses(0.4, 0.4), "better", "holdout is as good as before"),
            (losses(0.4, 0.3), "holdout", "holdout got worse by 0.100 > its noise 0.000"),
            (
                Pair(candidate=around(0.4, 0.1), incumbent=with_losses(0.3, 0.3)),
                "better",
                "holdout got worse by 0.100 = its noise 0.100",
            ),
        ],
    )
    def test_holdout_may_not_get_worse_beyond_its_noise(
        self, held: Pair, code: str, words: str
    ) -> None:
        found = sigma(objective=ACC, train=losses(0.1, 0.5), holdout=held)
        assert found.code == code
        assert found.reason.endswith(f"; {words}")

    def test_holdout_is_not_looked_at_when_train_says_no(self) -> None:
        found = sigma(objective=ACC, train=losses(0.5, 0.5), holdout=losses(0.0, 1.0))
        assert found.code == "tie"
        assert "holdout_mean" not in found.numbers

    def test_noisy_latency_is_noise(self) -> None:
        """Equal scores and a jitter in time are no reason to accept."""
        slow = replace(ACC, penalties=Penalties(latency_per_sec=0.1))

        def timed(*seconds: float) -> Evaluation:
            runs = (ran("c", {"acc": 0.5}, draw=i, seconds=s) for i, s in enumerate(seconds))
            return evaluation(*runs)

        jitter = Pair(candidate=timed(1.0, 1.8), incumbent=timed(1.2, 1.8))
        assert sigma(objective=slow, train=jitter).code == "noise"
        faster = Pair(candidate=timed(0.1, 0.2), incumbent=timed(1.2, 1.8))
        assert sigma(objective=slow, train=faster).accepted

    def test_cannot_tell_when_holdout_has_no_price(self) -> None:
        dear = replace(ACC, penalties=Penalties(cost_per_usd=0.1))
        unpriced = evaluation(ran("case0", {"acc": 1.0}, nano_usd=None))
        holdout = Pair(candidate=unpriced, incumbent=with_losses(0.5))
        found = sigma(objective=dear, train=losses(0.1, 0.5), holdout=holdout)
        assert found.verdict is Verdict.CANNOT_TELL
        assert "price" in found.reason
        assert found.numbers == {}


class TestMinGain:
    @pytest.mark.parametrize(
        ("new", "old", "gain", "code", "reason"),
        [
            (0.3, 0.5, 0.0, "better", "score gain 0.200 > required 0.000"),
            (0.3, 0.5, 0.2, "better", "score gain 0.200 = required 0.200"),
            (0.3, 0.5, 0.3, "below", "score gain 0.200 < required 0.300"),
            (0.5, 0.3, 0.0, "below", "score gain -0.200 < required 0.000"),
            (0.5, 0.5, 0.0, "tie", "score gain 0.000 = required 0.000, and a tie is no gain"),
            (0.5, 0.5, 0.1, "tie", "score gain 0.000 < required 0.100"),
            (0.5, 0.5, -0.1, "better", "score gain 0.000 > required -0.100"),
            (0.55, 0.5, -0.1, "better", "score gain -0.050 > required -0.100"),
            (0.65, 0.5, -0.1, "below", "score gain -0.150 < required -0.100"),
        ],
    )
    def test_by_example(self, new: float, old: float, gain: float, code: str, reason: str) -> None:
        found = min_gain(objective=ACC, validation=losses(new, old), gain=gain)
        assert (found.code, found.reason) == (code, reason)
        assert found.accepted == (code == "better")
        assert found.numbers == pytest.approx(
            {
                "score": 1 - new,
                "best_score_before": 1 - old,
                "score_delta": old - new,
                "min_score_gain": gain,
            }
        )

    def test_cannot_tell_without_a_price_the_loss_needs(self) -> None:
        dear = replace(ACC, penalties=Penalties(cost_per_usd=0.1))
        unpriced = evaluation(ran("case0", {"acc": 1.0}, nano_usd=None))
        found = min_gain(
            objective=dear, validation=Pair(candidate=unpriced, incumbent=with_losses(0.9))
        )
        assert found.verdict is Verdict.CANNOT_TELL
        assert "price" in found.reason
        assert found.numbers == {}

    def test_cannot_tell_when_the_sides_share_no_case(self) -> None:
        pair = Pair(
            candidate=evaluation(ran("a", {"acc": 1.0})),
            incumbent=evaluation(ran("b", {"acc": 0.0})),
        )
        found = min_gain(objective=ACC, validation=pair)
        assert found.verdict is Verdict.CANNOT_TELL
        assert found.reason == "cannot tell: of 0 cases, both sides have none"

    def test_cannot_tell_when_more_than_a_quarter_is_missing(self) -> None:
        pair = Pair(candidate=table([1, 1, None]), incumbent=table([0, 0, 0]))
        found = min_gain(objective=ACC, validation=pair)
        assert found.verdict is Verdict.CANNOT_TELL
        assert found.reason == (
            "cannot tell: 1 of 3 cases are missing on a side, at most 25% may be"
        )
        exactly = Pair(candidate=table([1, 1, 1, None]), incumbent=table([0, 0, 0, 0]))
        assert min_gain(objective=ACC, validation=exactly).accepted


class TestStrict:
    @pytest.mark.parametrize(
        ("new", "old", "tolerance", "code", "reason"),
        [
            (0.3, 0.5, 0.0, "better", "loss 0.300 < incumbent's 0.500 (minimize)"),
            (0.5, 0.3, 0.0, "worse", "loss 0.500 > incumbent's 0.300 (minimize)"),
            (
                0.5,
                0.5,
                0.0,
                "tie",
                "loss 0.500 = incumbent's 0.500 (minimize), a tie within 0, and nothing breaks it",
            ),
            (
                0.45,
                0.5,
                0.1,
                "tie",
                "loss 0.450 < incumbent's 0.500 (minimize), a tie within 0.1, "
                "and nothing breaks it",
            ),
        ],
    )
    def test_by_example(
        self, new: float, old: float, tolerance: float, code: str, reason: str
    ) -> None:
        found = strict(objective=ACC, pair=losses(new, old), tolerance=tolerance)
        assert (found.code, found.reason) == (code, reason)
        assert found.accepted == (code == "better")

    def test_a_tie_looks_like_one(self) -> None:
        """Rounded each on its own, these two would read 0.000 and 0.001."""
        found = strict(objective=ACC, pair=losses(0.0005 - 4e-10, 0.0005 + 4e-10))
        assert found.reason.startswith("loss 0.001 = incumbent's 0.001 ")

    def test_noise_makes_a_tie(self) -> None:
        pair = Pair(candidate=around(0.4, 0.2), incumbent=with_losses(0.5, 0.5))
        assert strict(objective=ACC, pair=pair).accepted
        assert strict(objective=ACC, pair=pair, accept_sigma=1.0).code == "tie"

    def test_a_crash_the_incumbent_did_not_have(self) -> None:
        whole = [ran("a", {"acc": 1.0}), ran("b", {"acc": 0.0})]
        pair = Pair(
            candidate=evaluation(whole[0], crashed(whole[1])),
            incumbent=evaluation(ran("a", {"acc": 0.0}), whole[1]),
        )
        found = strict(objective=ACC, pair=pair)
        assert (found.verdict, found.code) == (Verdict.REJECT, "crash")
        assert found.reason == "the candidate crashed on 1 case that the incumbent finished"
        both = replace(pair, incumbent=evaluation(ran("a", {"acc": 0.0}), crashed(whole[1])))
        assert strict(objective=ACC, pair=both).accepted

    def test_a_crash_on_a_case_the_incumbent_lacks_does_not_count(self) -> None:
        runs = [ran(f"c{i}", {"acc": 1.0}) for i in range(4)]
        gone = ran("gone", {"acc": 1.0})
        pair = Pair(
            candidate=evaluation(*runs, crashed(gone)),
            incumbent=evaluation(*(ran(r.case, {"acc": 0.0}) for r in runs), lost(gone)),
        )
        assert strict(objective=ACC, pair=pair).accepted

    def test_the_primary_may_be_any_known_number(self) -> None:
        new = evaluation(ran("c", {"acc": 0.5}, measures={"f1": 0.7}))
        old = evaluation(ran("c", {"acc": 0.9}, measures={"f1": 0.6}))
        pair = Pair(candidate=new, incumbent=old)
        found = strict(objective=ACC, pair=pair, primary="f1", direction="maximize")
        assert found.accepted
        assert found.reason == "f1 0.700 > incumbent's 0.600 (maximize)"
        assert not strict(objective=ACC, pair=pair, primary="f1").accepted
        unknown = strict(objective=ACC, pair=pair, primary="f2")
        assert unknown.verdict is Verdict.CANNOT_TELL

    def test_a_primary_without_weight_is_compared_on_cases_that_both_sides_have(self) -> None:
        scored: list[float | None] = [1.0, 1.0, 1.0, None]
        new = evaluation(*(ran(f"c{i}", {"acc": 1.0, "f1": v}) for i, v in enumerate(scored)))
        plain = [1.0, 1.0, 1.0, 0.0]
        old = evaluation(*(ran(f"c{i}", {"acc": 1.0, "f1": v}) for i, v in enumerate(plain)))
        pair = Pair(candidate=new, incumbent=old)
        found = strict(objective=ACC, pair=pair, primary="f1", direction="maximize")
        assert found.code == "tie"
        assert found.missing.dropped == 1

    @pytest.mark.parametrize(
        ("breakers", "code"),
        [
            ((TieBreaker(metric="cost_usd", prefer="lower"),), "better"),
            ((TieBreaker(metric="cost_usd", prefer="higher"),), "tie"),
            ((TieBreaker(metric="latency_sec", prefer="lower"),), "tie"),
            ((TieBreaker(metric="nowhere", prefer="lower"),), "tie"),
            (
                (
                    TieBreaker(metric="latency_sec", prefer="lower"),
                    TieBreaker(metric="cost_usd", prefer="lower"),
                ),
                "better",
            ),
        ],
    )
    def test_tie_breakers_decide_in_their_order(
        self, breakers: tuple[TieBreaker, ...], code: str
    ) -> None:
        new = evaluation(ran("c", {"acc": 0.5}, nano_usd=1_000_000, seconds=2.0))
        old = evaluation(ran("c", {"acc": 0.5}, nano_usd=2_000_000, seconds=2.0))
        found = strict(
            objective=replace(ACC, tie_breakers=breakers),
            pair=Pair(candidate=new, incumbent=old),
        )
        assert found.code == code
        if code == "better":
            assert found.reason.endswith("; lower cost_usd decides: 0.001 < 0.002")


class TestImprovesOnMinibatch:
    @pytest.mark.parametrize(
        ("new", "old", "code", "reason"),
        [
            ([1, 0.5], [0.5, 0.5], "better", "sum over 2 cases 1.500 > parent's 1.000"),
            ([0.5, 0.5], [1, 0.5], "worse", "sum over 2 cases 1.000 < parent's 1.500"),
            ([0, 1], [1, 0], "tie", "sum over 2 cases 1.000 = parent's 1.000"),
            ([1], [0], "better", "sum over 1 case 1.000 > parent's 0.000"),
        ],
    )
    def test_by_example(self, new: list[float], old: list[float], code: str, reason: str) -> None:
        pair = Pair(candidate=table(new), incumbent=table(old))
        found = improves_on_minibatch(objective=ACC, minibatch=pair)
        assert (found.code, found.reason) == (code, reason)
        assert found.accepted == (code == "better")

    def test_constraints_are_left_to_the_gate_behind_it(self) -> None:
        bound = replace(ACC, constraints=(Constraint(metric="acc", op=">=", value=0.9),))
        assert improves_on_minibatch(objective=bound, minibatch=losses(0.3, 0.5)).accepted

    def test_cannot_tell_when_too_much_is_missing(self) -> None:
        pair = Pair(candidate=table([1, None]), incumbent=table([0, 0]))
        found = improves_on_minibatch(objective=ACC, minibatch=pair)
        assert found.verdict is Verdict.CANNOT_TELL


class TestConstraints:
    """A condition that must hold, whatever was gained: in sigma, min_gain and strict."""

    @pytest.mark.parametrize("gate", ["sigma", "min_gain", "strict"])
    @pytest.mark.parametrize(
        ("op", "holding", "broken"),
        [
            ("<=", 0.7, 0.6),
            ("<", 0.8, 0.7),
            (">=", 0.7, 0.8),
            (">", 0.6, 0.7),
            ("==", 0.7, 0.8),
            ("!=", 0.8, 0.7),
        ],
    )
    def test_each_operator(self, gate: str, op: Operator, holding: float, broken: float) -> None:
        good = decide(gate, Constraint(metric="acc", op=op, value=holding))
        assert good.accepted
        bad = decide(gate, Constraint(metric="acc", op=op, value=broken))
        assert (bad.verdict, bad.code) == (Verdict.REJECT, "constraint")
        assert bad.numbers == pytest.approx({"acc": 0.7, "constraint": broken})

    @pytest.mark.parametrize("gate", ["sigma", "min_gain", "strict"])
    def test_one_that_speaks_of_nothing_known(self, gate: str) -> None:
        found = decide(gate, Constraint(metric="violations", op="<=", value=0))
        assert found.verdict is Verdict.CANNOT_TELL
        assert "'violations'" in found.reason

    def test_the_sentence_shows_the_difference(self) -> None:
        found = decide("min_gain", Constraint(metric="acc", op=">=", value=0.7000001))
        assert found.reason == ("constraint acc >= 0.7 is broken: acc is 0.7000000 < 0.7000001")

    def test_a_metric_only_a_constraint_reads_can_be_missing(self) -> None:
        safe = Objective(
            weights={"acc": 1.0}, constraints=(Constraint(metric="safe", op=">=", value=1.0),)
        )
        new = evaluation(ran("a", {"acc": 1.0, "safe": 1.0}), ran("b", {"acc": 1.0, "safe": None}))
        old = evaluation(ran("a", {"acc": 0.0, "safe": 1.0}), ran("b", {"acc": 0.0, "safe": 1.0}))
        pair = Pair(candidate=new, incumbent=old)
        found = min_gain(objective=safe, validation=pair)
        assert found.verdict is Verdict.CANNOT_TELL
        assert found.missing.candidate == 1


def decide(gate: str, constraint: Constraint) -> Decision:
    """What a gate says of a clear gain (to a score of 0.7) under a constraint."""
    objective, pair = replace(ACC, constraints=(constraint,)), losses(0.3, 0.9)
    if gate == "sigma":
        return sigma(objective=objective, train=pair)
    if gate == "min_gain":
        return min_gain(objective=objective, validation=pair)
    return strict(objective=objective, pair=pair)
