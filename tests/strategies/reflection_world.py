"""Worlds for reflective search with known scores: hidden rules, luck, rewrites."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from itertools import combinations
from math import prod
from statistics import fmean

from burnish.core.cases import Case, Dataset, Outcome
from burnish.core.content import short_id, stream
from burnish.core.errors import RoleFailed
from burnish.core.evaluations import Objective, Score
from burnish.core.money import to_nano
from burnish.core.protocols import Effects, Metric
from burnish.core.surfaces import Candidate, TextSurface
from burnish.journal.limits import Budget
from burnish.runs.setup import Setup
from burnish.strategies.reflective.attempts import ReflectiveSettings
from burnish.strategies.reflective.reflection import ROLE, Reflection, ReflectRequest
from burnish.strategies.reflective.search import Reflective
from burnish.testing.doubles import (
    CallCounter,
    FreeMetric,
    ScriptedRole,
    ScriptedTarget,
    ScriptedWorld,
    luck,
)

NAMES = ("planner", "writer", "checker", "router", "closer", "greeter")
_ALWAYS = re.compile(r"Always include \[(r\d\d)\]\.")
_NEVER = re.compile(r"Never include \[(r\d\d)\]\.")


@dataclass(frozen=True, kw_only=True)
class World(ScriptedWorld):
    """How large and how rough the world is."""

    train: int = 30
    holdout: int = 30
    rules: int = 8
    fields: int = 1
    """The number of texts; the rules are assigned to them in turn."""
    known: int = 1
    """The number of rules that are stated at the start."""
    needs: int = 2
    """The maximum number of rules that a case needs."""
    skew: float = 0.0
    """How much rarer each rule is than the one before; 0 means equally frequent."""
    noise: float = 0.0
    """How often a stated rule is lost, or an unstated one is kept, by luck."""
    continuous: bool = False
    """Score the share of the rules kept, instead of all or nothing."""
    brief: bool = False
    """Add a conflicting metric: each stated rule makes answers longer."""
    idle_share: float = 0.6
    """The share of rewrites that only change the wording."""
    harmful_share: float = 0.2
    """The share of rewrites that lose or negate a rule."""
    role_failure_rate: float = 0.0
    """How often the reflector gives no answer."""


ONE_RULE_A_FIELD = World(rules=4, fields=4, known=0, needs=2)
"""Each improvement is in a separate text, so that a merge can combine them."""
CONFLICT = World(rules=6, known=0, continuous=True, brief=True)
"""Two conflicting metrics, so that candidates differ in what they are best at."""


def fields(world: World) -> tuple[str, ...]:
    """The names of the agent's texts."""
    return NAMES[: world.fields]


def rules(world: World) -> tuple[str, ...]:
    """The names of the rules, the most common first."""
    return tuple(f"r{number:02d}" for number in range(world.rules))


def field_of(world: World, rule: str) -> str:
    """The text that a rule belongs to."""
    return NAMES[int(rule[1:]) % world.fields]


def text_of(world: World, field: str, stated: Iterable[str]) -> str:
    """A text that states those of the rules that belong to it."""
    lines = [f"You are the {field} of a support desk.", "Write in style 000000."]
    lines += [always(rule) for rule in stated if field_of(world, rule) == field]
    return "\n".join(lines)


def values_of(world: World, stated: Sequence[str]) -> dict[str, str]:
    """The agent's texts with these rules stated."""
    return {field: text_of(world, field, stated) for field in fields(world)}


def baseline(world: World) -> dict[str, str]:
    """The texts at the start."""
    return values_of(world, rules(world)[: world.known])


def always(rule: str) -> str:
    """The sentence that states a rule."""
    return f"Always include [{rule}]."


def never(rule: str) -> str:
    """The sentence that negates a rule."""
    return f"Never include [{rule}]."


def stated(text: object) -> list[str]:
    """The rules that a text states and does not negate."""
    forbidden = denied(text)
    return [rule for rule in _ALWAYS.findall(str(text)) if rule not in forbidden]


def denied(text: object) -> list[str]:
    """The rules that a text negates."""
    return _NEVER.findall(str(text))


