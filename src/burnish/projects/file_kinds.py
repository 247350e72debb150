"""The file kinds of burnish: for each, which of its keys sets which field of the description."""

from collections.abc import Mapping
from typing import ClassVar

from burnish.projects.dialects import Dialect

_COMMON = {
    "name": "",
    "seed": "execution.seed",
    "concurrency": "execution.concurrency",
    "time_limit": "execution.time_limit",
    "retry": "execution.retry",
    "infrastructure_errors": "execution.infrastructure_errors",
    "repeats": "strategy.settings.repeats",
    "budget": "budget",
    "models": "models",
    "metrics": "metrics.blocks",
    "metrics_file": "metrics.file",
    "judge": "metrics.judge",
    "user_simulator": "metrics.user_simulator",
    "strategy": "strategy.name",
    "train": "data.train",
    "holdout": "data.holdout",
    "sealed": "data.test",
}
"""What files of several kinds have in common."""


class PromptsFile(Dialect):
    """`kind: prompts`: an agent that is called, and the prompts of it to rewrite."""

    kind: ClassVar[str] = "prompts"
    target: ClassVar[str] = "prompts"
    strategy: ClassVar[str] = "reflective"
    keys: ClassVar[Mapping[str, str]] = {
        **_COMMON,
        "target": "target.agent",
        "prompts": "target.prompts",
        "isolation": "target.isolation",
        "max_prompt_tokens": "target.max_prompt_tokens",
        "max_prompt_chars": "target.max_prompt_chars",
    }
