"""The toy world as a plug-in: a kind of file, a target and a strategy, each of them one class.

This is all that it takes to be used from a file, flags, the environment, HTTP, `--dry-run`, reports
and resume. The world itself and its search are in `toy`.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from burnish.core.protocols import Role
from burnish.core.surfaces import ChoiceSurface, NumberSurface, Surface, TextSurface
from burnish.models.chat import ModelClient
from burnish.plugins import (
    Ability,
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
from burnish.testing.toy import Climb, Rewrite, RewriteRequest, model_proposer, proposer

Amount = Annotated[float, Field(ge=0, le=1000)]
Count = Annotated[int, Field(ge=1, le=100_000)]
CountOrNone = Annotated[int, Field(ge=0, le=100_000)]
RULES = Ability(name="rules of the toy world")
"""What the script proposes: a strategy of one world alone."""
PROPOSER = RoleNeed(name="proposer", help="Who rewrites texts: provider:name; a script, else.")


class WorldSettings(Settings):
    """How large and how rough the world is."""

    train: Count = 24
    """Cases to learn from."""
    holdout: Count = 12
    """Cases that decide."""
    test: CountOrNone = 16
    """Sealed cases."""
    noise: Share = 0.05
    """How often a rule is forgotten at the best temperature."""
    crash_rate: Share = 0.0
    """How often the agent itself fails."""
    outage_rate: Share = 0.0
    """How often the infrastructure fails."""
    call_seconds: Amount = 0.0
    """How long a call takes."""
    usd_per_call: Amount = 0.0004
    """What a call costs."""
    seed: int = 7
    """Seed of the world's own randomness."""
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
        """The agent, its cases and the one metric."""
        del strategy
        settings: WorldSettings = building.spec.target.world
        world = toy.ToyWorld(**settings.model_dump(exclude={"counter"}))
        counter = None
        if settings.counter is not None:
            counter = CallCounter(path=building.path(settings.counter))
        return TargetParts(
            target=toy.target(world, counter=counter),
            dataset=toy.dataset(world),
            metrics=(toy.RulesKept(),),
        )


class ClimbSettings(StrategySettings):
    """The settings of the strategy."""

    repeats: Annotated[Repeats, Door(flag="*", http=True)] = 2
    """Runs of every case; they show the noise."""
    accept_sigma: Amount = 1.0
    """How many times its noise a gain must be."""
    cycles: Count = 4
    """Rounds through all phases."""
    trials_per_phase: Count = 4
    """Trials of a phase."""
    block_size: Count | None = None
    """Cases after which a race looks at the score; no race where it is not given."""
    look_ahead: CountOrNone = 0
    """Blocks that a race runs ahead of its verdict."""
    version: str = "1"
    """Part of the fingerprint: another version is another strategy."""


class ClimbPlugin(StrategyPlugin):
    """Climbing, with a model that proposes or with a script."""

    name: ClassVar[str] = "climb"
    Settings: ClassVar[type[StrategySettings]] = ClimbSettings
    roles: ClassVar[tuple[RoleNeed, ...]] = (PROPOSER,)
    requires: ClassVar[tuple[Ability, ...]] = (RULES,)

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        """The search over a target; a script knows only the toy world."""
        settings: ClimbSettings = building.spec.strategy.settings
        ref, client = building.named(PROPOSER), None
        if ref is not None:
            client = building.problems.attempt(
                f"roles.{PROPOSER.name}", lambda: _reached(building.models.client(ref)), None
            )
        role = _role(client, parts)
        if role is None:
            if PROPOSER.name not in building.spec.roles:
                remedy = "name one: proposer: openai:gpt-4o, or --proposer MODEL"
                building.problems.add(f"roles.{PROPOSER.name}", parts.no_model, remedy)
            return None
        return StrategyParts(
            strategy=Climb(proposer=role, **settings.model_dump()),
            client=client,
            notes=tuple(_notes(client)),
        )


def _reached(client: ModelClient) -> ModelClient:
    client.check()
    return client


def _role(client: ModelClient | None, parts: TargetParts) -> Role[RewriteRequest, Rewrite] | None:
    if client is not None:
        return model_proposer(client)
    if isinstance(parts.target, ScriptedTarget):
        return proposer(seconds=parts.target.seconds, counter=parts.target.counter)
    return None


def _notes(client: ModelClient | None) -> Iterator[str]:
    if client is not None and not client.priced:
        yield f"the price of {client.ref.label} is unknown: US dollars leave it out"


class ToyFile(Dialect):
    """`kind: toy`: the world, and how it is climbed."""

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
