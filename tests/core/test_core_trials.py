"""What the ledger keeps of a trial, and that it comes back from JSON as it went in."""

import json
from dataclasses import replace
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from worlds import ACC, GATES, World, crashed, evaluation, lost, ran, worlds

from burnish.core.cases import Failure, FailureKind, Outcome, Step, ToolCall, Trace, Usage
from burnish.core.content import Json, canonical, codec
from burnish.core.errors import Problem
from burnish.core.evaluations import CaseResult, Score
from burnish.core.money import Spend
from burnish.core.surfaces import Candidate, DemonstratedCall, Demonstration, Origin, Value
from burnish.core.trials import (
    Decision,
    Proposal,
    SplitResult,
    Trial,
    TrialRow,
    Verdict,
)

T = TypeVar("T")
swift = settings(max_examples=50, deadline=None, derandomize=True)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
reals = st.floats(allow_nan=False, allow_infinity=False)
whole = st.integers(0, 10**12)
plain: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | reals | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
arguments = st.dictionaries(texts, texts | st.integers() | st.booleans() | st.none(), max_size=2)
calls = st.builds(DemonstratedCall.of, texts, arguments, texts)
demos = st.builds(
    Demonstration,
    input=texts,
    output=texts,
    case=texts,
    calls=st.lists(calls, max_size=2).map(tuple),
)
values: st.SearchStrategy[Value] = (
    texts | st.integers() | reals | st.booleans() | st.lists(demos, max_size=2).map(tuple)
)
candidates = st.builds(
    Candidate,
    values=st.dictionaries(texts, values, max_size=3),
    parents=st.lists(texts, max_size=2).map(tuple),
    origin=st.builds(Origin, kind=texts, by=texts, note=texts),
)
usages = st.builds(Usage, requests=whole, input_tokens=whole, output_tokens=whole)
calls = st.builds(
    ToolCall,
    name=texts,
    arguments=st.dictionaries(texts, plain, max_size=2),
    result=plain,
    error=texts,
)
steps = st.builds(
    Step,
    id=texts,
    node=texts,
    predecessors=st.lists(texts, max_size=2).map(tuple),
    surfaces=st.lists(texts, max_size=2).map(tuple),
    input=plain,
    output=plain,
    tools=st.lists(calls, max_size=1).map(tuple),
    usage=usages,
    seconds=reals,
)
outcomes = st.builds(
    Outcome,
    replies=st.lists(texts, max_size=2).map(tuple),
    data=plain,
    measures=st.dictionaries(texts, reals, max_size=2),
    trace=st.builds(Trace, steps=st.lists(steps, max_size=2).map(tuple)),
    usage=usages,
    nano_usd=st.none() | whole,
    seconds=reals,
    failure=st.none()
    | st.builds(Failure, kind=st.sampled_from(FailureKind), message=texts, error=texts),
)


def there_and_back(kind: type[T], value: T) -> T:
    """The value through the text of a file."""
    return codec(kind).decode(json.loads(canonical(codec(kind).encode(value))))


class TestRoundTrips:
    @swift
    @given(outcomes)
    def test_outcomes(self, outcome: Outcome) -> None:
        assert there_and_back(Outcome, outcome) == outcome

    @swift
    @given(candidates)
    def test_candidates(self, candidate: Candidate) -> None:
        back = there_and_back(Candidate, candidate)
        assert back == candidate
        assert back.id == candidate.id
        assert {n: type(v) for n, v in back.values.items()} == {
            n: type(v) for n, v in candidate.values.items()
        }

    @settings(swift, max_examples=50)
    @given(candidates, worlds(), plain)
    def test_trials(self, candidate: Candidate, world: World, answer: Json) -> None:
        trial = Trial(
            candidate=candidate,
            phase="search",
            cycle=2,
            touched=("prompt",),
            proposals=(Proposal(role="critic", request=answer, answer=answer),),
            problems=(Problem(message="no", where="there", remedy="do"),),
            train=SplitResult.of(world.train.candidate, world.objective),
            holdout=SplitResult.of(world.holdout.candidate, world.objective),
            decision=GATES["sigma"](world),
            details={"note": answer},
        )
        row = TrialRow(number=3, trial=trial, spend=Spend(calls=2), at="now", seconds=0.1)
        assert there_and_back(Trial, trial) == trial
        assert there_and_back(TrialRow, row) == row

    def test_decoding_checks_what_it_reads(self) -> None:
        with pytest.raises(ValidationError):
            codec(Candidate).decode({"values": {"t": {"not": "a value"}}})
        with pytest.raises(ValidationError):
            codec(TrialRow).decode({"number": 1})


