"""Small worlds in which searches are compared where each call is paid for, and their truth.

An agent follows the rules that its texts state, a judge says which ones an answer lacks, and a
reflector rewrites a text: it states a missing rule, only changes the wording, or does harm. The
file imports nothing of burnish, so its hash in small_worlds.sha256 fixes every world. `REPORT` and
the hash were committed before the search was changed for small budgets; `TUNING` is what it was
changed by.
"""

import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import combinations
from math import prod
from statistics import fmean
from typing import TypeAlias

Texts: TypeAlias = Mapping[str, str]
_NAMES = ("planner", "writer", "checker", "closer")
_KINDS = 200
_ALWAYS = re.compile(r"Always include \[(r\d\d)\]\.")
_NEVER = re.compile(r"Never include \[(r\d\d)\]\.")
_STYLE = re.compile(r"style \d{6}")


@dataclass(frozen=True, kw_only=True)
class SmallWorld:
    """How large and how rough a world is."""

    rules: int = 6
    stated: int = 1
    """Rules that the texts state at the start."""
    texts: int = 1
    """The rules belong to the texts in turn."""
    needs: int = 2
    """The most rules that a case needs; each case needs from one to so many."""
    rare: float | None = None
    """How often a case needs the last rule, and only that one; None for no rare rule."""
    conflicts: int = 0
    """Pairs of rules that spoil each other: if both are stated, each is followed half as often."""
    train: int = 20
    holdout: int = 20
    slips: float = 0.05
    """How often the agent breaks a stated rule, or follows one that is not stated."""
    misjudged: float = 0.0
    """How often the judge says the opposite of the truth, for no reason."""
    continuous: bool = False
    """Whether an answer is worth the share of the rules that it follows, not all or nothing."""
    idle: float = 0.35
    """How often a rewrite only changes the wording."""
    unchanged: float = 0.0
    """How many of the idle rewrites do not even do that."""
    harmful: float = 0.15
    """How often a rewrite loses or negates a rule."""
    seed: int = 0


REPORT: Mapping[str, SmallWorld] = {
    "additive": SmallWorld(needs=1),
    "conflicting rules": SmallWorld(conflicts=2),
    "one rare rule": SmallWorld(rules=5, stated=4, rare=0.15, train=24, holdout=24),
    "three texts": SmallWorld(texts=3),
    "noisy judge": SmallWorld(misjudged=0.15),
    "careless agent": SmallWorld(slips=0.2),
    "continuous scores": SmallWorld(rules=8, needs=3, continuous=True, slips=0.1, holdout=15),
    "tiny holdout": SmallWorld(train=10, holdout=8),
    "forty holdout cases": SmallWorld(train=30, holdout=40),
    "20 % idle rewrites": SmallWorld(rules=8, idle=0.2),
    "60 % idle rewrites": SmallWorld(rules=8, idle=0.6, unchanged=0.5),
    "little to gain": SmallWorld(rules=7, stated=6),
}
"""The worlds of the report."""
TUNING: Mapping[str, SmallWorld] = {
    "tuning: plain": SmallWorld(rules=7, holdout=16, train=18, slips=0.08, idle=0.4),
    "tuning: rough": SmallWorld(slips=0.15, misjudged=0.05, idle=0.3, harmful=0.25, holdout=12),
    "tuning: two texts": SmallWorld(rules=7, texts=2, holdout=24, idle=0.45, unchanged=0.3),
    "tuning: wide holdout": SmallWorld(rules=5, train=24, holdout=32, idle=0.3),
    "tuning: shares": SmallWorld(rules=9, needs=4, continuous=True, slips=0.12, holdout=10),
    "tuning: few failures": SmallWorld(rules=6, stated=4, rare=0.25, conflicts=1, holdout=16),
}
"""The worlds that settings and rules of the search may be chosen by; none of them is reported."""
WORLDS: Mapping[str, SmallWorld] = {**REPORT, **TUNING}


@dataclass(frozen=True, kw_only=True)
class SmallCase:
    """One case: what is asked, and the rules that a good answer follows."""

    name: str
    question: str
    rules: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """An answer, its score, and what the judge says of it."""

    answer: str
    score: float
    reason: str


