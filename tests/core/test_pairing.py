"""A metric that stops applying never helps: what is lost is missing, and counts as its worst."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import ACC, GATES, SCORES, World, crashed, evaluation, ran, worlds

from burnish.core.cases import Outcome
from burnish.core.comparisons import Pair, case_changes, compare
from burnish.core.evaluations import (
    CaseResult,
    Constraint,
    Evaluation,
    Objective,
    Score,
    TieBreaker,
)
from burnish.core.gates import Guards, guarded, min_gain, sigma, strict
from burnish.core.trials import Decision, Verdict

BOTH = Objective(weights={"equality": 1.0, "faithfulness": 1.0})
HARD = ("h1", "h2", "h3")
EASY = ("e1", "e2", "e3", "e4", "e5", "e6", "e7")


def side(
    equality: float, faithful: float | None, *, hard: tuple[str, ...] = HARD, draw: int = 0
) -> list[CaseResult]:
    """Easy cases go well; on hard ones this is what each metric says, or nothing."""
    easy = [ran(case, {"equality": 0.9, "faithfulness": 0.9}, draw=draw) for case in EASY]
    on_hard = {"equality": equality} | ({} if faithful is None else {"faithfulness": faithful})
    return [*easy, *(ran(case, {**on_hard}, draw=draw) for case in hard)]


def retrieving_nothing(hard: tuple[str, ...] = HARD) -> Pair:
    """The candidate answers the hard cases a little better, and rests its answers on nothing."""
    return Pair(
        candidate=evaluation(*side(0.3, None, hard=hard)),
        incumbent=evaluation(*side(0.2, 0.1, hard=hard)),
    )


def every_gate(pair: Pair, objective: Objective = BOTH) -> dict[str, Decision]:
    return {
        "min_gain": min_gain(objective=objective, validation=pair),
        "sigma": sigma(objective=objective, train=pair, holdout=pair),
        "strict": strict(objective=objective, pair=pair),
    }


def test_retrieving_nothing_on_the_hard_cases_is_never_accepted() -> None:
    for name, found in every_gate(retrieving_nothing()).items():
        assert (found.verdict, found.code) == (Verdict.CANNOT_TELL, "missing"), name
        assert "faithfulness no longer applies" in found.reason, name
        assert "at most 25% may be" in found.reason, name


def test_nor_where_few_enough_are_hard_to_tell() -> None:
    for name, found in every_gate(retrieving_nothing(HARD[:2])).items():
        assert found.verdict is Verdict.REJECT, name
        assert "2 cases to which faithfulness no longer applies, taken at the worst" in found.reason
        assert (found.missing.lost, found.missing.silent) == (2, ("faithfulness",))


def test_a_candidate_that_is_better_even_so_is_accepted() -> None:
    pair = Pair(
        candidate=evaluation(*side(1.0, None, hard=HARD[:1])),
        incumbent=evaluation(*side(0.2, 0.1, hard=HARD[:1])),
    )
    for name, found in every_gate(pair).items():
        assert found.accepted, name
        assert found.missing.lost >= 1, name


def test_what_a_metric_says_of_the_candidate_alone_is_not_compared() -> None:
    """Being faithful to passages on cases that had none is no better faithfulness."""
    pair = Pair(
        candidate=evaluation(*side(0.2, 1.0)),
        incumbent=evaluation(*side(0.2, None)),
    )
    found = compare(pair, BOTH, max_missing=0.25)
    assert found.gain == pytest.approx(0.0)
    assert found.missing.share == 0


def test_whoever_no_longer_crashes_is_not_held_to_metrics_that_do_not_apply() -> None:
    cases = [ran(case, {"equality": 0.0, "faithfulness": 0.0}) for case in HARD]
    easy = side(0.0, 0.0, hard=())
    pair = Pair(
        candidate=evaluation(*easy, *(ran(case, {"equality": 1.0}) for case in HARD)),
        incumbent=evaluation(*easy, *map(crashed, cases)),
    )
    for name, found in every_gate(pair).items():
        assert found.accepted, name
        assert found.missing.share == 0, name


@pytest.mark.parametrize(("op", "value"), [(">=", 0.5), ("<=", 0.95), ("!=", 0.75)])
def test_a_constraint_must_hold_whatever_was_lost(op: str, value: float) -> None:
    limit = Constraint(metric="faithfulness", op=op, value=value)  # pyright: ignore[reportArgumentType]
    objective = Objective(weights={"equality": 1.0}, constraints=(limit,))
    hard = ("h1", "h2")
    new = [ran(case, {"equality": 1.0, "faithfulness": value}) for case in ("e1", "e2")]
    lost = [ran(case, {"equality": 1.0}) for case in hard]
    old = [ran(case, {"equality": 0.1, "faithfulness": value}) for case in ("e1", "e2", *hard)]
    pair = Pair(candidate=evaluation(*new, *lost), incumbent=evaluation(*old))
    found = min_gain(objective=objective, validation=pair, max_missing=0.5)
    assert found.code == "constraint"


def test_a_tie_breaker_that_fell_silent_does_not_pass_the_word_on() -> None:
    breakers = (
        TieBreaker(metric="size", prefer="lower"),
        TieBreaker(metric="cost_usd", prefer="lower"),
    )
    objective = Objective(weights={"acc": 1.0}, tie_breakers=breakers)
    pair = Pair(
        candidate=evaluation(ran("c", {"acc": 0.5}, nano_usd=1)),
        incumbent=evaluation(ran("c", {"acc": 0.5}, nano_usd=10**9, measures={"size": 3.0})),
    )
    found = strict(objective=objective, pair=pair)
    assert found.verdict is Verdict.CANNOT_TELL
    assert "'size', which decides, is not known any more" in found.reason


def test_numbers_of_a_run_are_no_scores() -> None:
    """Where the incumbent crashed, its zeros are those of metrics only."""
    pair = Pair(
        candidate=evaluation(ran("a", {"acc": 0.5}, measures={"size": 4.0})),
        incumbent=evaluation(crashed(ran("a", {"acc": 0.0}))),
    )
    found = compare(pair, ACC, max_missing=0.0, also=("size", "cost_usd", "loss"))
    assert found.candidate.values["size"] == 4.0
    assert found.at_best.components == {"acc": 0.5}


class TestTurns:
    def talk(self, *values: float | None, asked: int = 0) -> Evaluation:
        scores = tuple(
            Score(metric="acc", value=value, turn=turn)
            for turn, value in enumerate(values)
            if value is not None
        )
        outcome = Outcome(replies=("ok",), asked=("?",) * asked)
        return evaluation(CaseResult(case="c", outcome=outcome, scores=scores))

    def test_a_turn_that_is_no_longer_scored_is_lost(self) -> None:
        pair = Pair(candidate=self.talk(0.9, None), incumbent=self.talk(0.8, 0.1))
        found = compare(pair, ACC, max_missing=1.0)
        assert found.candidate.loss == pytest.approx(0.55)
        assert found.missing.lost == 1

    def test_a_talk_that_ends_sooner_loses_nothing(self) -> None:
        pair = Pair(candidate=self.talk(0.9, asked=1), incumbent=self.talk(0.8, 0.1, asked=2))
        found = compare(pair, ACC, max_missing=0.0)
        assert (found.missing.lost, found.candidate.loss) == (0, pytest.approx(0.1))


class TestGuards:
    accepted = Decision(gate="min_gain", verdict=Verdict.ACCEPT, code="better", reason="better")

    def decided(self, guards: Guards) -> Decision:
        old = tuple(
            replace(result, scores=tuple(replace(s, passed=True) for s in result.scores))
            for result in side(0.2, 0.5)
        )
        new = tuple(
            replace(result, scores=tuple(replace(s, passed=True) for s in result.scores))
            for result in side(0.9, None)
        )
        pair = Pair(candidate=evaluation(*new), incumbent=evaluation(*old))
        assert "h1" not in case_changes(pair, BOTH).up
        return guarded(self.accepted, pair=pair, objective=BOTH, guards=guards)

    @pytest.mark.parametrize(
        ("guards", "words"),
        [
            (Guards(protected=("h1",)), "the protected case 'h1' is missing"),
            (Guards(no_new_failures=True), "passed before and are missing now: h1, h2, h3"),
            (Guards(floors={"faithfulness": 0.7}), "the mean of faithfulness is not known"),
        ],
    )
    def test_what_was_lost_cannot_be_checked(self, guards: Guards, words: str) -> None:
        found = self.decided(guards)
        assert (found.verdict, found.code) == (Verdict.CANNOT_TELL, "guard")
        assert words in found.reason

    def test_what_was_not_lost_can(self) -> None:
        assert self.decided(Guards(protected=("e1",), floors={"faithfulness": 0.6})).accepted


lawful = settings(max_examples=150, deadline=None, derandomize=True)


def silenced(pair: Pair, data: st.DataObject) -> Pair:
    """The pair with some scores of the candidate's finished runs not there any more."""
    places = [
        (number, score.metric)
        for number, result in enumerate(pair.candidate.results)
        for score in result.scores
        if score.value is not None and result.outcome.failure is None
    ]
    if not places:
        return pair
    gone = data.draw(st.sets(st.sampled_from(places), min_size=1, max_size=3))
    results = tuple(
        replace(result, scores=tuple(s for s in result.scores if (number, s.metric) not in gone))
        for number, result in enumerate(pair.candidate.results)
    )
    return replace(pair, candidate=replace(pair.candidate, results=results))


