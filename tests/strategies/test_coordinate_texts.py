"""Textual phases: what critic and applier are told, what counts, and how they end."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from burnish.core.cases import Case, Outcome, Split
from burnish.core.errors import ConfigError, ProposerFailed, RoleFailed, TargetMismatch
from burnish.core.evaluations import CaseResult, Evaluation, Objective, Score
from burnish.core.leaks import WITHHELD
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Effects
from burnish.core.surfaces import Candidate, TextSurface
from burnish.journal.limits import Budget
from burnish.projects.agent.axes import TextAxis
from burnish.runs.directory import RunRecord
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import (
    CoordinateSettings,
    CritiqueRequest,
    Edit,
    EditRequest,
    Gradient,
    PhaseLimits,
    with_room,
)
from burnish.testing import ScriptedRole
from tests.strategies.coordinate_runs import driven, scripted, with_agent

pytestmark = pytest.mark.slow


def gradient(draw: int, *, confidence: float = 0.9) -> Gradient:
    return Gradient(
        failing_pattern=f"pattern {draw}",
        root_cause_hypothesis="the text says nothing of it",
        suggested_change_direction=f"direction {draw}",
        confidence=confidence,
        citations=["q0"],
    )


def edit(text: str) -> Edit:
    return Edit(edit_type="insert", rationale="as told", new_text=text, diff_summary="one more")


Diagnose: TypeAlias = Callable[[CritiqueRequest, int], Gradient]
Apply: TypeAlias = Callable[[EditRequest, int], Edit]
Agent: TypeAlias = Callable[[Candidate, Case, int], Any]


@dataclass(frozen=True, kw_only=True)
class Talk:
    """The two roles, and what they were asked."""

    diagnose: Diagnose
    apply: Apply
    critiques: list[CritiqueRequest] = field(default_factory=list[CritiqueRequest])
    edits: list[EditRequest] = field(default_factory=list[EditRequest])

    def strategy(self, settings: CoordinateSettings) -> Coordinate:
        def diagnose(request: CritiqueRequest, draw: int) -> Gradient:
            self.critiques.append(request)
            return self.diagnose(request, draw)

        def apply(request: EditRequest, draw: int) -> Edit:
            self.edits.append(request)
            return self.apply(request, draw)

        return Coordinate(
            settings=settings,
            critic=ScriptedRole(
                name="critic",
                respond=diagnose,
                request_type=CritiqueRequest,
                answer_type=Gradient,
            ),
            applier=ScriptedRole(
                name="applier", respond=apply, request_type=EditRequest, answer_type=Edit
            ),
        )


def talk(
    diagnose: Diagnose = lambda _, draw: gradient(draw),
    apply: Apply = lambda request, draw: edit(f"{request.current_text} +{draw}"),
) -> Talk:
    return Talk(diagnose=diagnose, apply=apply)


def keeps(*words: str) -> Agent:
    """An agent that answers case n right once its texts hold the n-th word."""

    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        del draw
        word = words[int(case.id[1:]) % len(words)]
        said = " ".join(map(str, candidate.values.values()))
        return "yes" if word in said else f"I do not know {word}"

    return respond


def made(
    roles: Talk,
    respond: Agent | None = None,
    *,
    axes: tuple[str, ...] = ("text",),
    trials: int = 10,
    patience: int = 4,
    cycles: int = 1,
    room: int | None = 80,
    **more: Any,
) -> Setup:
    settings = CoordinateSettings(
        texts=axes,
        repeats=1,
        max_cycles=cycles,
        textual_phase=PhaseLimits(max_trials=trials, patience=patience),
    )
    surfaces = tuple(TextSurface(id=axis, max_chars=room) for axis in axes)
    values = dict.fromkeys(axes, "Answer.")
    strategy = roles.strategy(settings)
    respond = respond or keeps("never")
    return scripted(respond, surfaces, {**values}, settings, strategy=strategy, **more)


def rejected(request: CritiqueRequest) -> list[str]:
    return re.findall(r"^- (pattern \d+) Tried: ", request.previous_gradients, re.MULTILINE)


def test_the_critic_hears_of_the_last_three_rejections_and_why(tmp_path: Path) -> None:
    roles = talk()
    driven(made(roles, patience=6), tmp_path / "run")
    heard = [rejected(r) for r in roles.critiques]
    assert heard[:2] == [[], ["pattern 1"]]
    assert heard[-1] == ["pattern 3", "pattern 4", "pattern 5"]
    assert "a tie is no improvement" in roles.critiques[1].previous_gradients


def test_what_was_accepted_or_never_tried_is_no_rejection(tmp_path: Path) -> None:
    says = {1: "first", 2: "nothing", 3: "second"}
    roles = talk(
        diagnose=lambda _, draw: gradient(draw, confidence=0.1 if draw == 2 else 0.9),
        apply=lambda r, draw: edit(f"{r.current_text} {says.get(draw, draw)}"),
    )
    driven(made(roles, keeps("first", "second", "third")), tmp_path / "run")
    heard = [rejected(r) for r in roles.critiques]
    assert heard[:4] == [[], [], [], []]
    assert heard[4] == ["pattern 4"]


def test_rejections_are_remembered_by_axis_and_over_cycles(tmp_path: Path) -> None:
    roles = talk(apply=lambda r, draw: edit(f"{r.current_text} {'one' if draw == 2 else draw}"))
    setup = made(roles, keeps("one", "two"), axes=("a", "b"), patience=2, cycles=2)
    driven(setup, tmp_path / "run")
    heard = [(r.axis, rejected(r)) for r in roles.critiques]
    assert heard[:4] == [("a", []), ("b", []), ("a", ["pattern 1"]), ("b", [])]
    first_of_second_cycle = heard[4]
    assert first_of_second_cycle == ("a", ["pattern 1", "pattern 3"])


def test_one_text_a_trial_in_turn_each_on_top_of_what_was_accepted(tmp_path: Path) -> None:
    words = {1: "one", 2: "two", 3: "three"}
    roles = talk(apply=lambda r, draw: edit(f"{r.current_text} {words.get(draw, '!')}"))
    run = driven(made(roles, keeps("one", "two", "three"), axes=("a", "b")), tmp_path / "run")
    trials = run.of_phase("textual")
    assert [row.trial.details["axis_target"] for row in trials] == ["a", "b", "a"]
    assert [row.trial.touched for row in trials] == [("a",), ("b",), ("a",)]
    assert run.ending.best.values == {"a": "Answer. one three", "b": "Answer. two"}
    assert [request.current_text for request in roles.critiques][2] == "Answer. one"
    shown = [r.failing_traces for r in roles.critiques]
    assert "I do not know one" in shown[0]
    assert "I do not know one" not in shown[1], "the improved text's own failures"
    assert "I do not know three" in shown[2]
    assert [request.max_chars for request in roles.edits] == [80, 80, 80]


def test_a_text_without_a_limit_is_not_given_one(tmp_path: Path) -> None:
    roles = talk()
    driven(made(roles, room=None, trials=1), tmp_path / "run")
    assert {request.max_chars for request in roles.edits} == {""}


@pytest.mark.parametrize(
    ("limit", "length", "most"),
    [(None, 10, 8000), (None, 20_000, None), (500, 10, 500), (500, 20_000, 500)],
)
def test_the_limit_of_a_text_of_an_agent_file(
    limit: int | None, length: int, most: int | None
) -> None:
    assert TextAxis(path="instructions", max_chars=limit).limit("x" * length) == most


@pytest.mark.parametrize(
    ("options", "reason", "trials"),
    [
        ({"trials": 2}, "max_trials", 2),
        ({"patience": 3}, "patience", 3),
        ({"axes": ("a", "b"), "patience": 3}, "patience", 3),
    ],
    ids=["max_trials", "one text is tried until patience is out", "so are two"],
)
def test_a_phase_ends_and_says_why(
    tmp_path: Path, options: dict[str, Any], reason: str, trials: int
) -> None:
    run = driven(made(talk(), **options), tmp_path / "run")
    assert run.ends() == {(1, "textual"): reason}
    assert len(run.of_phase("textual")) == trials


def test_a_diagnosis_of_low_confidence_costs_one_call_and_counts_toward_patience(
    tmp_path: Path,
) -> None:
    roles = talk(diagnose=lambda _, draw: gradient(draw, confidence=0.39))
    run = driven(made(roles, patience=2), tmp_path / "run")
    trials = run.of_phase("textual")
    assert run.ends() == {(1, "textual"): "patience"}
    assert [row.spend.calls for row in trials] == [1, 1]
    assert "low confidence: 0.39" in str(trials[0].trial.problems[0])
    assert not roles.edits
    assert trials[0].trial.details["axis_target"] == "text"
    assert trials[0].trial.proposals[0].answer is not None


def no_answer(*_: object) -> Any:
    raise RoleFailed("the answer was cut off")


@pytest.mark.parametrize(
    ("says", "calls"), [({"diagnose": no_answer}, 1), ({"apply": no_answer}, 2)]
)
def test_a_role_that_fails_is_a_trial_turned_away(
    tmp_path: Path, says: dict[str, Any], calls: int
) -> None:
    who = "critic" if "diagnose" in says else "applier"
    told = f"the {who} never gave a usable answer: the answer was cut off"
    with pytest.raises(ProposerFailed, match=told):
        driven(made(talk(**says), patience=2), tmp_path / "run")
    record = RunRecord.read(tmp_path / "run")
    trials = [row for row in record.rows if row.trial.phase == "textual"]
    assert record.status == "failed"
    assert [str(p) for row in trials for p in row.trial.problems] == ["the answer was cut off"] * 2
    assert [row.spend.calls for row in trials] == [calls, calls]
    assert trials[0].trial.proposals[-1].error == "the answer was cut off"


def test_an_edit_that_is_not_fit_costs_no_run(tmp_path: Path) -> None:
    roles = talk(apply=lambda r, _: edit(r.current_text * 30))
    run = driven(made(roles, patience=2), tmp_path / "run")
    trials = run.of_phase("textual")
    assert [row.spend.calls for row in trials] == [2, 2]
    assert "80 are allowed" in str(trials[0].trial.problems[0])
    assert "80 are allowed" in roles.critiques[1].previous_gradients


@dataclass(frozen=True, kw_only=True)
class Same:
    """A metric that gives every reply the same score, with the verdict it is told to give."""

    passed: bool | None
    value: float = 0.5
    name: str = "half"
    fingerprint: str = "1"

    def estimate(self, case: Case) -> Spend:
        del case
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        del case, outcome, effects
        return [Score(metric="half", value=self.value, passed=self.passed, reason="so so")]


@pytest.mark.parametrize(
    "metric",
    [Same(passed=True), Same(passed=None), Same(passed=False), Same(passed=None, value=0.0)],
)
def test_every_case_with_room_is_diagnosed(tmp_path: Path, metric: Same) -> None:
    setup = replace(
        made(talk()),
        metrics=(metric,),
        objective=Objective(weights={"half": 1.0}),
    )
    assert driven(setup, tmp_path / "run").ends() == {(1, "textual"): "patience"}


def result(case: str, value: float | None, passed: bool | None, draw: int = 0) -> CaseResult:
    score = Score(metric="m", value=value, passed=passed)
    return CaseResult(case=case, draw=draw, outcome=Outcome(replies=("x",)), scores=(score,))


def test_cases_that_fail_come_first_and_those_without_room_not_at_all() -> None:
    results = (
        result("near", 0.9, True),
        result("perfect", 1.0, True),
        result("graded", 0.1, None),
        result("missing", None, None),
        result("flaky", 0.8, True),
        result("flaky", 0.0, False, draw=1),
    )
    measured = Evaluation(candidate="c", split=Split.TRAIN, results=results)
    shown = [(run.case, run.draw) for run in with_room(measured, ["m"])]
    assert shown == [("flaky", 1), ("near", 0), ("graded", 0)]


def test_the_critic_sees_ten_failures_at_most_and_whole_runs(tmp_path: Path) -> None:
    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        if case.id == "q1":
            raise ValueError("the tool was not there")
        return "x" * 4000

    roles = talk()
    driven(made(roles, respond, train=14, trials=1), tmp_path / "run")
    shown = roles.critiques[0].failing_traces.split("\n\n")
    assert len(shown) == 10
    assert shown[0].startswith("case q0\nasked: question 0\nexpected: yes\nreplied: xxx")
    assert shown[1].endswith("replied: (nothing)\nit failed: ValueError: the tool was not there")
    assert len(shown[2]) < 3000, "the middle of a long reply is left out"


SECRET = "the blue lamp of order 4711 is still in the warehouse"


def test_what_an_agent_says_of_holdout_reaches_no_proposer_and_ends_nothing(tmp_path: Path) -> None:
    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        return SECRET if case.id == "q2" else "no"

    roles = talk()
    setup = made(roles, respond, patience=2)
    hidden = (Case.single("where is it?", SECRET, name="h0"), Case.single("?", "yes", name="h1"))
    setup = replace(setup, dataset=replace(setup.dataset, holdout=hidden))
    run = driven(setup, tmp_path / "run")
    assert len(run.of_phase("textual")) == 2
    assert roles.critiques
    assert all("case q1" in r.failing_traces for r in roles.critiques)
    assert all(f"replied: {WITHHELD}" in r.failing_traces for r in roles.critiques)
    assert not any(SECRET in str(r) for r in roles.critiques)


def test_a_text_that_holds_holdout_text_is_never_sent(tmp_path: Path) -> None:
    roles = talk()
    setup = made(roles)
    asked = "what became of the lamp that was ordered in May?"
    hidden = (Case.single(asked, "yes", name="h0"),)
    setup = with_agent(setup, values={"text": f"Example: {asked}"})
    setup = replace(setup, dataset=replace(setup.dataset, holdout=hidden))
    with pytest.raises(ConfigError, match="h0"):
        driven(setup, tmp_path / "run")
    assert not roles.critiques


def test_the_roles_are_part_of_what_a_trial_may_cost(tmp_path: Path) -> None:
    baseline, trial = 6, 6 + 2
    enough = made(talk(), trials=1, budget=Budget(max_calls=baseline + trial))
    assert len(driven(enough, tmp_path / "enough").of_phase("textual")) == 1
    short = made(talk(), trials=1, budget=Budget(max_calls=baseline + trial - 1))
    run = driven(short, tmp_path / "short")
    assert run.ending.reason.code == "max_calls"
    assert not run.of_phase("textual")


def test_texts_without_roles_are_refused(tmp_path: Path) -> None:
    setup = made(talk())
    alone = Coordinate(settings=CoordinateSettings(texts=("text",)))
    with pytest.raises(TargetMismatch, match="texts need a critic and an applier"):
        driven(replace(setup, strategy=alone), tmp_path / "run")
