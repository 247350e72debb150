"""Tracing: record the steps of an agent's own code, and which came before which.

Agents import this in production too, where nothing is recorded, so it imports next to nothing.
"""

from burnish.tracing.steps import OpenStep, carry, step, traced

__all__ = ["OpenStep", "carry", "step", "traced"]
