"""The project kind `toy`: the toy world as a file, for the demo, the docs and the tests."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from burnish.core.objectives import Objective
from burnish.core.protocols import Role
from burnish.models.model_block import ModelBlock
from burnish.projects.loading import Given
from burnish.projects.settings import DEFAULT_CONCURRENCY, DEFAULT_SEED, ProjectFile
from burnish.runs.evaluating import CasePolicy
from burnish.runs.setup import Setup
from burnish.system import validate_config
from burnish.system.settings import Settings, Share
from burnish.testing import toy_world
from burnish.testing.doubles import CallCounter
from burnish.testing.toy_strategy import (
    Climb,
    Complaints,
    Rewrite,
    model_proposer,
    proposer,
)

Amount = Annotated[float, Field(ge=0, le=1000)]
Count = Annotated[int, Field(ge=1, le=100_000)]
CountOrNone = Annotated[int, Field(ge=0, le=100_000)]


class WorldSettings(Settings):
    """How large and how rough the world is."""

    train: Count = 24
    holdout: Count = 12
    test: CountOrNone = 16
    noise: Share = 0.05
    crash_rate: Share = 0.0
    outage_rate: Share = 0.0
    call_seconds: Amount = 0.0
    usd_per_call: Amount = 0.0004
    seed: int = 7
    counter: str | None = None
    """A file in which every call is counted as it starts."""


class ClimbSettings(Settings):
    """The settings of the strategy."""

    name: Literal["climb"] = "climb"
    repeats: Count = 2
    accept_sigma: Amount = 1.0
    max_cycles: Count = 4
    trials_per_phase: Count = 4
    block_size: Count | None = None
    look_ahead: CountOrNone = 0
    version: str = "1"
    proposer: ModelBlock | None = None
    """A model that proposes; without one a script does."""


class ToyFile(ProjectFile):
    """A toy project."""

    world: WorldSettings = Field(default_factory=WorldSettings)
    strategy: ClimbSettings = Field(default_factory=ClimbSettings)


def load(given: Given) -> Setup:
    """A toy project as a Setup."""
    file = validate_config(given.tree.data, ToyFile, source=given.path.name, tree=given.tree)
    return setup(file, folder=given.path.parent, given=given)


def setup(file: ToyFile, *, folder: Path, given: Given) -> Setup:
    """The world, the strategy and the limits that a file asks for."""
    flags, environment = given.flags, given.environment
    world = toy_world.World(**file.world.model_dump(exclude={"counter"}))
    counter = CallCounter(path=folder / file.world.counter) if file.world.counter else None
    role: Role[Complaints, Rewrite] = proposer(seconds=world.call_seconds, counter=counter)
    models = file.models.models()
    notes: tuple[str, ...] = ()
    if file.strategy.proposer is not None:
        client = models.client(file.strategy.proposer.reference())
        client.check()
        role = model_proposer(client)
        if not client.priced:
            notes = (f"the price of {client.ref.label} is unknown: US dollars leave it out",)
    return Setup(
        target=toy_world.target(world, counter=counter),
        metrics=(toy_world.RulesKept(),),
        objective=Objective(weights={"rules_kept": 1.0}),
        dataset=toy_world.dataset(world),
        strategy=Climb(proposer=role, **file.strategy.model_dump(exclude={"name", "proposer"})),
        seed=flags.choose("seed", file.seed, environment, DEFAULT_SEED),
        budget=file.budget.budget(flags, environment),
        concurrency=flags.choose("concurrency", file.concurrency, environment, DEFAULT_CONCURRENCY),
        case_policy=CasePolicy(time_limit=file.time_limit),
        test_repeats=file.strategy.repeats,
        notes=notes,
        resources=(models,),
    )
