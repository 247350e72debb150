"""A run of coordinate descent in a scripted world, for what it leaves behind and shows.

The agent of a file is played by a function: it knows a case when its text names the rule the
case is about, when it is cool enough, and when it looks far enough into its archive.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.core.cases import Case, Dataset, Outcome
from burnish.core.evaluations import Objective
from burnish.core.money import Spend
from burnish.core.surfaces import Candidate, NumberSurface, TextSurface
from burnish.journal.limits import Budget
from burnish.projects.agent.plugin import named_exports
from burnish.projects.launch import launch_in
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import (
    CoordinateSettings,
    CritiqueRequest,
    Edit,
    EditRequest,
    Gradient,
    PhaseLimits,
)
from burnish.testing.doubles import ExpectedText, ScriptedRole, ScriptedTarget
from tests.targets.agent_world import target, write_agent

TEXT, HEAT, DEPTH = "instructions.inline", "model.temperature", "tools[name=archive].top_k"
RULES = ("order", "date", "tone", "zürich 日本")
"""What the text may say; each decides a quarter of the cases."""
SURFACES = (
    TextSurface(id=TEXT, max_chars=4000),
    NumberSurface(id=HEAT, low=0.0, high=1.0),
    NumberSurface(id=DEPTH, low=3, high=12, integer=True),
)
LIMITS = PhaseLimits(max_trials=5, patience=3)
SETTINGS = CoordinateSettings(
    numbers=(HEAT, DEPTH),
    texts=(TEXT,),
    repeats=2,
    max_cycles=2,
    numeric_phase=LIMITS,
    textual_phase=LIMITS,
)


def cases(name: str, count: int) -> tuple[Case, ...]:
    """Cases about the rules in turn."""
    return tuple(
        Case.single(f"{name} question {n} about {RULES[n % 4]}", f"<{n}>", name=f"{name}-{n}")
        for n in range(count)
    )


def respond(candidate: Candidate, case: Case, draw: int) -> Outcome:
    """Right when the rule is told, unless heat or a shallow search gets in the way."""
    number = int(case.id.rpartition("-")[2])
    told = RULES[number % 4] in str(candidate.values[TEXT])
    heat, depth = float(str(candidate.values[HEAT])), int(str(candidate.values[DEPTH]))
    lost = (number % 8 == 7 and heat > 0.25) or (number % 8 == 3 and depth < 6)
    shaky = number == 0 and draw == 1 and not told
    right = (told and not lost) or shaky
    return Outcome(replies=(f"<{number}>" if right else "no idea",), nano_usd=2_000_000)


def criticise(request: CritiqueRequest, draw: int) -> Gradient:
    """Names the first rule that fails; unsure about every third trial."""
    rule = next(rule for rule in RULES if f"about {rule}" in request.failing_traces)
    return Gradient(
        failing_pattern=f"It gets questions about {rule} wrong | every time.",
        root_cause_hypothesis=f"Nothing is said about {rule}.",
        suggested_change_direction=f"Say what to do about {rule}.",
        confidence=0.2 if draw % 3 == 0 else 0.9,
        citations=["train-0"],
    )


def apply(request: EditRequest, draw: int) -> Edit:
    """Adds a line for the rule that the diagnosis names."""
    del draw
    rule = next(rule for rule in RULES if f"about {rule}" in request.gradient)
    return Edit(
        edit_type="insert",
        rationale=f"One line about {rule} is enough.",
        new_text=f"{request.current_text}\nMind the {rule}.",
        diff_summary="one line more",
    )


def critic(respond: Callable[[CritiqueRequest, int], Gradient] = criticise) -> Any:
    """The critic, who costs a little."""
    return ScriptedRole(
        name="critic",
        respond=respond,
        request_type=CritiqueRequest,
        answer_type=Gradient,
        price=Spend(calls=1, nano_usd=7_000_000),
    )


def applier() -> Any:
    """The applier."""
    return ScriptedRole(
        name="applier",
        respond=apply,
        request_type=EditRequest,
        answer_type=Edit,
        price=Spend(calls=1, nano_usd=9_000_000),
    )


@dataclass(frozen=True, kw_only=True)
class World:
    """What may differ from run to run."""

    settings: CoordinateSettings = SETTINGS
    budget: Budget = field(default_factory=Budget)
    sealed: int = 16
    critic: Any = None
    named: bool = True
    """Whether candidates lie under HoloDeck's names."""

    def setup(self, home: Path) -> Setup:
        """Everything a run needs, its agent file in `home`."""
        made, _ = target(write_agent(home), surfaces=SURFACES)
        return Setup(
            wait_minutes=0,  # who is away stays away
            target=ScriptedTarget(
                respond=respond,
                surfaces=SURFACES,
                values=made.baseline.values,
                name="extract",
                price=Spend(calls=1, nano_usd=2_000_000),
            ),
            metrics=(ExpectedText(),),
            objective=Objective(weights={"expected_text": 1.0}),
            dataset=Dataset(
                train=cases("train", 16),
                holdout=cases("holdout", 8),
                test=cases("test", self.sealed),
            ),
            strategy=Coordinate(
                settings=self.settings, critic=self.critic or critic(), applier=applier()
            ),
            budget=self.budget,
            exporter=named_exports(made.agent) if self.named else None,
        )


def launched(home: Path, world: World | None = None) -> Path:
    """The folder of a run, driven to its end with its report written."""
    folder = home / "results" / "optimizer" / "tuned"
    launch_in((world or World()).setup(home), folder)
    return folder
