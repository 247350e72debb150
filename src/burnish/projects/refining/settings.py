"""What a refinement is started with, as flags say it and as its session keeps it."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator

from burnish.core.content import Json
from burnish.strategies.refine.loop import MOST_ITERATIONS
from burnish.strategies.refine.tiers import ModelPair, Tier, TierPlan
from burnish.system.settings import Settings

MIXED = "refinement.mixed_body: tier_* set; ignoring legacy model/worker_model"


def _clamped(value: object) -> object:
    return min(MOST_ITERATIONS, max(1, value)) if isinstance(value, int) else value


class Pair(Settings):
    """The models of a tier; empty, or none, falls back to the seed's."""

    manager: str | None = ""
    worker: str | None = ""

    @classmethod
    def parse(cls, told: str | None) -> "Pair | None":
        """`manager:worker` as a flag has it."""
        return None if told is None else cls(**vars(ModelPair.parse(told)))

    @property
    def models(self) -> ModelPair:
        """As the strategy knows it."""
        return ModelPair(manager=self.manager or "", worker=self.worker or "")


class RefineSettings(Settings):
    """How a run is refined."""

    iterations: Annotated[int, BeforeValidator(_clamped)] = 3
    """From 1 to 10; what is beyond is cut to that."""
    model: str | None = None
    worker_model: str | None = None
    tier_low: Pair | None = None
    tier_mid: Pair | None = None
    tier_high: Pair | None = None
    workflow: str | None = None
    """A workflow file instead of the one that the run was made with."""

    @property
    def given_tiers(self) -> dict[Tier, ModelPair]:
        """The tiers that were named."""
        told = {Tier.LOW: self.tier_low, Tier.MID: self.tier_mid, Tier.HIGH: self.tier_high}
        return {tier: pair.models for tier, pair in told.items() if pair is not None}

    @property
    def warnings(self) -> list[str]:
        """What was said in vain."""
        return [MIXED] if self.given_tiers and (self.model or self.worker_model) else []

    def tiers(self, usual: Mapping[str, ModelPair]) -> TierPlan:
        """The plan: as named, else the workflow's own unless other models were named."""
        given = self.given_tiers
        if not given and (self.model or self.worker_model):
            return TierPlan()
        return TierPlan(pairs={**{Tier(name): pair for name, pair in usual.items()}, **given})

    @property
    def models(self) -> ModelPair:
        """The models of all iterations, where there are no tiers."""
        return ModelPair(manager=self.model or "", worker=self.worker_model or "")

    def to_json(self) -> dict[str, Json]:
        """What was said, as a session keeps it."""
        return self.model_dump(mode="json", exclude_none=True)
