"""The agent of a world for reflective search, its cases, its metrics and its reflector."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

from burnish.core.candidates import Candidate
from burnish.core.cases import Case, Dataset
from burnish.core.content import short_id
from burnish.core.effects import Effects
from burnish.core.errors import RoleFailed
from burnish.core.money import NOTHING, Spend, to_nano
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Metric
from burnish.core.randomness import stream
from burnish.core.scores import Score
from burnish.core.surfaces import TextSurface
from burnish.strategies.reflective.wording import ROLE, Reflection, ReflectRequest
from burnish.testing.doubles import CallCounter, ScriptedRole, ScriptedTarget
from burnish.testing.reflection_world_rewriting import lacking, rewrite
from burnish.testing.reflection_world_truth import (
    World,
    baseline,
    chances,
    field_of,
    fields,
    length,
    luck,
    population,
)


class Outage(ConnectionError):
    """Nobody answered."""


def dataset(world: World) -> Dataset:
    """Cases drawn from the population, dealt into splits."""
    held = world.train + world.holdout
    kinds = population(world)
    cases = [_case(world, number, kinds) for number in range(held + world.test)]
    return Dataset(
        train=tuple(cases[: world.train]),
        holdout=tuple(cases[world.train : held]),
        test=tuple(cases[held:]),
    )


def target(world: World, *, counter: CallCounter | None = None) -> ScriptedTarget:
    """The agent of this world."""
    return ScriptedTarget(
        name="support desk",
        config={**asdict(world)},
        respond=partial(answer, world),
        surfaces=tuple(TextSurface(id=field) for field in fields(world)),
        values=baseline(world),
        price=Spend(calls=1, tokens_in=150, tokens_out=50, nano_usd=to_nano(world.usd_per_call)),
        seconds=world.call_seconds,
        counter=counter,
    )


def answer(world: World, candidate: Candidate, case: Case, draw: int) -> Outcome:
    """What the agent says: the rules it keeps, of those that the case needs."""
    fate = partial(luck, world, case.id, draw, candidate.id)
    if world.outage_rate and fate("outage") < world.outage_rate:
        raise Outage("the model endpoint did not answer")
    if world.crash_rate and fate("crash") < world.crash_rate:
        raise ValueError("the agent's answer was not valid JSON")
    kept = chances(world, candidate.values)
    said = [f"[{rule}]" for rule in _needed(case) if fate(rule) < kept[rule]]
    return Outcome(
        replies=(" · ".join(said) or "Noted.",),
        measures={"length": length(world, candidate.values)},
        nano_usd=to_nano(world.usd_per_call),
        seconds=0.5,
    )


def metrics(world: World) -> tuple[Metric, ...]:
    """What answers are measured by."""
    return (Complete(world=world), Brief()) if world.brief else (Complete(world=world),)


@dataclass(frozen=True, kw_only=True)
class Complete:
    """A metric: whether an answer keeps the rules it should. The reason names those it lacks."""

    world: World
    name: str = "complete"

    @property
    def fingerprint(self) -> str:
        """A hash of its version and settings."""
        return short_id([self.name, "1", self.world.continuous, self.world.fields])

    def estimate(self, case: Case) -> Spend:
        """Nothing: it computes."""
        del case
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """Look for each rule in the answer."""
        del effects
        return [self.judge(case, outcome)]

    def judge(self, case: Case, outcome: Outcome) -> Score:
        """The score of one answer."""
        needed = _needed(case)
        lacks = [rule for rule in needed if f"[{rule}]" not in outcome.output]
        share = 1 - len(lacks) / len(needed)
        return Score(
            metric=self.name,
            value=share if self.world.continuous else float(not lacks),
            passed=not lacks,
            reason="; ".join(lacking(field_of(self.world, rule), rule) for rule in lacks),
        )


@dataclass(frozen=True, kw_only=True)
class Brief:
    """A metric: how short an answer is. Every rule that is stated makes it longer."""

    name: str = "brief"

    @property
    def fingerprint(self) -> str:
        """A hash of its version."""
        return short_id([self.name, "1"])

    def estimate(self, case: Case) -> Spend:
        """Nothing: it computes."""
        del case
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """Look at the length that the agent reports."""
        del case, effects
        value = 1.0 - outcome.measures["length"]
        passed = value >= 0.5
        reason = "" if passed else "the answer is too long"
        return [Score(metric=self.name, value=value, passed=passed, reason=reason)]


def reflector(
    world: World, *, counter: CallCounter | None = None
) -> ScriptedRole[ReflectRequest, Reflection]:
    """Rewrites a text from the reasons in the records, and from nothing else in them."""
    return ScriptedRole(
        name=ROLE,
        respond=partial(_reflect, world),
        request_type=ReflectRequest,
        answer_type=Reflection,
        version=short_id({**asdict(world)}),
        counter=counter,
    )


def reasons_in(records: str) -> list[str]:
    """The reasons of the failures that records tell of."""
    return re.findall(r"reason: (.+)", records)


def _reflect(world: World, request: ReflectRequest, draw: int) -> Reflection:
    if luck(world, "reflector", draw, request.current_text) < world.role_failure_rate:
        raise RoleFailed("the reflector's answer was cut off")
    diagnosis, text = rewrite(
        world, request.field, request.current_text, reasons_in(request.records), draw
    )
    return Reflection(diagnosis=diagnosis, new_text=text)


def _case(world: World, number: int, kinds: Sequence[tuple[str, ...]]) -> Case:
    rng = stream(world.seed, "case", number)
    text = f"Customer {number:04d} asks about order {rng.randrange(10_000, 99_999)}"
    wanted = " ".join(f"[{rule}]" for rule in rng.choice(kinds))
    return Case.single(text, wanted, name=f"case-{number:04d}")


def _needed(case: Case) -> list[str]:
    return re.findall(r"r\d\d", case.expected or "")
