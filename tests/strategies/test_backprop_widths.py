"""How many questions of a stage are under way at once: as many as the settings say, and no more."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.protocols import Effects, Receipt
from burnish.strategies.backprop.packets import BackpropSettings
from burnish.strategies.backprop.prompts import BackwardAnswer, BackwardRequest, SurfaceRemark
from burnish.strategies.backprop.strategy import Backprop
from burnish.testing import ScriptedRole
from tests.strategies.backprop_world import Roles, run, world

pytestmark = pytest.mark.slow

STAGES = ("backwarder", "aggregator", "patcher")


@dataclass(kw_only=True)
class Crowd:
    """How many are in, and the most that ever were."""

    expected: int
    now: int = 0
    most: int = 0
    full: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def entered(self) -> AsyncGenerator[None]:
        """Stay until as many as expected were in; one too many has a moment to come in too."""
        self.now += 1
        self.most = max(self.most, self.now)
        if self.most >= self.expected:
            self.full.set()
        await asyncio.wait_for(self.full.wait(), timeout=120)
        yield
        self.now -= 1


@dataclass(frozen=True, kw_only=True)
class Counted(ScriptedRole[Any, Any]):
    """A role that counts who is asking it at the same time."""

    crowd: Crowd

    async def answer(self, request: Any, /, *, draw: int, effects: Effects) -> Receipt[Any]:
        async with self.crowd.entered():
            return await super().answer(request, draw=draw, effects=effects)


def blame_both(request: BackwardRequest, draw: int) -> BackwardAnswer:
    """Whatever is here; told upstream too, so that both surfaces are spoken of."""
    del draw
    names = [surface.id for surface in request.surfaces]
    remarks = [SurfaceRemark(surface=name, gradient=f"better, {request.case}") for name in names]
    sent: Any = [
        {"predecessor": step.id, "gradients": [{"gradient": "better"}]}
        for step in request.predecessors
    ]
    return BackwardAnswer(gradients=remarks, upstream=sent)


def counted(role: Any, expected: int) -> Counted:
    kept = ("name", "respond", "answer_type", "request_type")
    copied = {name: getattr(role, name) for name in kept}
    return Counted(**copied, seconds=0.002, crowd=Crowd(expected=expected))


@pytest.mark.parametrize(
    ("widths", "most"),
    [((1, 1, 1), (1, 1, 1)), ((3, 1, 2), (3, 1, 2)), ((16, 16, 16), (4, 2, 2))],
)
def test_so_many_at_once(
    tmp_path: Path, widths: tuple[int, int, int], most: tuple[int, int, int]
) -> None:
    backward, merge, patch = widths
    settings = BackpropSettings(
        max_rounds=1,
        backward_parallelism=backward,
        aggregation_parallelism=merge,
        patch_parallelism=patch,
    )
    made = world(roles=Roles(back=blame_both), settings=settings)
    assert isinstance(made.strategy, Backprop)
    named = zip(STAGES, most, strict=True)
    roles = {name: counted(getattr(made.strategy, name), size) for name, size in named}
    run(replace(made, strategy=replace(made.strategy, **roles)), tmp_path)
    assert tuple(roles[name].crowd.most for name in STAGES) == most
