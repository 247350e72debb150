"""A small world with a known best: a support agent that follows the rules in its prompt.

Its quality depends on which rules the instructions state, on a temperature that makes it
forget when it is far from 0.3, and on its tone. Luck is a hash of candidate, case and draw,
so every call is a function of its key.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from burnish.core.candidates import Candidate
from burnish.core.cases import Case, Dataset, Turn
from burnish.core.content import Json, short_id
from burnish.core.effects import Effects
from burnish.core.money import NOTHING, Spend, to_nano
from burnish.core.outcomes import Outcome, Step, Trace, Usage
from burnish.core.randomness import stream
from burnish.core.scores import Score
from burnish.core.surfaces import ChoiceSurface, NumberSurface, TextSurface
from burnish.testing.doubles import CallCounter, ScriptedTarget

KIND = "toy agent"
"""The kind of target that the agent of this world is."""
RULES = {
    "name": "Greet the customer by name.",
    "order": "Repeat the order number.",
    "date": "Say when the matter will be settled.",
    "next step": "Offer one next step.",
    "apology": "Apologise when something went wrong.",
}
INSTRUCTIONS = "You answer messages to {shop}."
SURFACES = (
    TextSurface(id="instructions", max_chars=600, placeholders=("{shop}",)),
    NumberSurface(id="model.temperature", low=0.0, high=1.0),
    ChoiceSurface(id="model.tone", choices=("formal", "plain", "chatty")),
)
_TOPICS = ("a late parcel", "a wrong colour", "a missing invoice", "a broken lamp", "a refund")


@dataclass(frozen=True, kw_only=True)
class World:
    """How large and how rough the world is."""

    train: int = 24
    holdout: int = 12
    test: int = 16
    noise: float = 0.05
    """How often a rule is forgotten at the best temperature."""
    crash_rate: float = 0.0
    """How often the agent itself fails."""
    outage_rate: float = 0.0
    """How often the infrastructure fails."""
    call_seconds: float = 0.0
    usd_per_call: float = 0.0004
    seed: int = 7


class Outage(ConnectionError):
    """Nobody answered."""


def dataset(world: World) -> Dataset:
    """Cases of the world, dealt into splits."""
    whole = world.train + world.holdout + world.test
    cases = [_case(world, number) for number in range(whole)]
    held = world.train + world.holdout
    return Dataset(
        train=tuple(cases[: world.train]),
        holdout=tuple(cases[world.train : held]),
        test=tuple(cases[held:]),
    )


def target(world: World, *, counter: CallCounter | None = None) -> ScriptedTarget:
    """The support agent of this world."""
    config: dict[str, Json] = {
        "noise": world.noise,
        "crash_rate": world.crash_rate,
        "outage_rate": world.outage_rate,
        "usd_per_call": world.usd_per_call,
    }
    return ScriptedTarget(
        name=KIND,
        config=config,
        respond=lambda candidate, case, draw: _respond(world, candidate, case, draw),
        surfaces=SURFACES,
        values={"instructions": INSTRUCTIONS, "model.temperature": 0.9, "model.tone": "formal"},
        price=Spend(calls=1, tokens_in=180, tokens_out=60, nano_usd=to_nano(world.usd_per_call)),
        seconds=world.call_seconds,
        counter=counter,
    )


@dataclass(frozen=True, kw_only=True)
class RulesKept:
    """A metric: the share of what the case asks for that is in the reply."""

    name: str = "rules_kept"

    @property
    def fingerprint(self) -> str:
        """A hash of its version."""
        return short_id([self.name, "1"])

    def estimate(self, case: Case) -> Spend:
        """Nothing: it computes."""
        del case
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """Look for each rule's mark in the reply."""
        del effects
        wanted = (case.expected or "").split(", ")
        forgotten = [rule for rule in wanted if f"[{rule}]" not in outcome.output]
        return [
            Score(
                metric=self.name,
                value=1 - len(forgotten) / len(wanted),
                passed=not forgotten,
                reason=f"does not keep: {', '.join(forgotten)}" if forgotten else "",
            )
        ]


def _case(world: World, number: int) -> Case:
    rng = stream(world.seed, "case", number)
    wanted = sorted(rng.sample(sorted(RULES), k=rng.choice((2, 3))))
    topic = rng.choice(_TOPICS)
    text = f"Customer {number:03d} writes about {topic}, order {rng.randrange(10_000, 99_999)}."
    turn = Turn(input=text, expected=", ".join(wanted))
    return Case(name=f"message-{number:03d}", turns=(turn,))


def _respond(world: World, candidate: Candidate, case: Case, draw: int) -> Outcome:
    if _luck("outage", case.id, draw, candidate.id) < world.outage_rate:
        raise Outage("the model endpoint did not answer")
    if _luck("crash", case.id, draw, candidate.id) < world.crash_rate:
        raise ValueError("the agent's answer was not valid JSON")
    forget = _forgetfulness(world, candidate)
    text = str(candidate.values["instructions"])
    kept = [
        name
        for name, rule in RULES.items()
        if rule in text and _luck(name, case.id, draw, candidate.id) >= forget
    ]
    reply = " ".join(f"[{name}]" for name in kept) or "Thank you for your message."
    step = Step(
        id="1", node="agent", surfaces=tuple(candidate.values), input=case.input, output=reply
    )
    return Outcome(
        replies=(reply,),
        trace=Trace(steps=(step,)),
        usage=Usage(requests=1, input_tokens=180, output_tokens=60),
        nano_usd=to_nano(world.usd_per_call),
        seconds=0.4 + 0.2 * _luck("seconds", case.id, draw, candidate.id),
    )


def _forgetfulness(world: World, candidate: Candidate) -> float:
    temperature = candidate.values["model.temperature"]
    assert isinstance(temperature, int | float)
    tone = {"formal": 0.08, "plain": 0.0, "chatty": 0.15}[str(candidate.values["model.tone"])]
    return world.noise + tone + 0.5 * abs(float(temperature) - 0.3)


def _luck(*names: object) -> float:
    material = "\0".join(map(str, names)).encode()
    return int.from_bytes(hashlib.sha256(material).digest()[:8], "big") / 2**64