@dataclass(kw_only=True)
class Bill:
    """What a search has used so far, whichever search it is."""

    calls: int = 0
    """Runs of a case."""
    reflections: int = 0
    tokens: int = 0
    """Read and written by the agent and by the reflector, at four characters a token."""
    draws: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """How often each candidate was run on each case."""

    def cost(self, price: float) -> float:
        """The calls, and the reflections at their price in calls."""
        return self.calls + price * self.reflections


def world_of(name: str, seed: int) -> SmallWorld:
    """A world with a population, cases and luck of its own."""
    return replace(WORLDS[name], seed=seed)


def luck(*names: object) -> float:
    """A number in [0, 1) that depends on the names alone."""
    material = "\0".join(map(str, names)).encode()
    return int.from_bytes(hashlib.sha256(material).digest()[:8], "big") / 2**64


def text_names(world: SmallWorld) -> tuple[str, ...]:
    """The names of the agent's texts."""
    return _NAMES[: world.texts]


def rules_of(world: SmallWorld) -> tuple[str, ...]:
    """The names of the rules."""
    return tuple(f"r{number:02d}" for number in range(world.rules))


def home_of(world: SmallWorld, rule: str) -> str:
    """The text that a rule belongs to."""
    return _NAMES[int(rule[1:]) % world.texts]


def rivals(world: SmallWorld) -> dict[str, str]:
    """By rule, the one that it conflicts with: the second and third, the fourth and fifth …"""
    pairs = [(f"r{2 * n + 1:02d}", f"r{2 * n + 2:02d}") for n in range(world.conflicts)]
    return {one: other for pair in pairs for one, other in (pair, pair[::-1])}


def texts_with(world: SmallWorld, rules: Sequence[str]) -> dict[str, str]:
    """The agent's texts with these rules stated."""
    texts: dict[str, str] = {}
    for name in text_names(world):
        lines = [f"You are the {name} of a support desk.", "Write in style 000000."]
        own = [rule for rule in rules if home_of(world, rule) == name]
        texts[name] = "\n".join([*lines, *map(_always, own)])
    return texts


def start_of(world: SmallWorld) -> dict[str, str]:
    """The texts at the start."""
    return texts_with(world, rules_of(world)[: world.stated])


def cases_of(world: SmallWorld) -> tuple[list[SmallCase], list[SmallCase]]:
    """The cases of train and of holdout, drawn from one population."""
    rng = random.Random(f"cases {world.seed}")
    made = [
        SmallCase(
            name=f"case-{number:03d}",
            question=f"Customer {number:03d} asks about order {rng.randrange(10_000, 99_999)}",
            rules=rng.choice(population(world)),
        )
        for number in range(world.train + world.holdout)
    ]
    return made[: world.train], made[world.train :]


@cache
def population(world: SmallWorld) -> tuple[tuple[str, ...], ...]:
    """The rules that each of 200 equally frequent kinds of cases needs."""
    rng = random.Random(f"population {world.seed}")
    *others, last = rules_of(world)
    common = [*others, last] if world.rare is None else others
    kinds: list[tuple[str, ...]] = []
    for number in range(_KINDS):
        if world.rare is not None and number < world.rare * _KINDS:
            kinds.append((last,))
        else:
            kinds.append(tuple(sorted(rng.sample(common, rng.randint(1, world.needs)))))
    return tuple(kinds)


# -- The agent and its judge ----------------------------------------------------------------------


def run(world: SmallWorld, texts: Texts, case: SmallCase, bill: Bill) -> Judged:
    """One paid call: the agent answers a case, and the judge scores the answer."""
    key = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()
    draw = bill.draws[key, case.name]
    bill.draws[key, case.name] += 1
    judged = judged_answer(world, texts, case, draw)
    bill.calls += 1
    bill.tokens += tokens(*texts.values(), case.question, judged.answer)
    return judged


def judged_answer(world: SmallWorld, texts: Texts, case: SmallCase, draw: int) -> Judged:
    """The answer of one draw and what the judge says of it; it costs nothing here."""
    fate = partial(luck, world.seed, case.name, draw, *sorted(texts.items()))
    odds = chances(world, texts)
    lacks = [rule for rule in case.rules if fate(rule) >= odds[rule]]
    answer = " · ".join(f"[{rule}]" for rule in case.rules if rule not in lacks) or "Noted."
    if fate("judge") < world.misjudged:
        lacks = [] if lacks else [case.rules[int(fate("blamed") * len(case.rules))]]
    score = 1 - len(lacks) / len(case.rules) if world.continuous else float(not lacks)
    reason = "; ".join(f"the {home_of(world, rule)} lacks [{rule}]" for rule in lacks)
    return Judged(answer=answer, score=score, reason=reason)


