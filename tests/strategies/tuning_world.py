"""A world for coordinate descent with a known best: rules, two numbers, and demonstrations.

A support agent writes notes. A note keeps a rule when the instructions state it, has the form
of its topic when a demonstration of that topic is shown, and loses some of both when its two
numbers are off. The best temperature depends on how much is retrieved and on how many rules
there are to keep. Luck is a hash, so every call is a function of its key.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

from burnish.core.cases import Case, Dataset, Outcome
from burnish.core.content import stream
from burnish.core.errors import RoleFailed
from burnish.core.evaluations import Objective, Score
from burnish.core.money import to_nano
from burnish.core.protocols import Effects
from burnish.core.surfaces import Candidate, DemosSurface, NumberSurface, Surface, TextSurface
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import (
    CoordinateSettings,
    CritiqueRequest,
    Edit,
    EditRequest,
    Gradient,
)
from burnish.testing.doubles import (
    CallCounter,
    FreeMetric,
    ScriptedRole,
    ScriptedTarget,
    ScriptedWorld,
    luck,
)

RULES = {
    "greeting": "Greet the customer by name.",
    "number": "Repeat the order number.",
    "date": "Say when the matter will be settled.",
    "step": "Offer one next step.",
}
_TOPICS = ("parcel", "invoice")
INSTRUCTIONS = f"You write notes for {{shop}}. {RULES['greeting']}"
TEXT, TEMPERATURE, TOP_K, DEMOS = (
    "instructions",
    "model.temperature",
    "tools[name=archive].top_k",
    "demonstrations",
)
SURFACES: tuple[Surface, ...] = (
    TextSurface(id=TEXT, max_chars=400, placeholders=("{shop}",)),
    NumberSurface(id=TEMPERATURE, low=0.0, high=1.0),
    NumberSurface(id=TOP_K, low=1, high=20, integer=True),
    DemosSurface(id=DEMOS, max_demos=8, max_chars=1500),
)
AXES = CoordinateSettings(numbers=(TEMPERATURE, TOP_K), texts=(TEXT,), demonstrations=DEMOS)
_BEST_TOP_K = 14


@dataclass(frozen=True, kw_only=True)
class TuningWorld(ScriptedWorld):
    """How large and how rough the world is."""

    train: int = 16
    holdout: int = 8
    noise: float = 0.0
    """How often something is lost by luck, with any settings."""
    role_failure_rate: float = 0.0
    """How often the critic or the applier gives no answer."""


def setup(
    world: TuningWorld | None = None,
    settings: CoordinateSettings = AXES,
    *,
    counter: CallCounter | None = None,
) -> Setup:
    """Everything a run of coordinate descent in this world needs."""
    world = world or TuningWorld()
    return Setup(
        wait_minutes=0,  # who is away stays away
        target=target(world, counter=counter),
        metrics=(_CompleteNote(),),
        objective=Objective(weights={_CompleteNote.name: 1.0}),
        dataset=dataset(world),
        strategy=Coordinate(
            settings=settings,
            critic=critic(world, counter=counter),
            applier=applier(world, counter=counter),
        ),
    )


def dataset(world: TuningWorld) -> Dataset:
    """The cases of the world, divided into splits."""
    return world.dataset_of(partial(_case, world))


def target(world: TuningWorld, *, counter: CallCounter | None = None) -> ScriptedTarget:
    """The agent of this world."""
    return ScriptedTarget(
        name="notes agent",
        config={**asdict(world)},
        respond=partial(_respond, world),
        surfaces=SURFACES,
        values={TEXT: INSTRUCTIONS, TEMPERATURE: 0.9, TOP_K: 3, DEMOS: ()},
        price=world.price(120, 40),
        seconds=world.call_seconds,
        counter=counter,
    )


@dataclass(frozen=True, kw_only=True)
class _CompleteNote(FreeMetric):
    """A metric: the share of the expected marks in a note; the reason names a missing one."""

    name: str = "complete"

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        del effects
        marks = (case.expected or "").split()
        lacks = [mark for mark in marks if mark not in outcome.output]
        return [
            Score(
                metric=self.name,
                value=1 - len(lacks) / len(marks),
                passed=not lacks,
                reason=f"the note lacks {lacks[0]}" if lacks else "",
            )
        ]


def critic(
    world: TuningWorld, *, counter: CallCounter | None = None
) -> ScriptedRole[CritiqueRequest, Gradient]:
    """A role that names the rule that most of the shown failures lack."""
    return ScriptedRole(
        name="critic",
        respond=partial(_diagnose, world),
        request_type=CritiqueRequest,
        answer_type=Gradient,
        counter=counter,
    )


def applier(
    world: TuningWorld, *, counter: CallCounter | None = None
) -> ScriptedRole[EditRequest, Edit]:
    """A role that appends the rule that the diagnosis names."""
    return ScriptedRole(
        name="applier",
        respond=partial(_apply, world),
        request_type=EditRequest,
        answer_type=Edit,
        counter=counter,
    )


def slip(temperature: float, top_k: int, rules: int) -> float:
    """The share of marks that is lost because the numbers are off."""
    retrieved = (top_k - 1) / 19
    best = 0.85 - 0.5 * retrieved - 0.04 * rules
    far = max(0.0, abs(temperature - best) - 0.08)
    off = max(0.0, abs(top_k - _BEST_TOP_K) / 19 - 0.11)
    return min(0.8, 0.9 * far + 0.5 * off)


def rules_in(text: object) -> list[str]:
    """The rules that a text states."""
    return [name for name, rule in RULES.items() if rule in str(text)]


def _case(world: TuningWorld, number: int) -> Case:
    rng = stream(world.seed, "case", number)
    topic = _TOPICS[number % len(_TOPICS)]
    rules = sorted(rng.sample(sorted(RULES), k=2))
    text = f"Customer {number:03d} asks about the {topic} of order {rng.randrange(10_000, 99_999)}"
    marks = [f"[{topic}-form]", *(f"[{rule}]" for rule in rules)]
    return Case.single(text, " ".join(marks), name=f"note-{number:03d}")


def _respond(world: TuningWorld, candidate: Candidate, case: Case, draw: int) -> Outcome:
    world.raise_failures(lambda name: luck(name, case.id, draw, candidate.id))
    values = candidate.values
    stated = rules_in(values[TEXT])
    temperature, top_k = values[TEMPERATURE], values[TOP_K]
    assert isinstance(temperature, int | float)
    assert isinstance(top_k, int)
    lost = slip(float(temperature), top_k, len(stated))
    marks = [
        mark
        for mark in [*_forms(candidate, case), *(f"[{rule}]" for rule in stated)]
        # Some things are lost before others, and by luck anything may be.
        if luck(mark, case.id) >= lost and luck(mark, case.id, draw, candidate.id) >= world.noise
    ]
    return Outcome(
        replies=(" · ".join(marks) or "Noted.",),
        nano_usd=to_nano(world.usd_per_call),
        seconds=0.5 + 0.02 * top_k,
    )


def _forms(candidate: Candidate, case: Case) -> list[str]:
    """The forms that demonstrations of other cases teach."""
    demos = candidate.values[DEMOS]
    assert isinstance(demos, tuple)
    others = [demo.input for demo in demos if demo.case != case.id]
    return [f"[{topic}-form]" for topic in _TOPICS if any(topic in shown for shown in others)]


def _diagnose(world: TuningWorld, request: CritiqueRequest, draw: int) -> Gradient:
    if luck("critic", draw, world.seed) < world.role_failure_rate:
        raise RoleFailed("the critic's answer was cut off")
    lacking = Counter(re.findall(r"the note lacks \[([\w-]+)\]", request.failing_traces))
    named = [
        rule
        for rule, _ in lacking.most_common()
        if rule in RULES and RULES[rule] not in request.current_text
    ]
    fresh = [rule for rule in named if f"[{rule}]" not in request.previous_gradients]
    rule = next(iter(fresh or named), "")
    return Gradient(
        failing_pattern=f"notes lack [{rule}]" if rule else "nothing in common",
        root_cause_hypothesis="the instructions do not ask for it",
        suggested_change_direction=f"ask for [{rule}]" if rule else "no idea",
        confidence=0.9 if rule else 0.1,
        citations=re.findall(r"case (note-\d+)", request.failing_traces)[:3],
    )


def _apply(world: TuningWorld, request: EditRequest, draw: int) -> Edit:
    if luck("applier", draw, world.seed) < world.role_failure_rate:
        raise RoleFailed("the applier's answer was cut off")
    named = re.search(r"ask for \[(\w+)\]", request.gradient)
    rule = RULES[named[1]] if named else ""
    return Edit(
        edit_type="insert",
        rationale="the diagnosis asks for it",
        new_text=f"{request.current_text} {rule}".strip(),
        diff_summary=f"one sentence more: {rule}",
    )
