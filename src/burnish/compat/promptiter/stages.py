"""PromptIter's three stages, their requests and results, by a model, a runner or custom code."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

from pydantic import BaseModel, Field

from burnish.compat.promptiter.evaluation import (
    Runner,
    RunnerBackend,
    Supplier,
    as_model,
    code_identity,
    name_of,
    new_id,
)
from burnish.compat.promptiter.results import AggregatedSurface, SurfaceGradient, Text
from burnish.compat.promptiter.shapes import Id, Node, Surface, SurfacePatch, Wire
from burnish.compat.promptiter.snapshot import SurfaceMap
from burnish.compat.promptiter.translation import RoundContext
from burnish.core.cases import Message
from burnish.core.content import Codec, Json, codec, short_id
from burnish.core.errors import BurnishError, ConfigError, Problem, RoleFailed
from burnish.core.money import Spend, to_nano
from burnish.core.protocols import Effects, Receipt, Role
from burnish.journal.executors import is_infrastructure
from burnish.models.chat import ModelClient
from burnish.models.factory import Models
from burnish.models.references import ModelRef, ModelSettings
from burnish.models.roles import RolePrompt, in_force
from burnish.projects.call_arguments import reference_of
from burnish.runs.plugins import reached
from burnish.strategies.backprop import prompts
from burnish.strategies.backprop.packets import Severity, shown_value


class Packet(Wire):
    """A message to a step from a later one."""

    from_step_id: Id = ""
    """The step that sent it; the step itself for a loss."""
    severity: Id = ""
    gradient: str = ""


class Predecessor(Wire):
    """A step before the current one."""

    step_id: str = ""
    node_id: str = ""
    output: Text | None = None
    error: str = ""


class BackwardRequest(Wire):
    """One step of one case, and the messages from later steps.

    The ids of set, case and step are empty if two cases had exactly the same step.
    """

    eval_set_id: str = ""
    eval_case_id: str = ""
    node: Node = Field(default_factory=Node)
    step_id: str = ""
    input: Text | None = None
    output: Text | None = None
    error: str = ""
    surfaces: tuple[Surface, ...] = ()
    """All surfaces that applied to the step."""
    allowed_gradient_surface_ids: tuple[str, ...] = ()
    """The surfaces that may get gradients."""
    predecessors: tuple[Predecessor, ...] = ()
    incoming: tuple[Packet, ...] = ()


class Propagation(Wire):
    """Messages to a predecessor."""

    predecessor_step_id: Id = ""
    gradients: tuple[Packet, ...] = ()


class BackwardStepResult(Wire):
    """Gradients for this step, and messages to earlier ones."""

    gradients: tuple[SurfaceGradient, ...] = ()
    upstream: tuple[Propagation, ...] = ()


class AggregateRequest(Wire):
    """All gradients of one surface."""

    surface_id: str = ""
    node_id: str = ""
    type: str = ""
    gradients: tuple[SurfaceGradient, ...] = ()


class AggregateResult(Wire):
    """The merged gradient of a surface."""

    gradient: AggregatedSurface = Field(default_factory=AggregatedSurface)


class OptimizeRequest(Wire):
    """A surface with its current value, and what should change about it."""

    surface: Surface = Field(default_factory=Surface)
    gradient: AggregatedSurface = Field(default_factory=AggregatedSurface)


class OptimizeResult(Wire):
    """The patch of a surface."""

    patch: SurfacePatch = Field(default_factory=SurfacePatch)


@runtime_checkable
class Backwarder(Protocol):
    """Turns a failed case into gradients, step by step."""

    async def backward(self, request: BackwardRequest) -> BackwardStepResult:
        """The gradients of a step, and messages to earlier ones."""
        ...


@runtime_checkable
class Aggregator(Protocol):
    """Merges the gradients of one surface."""

    async def aggregate(self, request: AggregateRequest) -> AggregateResult:
        """The merged gradient."""
        ...


@runtime_checkable
class Optimizer(Protocol):
    """Writes new values for surfaces."""

    async def optimize(self, request: OptimizeRequest) -> OptimizeResult:
        """A new value for the surface, and why."""
        ...


@dataclass(frozen=True, kw_only=True)
class StageViews:
    """Translates between the strategy's and PromptIter's requests and results."""

    surface_map: SurfaceMap
    context: RoundContext

    def step(self, request: prompts.BackwardRequest) -> BackwardRequest:
        """The request to a backwarder."""
        origin = self.context.origin(request.case)
        shown = [self._surface(each.id) for each in (*request.surfaces, *request.other_surfaces)]
        nodes = {node.node_id: node for node in self.surface_map.snapshot.nodes}
        senders = request.senders or ("",) * len(request.incoming)
        return BackwardRequest.of(
            request,
            **origin.ids,
            node=nodes.get(request.node) or Node(node_id=request.node, name=request.node),
            input=Text(text=request.input),
            output=Text(text=request.output),
            surfaces=tuple(each for each in shown if each is not None),
            allowed_gradient_surface_ids=tuple(
                self.surface_map.name_of(each.id) for each in request.surfaces
            ),
            predecessors=tuple(
                Predecessor.of(each, step_id=each.id, output=Text(text=each.output))
                for each in request.predecessors
            ),
            incoming=tuple(
                Packet.of(each, severity=each.severity.value, from_step_id=sender)
                for each, sender in zip(request.incoming, senders, strict=True)
            ),
        )

    def blamed(
        self, result: BackwardStepResult, request: prompts.BackwardRequest
    ) -> prompts.BackwardAnswer:
        """The answer of a backwarder; it may omit ids, but not use those of another step."""
        origin = self.context.origin(request.case)
        own = (origin.eval_set, origin.case, request.step)
        for gradient in result.gradients:
            ids = (gradient.eval_set_id, gradient.eval_case_id, gradient.step_id)
            if any(name and name != meant for name, meant in zip(ids, own, strict=True)):
                message = f"the gradient belongs to another step: {' / '.join(ids)}"
                raise _wrong(request.step, message)
        for packet in (each for sent in result.upstream for each in sent.gradients):
            if packet.from_step_id not in ("", request.step):
                message = f"a message upstream is from another step: {packet.from_step_id}"
                raise _wrong(request.step, message)
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
                    predecessor=sent.predecessor_step_id,
                    gradients=[
                        prompts.Remark(severity=_severity(each.severity), gradient=each.gradient)
                        for each in sent.gradients
                    ],
                )
                for sent in result.upstream
            ],
        )

    def remarks(self, request: prompts.MergeRequest) -> AggregateRequest:
        """The request to an aggregator, with the origin of each gradient."""
        surface = request.surface.id
        name, position = self.surface_map.name_of(surface), self.surface_map.position_of(surface)
        places = [
            self.context.origin(each.case).ids | {"step_id": each.step}
            for each in self.context.gradients(surface)
        ]
        if len(places) != len(request.gradients):
            places = [dict[str, str]()] * len(request.gradients)
        return AggregateRequest(
            surface_id=name,
            node_id=position.node if position else "",
            type=request.surface.type,
            gradients=tuple(
                _gradient(name, remark, **place)
                for remark, place in zip(request.gradients, places, strict=True)
            ),
        )

    def merged(self, result: AggregateResult, request: prompts.MergeRequest) -> prompts.MergeAnswer:
        """The answer of an aggregator."""
        name = self.surface_map.name_of(request.surface.id)
        if result.gradient.surface_id not in ("", name):
            raise _wrong(
                name, f"the aggregate is for {result.gradient.surface_id}, another surface"
            )
        return prompts.MergeAnswer(
            gradients=[
                prompts.MergedRemark(severity=_severity(each.severity), gradient=each.gradient)
                for each in result.gradient.gradients
            ]
        )

    def surface(self, request: prompts.PatchRequest) -> OptimizeRequest:
        surface = self._surface(request.surface.id)
        if surface is None:
            raise _wrong(request.surface.id, "the structure has no position for this surface")
        name = surface.surface_id
        remarks = tuple(_gradient(name, remark) for remark in request.gradients)
        return OptimizeRequest(
            surface=surface,
            gradient=AggregatedSurface(
                surface_id=name, node_id=surface.node_id, type=surface.type, gradients=remarks
            ),
        )

    def patched(self, result: OptimizeResult, request: prompts.PatchRequest) -> prompts.PatchAnswer:
        """The answer of an optimizer; it needs a reason and an allowed value."""
        patch, name = result.patch, self.surface_map.name_of(request.surface.id)
        if patch.surface_id not in ("", name):
            raise _wrong(name, f"the patch is for another surface, {patch.surface_id}")
        if not patch.reason.strip():
            raise _wrong(name, "the patch has no reason")
        value = self.surface_map.value(name, patch.value)
        return prompts.PatchAnswer(value=shown_value(value), reason=patch.reason.strip())

    def _surface(self, surface: str) -> Surface | None:
        position, value = self.surface_map.position_of(surface), self.context.value(surface)
        if position is None:
            return None
        return self.surface_map.surface(position, position.value if value is None else value)


def _gradient(surface: str, remark: prompts.Remark, **place: str) -> SurfaceGradient:
    return SurfaceGradient.of(remark, surface_id=surface, severity=remark.severity.value, **place)


def _severity(text: str) -> Severity:
    """Unknown severities count as P2."""
    return Severity(text) if text in {each.value for each in Severity} else Severity.P2


def _wrong(where: str, message: str) -> ConfigError:
    return ConfigError([Problem(where=where, message=message)])


Kind: TypeAlias = Literal["backwarder", "aggregator", "optimizer"]
_MessageBuilder: TypeAlias = Callable[[Any], str]
"""Builds the message from PromptIter's request."""


