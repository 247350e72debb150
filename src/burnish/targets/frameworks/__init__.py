"""Agents of known frameworks: found by their type, with their texts and numbers as surfaces."""

from burnish.targets.frameworks.adapters import (
    AgentAdapter,
    AgentPart,
    AgentTalk,
    FrameworkTarget,
    adapter_for,
    with_values,
)

__all__ = [
    "AgentAdapter",
    "AgentPart",
    "AgentTalk",
    "FrameworkTarget",
    "adapter_for",
    "with_values",
]
