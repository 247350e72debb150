"""Doubles, worlds and contract tests: for burnish's own tests and for yours.

No room imports this one. Nothing here needs a network, a key or a clock.
"""

from burnish.testing.backends import ScriptedBackend
from burnish.testing.contracts import (
    check_executor,
    check_metric,
    check_provider,
    check_strategy,
    check_target,
)
from burnish.testing.doubles import CallCounter, ExpectedText, ScriptedRole, ScriptedTarget

__all__ = [
    "CallCounter",
    "ExpectedText",
    "ScriptedBackend",
    "ScriptedRole",
    "ScriptedTarget",
    "check_executor",
    "check_metric",
    "check_provider",
    "check_strategy",
    "check_target",
]
