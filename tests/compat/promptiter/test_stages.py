"""The three stages: one's own, by a model, by a runner."""

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.compat.promptiter import aggregator, backwarder, optimizer
from burnish.compat.promptiter.plan import RunPlan, Stages
from burnish.compat.promptiter.stages import BackwardStepResult, StageFailed, StageRole, StageViews
from burnish.core.cases import Split
from burnish.core.errors import ConfigError, RoleFailed
from burnish.core.evaluations import CaseResult, Evaluation, Score
from burnish.journal.once import DirectEffects
from burnish.models.factory import Models
from burnish.strategies.backprop.prompts import (
    BackwardRequest,
    MergeRequest,
    NumberedRemark,
    PatchRequest,
    Remark,
    ShownStep,
    ShownSurface,
)
from burnish.strategies.backprop.rounds import Round
from burnish.testing import ScriptedBackend, ScriptedTarget
from tests.compat.promptiter.desk import (
    PLANNER,
    SCHEMA,
    TOOL,
    WRITE,
    WRITER,
    Backward,
    Bench,
    Optimize,
    answer,
    request,
)

REMARK = Remark(gradient="lacks a source")


def prepared(tmp_path: Path, **stages: Any) -> tuple[RunPlan, StageViews]:
    """A plan in the middle of its first round."""
    bench = Bench(tmp_path)
    usual: Any = {
        "backwarder": bench.backward,
        "aggregator": bench.aggregate,
        "optimizer": bench.optimize,
    }
    plan = RunPlan.of(request(), bench.target, Stages(**{**usual, **stages}), bench.stack)
    results = [
        CaseResult(
            case=case.id,
            outcome=answer(plan.start, case, 0),
            scores=(Score(metric="quality", value=0.0, passed=False, reason="no source"),),
        )
        for case in plan.assets.dataset.train
    ]
    train = Evaluation(candidate=plan.start.id, split=Split.TRAIN, results=tuple(results))
    plan.context.round = Round(number=1, parent=plan.start, train=train)
    return plan, StageViews(surface_map=plan.surface_map, context=plan.context)


def backward(stage: object, views: StageViews) -> StageRole:
    return StageRole(kind="backwarder", stage=stage, views=views)


def unwatched(stage: str, found: object, /) -> None:
    """Nobody looks."""
    del stage, found


def shown(name: str = WRITE, value: Any = "Write the answer.") -> ShownSurface:
    return ShownSurface(id=name, type="instruction", value=value)


def asked(number: int = 1) -> BackwardRequest:
    before = ShownStep(id="planner:1", node=PLANNER, output=f"plan for train question {number}")
    return BackwardRequest(
        node=WRITER,
        input=f"plan for train question {number}",
        output=f"train question {number} answered",
        surfaces=(shown(),),
        other_surfaces=(shown(TOOL, "Looks things up."),),
        predecessors=(before,),
        incoming=(REMARK,),
        case=f"t/c{number}",
        step="writer:1",
        senders=("writer:1",),
    )


def patching(plan: RunPlan, name: str = WRITE) -> PatchRequest:
    surface = plan.surface_map.editable[name]
    value = plan.start.values[name]
    assert isinstance(value, str)
    return PatchRequest(
        surface=shown(name, value), kind="text", bounds="", gradients=(REMARK,), limits=surface
    )


def test_the_backwarder_sees_ids_values_and_what_it_may_blame(tmp_path: Path) -> None:
    _, views = prepared(tmp_path)
    seen = views.step(asked(2))
    assert (seen.eval_set_id, seen.eval_case_id, seen.step_id) == ("t", "c2", "writer:1")
    assert (seen.node.node_id, seen.node.name) == (WRITER, "writer")
    assert [each.surface_id for each in seen.surfaces] == [WRITE, TOOL]
    assert seen.allowed_gradient_surface_ids == (WRITE,)
    assert seen.predecessors[0].node_id == PLANNER
    assert seen.incoming[0].gradient == "lacks a source"
    assert seen.incoming[0].from_step_id == "writer:1", "a loss is from the step itself"


def test_cases_whose_steps_look_alike_are_told_apart(tmp_path: Path) -> None:
    _, views = prepared(tmp_path)
    alike = asked(1).model_copy(update={"case": asked(2).case})
    assert [views.step(each).eval_case_id for each in (asked(1), alike)] == ["c1", "c2"]


