"""Back-propagation over other things than texts: the model of a node, and its numbers."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from burnish.core.cases import Case, Dataset
from burnish.core.evaluations import Objective
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.runs.setup import Setup
from burnish.strategies.backprop.prompts import (
    BackwardAnswer,
    BackwardRequest,
    PatchAnswer,
    PatchRequest,
    SurfaceRemark,
)
from burnish.targets.graph import GraphTarget, graph, surfaces_of
from burnish.testing import ExpectedText, ScriptedBackend
from tests.strategies.backprop_world import Roles
from tests.strategies.coordinate_runs import driven

pytestmark = pytest.mark.slow

MODEL, TEMPERATURE, SKILL = (
    f"desk/writer#{part}" for part in ("model", "model.temperature", "skill.citing")
)
BETTER = {MODEL: "openai:big", TEMPERATURE: 0.1, SKILL: "Cite the page."}


@dataclass(frozen=True, kw_only=True)
class Endpoint(ScriptedBackend):
    """Right only if asked the big model, coolly, with the skill."""

    heard: list[tuple[str, float | None]] = field(default_factory=list[tuple[str, float | None]])

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        del draw
        self.heard.append((ref.name, ref.settings.temperature))
        skilled = "Cite the page." in request.messages[0].content
        right = self.heard[-1] == ("big", 0.1) and skilled
        return ChatReply(text="yes" if right else "no", model=ref.name)


def blame_all(request: BackwardRequest, draw: int) -> BackwardAnswer:
    del draw
    names = [surface.id for surface in request.surfaces]
    return BackwardAnswer(gradients=[SurfaceRemark(surface=n, gradient="better") for n in names])


def change_it(request: PatchRequest, draw: int) -> PatchAnswer:
    del draw
    return PatchAnswer(value=BETTER[request.surface.id], reason=f"within {request.bounds}")


def test_a_model_a_number_and_a_skill_are_patched_and_reach_the_requests(tmp_path: Path) -> None:
    (tmp_path / "citing.md").write_text("Cite.\n", encoding="utf-8")
    made = graph("desk", folder=tmp_path)
    small = {"provider": "openai", "name": "small", "temperature": 0.9}
    made.agent("writer", model=small, instructions="Write.", skills=["citing.md"])
    endpoint = Endpoint(respond=lambda request, draw: "")
    surfaces = surfaces_of(
        made, [SKILL], choices={MODEL: ["openai:big"]}, ranges={TEMPERATURE: (0, 1)}
    )
    roles = Roles(back=blame_all, patch=change_it)
    setup = Setup(
        target=GraphTarget(made, Models(backends={"openai": endpoint}), surfaces=surfaces),
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(train=(Case.single("a", "yes"),), holdout=(Case.single("b", "yes"),)),
        strategy=roles.strategy(),
    )
    trial = driven(setup, tmp_path / "run").rows[1].trial
    assert {request.kind for request in roles.of("patcher")} == {"choice", "number", "text"}
    assert trial.accepted
    assert {name: trial.candidate.values[name] for name in BETTER} == BETTER
    assert endpoint.heard[0] == ("small", 0.9)
    assert endpoint.heard[-1] == ("big", 0.1)
