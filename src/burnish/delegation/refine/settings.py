"""The settings of a refinement, as flags, HTTP and run.json have them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import BeforeValidator, Field

from burnish.core.content import Json
from burnish.delegation.refine.loop import MOST_ITERATIONS
from burnish.delegation.refine.seeds import ModelPair, Tier, TierPlan
from burnish.delegation.workflow_spec import TaskSettings
from burnish.system.settings import Access, Door, Settings

MIXED = "refinement.mixed_body: tier_* set; ignoring legacy model/worker_model"
_WHO = Door(flag="*", panel="Who", metavar="MODEL", environment=False, http=Access.MODEL)
_PAIR = replace(_WHO, metavar="MANAGER:WORKER")


_PARSE = BeforeValidator(
    lambda value: vars(ModelPair.parse(value)) if isinstance(value, str) else value
)
_CLAMP = BeforeValidator(
    lambda value: min(MOST_ITERATIONS, max(1, value)) if isinstance(value, int) else value
)


class Pair(Settings):
    """The models of a tier; an empty name means the seed's model."""

    manager: str | None = ""
    worker: str | None = ""

    @property
    def models(self) -> ModelPair:
        return ModelPair(manager=self.manager or "", worker=self.worker or "")


class RefineSettings(TaskSettings):
    """How the result of a run is improved."""

    iterations: Annotated[
        int,
        _CLAMP,
        Field(ge=1, le=MOST_ITERATIONS),
        Door(flag="*", aliases=("-n",), panel="Options", environment=False, http=Access.LIMIT),
    ] = 3
    """Maximum number of iterations, from 1 to 10; default 3."""
    workflow: Annotated[
        str | None,
        Door(flag="*", panel="Options", metavar="FILE", paths=True, environment=False),
    ] = None
    """A workflow file; by default the one of the run."""
    allow_missing_files: Annotated[
        bool, Door(flag="*", panel="Options", environment=False, http=Access.CLIENT)
    ] = False
    """Let a result win that lacks a file which the seed delivers."""
    model: Annotated[str | None, _WHO] = None
    """The model that plans; by default the one of the run."""
    worker_model: Annotated[str | None, _WHO] = None
    """The model that works; by default the one of the run."""
    tier_low: Annotated[Pair | None, _PARSE, _PAIR] = None
    """Models of the first iterations."""
    tier_mid: Annotated[Pair | None, _PARSE, _PAIR] = None
    """Models of the middle iterations."""
    tier_high: Annotated[Pair | None, _PARSE, _PAIR] = None
    """Models of the last iterations."""
    run: Annotated[str, Door(file=False)] = ""
    """The folder of the run to refine; empty if it is the best run of a task."""
    task: Annotated[str, Door(file=False)] = ""
    """EXP:TASK to refine the best run of a task."""
    made_with: Annotated[dict[str, Json], Door(file=False)] = Field(default_factory=dict[str, Json])
    """What overrode the workflow file when the run was made."""
    plain: Annotated[bool, Door(file=False)] = False
    """Whether a plain workflow replaces that of the run, which is gone or unknown."""

    @property
    def named_tiers(self) -> dict[Tier, ModelPair]:
        pairs = {Tier.LOW: self.tier_low, Tier.MID: self.tier_mid, Tier.HIGH: self.tier_high}
        return {tier: pair.models for tier, pair in pairs.items() if pair is not None}

    @property
    def warnings(self) -> list[str]:
        return [MIXED] if self.named_tiers and (self.model or self.worker_model) else []

    def tiers(self, usual: Mapping[str, ModelPair]) -> TierPlan:
        """The tiers: the named ones, else the workflow's unless other models were named."""
        named = self.named_tiers
        if not named and (self.model or self.worker_model):
            return TierPlan()
        return TierPlan(pairs={**{Tier(name): pair for name, pair in usual.items()}, **named})

    @property
    def models(self) -> ModelPair:
        return ModelPair(manager=self.model or "", worker=self.worker_model or "")

    def to_json(self) -> dict[str, Json]:
        hidden = {"repeats", "run", "task", "made_with", "plain"}
        return self.model_dump(mode="json", exclude=hidden, exclude_none=True)
