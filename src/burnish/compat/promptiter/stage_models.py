"""The three stages by a model, a runner, or custom code."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from pydantic import BaseModel

from burnish.compat.promptiter.runners import (
    Runner,
    RunnerBackend,
    Supplier,
    as_model,
    code_identity,
    name_of,
    new_id,
)
from burnish.compat.promptiter.shapes import Wire
from burnish.compat.promptiter.stages import (
    AggregateResult,
    BackwardStepResult,
    OptimizeResult,
    StageViews,
)
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
from burnish.projects.evaluate import as_reference
from burnish.runs.plugins import reached
from burnish.strategies.backprop import prompts

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
            return reached(models, self._with_options(as_reference(self.who)), prompt)
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