def chances(world: World, values: Mapping[str, object]) -> dict[str, float]:
    """By rule, the probability that an answer keeps it."""
    chance_of = dict.fromkeys(rules(world), world.noise)
    for field in fields(world):
        text = values.get(field, "")
        spoken_of = dict.fromkeys(stated(text), 1.0 - world.noise)
        spoken_of |= dict.fromkeys(denied(text), 0.0)
        for rule, chance in spoken_of.items():
            if rule in chance_of and field_of(world, rule) == field:
                chance_of[rule] = chance
    return chance_of


def length(world: World, values: Mapping[str, object]) -> float:
    """The length of answers: the share of all rules that is stated in any text."""
    spoken = {rule for field in fields(world) for rule in stated(values.get(field, ""))}
    return len(spoken & set(rules(world))) / world.rules


@lru_cache(maxsize=64)
def population(world: World) -> tuple[tuple[str, ...], ...]:
    """The rules that each of 200 equally frequent kinds of cases needs."""
    rng = stream(world.seed, "population")
    names = rules(world)
    weights = [(place + 1) ** -world.skew for place in range(world.rules)]
    kinds: list[tuple[str, ...]] = []
    for _ in range(200):
        size = rng.randint(1, min(world.needs, world.rules))
        needed: set[str] = set()
        while len(needed) < size:
            needed.update(rng.choices(names, weights))
        kinds.append(tuple(sorted(needed)))
    return tuple(kinds)


def true_score(world: World, values: Mapping[str, object]) -> float:
    """The expected score of these texts on a random case."""
    complete, brief = true_scores(world, values)
    return (complete + brief) / 2 if world.brief else complete


def true_scores(world: World, values: Mapping[str, object]) -> tuple[float, float]:
    """The expected scores on the metrics complete and brief."""
    odds, reliability = chances(world, values), 1.0 - world.crash_rate
    complete = fmean(_expected(world, odds, kind) for kind in population(world))
    return reliability * complete, reliability * (1.0 - length(world, values))


def best_score(world: World) -> float:
    """The expected score of the best texts."""
    names = rules(world)
    if not world.brief:
        return true_score(world, values_of(world, names))
    sizes = range(len(names) + 1)
    every = (chosen for size in sizes for chosen in combinations(names, size))
    return max(true_score(world, values_of(world, chosen)) for chosen in every)


def _expected(world: World, odds: Mapping[str, float], needed: Sequence[str]) -> float:
    chances_needed = [odds[rule] for rule in needed]
    return fmean(chances_needed) if world.continuous else prod(chances_needed)


_STYLE = re.compile(r"style \d{6}")


def lacking(field: str, rule: str) -> str:
    """The reason of a failure that names a missing rule."""
    return f"the {field} lacks [{rule}]"


def rewrite(
    world: World, field: str, text: str, reasons: Sequence[str], draw: int
) -> tuple[str, str]:
    """A diagnosis and a new text: idle, harmful or helpful, by luck.

    Every rewrite has a new wording, so that no two texts are the same by chance. A helpful one
    states the rule that the reasons name most often; if they name none, it is idle.
    """
    fate = partial(luck, world.seed, "rewrite", field, text, "\n".join(reasons), draw)
    worded = _STYLE.sub(f"style {int(fate('style') * 1e6):06d}", text)
    kind = fate("kind")
    if kind < world.idle_share:
        return "nothing stands out; say the same in other words", worded
    if kind < world.idle_share + world.harmful_share:
        return _harm(worded, fate("victim"), fate("how"))
    return _help(field, worded, reasons)


def revealed(field: str, reasons: Sequence[str]) -> list[str]:
    """The rules that the reasons name for this text, the most frequent first."""
    named = Counter(re.findall(rf"the {field} lacks \[(r\d\d)\]", "\n".join(reasons)))
    return [rule for rule, _ in named.most_common()]


def _help(field: str, text: str, reasons: Sequence[str]) -> tuple[str, str]:
    present = stated(text)
    fresh = [rule for rule in revealed(field, reasons) if rule not in present]
    if not fresh:
        return "the text asks for it already; say it in other words", text
    rule = fresh[0]
    return f"answers lack [{rule}]", f"{_without(text, rule)}\n{always(rule)}"


def _harm(text: str, victim: float, how: float) -> tuple[str, str]:
    present = stated(text)
    if not present:
        return "shorten it", text
    rule = present[int(victim * len(present))]
    if how < 0.5:
        return f"[{rule}] is not worth its place", _without(text, rule)
    return f"[{rule}] does harm", f"{_without(text, rule)}\n{never(rule)}"


