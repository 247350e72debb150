"""A desk of two nodes, planner and writer, that do what their instructions say; and its stages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.compat.promptiter import (
    AggregateRequest,
    AggregateResult,
    BackwardRequest,
    BackwardStepResult,
    Engine,
    EvaluationStack,
    OptimizeRequest,
    OptimizeResult,
    Propagation,
    RunRequest,
    SurfaceGradient,
    SurfacePatch,
    SurfaceValue,
)
from burnish.compat.promptiter.results import AggregatedSurface
from burnish.compat.promptiter.stages import Packet
from burnish.core.cases import Case, Outcome, Step, Trace
from burnish.core.content import short_id
from burnish.core.evaluations import Score
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Effects, Metric
from burnish.core.surfaces import (
    Candidate,
    Demonstration,
    DemosSurface,
    Edge,
    Node,
    NodeKind,
    Position,
    Structure,
    SurfaceType,
    TextSurface,
    Value,
)
from burnish.testing import ScriptedTarget

PLANNER, WRITER = "desk/planner", "desk/writer"
PLAN, WRITE, TOOL = f"{PLANNER}#instruction", f"{WRITER}#instruction", f"{WRITER}#tool.lookup"
SHOTS, MODEL, SKILL = f"{WRITER}#few_shot", f"{WRITER}#model", f"{WRITER}#skill.citing"
SCHEMA = {"type": "object"}
VALUES: dict[str, Value] = {
    PLAN: "Make a plan.",
    WRITE: "Write the answer.",
    TOOL: "Looks things up.",
    SHOTS: (Demonstration(input="hello", output="good day"),),
}
CITE = "Cite the source."


@dataclass(frozen=True, kw_only=True)
class Desk(ScriptedTarget):
    """The scripted target with a structure: two nodes in a row."""

    @property
    def structure(self) -> Structure:
        """Planner before writer."""
        nodes = [Node(id=PLANNER, name="planner"), Node(id=WRITER, name="writer")]
        nodes.append(Node(id="desk/search", kind=NodeKind.FUNCTION, name="search"))
        return Structure.of(PLANNER, nodes, [Edge(source=PLANNER, to=WRITER)], _positions())


def _positions() -> list[Position]:
    def at(name: str, kind: SurfaceType, value: Value, part: str = "", **more: Any) -> Position:
        node = name.partition("#")[0]
        return Position(id=name, node=node, type=kind, value=value, part=part, **more)

    tool: dict[str, Any] = {"parameters": SCHEMA}
    return [
        at(PLAN, SurfaceType.INSTRUCTION, VALUES[PLAN], surface=PLAN),
        at(WRITE, SurfaceType.INSTRUCTION, VALUES[WRITE], surface=WRITE),
        at(TOOL, SurfaceType.TOOL, VALUES[TOOL], "lookup", surface=TOOL, about=tool),
        at(SHOTS, SurfaceType.FEW_SHOT, VALUES[SHOTS], surface=SHOTS),
        at(MODEL, SurfaceType.MODEL, "openai:gpt-4o", about={"provider": "openai"}),
        at(SKILL, SurfaceType.SKILL, "How to cite.", "citing"),
    ]


def answer(candidate: Candidate, case: Case, draw: int) -> Outcome:
    """The plan says what the question is; the writer keeps the rules it was told."""
    del draw
    plan = f"plan for {case.input}"
    text = str(candidate.values[WRITE])
    reply = f"{case.input} answered" + (" [cited]" if CITE in text else "")
    steps = (
        Step(id="planner:1", node=PLANNER, surfaces=(PLAN,), input=case.input, output=plan),
        Step(
            id="writer:1",
            node=WRITER,
            predecessors=("planner:1",),
            surfaces=(WRITE, TOOL, SHOTS),
            input=plan,
            output=reply,
        ),
    )
    return Outcome(replies=(reply,), trace=Trace(steps=steps))


def desk(respond: Callable[[Candidate, Case, int], Any] = answer, **more: Any) -> Desk:
    """The desk."""
    texts = [TextSurface(id=name, max_chars=200) for name in (PLAN, WRITE, TOOL)]
    surfaces = [*texts, DemosSurface(id=SHOTS, max_demos=3)]
    return Desk(respond=respond, surfaces=surfaces, values=VALUES, **more)


@dataclass(frozen=True, kw_only=True)
class Quality:
    """A metric: what the case expects is in the reply."""

    name: str = "quality"
    threshold: float = 1.0
    looks: Callable[[Case, Outcome], float | None] = lambda case, outcome: float(
        (case.expected or "") in outcome.output
    )

    @property
    def fingerprint(self) -> str:
        """A hash of its name."""
        return short_id([self.name])

    def estimate(self, case: Case) -> Spend:
        """Nothing."""
        del case
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """Compare."""
        del effects
        value = self.looks(case, outcome)
        if value is None:
            return [Score.of_nothing(self.name, "the judge is down")]
        passed = value >= self.threshold
        reason = "" if passed else f"lacks {case.expected}"
        return [Score(metric=self.name, value=value, passed=passed, reason=reason)]


def cases(prefix: str, count: int = 2) -> list[Case]:
    """Cases whose answers should be cited."""
    return [
        Case.single(f"{prefix} question {n}", "[cited]", name=f"c{n}") for n in range(1, count + 1)
    ]


@dataclass
class Backward:
    """Blames the writer's instruction, and keeps what it was asked."""

    says: Callable[[BackwardRequest], Any] | None = None
    asked: list[BackwardRequest] = field(default_factory=list[BackwardRequest])

    async def backward(self, request: BackwardRequest) -> Any:
        self.asked.append(request)
        if self.says is not None:
            return self.says(request)
        if WRITE not in request.allowed_gradient_surface_ids:
            sent = Packet(severity="P1", gradient="plan for sources")
            before = request.predecessors[0].step_id if request.predecessors else ""
            upstream = (Propagation(predecessor_step_id=before, gradients=(sent,)),)
            return BackwardStepResult(upstream=upstream if before else ())
        blamed = SurfaceGradient(surface_id=WRITE, severity="P1", gradient="ask for a source")
        return BackwardStepResult(gradients=(blamed,))


