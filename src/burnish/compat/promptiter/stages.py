"""The three stages as PromptIter has them, and what each sees."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pydantic import Field

from burnish.compat.promptiter.evaluation import CaseOrigin
from burnish.compat.promptiter.results import AggregatedSurface, SurfaceGradient, Text
from burnish.compat.promptiter.shapes import Node, Surface, SurfacePatch, Wire
from burnish.compat.promptiter.snapshot import SurfaceMap
from burnish.compat.promptiter.translation import NOWHERE, RoundContext
from burnish.core.errors import ConfigError, Problem
from burnish.strategies.backprop import prompts
from burnish.strategies.backprop.packets import Severity, shown_value


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


# -- Between the strategy's questions and PromptIter's --------------------------------------------


@dataclass(frozen=True, kw_only=True)
class StageViews:
    """Translates for one run."""

    surface_map: SurfaceMap
    context: RoundContext

    # -- the backwarder --------------------------------------------------------------------

    def step(self, request: prompts.BackwardRequest) -> BackwardRequest:
        """A step as the backwarder sees it."""
        origin = self.context.origin(request.case)
        shown = [self._surface(each.id) for each in (*request.surfaces, *request.other_surfaces)]
        return BackwardRequest(
            eval_set_id=origin.eval_set,
            eval_case_id=origin.case,
            node=self._node(request.node),
            step_id=request.step,
            input=Text(text=request.input),
            output=Text(text=request.output),
            error=request.error,
            surfaces=tuple(each for each in shown if each is not None),
            allowed_gradient_surface_ids=tuple(
                self.surface_map.name_of(each.id) for each in request.surfaces
            ),
            predecessors=tuple(map(_predecessor, request.predecessors)),
            incoming=tuple(
                Packet(severity=each.severity.value, gradient=each.gradient)
                for each in request.incoming
            ),
        )

    def blamed(
        self, result: BackwardStepResult, request: prompts.BackwardRequest
    ) -> prompts.BackwardAnswer:
        """What the backwarder said; ids that are not of this step are refused."""
        origin = self.context.origin(request.case)
        for gradient in result.gradients:
            _refuse_foreign(gradient, origin, request.step)
        return prompts.BackwardAnswer(
            gradients=[
                prompts.SurfaceRemark(
                    surface=self.surface_map.targets.get(each.surface_id, each.surface_id),
                    severity=_severity(each.severity),
                    gradient=each.gradient,
                )
                for each in result.gradients
            ],
            upstream=[
                prompts.Upstream(
                    predecessor=sent.predecessor_step_id, gradients=_remarks(sent.gradients)
                )
                for sent in result.upstream
            ],
        )

    # -- the aggregator --------------------------------------------------------------------

    def remarks(self, request: prompts.MergeRequest) -> AggregateRequest:
        """All that was said of a surface, with where it came from."""
        gradients = self.context.gradients(request.surface.id)
        name = self.surface_map.name_of(request.surface.id)
        origins = [self.context.origin(each.case) for each in gradients]
        places = [(origin, each.step) for origin, each in zip(origins, gradients, strict=True)]
        if len(gradients) != len(request.gradients):
            places = [(NOWHERE, "")] * len(request.gradients)
        return AggregateRequest(
            surface_id=name,
            node_id=self._owner(request.surface.id),
            type=request.surface.type,
            gradients=tuple(
                _gradient(name, remark, *place)
                for remark, place in zip(request.gradients, places, strict=True)
            ),
        )

    def merged(self, result: AggregateResult, request: prompts.MergeRequest) -> prompts.MergeAnswer:
        """The merged remarks."""
        name = self.surface_map.name_of(request.surface.id)
        if result.gradient.surface_id not in ("", name):
            raise _wrong(name, f"the aggregate is of another surface, {result.gradient.surface_id}")
        return prompts.MergeAnswer(
            gradients=[
                prompts.MergedRemark(severity=_severity(each.severity), gradient=each.gradient)
                for each in result.gradient.gradients
            ]
        )

    # -- the optimizer ---------------------------------------------------------------------

    def surface(self, request: prompts.PatchRequest) -> OptimizeRequest:
        """A surface and what should change about it."""
        surface = self._surface(request.surface.id)
        if surface is None:
            raise _wrong(request.surface.id, "this surface is no position of the structure")
        name = surface.surface_id
        remarks = tuple(_gradient(name, remark) for remark in request.gradients)
        return OptimizeRequest(
            surface=surface,
            gradient=AggregatedSurface(
                surface_id=name, node_id=surface.node_id, type=surface.type, gradients=remarks
            ),
        )

    def patched(self, result: OptimizeResult, request: prompts.PatchRequest) -> prompts.PatchAnswer:
        """The patch; it must say why, and change only what may change."""
        patch, name = result.patch, self.surface_map.name_of(request.surface.id)
        if patch.surface_id not in ("", name):
            raise _wrong(name, f"the patch is for another surface, {patch.surface_id}")
        if not patch.reason.strip():
            raise _wrong(name, "the patch has no reason")
        value = self.surface_map.value(name, patch.value)
        return prompts.PatchAnswer(value=shown_value(value), reason=patch.reason.strip())

    # -- parts -----------------------------------------------------------------------------

    def _surface(self, surface: str) -> Surface | None:
        """A surface of the target with its value in this round."""
        position, value = self.surface_map.position_of(surface), self.context.value(surface)
        if position is None:
            return None
        return self.surface_map.surface(position, position.value if value is None else value)

    def _node(self, name: str) -> Node:
        nodes = {node.node_id: node for node in self.surface_map.snapshot.nodes}
        return nodes.get(name) or Node(node_id=name, name=name)

    def _owner(self, surface: str) -> str:
        position = self.surface_map.position_of(surface)
        return position.node if position else ""


def _predecessor(step: prompts.ShownStep) -> Predecessor:
    output = Text(text=step.output)
    return Predecessor(step_id=step.id, node_id=step.node, output=output, error=step.error)


def _gradient(
    surface: str, remark: prompts.Remark, origin: CaseOrigin = NOWHERE, step: str = ""
) -> SurfaceGradient:
    return SurfaceGradient(
        eval_set_id=origin.eval_set,
        eval_case_id=origin.case,
        step_id=step,
        surface_id=surface,
        severity=remark.severity.value,
        gradient=remark.gradient,
    )


def _remarks(packets: Sequence[Packet]) -> list[prompts.Remark]:
    return [
        prompts.Remark(severity=_severity(each.severity), gradient=each.gradient)
        for each in packets
    ]


def _severity(text: str) -> Severity:
    """The severity; what is none of them counts as the usual one."""
    return Severity(text) if text in {each.value for each in Severity} else Severity.P2


def _refuse_foreign(gradient: SurfaceGradient, origin: CaseOrigin, step: str) -> None:
    """A gradient may leave its ids out; it may not bring those of another step."""
    own = (origin.eval_set, origin.case, step)
    ids = (gradient.eval_set_id, gradient.eval_case_id, gradient.step_id)
    if any(name and name != meant for name, meant in zip(ids, own, strict=True)):
        raise _wrong(step, f"the gradient is of another step: {' / '.join(ids)}")


def _wrong(where: str, message: str) -> ConfigError:
    return ConfigError([Problem(where=where, message=message)])