def _without(text: str, rule: str) -> str:
    gone = {always(rule), never(rule)}
    return "\n".join(line for line in text.split("\n") if line not in gone)


def dataset(world: World) -> Dataset:
    """Cases drawn from the population, divided into splits."""
    return world.dataset_of(partial(_case, world))


def target(world: World, *, counter: CallCounter | None = None) -> ScriptedTarget:
    """The agent of this world."""
    return ScriptedTarget(
        name="support desk",
        config={**asdict(world)},
        respond=partial(answer, world),
        surfaces=tuple(TextSurface(id=field) for field in fields(world)),
        values=baseline(world),
        price=world.price(150, 50),
        seconds=world.call_seconds,
        counter=counter,
    )


def answer(world: World, candidate: Candidate, case: Case, draw: int) -> Outcome:
    """The agent's answer: the needed rules that it keeps."""
    fate = partial(luck, world.seed, case.id, draw, candidate.id)
    world.raise_failures(fate)
    odds = chances(world, candidate.values)
    marks = [f"[{rule}]" for rule in _needed(case) if fate(rule) < odds[rule]]
    return Outcome(
        replies=(" · ".join(marks) or "Noted.",),
        measures={"length": length(world, candidate.values)},
        nano_usd=to_nano(world.usd_per_call),
        seconds=0.5,
    )


def metrics(world: World) -> tuple[Metric, ...]:
    """The metrics of this world."""
    return (Complete(world=world), _Brief()) if world.brief else (Complete(world=world),)


@dataclass(frozen=True, kw_only=True)
class Complete(FreeMetric):
    """A metric: whether an answer keeps all needed rules; the reason names the missing ones."""

    world: World
    name: str = "complete"

    @property
    def fingerprint(self) -> str:
        return short_id([self.name, "1", self.world.continuous, self.world.fields])

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
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
class _Brief(FreeMetric):
    """A metric: how short an answer is; every stated rule makes it longer."""

    name: str = "brief"

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        del case, effects
        value = 1.0 - outcome.measures["length"]
        passed = value >= 0.5
        reason = "" if passed else "the answer is too long"
        return [Score(metric=self.name, value=value, passed=passed, reason=reason)]


def reflector(
    world: World, *, counter: CallCounter | None = None
) -> ScriptedRole[ReflectRequest, Reflection]:
    """A role that rewrites a text from the reasons in the records."""
    return ScriptedRole(
        name=ROLE,
        respond=partial(_reflect, world),
        request_type=ReflectRequest,
        answer_type=Reflection,
        version=short_id({**asdict(world)}),
        counter=counter,
    )


def reasons_in(records: str) -> list[str]:
    """The reasons of the failures in the records."""
    return re.findall(r"^(?:Wrong|Not good enough) by [^:\n]+: (.+)", records, re.MULTILINE)


def _reflect(world: World, request: ReflectRequest, draw: int) -> Reflection:
    if luck(world.seed, "reflector", draw, request.current_text) < world.role_failure_rate:
        raise RoleFailed("the reflector's answer was cut off")
    diagnosis, text = rewrite(
        world, request.field, request.current_text, reasons_in(request.records), draw
    )
    return Reflection(diagnosis=diagnosis, new_text=text)


def _case(world: World, number: int) -> Case:
    rng = stream(world.seed, "case", number)
    text = f"Customer {number:04d} asks about order {rng.randrange(10_000, 99_999)}"
    expected = " ".join(f"[{rule}]" for rule in rng.choice(population(world)))
    return Case.single(text, expected, name=f"case-{number:04d}")


def _needed(case: Case) -> list[str]:
    return re.findall(r"r\d\d", case.expected or "")


def setup(
    world: World | None = None,
    settings: ReflectiveSettings | None = None,
    *,
    budget: Budget | None = None,
    counter: CallCounter | None = None,
) -> Setup:
    """Everything a run of reflective search in this world needs."""
    world = world or World()
    measured = metrics(world)
    return Setup(
        wait_minutes=0,  # who is away stays away
        target=target(world, counter=counter),
        metrics=measured,
        objective=Objective(weights={metric.name: 1.0 for metric in measured}),
        dataset=dataset(world),
        strategy=Reflective(
            settings=settings or ReflectiveSettings(), reflector=reflector(world, counter=counter)
        ),
        budget=budget or Budget(max_metric_calls=400),
    )
