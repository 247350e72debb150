"""Which models an iteration runs with: weak ones first, the strongest last."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from burnish.models.providers import find_provider


class Tier(StrEnum):
    """How strong the models of an iteration are."""

    LOW = "low"
    MID = "mid"
    HIGH = "high"


@dataclass(frozen=True, kw_only=True)
class ModelPair:
    """The models of a delegation; an empty one falls back to the seed's."""

    manager: str = ""
    worker: str = ""

    @classmethod
    def parse(cls, told: str) -> "ModelPair":
        """`manager:worker`, either side may be empty; one name alone is the manager's.

        Names of models have colons in them, so it is split where both sides are references; where
        neither is one, at the first colon.
        """
        places = [place for place, char in enumerate(told) if char == ":"]
        for place in places:
            manager, worker = told[:place].strip(), told[place + 1 :].strip()
            if (not manager or _is_reference(manager)) and (not worker or _is_reference(worker)):
                return cls(manager=manager, worker=worker)
        if _is_reference(told.strip()):
            return cls(manager=told.strip())
        manager, _, worker = told.partition(":")
        return cls(manager=manager.strip(), worker=worker.strip())

    def or_else(self, seed: "ModelPair") -> "ModelPair":
        """These, and the seed's where one is empty."""
        return ModelPair(manager=self.manager or seed.manager, worker=self.worker or seed.worker)


@dataclass(frozen=True, kw_only=True)
class TierPlan:
    """A pair of models for each tier."""

    pairs: Mapping[Tier, ModelPair] = field(default_factory=dict[Tier, ModelPair])

    @property
    def trivial(self) -> bool:
        """Whether it says nothing, so that every iteration runs with the seed's models."""
        return all(pair == ModelPair() for pair in self.pairs.values())

    def models(self, k: int, n: int, seed: ModelPair) -> ModelPair:
        """The models of iteration `k` of `n`."""
        return self.pairs.get(tier_of(k, n), ModelPair()).or_else(seed)


def tier_of(k: int, n: int) -> Tier:
    """The tier of iteration `k` of `n`: thirds, the low one never the smallest."""
    if n < 1 or not 1 <= k <= n:
        raise ValueError(f"there is no iteration {k} of {n}")
    if n <= 2:
        return Tier.HIGH if k == n else Tier.LOW
    if k <= math.ceil(n / 3):
        return Tier.LOW
    return Tier.HIGH if k >= n - n // 3 + 1 else Tier.MID


def _is_reference(told: str) -> bool:
    provider, _, name = told.partition(":")
    return find_provider(provider) is not None and bool(name.strip())


def reference_of(name: str) -> str:
    """`openai/gpt-5` as other systems write it is `openai:gpt-5` here."""
    provider, colon, _ = name.partition(":")
    if colon and find_provider(provider) is not None:
        return name
    provider, slash, model = name.partition("/")
    row = find_provider(provider)
    return f"{row.name}:{model}" if slash and model and row is not None else ""
