"""Runs untrusted commands: always limited, and isolated if bubblewrap or Landlock works."""

from burnish.system.sandbox.commands import Sandbox
from burnish.system.sandbox.isolation import (
    CommandLimits,
    CommandResult,
    EndedBy,
    Isolation,
    IsolationKind,
    LandlockProbe,
    Mode,
    Probe,
    probe_bubblewrap,
    probe_landlock,
    resolve,
)
from burnish.system.sandbox.walls import named_paths

__all__ = [
    "CommandLimits",
    "CommandResult",
    "EndedBy",
    "Isolation",
    "IsolationKind",
    "LandlockProbe",
    "Mode",
    "Probe",
    "Sandbox",
    "named_paths",
    "probe_bubblewrap",
    "probe_landlock",
    "resolve",
]
