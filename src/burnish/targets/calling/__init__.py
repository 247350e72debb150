"""Agents that are called: a Python function, an HTTP endpoint, a command.

burnish knows nothing of what is inside: it says something, and gets a reply.
"""

from burnish.targets.calling.commands import CommandTarget
from burnish.targets.calling.functions import CallableTarget
from burnish.targets.calling.http import HttpTarget
from burnish.targets.calling.target import CallingTarget

__all__ = ["CallableTarget", "CallingTarget", "CommandTarget", "HttpTarget"]