@dataclass(frozen=True, kw_only=True)
class _StageKind:
    """One of the three stages, in PromptIter and in the strategy."""

    prompt: str
    make: Callable[[ModelClient, RolePrompt], Role[Any, Any]]
    """Makes the strategy's role from a model."""
    method: str
    """The method that a custom object must have."""
    request: type[BaseModel]
    answer: type[BaseModel]
    result: type[Wire]
    view: Callable[[StageViews, Any], Wire]
    """The strategy's request in PromptIter's terms."""
    parse: Callable[[StageViews, Any, Any], BaseModel]
    """Converts a result to the strategy's answer; raises ConfigError if it is unusable."""


STAGE_KINDS: Mapping[Kind, _StageKind] = {
    "backwarder": _StageKind(
        prompt=prompts.BACKWARDER,
        make=prompts.backwarder,
        method="backward",
        request=prompts.BackwardRequest,
        answer=prompts.BackwardAnswer,
        result=BackwardStepResult,
        view=StageViews.step,
        parse=StageViews.blamed,
    ),
    "aggregator": _StageKind(
        prompt=prompts.AGGREGATOR,
        make=prompts.aggregator,
        method="aggregate",
        request=prompts.MergeRequest,
        answer=prompts.MergeAnswer,
        result=AggregateResult,
        view=StageViews.remarks,
        parse=StageViews.merged,
    ),
    "optimizer": _StageKind(
        prompt=prompts.PATCHER,
        make=prompts.patcher,
        method="optimize",
        request=prompts.PatchRequest,
        answer=prompts.PatchAnswer,
        result=OptimizeResult,
        view=StageViews.surface,
        parse=StageViews.patched,
    ),
}


