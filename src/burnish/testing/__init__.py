"""Test doubles and contract tests, for burnish and for your own code.

Nothing here needs a network, a key or a clock.
"""

from typing import TYPE_CHECKING

from burnish.lazy_names import lazy_names

if TYPE_CHECKING:
    from burnish.testing.doubles import (
        CallCounter,
        ExpectedText,
        ScriptedBackend,
        ScriptedRole,
        ScriptedTarget,
        check_executor,
        check_metric,
        check_provider,
        check_strategy,
        check_target,
    )
    from burnish.testing.plugin_contracts import (
        PluginProject,
        check_dialect,
        check_metric_plugin,
        check_strategy_plugin,
        check_target_plugin,
    )

_HOMES = {
    "doubles": (
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
    ),
    "plugin_contracts": (
        "PluginProject",
        "check_dialect",
        "check_metric_plugin",
        "check_strategy_plugin",
        "check_target_plugin",
    ),
}

__all__ = [
    "CallCounter",
    "ExpectedText",
    "PluginProject",
    "ScriptedBackend",
    "ScriptedRole",
    "ScriptedTarget",
    "check_dialect",
    "check_executor",
    "check_metric",
    "check_metric_plugin",
    "check_provider",
    "check_strategy",
    "check_strategy_plugin",
    "check_target",
    "check_target_plugin",
]

__getattr__ = lazy_names(__name__, _HOMES)