def chances(world: SmallWorld, texts: Texts) -> dict[str, float]:
    """By rule, how likely an answer follows it."""
    odds, spoken = dict.fromkeys(rules_of(world), world.slips), set[str]()
    for name in text_names(world):
        for rule in rules_of(world):
            if home_of(world, rule) != name:
                continue
            if rule in _NEVER.findall(texts[name]):
                odds[rule] = 0.0
            elif rule in _ALWAYS.findall(texts[name]):
                odds[rule] = 1.0 - world.slips
                spoken.add(rule)
    for rule, rival in rivals(world).items():
        if rule in spoken and rival in spoken:
            odds[rule] /= 2
    return odds


def true_score(world: SmallWorld, texts: Texts) -> float:
    """The expected score of these texts on a random case, by a judge that makes no mistakes."""
    odds = chances(world, texts)
    worth: Callable[[list[float]], float] = fmean if world.continuous else prod
    return fmean(worth([odds[rule] for rule in kind]) for kind in population(world))


def best_score(world: SmallWorld) -> float:
    """The expected score of the best texts."""
    rules = rules_of(world)
    if not world.conflicts:
        return true_score(world, texts_with(world, rules))
    every = (chosen for size in range(len(rules) + 1) for chosen in combinations(rules, size))
    return max(true_score(world, texts_with(world, chosen)) for chosen in every)


def tokens(*texts: str) -> int:
    """The length of texts, roughly."""
    return -(-sum(map(len, texts)) // 4)


# -- The reflector --------------------------------------------------------------------------------


def reflect(
    world: SmallWorld, name: str, text: str, reasons: Sequence[str], bill: Bill
) -> tuple[str, str]:
    """One paid reflection: a diagnosis, and the text rewritten by what the judge said."""
    draw = bill.reflections
    bill.reflections += 1
    diagnosis, new_text = rewrite(world, name, text, reasons, draw)
    bill.tokens += tokens(text, *reasons, diagnosis, new_text)
    return diagnosis, new_text


def rewrite(
    world: SmallWorld, name: str, text: str, reasons: Sequence[str], draw: int
) -> tuple[str, str]:
    """A diagnosis and a new text: idle, harmful or helpful, by luck."""
    fate = partial(luck, world.seed, "rewrite", name, text, *reasons, draw)
    worded = _STYLE.sub(f"style {int(fate('style') * 1e6):06d}", text)
    kind = fate("kind")
    if kind < world.idle * world.unchanged:
        return "nothing stands out", text
    if kind < world.idle:
        return "nothing stands out; say the same in other words", worded
    if kind < world.idle + world.harmful:
        return _harmed(worded, fate)
    return _helped(world, name, worded, reasons)


def _helped(world: SmallWorld, name: str, text: str, reasons: Sequence[str]) -> tuple[str, str]:
    """State the rule that is lacking most often; if it is stated, remove its rival."""
    lacking = Counter(re.findall(rf"the {name} lacks \[(r\d\d)\]", "\n".join(reasons)))
    stated = _ALWAYS.findall(text)
    for rule, _ in lacking.most_common():
        if rule not in stated:
            return f"answers lack [{rule}]", f"{_without(text, rule)}\n{_always(rule)}"
        rival = rivals(world).get(rule)
        if rival is not None and rival in stated:
            return f"[{rival}] stands in the way of [{rule}]", _without(text, rival)
    return "the text asks for it already; say it in other words", text


def _harmed(text: str, fate: Callable[[str], float]) -> tuple[str, str]:
    stated = _ALWAYS.findall(text)
    if not stated:
        return "shorten it", text
    rule = stated[int(fate("victim") * len(stated))]
    if fate("how") < 0.5:
        return f"[{rule}] is not worth its place", _without(text, rule)
    return f"[{rule}] does harm", f"{_without(text, rule)}\nNever include [{rule}]."


def _always(rule: str) -> str:
    return f"Always include [{rule}]."


def _without(text: str, rule: str) -> str:
    gone = {_always(rule), f"Never include [{rule}]."}
    return "\n".join(line for line in text.split("\n") if line not in gone)