@dataclass(frozen=True)
class ModelStage:
    """A stage that calls a model such as `openai:gpt-4o`, or a runner."""

    who: Runner | ModelRef | str
    _: KW_ONLY
    kind: Kind
    message_builder: _MessageBuilder | None = None
    """Replaces burnish's prompt."""
    run_options: Mapping[str, Any] | None = None
    """Settings of a model, or further arguments of a runner."""
    user_id_supplier: Supplier = new_id
    """For runners only."""
    session_id_supplier: Supplier = new_id
    folder: Path = Path()
    """The folder with installed role prompts."""

    def role(self, models: Models, views: StageViews) -> Role[Any, Any]:
        """The role; raises if its model is not available."""
        spec, builder = STAGE_KINDS[self.kind], self.message_builder
        prompt = in_force(spec.prompt, self.folder)
        if builder is not None:
            prompt = _BuiltPrompt(
                name=prompt.name,
                system="",
                user=f"built by {code_identity(builder)}",
                settings=prompt.settings,
                build=lambda data: builder(spec.view(views, spec.request.model_validate(data))),
            )
        return spec.make(self._client(models, prompt), prompt)

    def _client(self, models: Models, prompt: RolePrompt) -> ModelClient:
        if isinstance(self.who, str | ModelRef):
            return reached(models, self._with_options(reference_of(self.who)), prompt)
        backend = RunnerBackend(
            runner=self.who,
            run_options=self.run_options or {},
            user_id=self.user_id_supplier,
            session_id=self.session_id_supplier,
        )
        ref, models = as_model(self.who, models, backend)
        return models.client(ref)

    def _with_options(self, ref: ModelRef) -> ModelRef:
        options = self.run_options or {}
        names = [each.name for each in fields(ModelSettings)]
        unknown = sorted(set(options) - set(names))
        if unknown:
            message = f"a model has no setting {', '.join(unknown)}"
            remedy = f"there are: {', '.join(names)}"
            raise ConfigError([Problem(where=self.kind, message=message, remedy=remedy)])
        return replace(ref, settings=replace(ref.settings, **options))


