"""Between the strategy's questions and PromptIter's: what a stage sees, and what it said."""

from collections.abc import Sequence
from dataclasses import dataclass

from burnish.compat.promptiter.anatomy import Anatomy
from burnish.compat.promptiter.eval_stack import Home
from burnish.compat.promptiter.gradients import AggregatedSurface, SurfaceGradient
from burnish.compat.promptiter.stages import (
    AggregateRequest,
    AggregateResult,
    BackwardRequest,
    BackwardStepResult,
    OptimizeRequest,
    OptimizeResult,
    Packet,
    Predecessor,
)
from burnish.compat.promptiter.structure import Node, Surface
from burnish.compat.promptiter.traces import Text
from burnish.compat.promptiter.whereabouts import NOWHERE, Whereabouts
from burnish.core.errors import ConfigError, Problem
from burnish.strategies.backprop import wording
from burnish.strategies.backprop.packets import Severity
from burnish.strategies.backprop.values import shown_value


@dataclass(frozen=True, kw_only=True)
class StageViews:
    """Translates for one run."""

    anatomy: Anatomy
    whereabouts: Whereabouts

    # -- the backwarder --------------------------------------------------------------------

    def step(self, request: wording.BackwardRequest) -> BackwardRequest:
        """A step as the backwarder sees it."""
        home = self.whereabouts.home(request.case)
        shown = [self._surface(each.id) for each in (*request.surfaces, *request.other_surfaces)]
        return BackwardRequest(
            eval_set_id=home.eval_set,
            eval_case_id=home.case,
            node=self._node(request.node),
            step_id=request.step,
            input=Text(text=request.input),
            output=Text(text=request.output),
            error=request.error,
            surfaces=tuple(each for each in shown if each is not None),
            allowed_gradient_surface_ids=tuple(
                self.anatomy.name_of(each.id) for each in request.surfaces
            ),
            predecessors=tuple(map(_predecessor, request.predecessors)),
            incoming=tuple(
                Packet(severity=each.severity.value, gradient=each.gradient)
                for each in request.incoming
            ),
        )

    def blamed(
        self, given: BackwardStepResult, request: wording.BackwardRequest
    ) -> wording.BackwardAnswer:
        """What the backwarder said; ids that are not of this step are refused."""
        home = self.whereabouts.home(request.case)
        for gradient in given.gradients:
            _refuse_foreign(gradient, home, request.step)
        return wording.BackwardAnswer(
            gradients=[
                wording.SurfaceRemark(
                    surface=self.anatomy.targets.get(each.surface_id, each.surface_id),
                    severity=_severity(each.severity),
                    gradient=each.gradient,
                )
                for each in given.gradients
            ],
            upstream=[
                wording.Upstream(
                    predecessor=sent.predecessor_step_id, gradients=_remarks(sent.gradients)
                )
                for sent in given.upstream
            ],
        )

    # -- the aggregator --------------------------------------------------------------------

    def remarks(self, request: wording.MergeRequest) -> AggregateRequest:
        """All that was said of a surface, with where it came from."""
        said = self.whereabouts.gradients(request.surface.id)
        name = self.anatomy.name_of(request.surface.id)
        homes = [self.whereabouts.home(each.case) for each in said]
        places = [(home, each.step) for home, each in zip(homes, said, strict=True)]
        if len(said) != len(request.gradients):
            places = [(NOWHERE, "")] * len(request.gradients)
        return AggregateRequest(
            surface_id=name,
            node_id=self._home_node(request.surface.id),
            type=request.surface.type,
            gradients=tuple(
                _gradient(name, remark, *place)
                for remark, place in zip(request.gradients, places, strict=True)
            ),
        )

    def merged(self, given: AggregateResult, request: wording.MergeRequest) -> wording.MergeAnswer:
        """The merged remarks."""
        name = self.anatomy.name_of(request.surface.id)
        if given.gradient.surface_id not in ("", name):
            raise _wrong(name, f"the aggregate is of another surface, {given.gradient.surface_id}")
        return wording.MergeAnswer(
            gradients=[
                wording.MergedRemark(severity=_severity(each.severity), gradient=each.gradient)
                for each in given.gradient.gradients
            ]
        )

    # -- the optimizer ---------------------------------------------------------------------

    def surface(self, request: wording.PatchRequest) -> OptimizeRequest:
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

    def patched(self, given: OptimizeResult, request: wording.PatchRequest) -> wording.PatchAnswer:
        """The patch; it must say why, and change only what may change."""
        patch, name = given.patch, self.anatomy.name_of(request.surface.id)
        if patch.surface_id not in ("", name):
            raise _wrong(name, f"the patch is for another surface, {patch.surface_id}")
        if not patch.reason.strip():
            raise _wrong(name, "the patch has no reason")
        value = self.anatomy.value(name, patch.value)
        return wording.PatchAnswer(value=shown_value(value), reason=patch.reason.strip())

    # -- parts -----------------------------------------------------------------------------

    def _surface(self, surface: str) -> Surface | None:
        """A surface of the target with its value in this round."""
        position, value = self.anatomy.position_of(surface), self.whereabouts.value(surface)
        if position is None:
            return None
        return self.anatomy.surface(position, position.value if value is None else value)

    def _node(self, name: str) -> Node:
        known = {node.node_id: node for node in self.anatomy.snapshot.nodes}
        return known.get(name) or Node(node_id=name, name=name)

    def _home_node(self, surface: str) -> str:
        position = self.anatomy.position_of(surface)
        return position.node if position else ""


def _predecessor(step: wording.ShownStep) -> Predecessor:
    output = Text(text=step.output)
    return Predecessor(step_id=step.id, node_id=step.node, output=output, error=step.error)


def _gradient(
    surface: str, remark: wording.Remark, home: Home = NOWHERE, step: str = ""
) -> SurfaceGradient:
    return SurfaceGradient(
        eval_set_id=home.eval_set,
        eval_case_id=home.case,
        step_id=step,
        surface_id=surface,
        severity=remark.severity.value,
        gradient=remark.gradient,
    )


def _remarks(packets: Sequence[Packet]) -> list[wording.Remark]:
    return [
        wording.Remark(severity=_severity(each.severity), gradient=each.gradient)
        for each in packets
    ]


def _severity(text: str) -> Severity:
    """The severity; what is none of them counts as the usual one."""
    return Severity(text) if text in {each.value for each in Severity} else Severity.P2


def _refuse_foreign(gradient: SurfaceGradient, home: Home, step: str) -> None:
    """A gradient may leave its ids out; it may not bring those of another step."""
    own = (home.eval_set, home.case, step)
    told = (gradient.eval_set_id, gradient.eval_case_id, gradient.step_id)
    if any(said and said != meant for said, meant in zip(told, own, strict=True)):
        raise _wrong(step, f"the gradient is of another step: {' / '.join(told)}")


def _wrong(where: str, message: str) -> ConfigError:
    return ConfigError([Problem(where=where, message=message)])
