"""Worlds for reflective search with known truth: hidden rules, luck, rewrites."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from itertools import combinations
from statistics import fmean

from burnish.core.cases import Case, Dataset
from burnish.core.content import short_id, stream
from burnish.core.errors import RoleFailed
from burnish.core.evaluations import Objective, Score
from burnish.core.money import Spend, to_nano
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Effects, Metric
from burnish.core.surfaces import Candidate, TextSurface
from burnish.journal.limits import Budget
from burnish.runs.setup import Setup
from burnish.strategies.reflective.rounds import ROLE, Reflection, ReflectRequest
from burnish.strategies.reflective.search import Reflective
from burnish.strategies.reflective.settings import ReflectiveSettings
from burnish.testing.doubles import (
    CallCounter,
    FreeMetric,
    Outage,
    ScriptedRole,
    ScriptedTarget,
)

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
    """How long answers are: the share of all rules that is stated, wherever it stands."""
    spoken = {rule for field in fields(world) for rule in stated(values.get(field, ""))}
    return len(spoken & set(rules(world))) / world.rules


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
    odds, answered = chances(world, values), 1.0 - world.crash_rate
    complete = fmean(_expected(world, odds, kind) for kind in population(world))
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


def _expected(world: World, odds: Mapping[str, float], needed: Sequence[str]) -> float:
    factors = [odds[rule] for rule in needed]
    if world.continuous:
        return fmean(factors)
    chance = 1.0
    for each in factors:
        chance *= each
    return chance


# -- Scripted reflection --------------------------------------------------------------------------


_STYLE = re.compile(r"style \d{6}")


def lacking(field: str, rule: str) -> str:
    """How a failure's reason names a rule that was not kept."""
    return f"the {field} lacks [{rule}]"


def rewrite(
    world: World, field: str, text: str, reasons: Sequence[str], draw: int
) -> tuple[str, str]:
    """A diagnosis and a new text: idle, harmful or helpful, by the luck of what it was asked.

    Every rewrite is worded anew, so that no two are the same text by chance. A helpful one states
    the rule that the reasons name most often; where they name none, it is idle.
    """
    fate = partial(luck, world, "rewrite", field, text, "\n".join(reasons), draw)
    worded = _STYLE.sub(f"style {int(fate('style') * 1e6):06d}", text)
    kind = fate("kind")
    if kind < world.idle_share:
        return "nothing stands out; say the same in other words", worded
    if kind < world.idle_share + world.harmful_share:
        return _harm(worded, fate("victim"), fate("how"))
    return _help(field, worded, reasons)


def revealed(field: str, reasons: Sequence[str]) -> list[str]:
    """The rules that the reasons say this text lacks, the most often named first."""
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


# -- Reflection world agent -----------------------------------------------------------------------


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
    odds = chances(world, candidate.values)
    marks = [f"[{rule}]" for rule in _needed(case) if fate(rule) < odds[rule]]
    return Outcome(
        replies=(" · ".join(marks) or "Noted.",),
        measures={"length": length(world, candidate.values)},
        nano_usd=to_nano(world.usd_per_call),
        seconds=0.5,
    )


def metrics(world: World) -> tuple[Metric, ...]:
    """What answers are measured by."""
    return (Complete(world=world), Brief()) if world.brief else (Complete(world=world),)


@dataclass(frozen=True, kw_only=True)
class Complete(FreeMetric):
    """A metric: whether an answer keeps the rules it should. The reason names those it lacks."""

    world: World
    name: str = "complete"

    @property
    def fingerprint(self) -> str:
        """A hash of its version and settings."""
        return short_id([self.name, "1", self.world.continuous, self.world.fields])

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
class Brief(FreeMetric):
    """A metric: how short an answer is. Every rule that is stated makes it longer."""

    name: str = "brief"

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
    expected = " ".join(f"[{rule}]" for rule in rng.choice(kinds))
    return Case.single(text, expected, name=f"case-{number:04d}")


def _needed(case: Case) -> list[str]:
    return re.findall(r"r\d\d", case.expected or "")


# -- Worlds for reflective search with known truth ------------------------------------------------


CALLS = 400
"""Metric calls of a run, unless a budget is given."""


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
        target=target(world, counter=counter),
        metrics=measured,
        objective=Objective(weights={metric.name: 1.0 for metric in measured}),
        dataset=dataset(world),
        strategy=Reflective(
            settings=settings or ReflectiveSettings(), reflector=reflector(world, counter=counter)
        ),
        budget=budget or Budget(max_metric_calls=CALLS),
    )