backwarder = partial(ModelStage, kind="backwarder")
aggregator = partial(ModelStage, kind="aggregator")
optimizer = partial(ModelStage, kind="optimizer")


@dataclass(frozen=True, kw_only=True)
class _BuiltPrompt(RolePrompt):
    """A prompt whose message is built by the user's function."""

    build: Callable[[Mapping[str, Json]], str]

    def messages(self, request: Mapping[str, Json]) -> tuple[Message, ...]:
        return (Message(role="user", content=self.build(request)),)


class StageFailed(BurnishError):
    """Custom code of a stage raised an exception; the run can be resumed once it is fixed."""


@dataclass(frozen=True, kw_only=True)
class StageRole:
    """Custom code of a stage as a role of the strategy.

    RoleFailed and connection errors fail the call; other exceptions end the run and are not
    stored, so that a resumed run calls the stage again. A stage may have the attributes
    `usd_per_call` and `fingerprint`.
    """

    kind: Kind
    stage: object
    views: StageViews
    leaf: bool = True

    @property
    def name(self) -> str:
        return STAGE_KINDS[self.kind].prompt

    @property
    def fingerprint(self) -> str:
        return short_id([self.name, code_identity(self.stage)])

    @property
    def answers(self) -> Codec[Any]:
        return codec(STAGE_KINDS[self.kind].answer)

    @property
    def priced(self) -> bool:
        return self._usd is not None

    @property
    def _usd(self) -> float | None:
        price = getattr(self.stage, "usd_per_call", None)
        return float(price) if isinstance(price, int | float) else None

    def estimate(self, request: Any, /) -> Spend:
        del request
        return Spend(calls=1, nano_usd=to_nano(self._usd or 0), unpriced=int(self._usd is None))

    def encode(self, request: Any, /) -> Json:
        return STAGE_KINDS[self.kind].view(self.views, request).to_json()

    async def answer(self, request: Any, /, *, draw: int, effects: Effects) -> Receipt[Any]:
        del draw, effects
        spec, spend = STAGE_KINDS[self.kind], self.estimate(request)
        try:
            reply = await getattr(self.stage, spec.method)(spec.view(self.views, request))
        except RoleFailed as error:
            raise RoleFailed(error.message, spend=spend, missing=error.missing) from error
        except BurnishError:
            raise
        except Exception as error:  # the border to the user's stage
            message = f"{name_of(self.stage)} raised {type(error).__name__}: {error}"
            if is_infrastructure(error):
                raise RoleFailed(message, spend=spend, missing=True) from error
            raise StageFailed(message, remedy="fix it, then run again to resume") from error
        try:
            answer = spec.parse(self.views, _as_result(spec.result, reply), request)
        except ConfigError as error:
            raise RoleFailed(f"{self.name}: {error.message}", spend=spend) from error
        return Receipt(value=answer, spend=spend)


def _as_result(kind: type[Wire], reply: object) -> Wire:
    if isinstance(reply, kind):
        return reply
    if isinstance(reply, Mapping):
        return kind.from_json(cast("Json", dict(cast("Mapping[str, Any]", reply))))
    raise StageFailed(f"a stage must return {kind.__name__}, found {type(reply).__name__}")
