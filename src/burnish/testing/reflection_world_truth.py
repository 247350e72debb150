"""What is true in a world for reflective search: its rules, its texts, and what each is worth.

An agent answers from one or several texts. A case needs some rules; each rule has to stand in
the text it belongs to. What a candidate is really worth is a sum over the kinds of cases there
are, so nothing has to be estimated.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from statistics import fmean

from burnish.core.randomness import stream

KINDS = 200
"""Kinds of cases in the population, each as frequent as any other."""
NAMES = ("planner", "writer", "checker", "router", "closer", "greeter")
_ALWAYS = re.compile(r"Always include \[(r\d\d)\]\.")
_NEVER = re.compile(r"Never include \[(r\d\d)\]\.")


@dataclass(frozen=True, kw_only=True)
class World:
    """How large and how rough the world is."""

    train: int = 30
    holdout: int = 30
    test: int = 0
    rules: int = 8
    fields: int = 1
    """Texts of the agent; the rules are dealt to them in turn."""
    known: int = 1
    """Rules that are stated from the start."""
    needs: int = 2
    """Rules that a case needs at most."""
    skew: float = 0.0
    """How much rarer each rule is than the one before; at 0 all are needed equally often."""
    noise: float = 0.0
    """How often a stated rule is lost in one draw, and one that is not stated is met by luck."""
    continuous: bool = False
    """Score the share of the rules kept; otherwise a case passes with all of them or fails."""
    brief: bool = False
    """A second metric that is against the first: each stated rule makes answers longer."""
    idle_share: float = 0.6
    """Rewrites that change words and nothing else."""
    harmful_share: float = 0.2
    """Rewrites that lose a rule, or say the opposite of it."""
    crash_rate: float = 0.0
    """How often the agent itself fails."""
    outage_rate: float = 0.0
    """How often the infrastructure fails."""
    role_failure_rate: float = 0.0
    """How often the reflector gives no answer."""
    call_seconds: float = 0.0
    usd_per_call: float = 0.0004
    seed: int = 7


ONE_RULE_A_FIELD = World(rules=4, fields=4, known=0, needs=2)
"""Each improvement is in a text of its own, so that a merge can put them together."""
CONFLICT = World(rules=6, known=0, continuous=True, brief=True)
"""Two metrics against each other: candidates differ in what they are best at."""


def fields(world: World) -> tuple[str, ...]:
    """The names of the agent's texts."""
    return NAMES[: world.fields]


def rules(world: World) -> tuple[str, ...]:
    """The names of the rules, the most common first where some are rare."""
    return tuple(f"r{number:02d}" for number in range(world.rules))


def field_of(world: World, rule: str) -> str:
    """The text in which a rule has to stand."""
    return NAMES[int(rule[1:]) % world.fields]


def text_of(world: World, field: str, stated: Iterable[str]) -> str:
    """A text that states those of these rules that belong to it."""
    lines = [f"You are the {field} of a support desk.", "Write in style 000000."]
    lines += [always(rule) for rule in stated if field_of(world, rule) == field]
    return "\n".join(lines)


def values_of(world: World, stated: Sequence[str]) -> dict[str, str]:
    """The agent's texts, with these rules in their places."""
    return {field: text_of(world, field, stated) for field in fields(world)}


def baseline(world: World) -> dict[str, str]:
    """The texts at the start."""
    return values_of(world, rules(world)[: world.known])


def always(rule: str) -> str:
    """The sentence that states a rule."""
    return f"Always include [{rule}]."


def never(rule: str) -> str:
    """The sentence that says the opposite of it."""
    return f"Never include [{rule}]."


def stated(text: object) -> list[str]:
    """The rules that a text states and does not take back."""
    forbidden = denied(text)
    return [rule for rule in _ALWAYS.findall(str(text)) if rule not in forbidden]


def denied(text: object) -> list[str]:
    """The rules of which a text says the opposite."""
    return _NEVER.findall(str(text))


def chances(world: World, values: Mapping[str, object]) -> dict[str, float]:
    """How likely each rule is kept in an answer that needs it."""
    kept = dict.fromkeys(rules(world), world.noise)
    for field in fields(world):
        text = values.get(field, "")
        spoken_of = dict.fromkeys(stated(text), 1.0 - world.noise)
        spoken_of |= dict.fromkeys(denied(text), 0.0)
        for rule, chance in spoken_of.items():
            if rule in kept and field_of(world, rule) == field:
                kept[rule] = chance
    return kept


def length(world: World, values: Mapping[str, object]) -> float:
    """How long answers are: the share of all rules that is stated, wherever it stands."""
    said = {rule for field in fields(world) for rule in stated(values.get(field, ""))}
    return len(said & set(rules(world))) / world.rules


@lru_cache(maxsize=64)
def population(world: World) -> tuple[tuple[str, ...], ...]:
    """The kinds of cases there are: the rules that each needs."""
    rng = stream(world.seed, "population")
    names = rules(world)
    weights = [(place + 1) ** -world.skew for place in range(world.rules)]
    kinds: list[tuple[str, ...]] = []
    for _ in range(KINDS):
        size = rng.randint(1, min(world.needs, world.rules))
        needed: set[str] = set()
        while len(needed) < size:
            needed.update(rng.choices(names, weights))
        kinds.append(tuple(sorted(needed)))
    return tuple(kinds)


def true_score(world: World, values: Mapping[str, object]) -> float:
    """What these texts are worth: the expected score of a case drawn from the population."""
    complete, brief = true_scores(world, values)
    return (complete + brief) / 2 if world.brief else complete


def true_scores(world: World, values: Mapping[str, object]) -> tuple[float, float]:
    """The expected score on each metric: complete, and brief."""
    kept, answered = chances(world, values), 1.0 - world.crash_rate
    complete = fmean(_expected(world, kept, kind) for kind in population(world))
    return answered * complete, answered * (1.0 - length(world, values))


def best_score(world: World) -> float:
    """What the best texts are worth."""
    names = rules(world)
    if not world.brief:
        return true_score(world, values_of(world, names))
    sizes = range(len(names) + 1)
    every = (chosen for size in sizes for chosen in combinations(names, size))
    return max(true_score(world, values_of(world, chosen)) for chosen in every)


def luck(world: World, *names: object) -> float:
    """A number in [0, 1) that depends on the world's seed and the names, on nothing else."""
    material = "\0".join(map(str, (world.seed, *names))).encode()
    return int.from_bytes(hashlib.sha256(material).digest()[:8], "big") / 2**64


def _expected(world: World, kept: Mapping[str, float], needed: Sequence[str]) -> float:
    found = [kept[rule] for rule in needed]
    if world.continuous:
        return fmean(found)
    chance = 1.0
    for each in found:
        chance *= each
    return chance
