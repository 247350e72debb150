"""What a round of back-propagation loses, and goes on without: answers, remarks, patches, runs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case, Failure, FailureKind, Outcome, Step, Trace
from burnish.core.errors import BaselineUnmeasured, ProposerFailed, RoleFailed
from burnish.core.leaks import WITHHELD
from burnish.core.surfaces import Candidate, TextSurface
from burnish.runs.directory import RunRecord
from burnish.strategies.backprop.packets import BackpropSettings
from burnish.strategies.backprop.prompts import (
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergeRequest,
    PatchAnswer,
    PatchRequest,
    SurfaceRemark,
)
from burnish.strategies.backprop.strategy import Backprop
from burnish.testing import CallCounter
from tests.strategies.backprop_world import (
    PLANNER,
    START,
    WRITER,
    Roles,
    add_fix,
    add_words,
    blame_the_plan,
    missing,
    outcome,
    planned,
    run,
    world,
)
from tests.strategies.coordinate_runs import Driven

pytestmark = pytest.mark.slow


def silent(request: object, draw: int) -> Any:
    del request, draw
    raise RoleFailed("no valid answer")


def test_a_round_without_patches_pays_for_no_validation(tmp_path: Path) -> None:
    counter = CallCounter(path=tmp_path / "calls")
    roles = Roles(patch=lambda request, _: PatchAnswer(value=request.surface.value, reason="x"))
    settings = BackpropSettings(max_rounds=2, candidates_per_round=2)
    done = run(world(roles=roles, settings=settings, counter=counter), tmp_path)
    trials = [row.trial for row in done.rows[1:]]
    assert [trial.problems[0].message for trial in trials] == ["there is no patch to try"] * 4
    assert sum(call.startswith("run") for call in counter.calls()) == 8
    assert "the patch changes nothing" in str(trials[0].details["lost"])
    assert "changes nothing" in roles.of("patcher")[-1].rejected


def test_what_one_round_lost_is_not_told_again_in_the_next(tmp_path: Path) -> None:
    def merge(request: MergeRequest, draw: int) -> MergeAnswer:
        if draw < 2_000_000:
            raise RoleFailed("gone")
        return MergeAnswer()

    roles = Roles(merge=merge, patch=add_words)
    settings = BackpropSettings(max_rounds=3)
    done = run(world(roles=roles, settings=settings), tmp_path)
    lost = [row.trial.details["lost"] for row in done.rows[1:]]
    whys = [[each["why"] for each in found] for found in lost]  # pyright: ignore
    assert whys == [["gone"], ["the answer says nothing"], ["the answer says nothing"]]
    # The remarks as they were said stand, with all their cases.
    merged = done.rows[2].trial.details["merged"][PLANNER]  # pyright: ignore
    assert merged[0]["cases"] == ["q0", "q1", "q2", "q3"]  # pyright: ignore


def test_a_failing_role_costs_its_packet_and_not_the_run(tmp_path: Path) -> None:
    def back(request: BackwardRequest, draw: int) -> BackwardAnswer:
        if "002" in request.input + str(request.incoming) or draw % 8 < 2:
            raise RoleFailed("not today")
        return blame_the_plan(request, draw)

    done = run(world(roles=Roles(back=back)), tmp_path)
    assert done.rows[1].trial.accepted
    lost = done.rows[1].trial.details["lost"]
    assert [(each["where"], each["why"]) for each in lost] == [("q0, writer:1", "not today")]  # pyright: ignore


@pytest.mark.parametrize("dumb", ["backwarder", "patcher"])
def test_a_role_that_never_answers_fails_the_run(tmp_path: Path, dumb: str) -> None:
    roles = Roles(back=silent) if dumb == "backwarder" else Roles(patch=silent)
    made = world(roles=roles)
    with pytest.raises(ProposerFailed, match=f"the {dumb} never gave a usable answer: no valid"):
        run(made, tmp_path)
    rows = (tmp_path / "run" / "trials.jsonl").read_text(encoding="utf-8")
    assert "no valid answer" in rows
    asked = len(roles.seen)
    with pytest.raises(ProposerFailed):
        run(made, tmp_path)
    assert len(roles.seen) == asked


def test_nobody_is_asked_where_nothing_can_be_blamed(tmp_path: Path) -> None:
    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        del candidate, case, draw
        return Outcome(replies=("no",), trace=Trace(steps=(Step(id="a", node="a"),)))

    roles = Roles()
    done = run(world(agent, roles), tmp_path)
    assert (done.why, roles.seen) == ("nothing_to_blame", [])


def test_a_patch_with_held_out_text_is_turned_away_and_never_shown(tmp_path: Path) -> None:
    secret = "Question number 050 of somebody"

    def patch(request: PatchRequest, draw: int) -> PatchAnswer:
        if draw < 2_000_000:
            return PatchAnswer(value=f"FIX for: {secret}", reason="guess")
        return add_fix(request, draw)

    roles = Roles(patch=patch)
    done = run(world(roles=roles), tmp_path)
    assert done.rows[1].trial.problems[0].message == "there is no patch to try"
    assert "held out" in str(done.rows[1].trial.details["lost"])
    assert done.rows[2].trial.accepted
    assert secret not in roles.of("patcher")[1].rejected


def test_remarks_with_held_out_text_are_lost_and_the_run_goes_on(tmp_path: Path) -> None:
    secret = "Question number 050 of somebody"

    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        found = planned(candidate, case, draw)
        told = secret if case.id == "q1" and found.output == "no" else "a plan"
        return outcome(found.output, told)

    def back(request: BackwardRequest, draw: int) -> BackwardAnswer:
        answer = blame_the_plan(request, draw)
        if draw % 8 == 0:
            bad = SurfaceRemark(surface=PLANNER, gradient=f"answer {secret} better")
            return BackwardAnswer(gradients=[*answer.gradients, bad])
        return answer

    roles = Roles(back=back)
    done = run(world(agent, roles), tmp_path)
    assert done.rows[1].trial.accepted
    told: Any = done.rows[1].trial.details["lost"]
    assert ["q50" in each["why"] for each in told] == [True]
    assert WITHHELD in str(roles.seen)
    assert secret not in str(roles.seen)


def test_missing_train_cases_are_said_and_are_no_losses(tmp_path: Path) -> None:
    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        return missing() if case.id == "q1" else planned(candidate, case, draw)

    done = run(world(agent), tmp_path)
    assert done.rows[1].trial.details["train_missing"] == ["q1"]
    scores = {"q0": 0.0, "q1": None, "q2": 0.0, "q3": 0.0}
    assert done.rows[1].trial.details["train_scores"] == scores
    assert {loss["case"] for loss in done.rows[1].trial.details["losses"]} == {"q0", "q2", "q3"}  # pyright: ignore
    assert (done.ending.reason.code, done.why) == ("finished", "train_missing")
    assert "1 of 4 are missing (the first: connection refused)" in _warnings(done)


def test_a_baseline_that_is_missing_says_why(tmp_path: Path) -> None:
    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        del candidate, case, draw
        return missing()

    with pytest.raises(
        BaselineUnmeasured, match=r"4 are missing; in 4 cases: .*connection refused"
    ) as failed:
        run(world(agent), tmp_path)
    assert "--retry-missing" in failed.value.remedy
    record = RunRecord.read(tmp_path / "run")
    assert (record.status, len(record.rows)) == ("failed", 1)


def test_an_agent_that_raises_is_told_once_and_kept(tmp_path: Path) -> None:
    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        found = planned(candidate, case, draw)
        failure = Failure(kind=FailureKind.AGENT, message=f"KeyError: {case.id}")
        return replace(found, failure=failure) if case.id == "q1" else found

    settings = BackpropSettings(max_rounds=2)
    done = run(world(agent, Roles(patch=add_words), settings=settings), tmp_path)
    assert _warnings(done).count("failed in 1 of 4 cases of train, first with: KeyError: q1") == 1
    assert done.rows[1].trial.details["train_failed"] == {"q1": "KeyError: q1"}


def _warnings(done: Driven) -> str:
    return " | ".join(str(each["message"]) for each in done.events("warning"))


def test_a_holdout_that_is_missing_is_no_gain(tmp_path: Path) -> None:
    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        found = planned(candidate, case, draw)
        gone = found.output == "yes" and case.id in ("q50", "q51")
        return missing() if gone else found

    done = run(world(agent, settings=BackpropSettings(max_rounds=1)), tmp_path)
    decision = done.rows[1].trial.decision
    assert decision is not None
    assert (decision.verdict.value, decision.code) == ("cannot tell", "missing")


def test_a_loss_whose_node_did_not_run_is_told_as_lost(tmp_path: Path) -> None:
    settings = BackpropSettings(loss_targets={"expected_text": "reviewer"})
    found: list[Any] = []
    made = world(settings=settings)
    assert isinstance(made.strategy, Backprop)

    def watch(stage: str, seen: object) -> None:
        if stage == "round_losses":
            found.append(seen)

    run(replace(made, strategy=replace(made.strategy, watch=watch)), tmp_path)
    assert "did not run" in found[0].lost[0].why


@pytest.mark.parametrize("bad", ["", "no room", "no placeholder"])
def test_patches_out_of_bounds_are_lost_and_told(tmp_path: Path, bad: str) -> None:
    values = {**START, PLANNER: "Plan for {who}."}
    text = TextSurface(id=PLANNER, max_chars=60, placeholders=("{who}",))

    def patch(request: PatchRequest, draw: int) -> PatchAnswer:
        if draw >= 2_000_000:
            return add_fix(request, draw)
        return PatchAnswer(value="x" * 99 + "{who}" if bad == "no room" else bad, reason="shorter")

    roles = Roles(patch=patch)
    made = world(roles=roles, values=values, surfaces=(text, TextSurface(id=WRITER)))
    done = run(made, tmp_path)
    assert done.rows[1].trial.problems[0].message == "there is no patch to try"
    assert done.rows[2].trial.accepted
    assert "turned down" in roles.of("patcher")[1].rejected
