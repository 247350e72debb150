"""The budget of an iteration: half of the seed's, always reckoned from the seed."""

import math
from dataclasses import dataclass, replace

from burnish.targets.delegation.envelope import Envelope

LEAST_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class SeedBudget:
    """What the seed was allowed, and how long it took."""

    envelope: Envelope
    seconds: float = 0.0
    """Observed; 0 where nobody knows."""


def halved(seed: SeedBudget) -> Envelope:
    """The envelope of an iteration. Depth is structure, not cost: it stays."""
    caps = seed.envelope
    seconds = seed.seconds or caps.max_wall_time
    return replace(
        caps,
        max_loops=_half(caps.max_loops),
        max_total_workers=_half(caps.max_total_workers),
        max_tool_calls=_half(caps.max_tool_calls),
        max_total_tokens=max(1, caps.max_total_tokens // 2),
        max_wall_time=float(max(LEAST_SECONDS, int(seconds / 2))),
    )


def _half(cap: int) -> int:
    return max(1, math.ceil(cap / 2))
