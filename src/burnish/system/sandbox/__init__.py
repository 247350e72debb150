"""Commands that somebody else wrote or edited: limited always, isolated where bubblewrap works."""

from burnish.system.sandbox.commands import Sandbox
from burnish.system.sandbox.isolation import Isolation, Mode, Probe, probe_bubblewrap, resolve
from burnish.system.sandbox.results import CommandLimits, CommandResult, EndedBy

__all__ = [
    "CommandLimits",
    "CommandResult",
    "EndedBy",
    "Isolation",
    "Mode",
    "Probe",
    "Sandbox",
    "probe_bubblewrap",
    "resolve",
]
