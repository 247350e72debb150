"""Runs of `auto` in the world of coordinate descent: texts, numbers and demonstrations matter."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from burnish.core.errors import RoleFailed
from burnish.journal.limits import Budget
from burnish.runs.plugins import TargetParts
from burnish.runs.setup import ProposerOffer, Setup
from burnish.strategies.auto.search import Auto, AutoSettings
from burnish.strategies.coordinate.plugin import point_proposers
from burnish.strategies.reflective.reflection import (
    ROLE,
    Reflection,
    ReflectionProposer,
    ReflectRequest,
)
from burnish.strategies.reflective.search import Reflective
from burnish.testing import CallCounter, ScriptedRole
from burnish.testing.doubles import luck
from tests.strategies import tuning_world
from tests.strategies.tuning_world import RULES, TEXT, TuningWorld

WORLD = TuningWorld(train=12, holdout=12)
Rewrite: TypeAlias = Callable[[ReflectRequest, int], Reflection]


def setup(
    world: TuningWorld = WORLD,
    settings: AutoSettings | None = None,
    *,
    only: tuple[str, ...] = (),
    budget: Budget | None = None,
    counter: CallCounter | None = None,
    rewrite: Rewrite | None = None,
) -> Setup:
    """A run of all proposers, or of `only` these."""
    plain = tuning_world.setup(world, counter=counter)
    offers = [
        reflection(world, counter=counter, rewrite=rewrite),
        *points(plain),
    ]
    chosen = tuple(each for each in offers if not only or each.name in only)
    return Setup(
        wait_minutes=0,  # who is away stays away
        target=plain.target,
        metrics=plain.metrics,
        objective=plain.objective,
        dataset=plain.dataset,
        strategy=Auto(offers=chosen, settings=settings or AutoSettings()),
        budget=budget or Budget(max_metric_calls=600),
    )


def points(plain: Setup) -> Iterator[ProposerOffer]:
    """Numbers and demonstrations."""
    parts = TargetParts(target=plain.target, dataset=plain.dataset, metrics=tuple(plain.metrics))
    return iter(list(point_proposers(parts)))


def reflection(
    world: TuningWorld,
    *,
    counter: CallCounter | None = None,
    helps: bool = True,
    rewrite: Rewrite | None = None,
) -> ProposerOffer:
    """A reflector who states the first missing rule, or writes what does not help, or `rewrite`."""
    role = ScriptedRole(
        name=ROLE,
        respond=rewrite or partial(missing_rule if helps else chatter, world),
        request_type=ReflectRequest,
        answer_type=Reflection,
        counter=counter,
    )
    begin = partial(ReflectionProposer, reflector=role, fields=(TEXT,))
    return ProposerOffer(name="reflection", surfaces=(TEXT,), begin=begin, roles=(role,))


def reflection_of(plain: Setup) -> ProposerOffer:
    """What a run of `reflective` does, as a proposer."""
    assert isinstance(plain.strategy, Reflective)
    role, texts = plain.strategy.reflector, tuple(plain.strategy.fields(plain.target))
    begin = partial(ReflectionProposer, reflector=role, fields=texts)
    return ProposerOffer(name="reflection", surfaces=texts, begin=begin, roles=(role,))


def missing_rule(world: TuningWorld, request: ReflectRequest, draw: int) -> Reflection:
    """The text with the first rule that it lacks."""
    if luck("reflector", draw, world.seed) < world.role_failure_rate:
        raise RoleFailed("the reflector's answer was cut off")
    lacking = re.findall(r"the note lacks \[(\w+)\]", request.records)
    new = [RULES[each] for each in lacking if each in RULES]
    rule = next((each for each in new if each not in request.current_text), f"Be kind ({draw}).")
    return Reflection(diagnosis=f"it lacks: {rule}", new_text=f"{request.current_text} {rule}")


def chatter(world: TuningWorld, request: ReflectRequest, draw: int) -> Reflection:
    """The text with more of no use."""
    del world
    return Reflection(diagnosis="style", new_text=f"{request.current_text} Be kind ({draw}).")
