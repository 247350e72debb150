"""Tracing: what an agent's own code says of its steps, and which of them came before which.

Agents import this in production too, where nobody records, so it imports next to nothing.
"""

from burnish.targets.tracing.carrying import carry
from burnish.targets.tracing.functions import traced
from burnish.targets.tracing.steps import OpenStep, step

__all__ = ["OpenStep", "carry", "step", "traced"]
