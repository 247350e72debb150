"""The three stages by a model, a runner, or code of the user."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, cast

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
    Aggregator,
    Backwarder,
    BackwardStepResult,
    Optimizer,
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
from burnish.runs.plugins import reached
from burnish.strategies.backprop import prompts
from burnish.strategies.backprop.prompts import (
    AGGREGATOR,
    BACKWARDER,
    PATCHER,
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergeRequest,
    PatchAnswer,
    PatchRequest,
)

Kind: TypeAlias = Literal["backwarder", "aggregator", "optimizer"]
_MessageBuilder: TypeAlias = Callable[[Any], str]
"""Makes the message from the stage's request, in PromptIter's terms."""

_ROLES: Mapping[Kind, str] = {
    "backwarder": prompts.BACKWARDER,
    "aggregator": prompts.AGGREGATOR,
    "optimizer": prompts.PATCHER,
}


@dataclass(frozen=True, kw_only=True)
class ModelStage:
    """A stage that asks a model, or a runner as if it were one."""

    kind: Kind
    who: Runner | ModelRef | str
    message_builder: _MessageBuilder | None = None
    """What is said in place of burnish's own prompt."""
    run_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """A model's settings; for a runner, further arguments."""
    user_id_supplier: Supplier = new_id
    """For runners: who asks."""
    session_id_supplier: Supplier = new_id
    folder: Path = Path()
    """Where installed role prompts lie."""

    def role(self, models: Models, views: StageViews) -> Role[Any, Any]:
        """The role, seen to be within reach."""
        prompt = in_force(_ROLES[self.kind], self.folder)
        if self.message_builder is not None:
            prompt = _built(self, prompt, views)
        makers: Mapping[Kind, Callable[[ModelClient, RolePrompt], Role[Any, Any]]] = {
            "backwarder": prompts.backwarder,
            "aggregator": prompts.aggregator,
            "optimizer": prompts.patcher,
        }
        return makers[self.kind](self._client(models, prompt), prompt)

    def _client(self, models: Models, prompt: RolePrompt) -> ModelClient:
        if isinstance(self.who, str | ModelRef):
            ref, models = as_model(self.who, models)
            return reached(models, self._with_options(ref), prompt)
        backend = RunnerBackend(
            runner=self.who,
            run_options=self.run_options,
            user_id=self.user_id_supplier,
            session_id=self.session_id_supplier,
        )
        ref, models = as_model(self.who, models, backend)
        return models.client(ref)

    def _with_options(self, ref: ModelRef) -> ModelRef:
        names = [each.name for each in fields(ModelSettings)]
        unknown = sorted(set(self.run_options) - set(names))
        if unknown:
            message = f"a model has no setting {', '.join(unknown)}"
            remedy = f"there are: {', '.join(names)}"
            raise ConfigError([Problem(where=self.kind, message=message, remedy=remedy)])
        return replace(ref, settings=replace(ref.settings, **self.run_options))


class _StageMaker(Protocol):
    """Makes a stage from a model, `openai:gpt-4o`, or from a runner."""

    def __call__(
        self,
        who: Runner | ModelRef | str,
        *,
        message_builder: _MessageBuilder | None = None,
        run_options: Mapping[str, Any] | None = None,
        user_id_supplier: Supplier = new_id,
        session_id_supplier: Supplier = new_id,
        folder: Path = Path(),
    ) -> ModelStage:
        """The stage, to be given to an engine."""
        ...


def _maker(kind: Kind) -> _StageMaker:
    def make(
        who: Runner | ModelRef | str, *, run_options: Mapping[str, Any] | None = None, **more: Any
    ) -> ModelStage:
        return ModelStage(kind=kind, who=who, run_options=run_options or {}, **more)

    return make


backwarder = _maker("backwarder")
aggregator = _maker("aggregator")
optimizer = _maker("optimizer")


@dataclass(frozen=True, kw_only=True)
class _BuiltPrompt(RolePrompt):
    """A prompt whose message is made by the user's function."""

    build: Callable[[Mapping[str, Json]], str]

    def messages(self, request: Mapping[str, Json]) -> tuple[Message, ...]:
        """What the function makes."""
        return (Message(role="user", content=self.build(request)),)


def _built(stage: ModelStage, prompt: RolePrompt, views: StageViews) -> RolePrompt:
    builder = stage.message_builder
    assert builder is not None
    view = _view(stage.kind, views)
    return _BuiltPrompt(
        name=prompt.name,
        system="",
        user=f"built by {code_identity(builder)}",
        settings=prompt.settings,
        build=lambda request: builder(view(request)),
    )


