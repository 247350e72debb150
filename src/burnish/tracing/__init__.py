"""Tracing: what an agent's own code says of its steps, and which of them came before which.

Agents import this in production too, where nobody records, so it imports next to nothing.
"""

from burnish.tracing.steps import OpenStep, carry, step, traced

__all__ = ["OpenStep", "carry", "step", "traced"]