async def test_an_empty_set_of_what_may_be_blamed_stays_empty(tmp_path: Path) -> None:
    _, views = prepared(tmp_path)
    nothing = asked().model_copy(update={"surfaces": ()})
    assert views.step(nothing).allowed_gradient_surface_ids == ()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            {"Gradients": [{"SurfaceID": WRITE, "Gradient": "x", "EvalCaseID": "c9"}]},
            "another step",
        ),
        ({"Gradients": [{"SurfaceID": WRITE, "Gradient": "x", "StepID": "planner:1"}]}, "another"),
        (
            {
                "Upstream": [
                    {
                        "PredecessorStepID": "planner:1",
                        "Gradients": [{"FromStepID": "planner:1", "Gradient": "x"}],
                    }
                ]
            },
            "from another step",
        ),
    ],
)
async def test_ids_of_another_step_are_refused(tmp_path: Path, said: Any, told: str) -> None:
    _, views = prepared(tmp_path)
    role = backward(Backward(says=lambda _: said), views)
    with pytest.raises(RoleFailed, match=told):
        await role.answer(asked(), draw=0, effects=DirectEffects())


async def test_a_stage_may_answer_with_data(tmp_path: Path) -> None:
    _, views = prepared(tmp_path)
    said = {"gradients": [{"surfaceId": f" {WRITE} ", "severity": "P0", "gradient": "cite"}]}
    role = backward(Backward(says=lambda _: said), views)
    receipt = await role.answer(asked(), draw=0, effects=DirectEffects())
    (remark,) = receipt.value.gradients
    assert (remark.surface, remark.severity, remark.gradient) == (WRITE, "P0", "cite")
    assert (receipt.spend.calls, receipt.spend.unpriced) == (1, 1)


def raising(error: Exception) -> Backward:
    def say(_: object) -> BackwardStepResult:
        raise error

    return Backward(says=say)


@pytest.mark.parametrize(
    ("error", "kind", "missing"),
    [
        (RoleFailed("not today"), RoleFailed, False),
        (ConnectionError("nobody there"), RoleFailed, True),
        (KeyError("oh"), StageFailed, False),
    ],
)
async def test_what_a_stage_raises(
    tmp_path: Path, error: Exception, kind: type[Exception], missing: bool
) -> None:
    _, views = prepared(tmp_path)
    with pytest.raises(kind) as caught:
        await backward(raising(error), views).answer(asked(), draw=0, effects=DirectEffects())
    assert getattr(caught.value, "missing", False) is missing


async def test_a_stage_that_gives_nothing_is_a_bug(tmp_path: Path) -> None:
    _, views = prepared(tmp_path)
    with pytest.raises(StageFailed, match="found NoneType"):
        await backward(Backward(says=lambda _: None), views).answer(
            asked(), draw=0, effects=DirectEffects()
        )


def patch(name: str, value: Any, reason: str = "because") -> dict[str, Any]:
    return {"Patch": {"SurfaceID": name, "Value": value, "Reason": reason}}


NEW_SCHEMA = {"Tools": [{"ID": "lookup", "Description": "x", "InputSchema": {"type": "array"}}]}


@pytest.mark.parametrize(
    ("name", "said", "told"),
    [
        (WRITE, patch(WRITE, {"Text": "x"}, reason=" "), "has no reason"),
        (WRITE, patch(TOOL, {"Text": "x"}), "for another surface"),
        (WRITE, patch(WRITE, {"Tools": []}), "only 'text' may be set"),
        (TOOL, patch(TOOL, NEW_SCHEMA), "input schema of a tool cannot be changed"),
    ],
)
async def test_patches_that_are_refused(tmp_path: Path, name: str, said: Any, told: str) -> None:
    plan, _ = prepared(tmp_path, optimizer=Optimize(texts=(said,)))
    role: Any = plan.setup(unwatched).strategy.roles[2]
    with pytest.raises(RoleFailed, match=told):
        await role.answer(patching(plan, name), draw=0, effects=DirectEffects())


async def test_the_optimizer_sees_the_tool_and_changes_its_description(tmp_path: Path) -> None:
    stage = Optimize(texts=(patch(TOOL, {"Tools": [{"ID": "lookup", "Description": "new"}]}),))
    plan, _ = prepared(tmp_path, optimizer=stage)
    role: Any = plan.setup(unwatched).strategy.roles[2]
    receipt = await role.answer(patching(plan, TOOL), draw=0, effects=DirectEffects())
    assert receipt.value.value == "new"
    (seen,) = stage.asked
    assert seen.surface.value.tools is not None
    assert seen.surface.value.tools[0].input_schema == SCHEMA
    assert seen.gradient.gradients[0].gradient == "lacks a source"


