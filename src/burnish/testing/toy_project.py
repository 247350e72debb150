"""The toy world as a plug-in: a file dialect, a target and a strategy, one class each.

This is all that files, flags, the environment, HTTP, `--dry-run`, reports and resume need. The
world and its search are in `toy`.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from burnish.core.surfaces import ChoiceSurface, NumberSurface, Surface, TextSurface
from burnish.models.chat import ModelClient
from burnish.plugins import (
    Ability,
    Access,
    Building,
    Dialect,
    Door,
    Repeats,
    RoleNeed,
    Settings,
    Share,
    StrategyParts,
    StrategyPlugin,
    StrategySettings,
    TargetParts,
    TargetPlugin,
    TargetSpec,
)
from burnish.system.yaml import TreePath
from burnish.testing import toy
from burnish.testing.doubles import CallCounter, ScriptedTarget
from burnish.testing.toy import Climb, model_proposer, proposer

_Amount = Annotated[float, Field(ge=0, le=1000)]
Count = Annotated[int, Field(ge=1, le=100_000)]
_CountOrNone = Annotated[int, Field(ge=0, le=100_000)]
RULES = Ability(name="rules of the toy world")
"""The scripted proposer only knows this world."""
PROPOSER = RoleNeed(
    name="proposer", help="The model that rewrites texts, as provider:name; a script by default."
)


class WorldSettings(Settings):
    """How large and how rough the world is."""

    train: Count = 24
    """Number of train cases."""
    holdout: Count = 12
    """Number of holdout cases."""
    test: _CountOrNone = 16
    """Number of sealed test cases."""
    noise: Share = 0.05
    """How often a rule is forgotten at the best temperature."""
    crash_rate: Share = 0.0
    """How often the agent itself fails."""
    outage_rate: Share = 0.0
    """How often the infrastructure fails."""
    call_seconds: _Amount = 0.0
    """Duration of a call in seconds."""
    usd_per_call: _Amount = 0.0004
    """Cost of a call."""
    seed: int = 7
    """Seed of the world's randomness."""
    counter: str | None = None
    """A file in which every call is counted as it starts."""


class ToySpec(TargetSpec):
    """The support agent of the toy world."""

    kind: str = toy.KIND
    world: WorldSettings = Field(default_factory=WorldSettings)


class ToyPlugin(TargetPlugin):
    """Builds the world from its description."""

    kind: ClassVar[str] = toy.KIND
    Spec: ClassVar[type[TargetSpec]] = ToySpec
    surfaces: ClassVar[tuple[type[Surface], ...]] = (TextSurface, NumberSurface, ChoiceSurface)
    abilities: ClassVar[tuple[Ability, ...]] = (RULES,)
    takes_cases: ClassVar[bool] = False

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        del strategy
        settings: WorldSettings = building.spec.target.world
        world = toy.ToyWorld(**settings.model_dump(exclude={"counter"}))
        path = settings.counter
        counter = None if path is None else CallCounter(path=building.path(path))
        return TargetParts(
            target=toy.target(world, counter=counter),
            dataset=toy.dataset(world),
            metrics=(toy.RulesKept(),),
        )


class ClimbSettings(StrategySettings):
    """The settings of the strategy."""

    repeats: Annotated[Repeats, Door(flag="*", http=Access.CLIENT)] = 2
    """Runs of every case, to measure the noise."""
    accept_sigma: _Amount = 1.0
    """A gain must be this many times its noise."""
    cycles: Count = 4
    """Rounds through all phases."""
    trials_per_phase: Count = 4
    """Trials of a phase."""
    block_size: Count | None = None
    """Cases per block of a race; no race if not set."""
    look_ahead: _CountOrNone = 0
    """Blocks that a race runs ahead of its decision."""
    version: str = "1"
    """Part of the fingerprint: a new version is a new strategy."""


class ClimbPlugin(StrategyPlugin):
    """Hill climbing with a model or a script as proposer."""

    name: ClassVar[str] = "climb"
    Settings: ClassVar[type[StrategySettings]] = ClimbSettings
    roles: ClassVar[tuple[RoleNeed, ...]] = (PROPOSER,)
    requires: ClassVar[tuple[Ability, ...]] = (RULES,)

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        settings: ClimbSettings = building.spec.strategy.settings
        ref, target = building.named(PROPOSER), parts.target
        client: ModelClient | None = None
        if ref is not None:
            client = building.problems.attempt(
                f"roles.{PROPOSER.name}", lambda: _reached(building.models.client(ref)), None
            )
        if client is not None:
            role = model_proposer(client)
        elif isinstance(target, ScriptedTarget):
            role = proposer(seconds=target.seconds, counter=target.counter)
        else:
            if PROPOSER.name not in building.spec.roles:
                remedy = "name one: proposer: openai:gpt-4o, or --proposer MODEL"
                building.problems.add(f"roles.{PROPOSER.name}", parts.no_model, remedy)
            return None
        notes: tuple[str, ...] = ()
        if client is not None and not client.priced:
            notes = (f"the price of {client.ref.label} is unknown: US dollars leave it out",)
        strategy = Climb(proposer=role, **settings.model_dump())
        return StrategyParts(strategy=strategy, client=client, notes=notes)


def _reached(client: ModelClient) -> ModelClient:
    client.check()
    return client


class ToyFile(Dialect):
    """Files with `kind: toy`."""

    kind: ClassVar[str] = "toy"
    target: ClassVar[str] = toy.KIND
    strategy: ClassVar[str] = ClimbPlugin.name
    evaluates: ClassVar[bool] = False
    strategy_at: ClassVar[TreePath] = ("strategy", "name")
    keys: ClassVar[Mapping[str, str]] = {
        "world": "target.world",
        "strategy.name": "strategy.name",
        "strategy.proposer": "roles.proposer",
        **{f"strategy.{name}": f"strategy.climb.{name}" for name in ClimbSettings.model_fields},
        "seed": "execution.seed",
        "concurrency": "execution.concurrency",
        "time_limit": "execution.time_limit",
        "budget": "budget",
        "models": "models",
    }
