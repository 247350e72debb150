"""Runs of reflective search: an agent that is a function, and a reflector who remembers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from burnish.core.cases import Case, Dataset
from burnish.core.evaluations import Objective
from burnish.core.protocols import Metric
from burnish.core.surfaces import Candidate, TextSurface
from burnish.journal.limits import Budget
from burnish.runs.setup import Setup
from burnish.strategies.reflective.attempts import ReflectiveSettings
from burnish.strategies.reflective.reflection import ROLE, Reflection, ReflectRequest
from burnish.strategies.reflective.search import Reflective
from burnish.testing import CallCounter, ExpectedText, ScriptedRole, ScriptedTarget

CLASSIC = ReflectiveSettings(parent_selection="pareto", racing=False, reuse=False)
START = "Answer {who}."

Agent: TypeAlias = Callable[[Candidate, Case, int], Any]
Rewrite: TypeAlias = Callable[[ReflectRequest, int], str]


@dataclass(frozen=True, kw_only=True)
class Talk:
    """A reflector, and what it was asked."""

    rewrite: Rewrite
    diagnosis: str = ""
    """Always this; otherwise an idea with a number."""
    asked: list[ReflectRequest] = field(default_factory=list[ReflectRequest])

    def role(self, counter: CallCounter | None = None) -> ScriptedRole[ReflectRequest, Reflection]:
        """The reflector as a role."""
        return ScriptedRole(
            name=ROLE,
            respond=self._respond,
            request_type=ReflectRequest,
            answer_type=Reflection,
            counter=counter,
        )

    def _respond(self, request: ReflectRequest, draw: int) -> Reflection:
        self.asked.append(request)
        diagnosis = self.diagnosis or f"idea {draw}"
        return Reflection(diagnosis=diagnosis, new_text=self.rewrite(request, draw))


def says(reply: Callable[[str], str]) -> Agent:
    """An agent whose reply follows from its text."""

    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        del case, draw
        return reply(str(candidate.values["system"]))

    return respond


def scripted(
    agent: Agent,
    talk: Talk,
    *,
    settings: ReflectiveSettings | None = None,
    budget: Budget | None = None,
    train: int = 6,
    holdout: int = 8,
    surface: TextSurface | None = None,
    counter: CallCounter | None = None,
    metric: Metric | None = None,
) -> Setup:
    """A run over an agent with one text; a case wants the reply `yes`."""
    cases = [
        Case.single(f"Question number {n:03d} of somebody", "yes", name=f"q{n}")
        for n in range(train + holdout)
    ]
    measured = metric or ExpectedText()
    return Setup(
        wait_minutes=0,  # who is away stays away
        target=ScriptedTarget(
            respond=agent,
            surfaces=(surface or TextSurface(id="system", placeholders=("{who}",)),),
            values={"system": START},
            counter=counter,
        ),
        metrics=(measured,),
        objective=Objective(weights={measured.name: 1.0}),
        dataset=Dataset(train=tuple(cases[:train]), holdout=tuple(cases[train:])),
        strategy=Reflective(
            reflector=talk.role(counter), settings=settings or ReflectiveSettings()
        ),
        budget=budget or Budget(max_metric_calls=200),
    )