@dataclass
class Aggregate:
    """Keeps the first of all that was said."""

    asked: list[AggregateRequest] = field(default_factory=list[AggregateRequest])

    async def aggregate(self, request: AggregateRequest) -> AggregateResult:
        self.asked.append(request)
        first = request.gradients[:1]
        return AggregateResult(
            gradient=AggregatedSurface(surface_id=request.surface_id, gradients=first)
        )


@dataclass
class Optimize:
    """Writes the texts that it was given, one after the other."""

    texts: Sequence[Any] = (f"Write the answer. {CITE}",)
    asked: list[OptimizeRequest] = field(default_factory=list[OptimizeRequest])

    async def optimize(self, request: OptimizeRequest) -> Any:
        self.asked.append(request)
        given = self.texts[min(len(self.asked), len(self.texts)) - 1]
        if not isinstance(given, str):
            return given
        patch = SurfacePatch(
            surface_id=request.surface.surface_id,
            value=SurfaceValue(text=given),
            reason="it said so",
        )
        return OptimizeResult(patch=patch)


@dataclass
class Bench:
    """An engine on the desk, and everything that can be looked at afterwards."""

    folder: Path
    target: Any = field(default_factory=desk)
    backward: Backward = field(default_factory=Backward)
    aggregate: Aggregate = field(default_factory=Aggregate)
    optimize: Optimize = field(default_factory=Optimize)
    metrics: Sequence[Metric] = (Quality(),)
    sets: dict[str, list[Case]] = field(
        default_factory=lambda: {"t": cases("train"), "v": cases("validation")}
    )

    @property
    def stack(self) -> EvaluationStack:
        return EvaluationStack(
            app_name="app",
            data_dir=self.folder / "data",
            output_dir=self.folder / "out",
            sets=self.sets,
            metrics=self.metrics,
        )

    @property
    def engine(self) -> Engine:
        return Engine(
            self.target,
            self.stack,
            backwarder=self.backward,
            aggregator=self.aggregate,
            optimizer=self.optimize,
        )


def request(**more: Any) -> RunRequest:
    """A plain request."""
    usual: dict[str, Any] = {
        "train_eval_set_ids": ("t",),
        "validation_eval_set_ids": ("v",),
        "target_surface_ids": (WRITE,),
        "max_rounds": 2,
    }
    return RunRequest(**{**usual, **more})