@pytest.mark.parametrize("allowed", [0.25, 1.0])
@lawful
@given(data=st.data())
def test_falling_silent_never_turns_a_refusal_into_an_accept(
    allowed: float, data: st.DataObject
) -> None:
    world = replace(data.draw(worlds(spoilt=data.draw(st.booleans()))), max_missing=allowed)
    part = data.draw(st.sampled_from(["train", "train", "holdout"]))
    silent = replace(world, **{part: silenced(getattr(world, part), data)})
    for name, gate in GATES.items():
        before, after = gate(world), gate(silent)
        assert before.accepted or not after.accepted, name


@st.composite
def patchy(draw: st.DrawFn) -> Evaluation:
    """Metrics that apply here and there, on each side as it happens."""
    return evaluation(
        *(
            ran(
                f"c{case}",
                {
                    metric: draw(st.sampled_from(SCORES))
                    for metric in ("acc", "tone")
                    if metric == "acc" or draw(st.booleans())
                },
                draw=number,
            )
            for number in range(draw(st.integers(1, 2)))
            for case in range(3)
        )
    )


@lawful
@given(data=st.data())
def test_nor_where_metrics_apply_to_each_side_as_it_happens(data: st.DataObject) -> None:
    pair = Pair(candidate=data.draw(patchy()), incumbent=data.draw(patchy()))
    prefers = st.sampled_from(("lower", "higher"))
    objective = Objective(
        weights={"acc": 1.0, "tone": 1.0},
        tie_breakers=(TieBreaker(metric="tone", prefer=data.draw(prefers)),),
    )
    sigmas = st.sampled_from([0.0, 1.0, 2.0])
    world = World(train=pair, holdout=pair, objective=objective, accept_sigma=data.draw(sigmas))
    quiet = silenced(pair, data)
    for name, gate in GATES.items():
        before, after = gate(world), gate(replace(world, train=quiet, holdout=quiet))
        assert before.accepted or not after.accepted, name
