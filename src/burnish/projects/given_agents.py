"""Agents as programs give them: a function, its name, or a target."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from burnish.core.cases import Case
from burnish.core.errors import ConfigError
from burnish.core.protocols import Target
from burnish.effects.budget import Budget
from burnish.evaluation.simulation import ROLE as USER_SIMULATOR
from burnish.evaluation.simulation import user_simulator as simulated
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.models.roles import in_force
from burnish.projects.agent_blocks import User
from burnish.runs.conditions import Closable
from burnish.runs.evaluating import CasePolicy
from burnish.system.user_functions import is_reference
from burnish.targets.calling import CallableTarget
from burnish.targets.calling.target import no_player

Agent: TypeAlias = Callable[..., Any] | Target | str | Path


@dataclass(frozen=True, kw_only=True)
class How:
    """How an agent is measured."""

    repeats: int | None = None
    """How often each case is run: once, unless a file says otherwise."""
    concurrency: int | None = None
    """How many cases run at once: 8, unless a file says otherwise."""
    judge: ModelRef | str | None = None
    """Who judges where a metric names nobody."""
    user_simulator: ModelRef | str | None = None
    """Who plays the user in scenarios."""
    policy: CasePolicy | None = None
    """Time limit, retries, and what is not the agent's fault."""
    budget: Budget | None = None
    seed: int | None = None
    models: Models | None = None
    """How models are reached; doubles come in here."""


def target_of(
    agent: Callable[..., Any] | Target | str, cases: Sequence[Case], how: How, models: Models
) -> tuple[Target, str]:
    """The target, and what it is called."""
    if _is_target(agent):
        return agent, agent.description.kind
    user = player_for(cases, how.user_simulator, models)
    if isinstance(agent, str):
        return CallableTarget.load(agent, Path.cwd(), user=user), agent
    assert callable(agent)
    made = CallableTarget(agent=agent, user=user)
    return made, made.title


def _is_target(agent: object) -> TypeGuard[Target]:
    wanted = ("description", "surfaces", "baseline", "run", "estimate")
    return not isinstance(agent, type) and all(hasattr(agent, name) for name in wanted)


def is_closable(target: Target) -> TypeGuard[Closable]:
    """Whether a target holds something open that it can let go of."""
    return inspect.iscoroutinefunction(getattr(target, "close", None))


def names_a_function(text: str) -> bool:
    """Whether a text is `module:function`, and no file."""
    return is_reference(text) and not Path(text).exists()


def player_for(cases: Sequence[Case], named: ModelRef | str | None, models: Models) -> User | None:
    """Who plays the user, where a case is a scenario."""
    scenarios = [case for case in cases if case.scenario is not None and case.recorded is None]
    if not scenarios:
        return None
    if named is None:
        raise ConfigError([no_player(scenarios[0])])
    prompt = in_force(USER_SIMULATOR, Path.cwd())
    client = models.client(as_reference(named), prompt.settings)
    client.check()
    return simulated(client, prompt)


def as_reference(model: ModelRef | str) -> ModelRef:
    """A model as programs name it."""
    return ModelRef.parse(model) if isinstance(model, str) else model
