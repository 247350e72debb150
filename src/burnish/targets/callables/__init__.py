"""Agents that are called: a Python function, an HTTP endpoint or a command."""

from burnish.targets.callables.http import HttpTarget
from burnish.targets.callables.programs import CallableTarget, CommandTarget
from burnish.targets.callables.target import CallingTarget

__all__ = ["CallableTarget", "CallingTarget", "CommandTarget", "HttpTarget"]
