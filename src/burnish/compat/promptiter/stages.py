"""The three stages as PromptIter has them: what each is given, and what it must give back."""

from typing import Protocol, runtime_checkable

from pydantic import Field

from burnish.compat.promptiter.gradients import AggregatedSurface, SurfaceGradient
from burnish.compat.promptiter.structure import Node, Surface, SurfacePatch
from burnish.compat.promptiter.traces import Text
from burnish.compat.promptiter.wire import Wire


class Packet(Wire):
    """What a step is told by those after it."""

    from_step_id: str = ""
    """Empty where burnish does not say."""
    severity: str = ""
    gradient: str = ""


class Predecessor(Wire):
    """A step before the one in question."""

    step_id: str = ""
    node_id: str = ""
    output: Text | None = None
    error: str = ""


class BackwardRequest(Wire):
    """One step of one case, and what those after it say.

    The ids of set, case and step are empty where two cases had the very same step.
    """

    eval_set_id: str = ""
    eval_case_id: str = ""
    node: Node = Field(default_factory=Node)
    step_id: str = ""
    input: Text | None = None
    output: Text | None = None
    error: str = ""
    surfaces: tuple[Surface, ...] = ()
    """All that was in force."""
    allowed_gradient_surface_ids: tuple[str, ...] = ()
    """What may be blamed."""
    predecessors: tuple[Predecessor, ...] = ()
    incoming: tuple[Packet, ...] = ()


class Propagation(Wire):
    """What a predecessor is told."""

    predecessor_step_id: str = ""
    gradients: tuple[Packet, ...] = ()


class BackwardStepResult(Wire):
    """What should change here, and what should have been better before."""

    gradients: tuple[SurfaceGradient, ...] = ()
    upstream: tuple[Propagation, ...] = ()


class AggregateRequest(Wire):
    """All that was said about one surface."""

    surface_id: str = ""
    node_id: str = ""
    type: str = ""
    gradients: tuple[SurfaceGradient, ...] = ()


class AggregateResult(Wire):
    """One signal for the surface."""

    gradient: AggregatedSurface = Field(default_factory=AggregatedSurface)


class OptimizeRequest(Wire):
    """A surface with its value of now, and what should change about it."""

    surface: Surface = Field(default_factory=Surface)
    gradient: AggregatedSurface = Field(default_factory=AggregatedSurface)


class OptimizeResult(Wire):
    """The patch."""

    patch: SurfacePatch = Field(default_factory=SurfacePatch)


@runtime_checkable
class Backwarder(Protocol):
    """Turns a failed case into gradients, step by step."""

    async def backward(self, request: BackwardRequest) -> BackwardStepResult:
        """What is to blame at this step, and what to tell those before it."""
        ...


@runtime_checkable
class Aggregator(Protocol):
    """Merges what many cases say about one surface."""

    async def aggregate(self, request: AggregateRequest) -> AggregateResult:
        """The merged signal."""
        ...


@runtime_checkable
class Optimizer(Protocol):
    """Writes patches."""

    async def optimize(self, request: OptimizeRequest) -> OptimizeResult:
        """A new value for the surface, and why."""
        ...
