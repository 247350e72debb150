"""The three stages by a model or a runner, with PromptIter's options."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from burnish.compat.promptiter.runners import (
    Runner,
    RunnerBackend,
    Supplier,
    asked_by,
    code_identity,
    new_id,
)
from burnish.compat.promptiter.stage_views import StageViews
from burnish.compat.promptiter.wire import Wire
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.messages import Message
from burnish.core.protocols import Role
from burnish.models.chat import ModelClient
from burnish.models.factory import Models
from burnish.models.references import ModelRef, ModelSettings
from burnish.models.roles import RolePrompt, in_force
from burnish.runs.parts import reached
from burnish.strategies.backprop import wording

Kind: TypeAlias = Literal["backwarder", "aggregator", "optimizer"]
MessageBuilder: TypeAlias = Callable[[Any], str]
"""Makes the message from the stage's request, in PromptIter's terms."""

ROLES: Mapping[Kind, str] = {
    "backwarder": wording.BACKWARDER,
    "aggregator": wording.AGGREGATOR,
    "optimizer": wording.PATCHER,
}


@dataclass(frozen=True, kw_only=True)
class ModelStage:
    """A stage that asks a model, or a runner as if it were one."""

    kind: Kind
    who: Runner | ModelRef | str
    message_builder: MessageBuilder | None = None
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
        prompt = in_force(ROLES[self.kind], self.folder)
        if self.message_builder is not None:
            prompt = _built(self, prompt, views)
        makers: Mapping[Kind, Callable[[ModelClient, RolePrompt], Role[Any, Any]]] = {
            "backwarder": wording.backwarder,
            "aggregator": wording.aggregator,
            "optimizer": wording.patcher,
        }
        return makers[self.kind](self._client(models, prompt), prompt)

    def _client(self, models: Models, prompt: RolePrompt) -> ModelClient:
        if isinstance(self.who, str | ModelRef):
            ref, models = asked_by(self.who, models)
            return reached(models, self._with_options(ref), prompt)
        backend = RunnerBackend(
            runner=self.who,
            run_options=self.run_options,
            user_id=self.user_id_supplier,
            session_id=self.session_id_supplier,
        )
        ref, models = asked_by(self.who, models, backend)
        return models.client(ref)

    def _with_options(self, ref: ModelRef) -> ModelRef:
        known = [each.name for each in fields(ModelSettings)]
        unknown = sorted(set(self.run_options) - set(known))
        if unknown:
            told = f"a model has no setting {', '.join(unknown)}"
            remedy = f"there are: {', '.join(known)}"
            raise ConfigError([Problem(where=self.kind, message=told, remedy=remedy)])
        return replace(ref, settings=replace(ref.settings, **self.run_options))


class StageMaker(Protocol):
    """Makes a stage from a model, `openai:gpt-4o`, or from a runner."""

    def __call__(
        self,
        who: Runner | ModelRef | str,
        *,
        message_builder: MessageBuilder | None = None,
        run_options: Mapping[str, Any] | None = None,
        user_id_supplier: Supplier = new_id,
        session_id_supplier: Supplier = new_id,
        folder: Path = Path(),
    ) -> ModelStage:
        """The stage, to be given to an engine."""
        ...


def _maker(kind: Kind) -> StageMaker:
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
            return lambda data: views.step(wording.BackwardRequest.model_validate(data))
        case "aggregator":
            return lambda data: views.remarks(wording.MergeRequest.model_validate(data))
        case "optimizer":
            return lambda data: views.surface(wording.PatchRequest.model_validate(data))
