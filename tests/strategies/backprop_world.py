"""Runs of back-propagation over a pipeline of two nodes, with roles that are functions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from burnish.core.cases import Case, Dataset, Failure, FailureKind, Outcome, Step, Trace
from burnish.core.evaluations import Objective
from burnish.core.protocols import Metric
from burnish.core.surfaces import Candidate, Surface, TextSurface, Value
from burnish.journal.limits import Budget
from burnish.runs.setup import Setup
from burnish.strategies.backprop.packets import BackpropSettings
from burnish.strategies.backprop.prompts import (
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergedRemark,
    MergeRequest,
    PatchAnswer,
    PatchRequest,
    Remark,
    SurfaceRemark,
    Upstream,
)
from burnish.strategies.backprop.strategy import Backprop
from burnish.testing import CallCounter, ExpectedText, ScriptedRole, ScriptedTarget
from tests.strategies.coordinate_runs import Driven, driven

Agent: TypeAlias = Callable[[Candidate, Case, int], Any]
Request = TypeVar("Request")
Answer = TypeVar("Answer")

PLANNER, WRITER = "planner#instruction", "writer#instruction"
START: dict[str, Value] = {PLANNER: "Make a plan.", WRITER: "Write."}
TEXTS: tuple[Surface, ...] = (
    TextSurface(id=PLANNER, max_chars=200),
    TextSurface(id=WRITER, max_chars=200),
)


def steps(plan: str, reply: str) -> tuple[Step, ...]:
    """What a run of the pipeline leaves."""
    return (
        Step(id="planner:1", node="planner", surfaces=(PLANNER,), output=plan),
        Step(
            id="writer:1",
            node="writer",
            predecessors=("planner:1",),
            surfaces=(WRITER,),
            input=plan,
            output=reply,
        ),
    )


def outcome(reply: str, plan: str = "a plan") -> Outcome:
    """A run that ended with this reply."""
    return Outcome(replies=(reply,), trace=Trace(steps=steps(plan, reply)))


def missing(message: str = "connection refused") -> Outcome:
    """A run that nobody could make."""
    failure = Failure(kind=FailureKind.INFRASTRUCTURE, message=message)
    return Outcome(failure=failure)


def planned(candidate: Candidate, case: Case, draw: int) -> Outcome:
    """The planner needs the word FIX; the writer is innocent."""
    del case, draw
    return outcome("yes" if "FIX" in str(candidate.values[PLANNER]) else "no")


def blame_the_plan(request: BackwardRequest, draw: int) -> BackwardAnswer:
    """Pass it on as long as there is someone before; then blame what is here."""
    del draw
    remarks = [Remark(severity=each.severity, gradient="plan better") for each in request.incoming]
    if request.predecessors:
        first = request.predecessors[0].id
        return BackwardAnswer(upstream=[Upstream(predecessor=first, gradients=remarks)])
    surface = request.surfaces[0].id
    return BackwardAnswer(
        gradients=[
            SurfaceRemark(surface=surface, severity=each.severity, gradient=each.gradient)
            for each in remarks
        ]
    )


def merge_all(request: MergeRequest, draw: int) -> MergeAnswer:
    """One remark for all of them."""
    del draw
    numbers = [each.number for each in request.gradients]
    first = request.gradients[0]
    remark = MergedRemark(severity=first.severity, gradient=first.gradient, sources=numbers)
    return MergeAnswer(gradients=[remark])


def add_fix(request: PatchRequest, draw: int) -> PatchAnswer:
    """The right patch."""
    del draw
    return PatchAnswer(value=f"{request.surface.value} FIX", reason="the plan lacks FIX")


def add_words(request: PatchRequest, draw: int) -> PatchAnswer:
    """A patch that does nothing, another one each time."""
    return PatchAnswer(value=f"{request.surface.value} Try {draw}.", reason="who knows")


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The three roles as functions, and what they were asked."""

    back: Callable[[BackwardRequest, int], BackwardAnswer] = blame_the_plan
    merge: Callable[[MergeRequest, int], MergeAnswer] = merge_all
    patch: Callable[[PatchRequest, int], PatchAnswer] = add_fix
    seen: list[tuple[str, Any, int]] = field(default_factory=list[tuple[str, Any, int]])

    def strategy(
        self, settings: BackpropSettings | None = None, counter: CallCounter | None = None
    ) -> Backprop:
        """The strategy that asks them."""
        return Backprop(
            backwarder=self._role(
                "backwarder", self.back, BackwardRequest, BackwardAnswer, counter
            ),
            aggregator=self._role("aggregator", self.merge, MergeRequest, MergeAnswer, counter),
            patcher=self._role("patcher", self.patch, PatchRequest, PatchAnswer, counter),
            settings=settings or BackpropSettings(),
        )

    def of(self, role: str) -> list[Any]:
        """What a role was asked."""
        return [request for name, request, _ in self.seen if name == role]

    def _role(
        self,
        name: str,
        respond: Callable[[Request, int], Answer],
        request_type: type[Request],
        answer_type: type[Answer],
        counter: CallCounter | None,
    ) -> ScriptedRole[Request, Answer]:
        def heard(request: Request, draw: int) -> Answer:
            self.seen.append((name, request, draw))
            return respond(request, draw)

        return ScriptedRole(
            name=name,
            respond=heard,
            request_type=request_type,
            answer_type=answer_type,
            counter=counter,
        )


def cases(count: int, first: int = 0) -> tuple[Case, ...]:
    """Cases that want the reply `yes`."""
    return tuple(
        Case.single(f"Question number {n:03d} of somebody", "yes", name=f"q{n}")
        for n in range(first, first + count)
    )


def world(
    agent: Agent = planned,
    roles: Roles | None = None,
    settings: BackpropSettings | None = None,
    *,
    train: Sequence[Case] = cases(4),
    holdout: Sequence[Case] = cases(4, 50),
    surfaces: tuple[Surface, ...] = TEXTS,
    values: dict[str, Value] = START,
    metrics: tuple[Metric, ...] = (ExpectedText(),),
    budget: Budget | None = None,
    counter: CallCounter | None = None,
) -> Setup:
    """A run over the pipeline."""
    return Setup(
        wait_minutes=0,  # who is away stays away
        target=ScriptedTarget(respond=agent, surfaces=surfaces, values=values, counter=counter),
        metrics=metrics,
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(train=tuple(train), holdout=tuple(holdout)),
        strategy=(roles or Roles()).strategy(settings, counter),
        budget=budget or Budget(),
    )


def with_settings(made: Setup, **changes: Any) -> Setup:
    """The same run with other settings of the strategy."""
    assert isinstance(made.strategy, Backprop)
    settings = made.strategy.settings.model_copy(update=changes)
    return replace(made, strategy=replace(made.strategy, settings=settings))


def run(made: Setup, folder: Path) -> Driven:
    """Drive it to its end, or go on with it."""
    return driven(made, folder / "run")