class TestSplitResult:
    def test_what_is_kept_of_an_evaluation(self) -> None:
        found = SplitResult.of(
            evaluation(
                ran("a", {"acc": 1.0, "tone": 0.5}),
                ran("a", {"acc": 0.5, "tone": None}, draw=1),
                crashed(ran("b", {"acc": 1.0})),
                lost(ran("c", {"acc": 1.0})),
                ran("d", {"acc": 0.25}),
            ),
            ACC,
        )
        assert found.measurement.missing_cases == ("c",)
        assert found.scores == {
            "a": {"acc": [1.0, 0.5], "tone": [0.5, None]},
            "b": {"acc": [0.0], "tone": [0.0]},
            "c": {},
            "d": {"acc": [0.25]},
        }
        assert found.errors == {"b": "boom", "c": "503"}

    @pytest.mark.parametrize(
        ("verdicts", "passing"),
        [([True, True], True), ([True, False], False), ([True, None], False)],
    )
    def test_a_metric_passes_when_it_does_on_every_case(
        self, verdicts: list[bool | None], passing: bool
    ) -> None:
        runs = [
            CaseResult(
                case=f"c{i}",
                outcome=Outcome(),
                scores=(
                    Score.of_nothing("acc", "down")
                    if verdict is None
                    else Score(metric="acc", value=1.0, passed=verdict),
                ),
            )
            for i, verdict in enumerate(verdicts)
        ]
        assert SplitResult.of(evaluation(*runs), ACC).passing == {"acc": passing}

    def test_a_metric_that_does_not_apply_stops_nothing(self) -> None:
        fine = CaseResult(
            case="a", outcome=Outcome(), scores=(Score(metric="acc", value=1.0, passed=True),)
        )
        assert SplitResult.of(evaluation(fine, ran("b", {})), ACC).passing == {"acc": True}


class TestTrialRows:
    row = TrialRow(number=1, trial=Trial(candidate=Candidate(values={"t": "x"})), at="10:00")

    def test_times_are_not_part_of_the_story(self) -> None:
        assert self.row.same_story(replace(self.row, at="11:00", seconds=9.0))

    @pytest.mark.parametrize(
        "other",
        [
            replace(row, number=2),
            replace(row, spend=Spend(calls=1)),
            replace(row, trial=replace(row.trial, candidate=Candidate(values={"t": "y"}))),
            replace(row, trial=replace(row.trial, details={"a": 1})),
            replace(row, trial=replace(row.trial, problems=(Problem(message="no"),))),
        ],
    )
    def test_the_rest_is(self, other: TrialRow) -> None:
        assert not self.row.same_story(other)

    @pytest.mark.parametrize("verdict", list(Verdict))
    def test_only_an_accept_is_accepted(self, verdict: Verdict) -> None:
        decision = Decision(gate="g", verdict=verdict, code="c", reason="r")
        trial = replace(self.row.trial, decision=decision)
        assert trial.accepted == (verdict is Verdict.ACCEPT)
        assert not self.row.trial.accepted


class TestOutcomes:
    def test_whose_fault_it_was(self) -> None:
        fine, broken, gone = (
            ran("a", {}).outcome,
            crashed(ran("a", {})).outcome,
            lost(ran("a", {})).outcome,
        )
        assert [o.failed for o in (fine, broken, gone)] == [False, True, False]
        assert [o.missing for o in (fine, broken, gone)] == [False, False, True]

    def test_the_output_is_the_last_reply(self) -> None:
        assert Outcome(replies=("a", "b")).output == "b"
        assert Outcome().output == ""

    def test_usage_adds_up(self) -> None:
        one = Usage(requests=1, input_tokens=2, output_tokens=3)
        assert one + one == Usage(requests=2, input_tokens=4, output_tokens=6)
