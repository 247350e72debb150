"""A rejected candidate of several patches: each patch is tried alone, the most blamed first."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case, Outcome, Trace
from burnish.core.errors import Problem
from burnish.core.surfaces import Candidate, TextSurface
from burnish.core.trials import Trial, Verdict
from burnish.journal.limits import Budget
from burnish.strategies.backprop.packets import BackpropSettings
from burnish.strategies.backprop.prompts import (
    BackwardAnswer,
    BackwardRequest,
    PatchAnswer,
    PatchRequest,
    Remark,
    SurfaceRemark,
    Upstream,
)
from burnish.strategies.backprop.rounds import BackpropDetails
from burnish.testing import ScriptedTarget
from tests.strategies.backprop_world import (
    PLANNER,
    START,
    TEXTS,
    WRITER,
    Agent,
    Roles,
    cases,
    missing,
    outcome,
    run,
    with_settings,
    world,
)

pytestmark = pytest.mark.slow
EDITOR = "writer#skill"


def easy(case: Case) -> bool:
    """A case of holdout that needs no patch."""
    number = int(case.id[1:])
    return number >= 50 and number % 2 == 0


def drowned(candidate: Candidate, case: Case, draw: int) -> Outcome:
    """The planner needs FIX; a writer that is told to BREAK spoils everything."""
    del draw
    right = "FIX" in str(candidate.values[PLANNER]) or easy(case)
    return outcome("yes" if right and "BREAK" not in str(candidate.values[WRITER]) else "no")


def blame_both(request: BackwardRequest, draw: int) -> BackwardAnswer:
    """Blame what is here and what was before."""
    del draw
    own = SurfaceRemark(surface=request.surfaces[0].id, gradient="do better")
    upstream = [
        Upstream(predecessor=step.id, gradients=[Remark(gradient="plan better")])
        for step in request.predecessors
    ]
    return BackwardAnswer(gradients=[own], upstream=upstream)


def blame_the_writer(request: BackwardRequest, draw: int) -> BackwardAnswer:
    """Blame both in some cases, in others only the writer."""
    answer = blame_both(request, draw)
    return answer.model_copy(update={"upstream": []}) if request.case == "q0" else answer


def patch_both(request: PatchRequest, draw: int) -> PatchAnswer:
    """The right patch for the planner, a harmful one for the writer."""
    del draw
    word = "FIX" if request.surface.id == PLANNER else "BREAK"
    return PatchAnswer(value=f"{request.surface.value} {word}", reason="try")


BOTH = Roles(back=blame_both, patch=patch_both)


def trials(
    folder: Path, agent: Agent = drowned, roles: Roles = BOTH, **settings: Any
) -> list[Trial]:
    """A search with a right and a harmful patch in one candidate."""
    made = world(agent, roles, BackpropSettings(max_rounds=1), holdout=cases(24, 50))
    done = run(with_settings(made, **settings), folder)
    return [row.trial for row in done.rows[1:]]


def test_a_right_patch_is_found_beside_a_harmful_one(tmp_path: Path) -> None:
    joint, right = trials(tmp_path)
    assert (joint.touched, joint.accepted) == ((PLANNER, WRITER), False)
    assert (right.touched, right.accepted) == ((PLANNER,), True)
    # With the right one accepted, the harmful one would make the candidate that was rejected.
    assert [BackpropDetails.of(trial).alone for trial in (joint, right)] == [None, True]


@pytest.mark.parametrize("patches_alone", [True, False])
def test_a_patch_that_fails_its_check_does_not_sink_a_right_one(
    tmp_path: Path, patches_alone: bool
) -> None:
    def broken(candidate: Candidate) -> list[Problem]:
        text = str(candidate.values[WRITER])
        return [Problem(where=WRITER, message="it breaks the writer")] if "BREAK" in text else []

    made = world(drowned, BOTH, BackpropSettings(max_rounds=1), holdout=cases(24, 50))
    assert isinstance(made.target, ScriptedTarget)
    made = replace(made, target=replace(made.target, problems=broken))
    done = run(with_settings(made, patches_alone=patches_alone), tmp_path)
    (only,) = [row.trial for row in done.rows[1:]]
    assert (only.touched, only.accepted) == ((PLANNER,), True)
    lost = BackpropDetails.of(only).lost or ()
    why = f"{WRITER}: it breaks the writer"
    assert [(each.where, each.why) for each in lost] == [(WRITER, why)]


def test_the_most_blamed_surface_is_first_and_stopped_where_it_cannot_win(tmp_path: Path) -> None:
    _, harmful, right = trials(tmp_path, roles=Roles(back=blame_the_writer, patch=patch_both))
    assert (harmful.touched, harmful.accepted) == ((WRITER,), False)
    assert (right.touched, right.accepted) == ((PLANNER,), True)
    assert harmful.holdout is not None
    assert harmful.holdout.measurement.cases < 24
    assert harmful.decision is not None
    assert harmful.decision.gate == "race"
    assert BackpropDetails.of(harmful).whole_holdout is False
    assert BackpropDetails.of(harmful).changes is None


def test_patches_that_help_are_put_together(tmp_path: Path) -> None:
    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        del draw
        texts = [str(candidate.values[name]) for name in (PLANNER, WRITER, EDITOR)]
        helps = sum("FIX" in text for text in texts[:2]) > int(case.id[1:]) % 2
        return outcome("yes" if helps and "BREAK" not in texts[2] else "no")

    def back(request: BackwardRequest, draw: int) -> BackwardAnswer:
        answer = blame_both(request, draw)
        extra = SurfaceRemark(surface=EDITOR, gradient="edit better")
        return answer.model_copy(update={"gradients": [*answer.gradients, extra]})

    def patch(request: PatchRequest, draw: int) -> PatchAnswer:
        del draw
        word = "BREAK" if request.surface.id == EDITOR else "FIX"
        return PatchAnswer(value=f"{request.surface.value} {word}", reason="try")

    def traced(candidate: Candidate, case: Case, draw: int) -> Outcome:
        result = agent(candidate, case, draw)
        first, last = result.trace.steps
        both = replace(last, surfaces=(WRITER, EDITOR))
        return replace(result, trace=Trace(steps=(first, both)))

    made = world(
        traced,
        Roles(back=back, patch=patch),
        BackpropSettings(max_rounds=1),
        surfaces=(*TEXTS, TextSurface(id=EDITOR, max_chars=200)),
        values={**START, EDITOR: "Edit."},
        holdout=cases(24, 50),
    )
    done = run(made, tmp_path)
    kept = [row.trial.touched for row in done.rows[1:] if row.trial.accepted]
    assert kept == [(PLANNER,), (WRITER,)]
    assert done.ending.best.values == {
        PLANNER: "Make a plan. FIX",
        WRITER: "Write. FIX",
        EDITOR: "Edit.",
    }


@pytest.mark.parametrize("settings", [{"gate": "sigma"}, {"min_score_gain": -0.1}])
def test_where_a_tie_may_pass_a_patch_alone_is_run_over_all_of_holdout(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    roles = Roles(back=blame_the_writer, patch=patch_both)
    made = trials(tmp_path, roles=roles, **settings)
    assert [trial.accepted for trial in made] == [False, False, True]
    held = [trial.holdout.measurement.cases for trial in made if trial.holdout is not None]
    assert set(held) == {24}


def test_a_patch_is_turned_down_only_for_what_it_did_alone(tmp_path: Path) -> None:
    roles = Roles(back=blame_both, patch=patch_both)
    made = trials(tmp_path / "joint", roles=roles, max_rounds=2, patches_alone=False)
    assert not any(trial.accepted for trial in made)
    assert {request.rejected for request in roles.of("patcher")} == {"(none)"}

    def worse(candidate: Candidate, case: Case, draw: int) -> Outcome:
        del draw
        changed = {"FIX", "BREAK"} & {*" ".join(map(str, candidate.values.values())).split()}
        return outcome("yes" if easy(case) and not changed else "no")

    roles = Roles(back=blame_both, patch=patch_both)
    made = trials(tmp_path / "alone", worse, roles, max_rounds=2)
    assert [trial.accepted for trial in made[:3]] == [False, False, False]
    seen = [request.rejected for request in roles.of("patcher")[2:]]
    assert all(text.count("tried:") == 1 for text in seen)


def test_nothing_is_tried_alone_where_nobody_can_tell(tmp_path: Path) -> None:
    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        if "BREAK" not in str(candidate.values[WRITER]):
            return drowned(candidate, case, draw)
        # Many failures in a row that are alike would end the run.
        return missing("reset" if int(case.id[-1], 36) % 2 else "refused")

    roles = Roles(back=blame_both, patch=patch_both)
    (joint,) = trials(tmp_path, agent, roles)
    assert joint.decision is not None
    assert joint.decision.verdict is Verdict.CANNOT_TELL


def test_limits_end_it_between_two_patches(tmp_path: Path) -> None:
    made = world(
        drowned,
        Roles(back=blame_the_writer, patch=patch_both),
        BackpropSettings(max_rounds=1),
        holdout=cases(24, 50),
        budget=Budget(max_metric_calls=4 + 3 * 24),
    )
    done = run(made, tmp_path)
    assert [row.trial.touched for row in done.rows[1:]] == [(PLANNER, WRITER), (WRITER,)]
    assert done.ending.reason.code == "max_metric_calls"