def test_a_stage_says_who_it_is_and_what_it_costs(tmp_path: Path) -> None:
    _, views = prepared(tmp_path)
    one, other = Backward(), Backward()
    other.usd_per_call = 0.5  # pyright: ignore[reportAttributeAccessIssue]
    role, dear = backward(one, views), backward(other, views)
    assert role.fingerprint == dear.fingerprint
    assert (role.priced, dear.priced) == (False, True)
    assert dear.estimate(asked()).usd == 0.5


# -- models and runners --------------------------------------------------------------------

ANSWER = json.dumps(
    {"gradients": [{"surface": WRITE, "severity": "P1", "gradient": "cite"}], "upstream": []}
)


def role_of(stage: Any, tmp_path: Path, models: Models | None = None) -> Any:
    _, views = prepared(tmp_path)
    return stage.role(models or Models(), views)


async def test_a_model_by_its_name(tmp_path: Path) -> None:
    backend = ScriptedBackend(respond=lambda chat, draw: ANSWER)
    models = Models(backends={"openai": backend})
    role = role_of(backwarder("openai:gpt-4o", run_options={"top_p": 0.5}), tmp_path, models)
    assert role.client.ref.settings.top_p == 0.5
    receipt = await role.answer(asked(), draw=0, effects=DirectEffects())
    assert receipt.value.gradients[0].gradient == "cite"
    assert "lacks a source" in backend.asked[0].messages[-1].content


def test_settings_that_a_model_does_not_have(tmp_path: Path) -> None:
    models = Models(backends={"openai": ScriptedBackend(respond=lambda chat, draw: "")})
    with pytest.raises(ConfigError, match="no setting volume"):
        role_of(optimizer("openai:gpt-4o", run_options={"volume": 11}), tmp_path, models)


async def test_a_message_of_ones_own(tmp_path: Path) -> None:
    backend = ScriptedBackend(respond=lambda chat, draw: ANSWER)
    models = Models(backends={"openai": backend})

    def build(seen: Any) -> str:
        return f"{seen.eval_case_id} at {seen.step_id}: {seen.incoming[0].gradient}"

    role = role_of(backwarder("openai:gpt-4o", message_builder=build), tmp_path, models)
    await role.answer(asked(), draw=0, effects=DirectEffects())
    assert [each.content for each in backend.asked[0].messages] == [
        "c1 at writer:1: lacks a source"
    ]


async def test_a_runner_is_asked_as_a_model_is(tmp_path: Path) -> None:
    heard: list[dict[str, Any]] = []

    async def runner(message: str, *, user_id: str, session_id: str, speed: int) -> dict[str, Any]:
        heard.append({"message": message, "who": user_id, "talk": session_id, "speed": speed})
        return {"gradients": [{"severity": "P1", "gradient": "merged", "sources": [1]}]}

    stage = aggregator(
        runner, run_options={"speed": 3}, user_id_supplier=lambda: "me", session_id_supplier=str
    )
    role = role_of(stage, tmp_path)
    numbered = NumberedRemark(number=1, gradient="lacks a source")
    receipt = await role.answer(
        MergeRequest(surface=shown(), gradients=(numbered,)), draw=0, effects=DirectEffects()
    )
    assert receipt.value.gradients[0].gradient == "merged"
    (told,) = heard
    assert (told["who"], told["talk"], told["speed"]) == ("me", "", 3)
    assert "lacks a source" in told["message"]
    assert "JSON schema" in told["message"]


async def test_an_agent_target_can_be_a_runner(tmp_path: Path) -> None:
    said = ScriptedTarget(respond=lambda candidate, case, draw: ANSWER, surfaces=(), values={})
    role = role_of(backwarder(said), tmp_path)
    receipt = await role.answer(asked(), draw=0, effects=DirectEffects())
    assert receipt.value.gradients[0].gradient == "cite"


async def test_a_runner_that_breaks_costs_its_question(tmp_path: Path) -> None:
    def runner(message: str) -> str:
        raise ValueError(f"cannot read {len(message)} letters")

    role = role_of(backwarder(runner), tmp_path)
    with pytest.raises(RoleFailed, match="cannot read"):
        await role.answer(asked(), draw=0, effects=DirectEffects())