def _view(kind: Kind, views: StageViews) -> Callable[[Mapping[str, Json]], Wire]:
    """From the strategy's request, as data, to PromptIter's."""
    match kind:
        case "backwarder":
            return lambda data: views.step(prompts.BackwardRequest.model_validate(data))
        case "aggregator":
            return lambda data: views.remarks(prompts.MergeRequest.model_validate(data))
        case "optimizer":
            return lambda data: views.surface(prompts.PatchRequest.model_validate(data))


# -- Stages of one's own as roles -----------------------------------------------------------------


Request = TypeVar("Request", bound=BaseModel)
Answer = TypeVar("Answer", bound=BaseModel)
Result = TypeVar("Result", bound=Wire)


class StageFailed(BurnishError):
    """A stage of one's own raised: a bug to mend, after which the run can go on."""


@dataclass(frozen=True, kw_only=True)
class StageRole(Generic[Request, Answer]):
    """A stage as a role.

    RoleFailed and connection errors cost what was asked; anything else that a stage raises ends
    the run, and is not kept, so that a resume asks again. A stage may say what a call costs, as
    `usd_per_call`, and who it is, as `fingerprint`.
    """

    name: str
    stage: object
    answer_type: type[Answer]
    seen: Callable[[Request], Wire]
    """The request in PromptIter's terms."""
    ask: Callable[[Any], Awaitable[Any]]
    parse: Callable[[Any, Request], Answer]
    """What the stage gave, as an answer; raises ConfigError where it is of no use."""
    leaf: bool = True

    @property
    def fingerprint(self) -> str:
        """A hash of the stage's name and code."""
        return short_id([self.name, code_identity(self.stage)])

    @property
    def answers(self) -> Codec[Answer]:
        """How its answers are kept."""
        return codec(self.answer_type)

    @property
    def priced(self) -> bool:
        """Whether the stage says what a call costs."""
        return self._usd is not None

    @property
    def _usd(self) -> float | None:
        price = getattr(self.stage, "usd_per_call", None)
        return float(price) if isinstance(price, int | float) else None

    def estimate(self, request: Request, /) -> Spend:
        """One call."""
        del request
        return Spend(calls=1, nano_usd=to_nano(self._usd or 0), unpriced=int(self._usd is None))

    def encode(self, request: Request, /) -> Json:
        """What the stage will see."""
        return self.seen(request).to_json()

    async def answer(self, request: Request, /, *, draw: int, effects: Effects) -> Receipt[Answer]:
        """Ask, and check what comes back."""
        del draw, effects
        spend = self.estimate(request)
        try:
            reply = await self.ask(self.seen(request))
        except RoleFailed as error:
            raise RoleFailed(error.message, spend=spend, missing=error.missing) from error
        except BurnishError:
            raise
        except Exception as error:
            message = f"{name_of(self.stage)} raised {type(error).__name__}: {error}"
            if is_infrastructure(error):
                raise RoleFailed(message, spend=spend, missing=True) from error
            raise StageFailed(message, remedy="mend it, then run again to go on") from error
        try:
            return Receipt(value=self.parse(reply, request), spend=spend)
        except ConfigError as error:
            raise RoleFailed(f"{self.name}: {error.message}", spend=spend) from error


def backward_role(
    stage: Backwarder, views: StageViews
) -> StageRole[BackwardRequest, BackwardAnswer]:
    """A backwarder of one's own."""
    return StageRole(
        name=BACKWARDER,
        stage=stage,
        answer_type=BackwardAnswer,
        seen=views.step,
        ask=stage.backward,
        parse=lambda reply, request: views.blamed(_as(BackwardStepResult, reply), request),
    )


def aggregate_role(stage: Aggregator, views: StageViews) -> StageRole[MergeRequest, MergeAnswer]:
    """An aggregator of one's own."""
    return StageRole(
        name=AGGREGATOR,
        stage=stage,
        answer_type=MergeAnswer,
        seen=views.remarks,
        ask=stage.aggregate,
        parse=lambda reply, request: views.merged(_as(AggregateResult, reply), request),
    )


def optimize_role(stage: Optimizer, views: StageViews) -> StageRole[PatchRequest, PatchAnswer]:
    """An optimizer of one's own."""
    return StageRole(
        name=PATCHER,
        stage=stage,
        answer_type=PatchAnswer,
        seen=views.surface,
        ask=stage.optimize,
        parse=lambda reply, request: views.patched(_as(OptimizeResult, reply), request),
    )


def _as(kind: type[Result], reply: object) -> Result:
    """What a stage gave, which may be JSON data."""
    if isinstance(reply, kind):
        return reply
    if isinstance(reply, Mapping):
        return kind.from_json(cast("Json", dict(cast("Mapping[str, Any]", reply))))
    message = f"a stage must give {kind.__name__}, found {type(reply).__name__}"
    raise StageFailed(message)
