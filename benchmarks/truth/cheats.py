"""Cheats: worlds in which a worse candidate looks better to a naive decision.

Each module `cheats_….py` beside this one offers `CHEATS`, a tuple of `Cheat`.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import benchmarks.truth as package


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What became of the cheating candidate."""

    accepted: bool
    """Whether a trial of it was accepted that should not have been."""
    offered: bool
    """Whether the run ended with it, or claimed a gain for it."""
    by_rule: bool = False
    """Whether a trial of it was accepted as the rule has it: by luck, or within what may be lost or
    missing. Then only what is offered or claimed counts."""
    reason: str = ""
    """Why it was rejected, as the run says."""


@dataclass(frozen=True, kw_only=True)
class Cheat:
    """A world with a candidate that must lose."""

    name: str
    strategy: str
    play: Callable[[Path], Attempt]
    """Runs the world in an empty folder: deterministic, a few seconds at most."""


def all_cheats() -> list[Cheat]:
    """Every cheat of every module here, by name."""
    names = [info.name for info in pkgutil.iter_modules(package.__path__)]
    modules = [
        importlib.import_module(f"{package.__name__}.{name}")
        for name in names
        if name.startswith("cheats_")
    ]
    return sorted((cheat for module in modules for cheat in module.CHEATS), key=lambda c: c.name)
