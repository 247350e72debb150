"""What a refinement is started with: its settings, as flags, HTTP and run.json have them."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field

from burnish.core.content import Json
from burnish.delegation.refine.loop import MOST_ITERATIONS
from burnish.delegation.refine.seeds import ModelPair, Tier, TierPlan
from burnish.delegation.workflow_spec import TaskSettings
from burnish.system.settings import Door, Settings

MIXED = "refinement.mixed_body: tier_* set; ignoring legacy model/worker_model"
_WHO = Door(flag="*", panel="Who", metavar="MODEL", environment=False)
_PAIR = Door(flag="*", panel="Who", metavar="MANAGER:WORKER", environment=False)


def _clamped(value: object) -> object:
    return min(MOST_ITERATIONS, max(1, value)) if isinstance(value, int) else value


def _pair(value: object) -> object:
    """`manager:worker` as a flag has it."""
    return vars(ModelPair.parse(value)) if isinstance(value, str) else value


class Pair(Settings):
    """The models of a tier; empty, or none, falls back to the seed's."""

    manager: str | None = ""
    worker: str | None = ""

    @property
    def models(self) -> ModelPair:
        """As the strategy has it."""
        return ModelPair(manager=self.manager or "", worker=self.worker or "")


class RefineSettings(TaskSettings):
    """How the result of a run is made better."""

    iterations: Annotated[
        int,
        BeforeValidator(_clamped),
        Door(flag="*", aliases=("-n",), panel="Options", environment=False),
    ] = 3
    """At most so many; from 1 to 10, 3 unless said."""
    workflow: Annotated[
        str | None,
        Door(flag="*", panel="Options", metavar="FILE", paths=True, environment=False),
    ] = None
    """A workflow file; that of the run unless said."""
    model: Annotated[str | None, _WHO] = None
    """Who plans; the run's unless said."""
    worker_model: Annotated[str | None, _WHO] = None
    """Who works; the run's unless said."""
    tier_low: Annotated[Pair | None, BeforeValidator(_pair), _PAIR] = None
    """Models of the first iterations."""
    tier_mid: Annotated[Pair | None, BeforeValidator(_pair), _PAIR] = None
    """Models of those between."""
    tier_high: Annotated[Pair | None, BeforeValidator(_pair), _PAIR] = None
    """Models of the last ones."""
    run: Annotated[str, Door(file=False)] = ""
    """The folder of the run that is refined; empty where it is the best of a task."""
    task: Annotated[str, Door(file=False)] = ""
    """EXP:TASK where the best run of a task is refined."""
    made_with: Annotated[dict[str, Json], Door(file=False)] = Field(default_factory=dict[str, Json])
    """What was stronger than the workflow file when the run was made."""
    plain: Annotated[bool, Door(file=False)] = False
    """Whether a plain workflow stands in for that of the run, which is gone or unknown."""

    @property
    def named_tiers(self) -> dict[Tier, ModelPair]:
        """The tiers that were named."""
        pairs = {Tier.LOW: self.tier_low, Tier.MID: self.tier_mid, Tier.HIGH: self.tier_high}
        return {tier: pair.models for tier, pair in pairs.items() if pair is not None}

    @property
    def warnings(self) -> list[str]:
        """What was said in vain."""
        return [MIXED] if self.named_tiers and (self.model or self.worker_model) else []

    def tiers(self, usual: Mapping[str, ModelPair]) -> TierPlan:
        """The plan: as named, else the workflow's own unless other models were named."""
        named = self.named_tiers
        if not named and (self.model or self.worker_model):
            return TierPlan()
        return TierPlan(pairs={**{Tier(name): pair for name, pair in usual.items()}, **named})

    @property
    def models(self) -> ModelPair:
        """The models of all iterations, where there are no tiers."""
        return ModelPair(manager=self.model or "", worker=self.worker_model or "")

    def to_json(self) -> dict[str, Json]:
        """What the user said, as a session keeps it."""
        hidden = {"repeats", "run", "task", "made_with", "plain"}
        return self.model_dump(mode="json", exclude=hidden, exclude_none=True)
