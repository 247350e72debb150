"""Runners: functions or targets that judges and stages use as models."""

import inspect
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeGuard, cast

from burnish.core.cases import Case
from burnish.core.content import Json
from burnish.core.errors import BurnishError
from burnish.core.outcomes import Outcome, Usage
from burnish.core.protocols import Target
from burnish.journal.executors import is_infrastructure
from burnish.journal.once import DirectEffects
from burnish.models.chat import ChatReply, ChatRequest, ModelClient
from burnish.models.errors import ModelRejected, ModelUnavailable
from burnish.models.factory import Models
from burnish.models.references import ModelRef, ModelSettings
from burnish.projects.evaluate import as_reference
from burnish.system.user_functions import file_fingerprint
from burnish.targets.user_code import in_thread, of_value

Runner: TypeAlias = Callable[..., Any] | Target
"""`runner(message)`, async or not, or an agent target.

The parameters `user_id`, `session_id`, `schema` and those of the run options are passed if it has
them.
"""
Supplier: TypeAlias = Callable[[], str]


def new_id() -> str:
    """A random id."""
    return str(uuid.uuid4())


@dataclass(frozen=True, kw_only=True)
class RunnerBackend:
    """Calls a runner like a model: journaled, retried, limited."""

    runner: Runner
    run_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    user_id: Supplier = new_id
    session_id: Supplier = new_id

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        try:
            outcome = await self._run(_message_of(request), request.schema, draw)
        except BurnishError:
            raise
        except Exception as error:  # the border to the user's runner
            message = f"{ref.name} raised {type(error).__name__}: {error}"
            kind = ModelUnavailable if is_infrastructure(error) else ModelRejected
            raise kind(message) from error
        if outcome.failure is not None:
            kind = ModelUnavailable if outcome.missing else ModelRejected
            raise kind(outcome.failure.message)
        return ChatReply(text=outcome.output, usage=outcome.usage or Usage(), model=ref.name)

    async def _run(self, message: str, schema: Mapping[str, Json] | None, draw: int) -> Outcome:
        runner = self.runner
        if _is_target(runner):
            case = Case.single(message, name="message")
            effects = DirectEffects()
            return (await runner.run(runner.baseline, case, draw=draw, effects=effects)).value
        assert callable(runner)
        arguments = {"user_id": self.user_id(), "session_id": self.session_id(), "schema": schema}
        call = partial(runner, message, **_accepted_by(runner, {**arguments, **self.run_options}))
        value = call() if _is_async(runner) else await in_thread(call)
        return of_value(await value if inspect.isawaitable(value) else value)

    def check(self, ref: ModelRef) -> None:
        del ref

    def identity(self, ref: ModelRef) -> str:
        del ref
        return code_identity(self.runner)

    async def close(self) -> None:
        """The owner of a runner closes it."""


class _RunnerModels(Models):
    """The models of a project plus one runner."""

    def __init__(self, models: Models, backend: RunnerBackend) -> None:
        super().__init__(prices=models.prices)
        self._models = models
        self._runner = backend

    def client(self, ref: ModelRef, settings: ModelSettings | None = None) -> ModelClient:
        if ref.provider != "runner":
            return self._models.client(ref, settings)
        return ModelClient(ref=ref, backend=self._runner, prices=self.prices)

    def secrets(self, environ: Mapping[str, str] | None = None) -> list[str]:
        return self._models.secrets(environ)

    async def close(self) -> None:
        await self._models.close()


def as_model(
    who: Runner | ModelRef | str, models: Models, backend: RunnerBackend | None = None
) -> tuple[ModelRef, Models]:
    """A model, or a runner as a model: its reference, and the models that include it."""
    if isinstance(who, str | ModelRef):
        return as_reference(who), models
    ref = ModelRef(provider="runner", name=name_of(who))
    return ref, _RunnerModels(models, backend or RunnerBackend(runner=who))


def _message_of(request: ChatRequest) -> str:
    text = "\n\n".join(message.content for message in request.messages)
    if request.schema is None:
        return text
    schema = json.dumps(dict(request.schema), ensure_ascii=False)
    return f"{text}\n\nThe JSON schema of the answer:\n{schema}"


def _is_target(runner: object) -> TypeGuard[Target]:
    return hasattr(runner, "baseline") and hasattr(runner, "description")


def name_of(code: object) -> str:
    """The qualified name of a function or of an object's class."""
    if _is_target(code):
        return code.description.kind
    named = _named(code)
    return f"{named.__module__}:{named.__qualname__}"


def code_identity(code: object) -> str:
    """A fingerprint of code: its own, else its name and its file."""
    if _is_target(code):
        return code.description.fingerprint
    own = getattr(code, "fingerprint", None)
    if isinstance(own, str):
        return own
    try:
        source = file_fingerprint(inspect.getsourcefile(_named(code)))
    except TypeError:
        source = ""  # made in C, or typed into a console
    return f"{name_of(code)} {source}".strip()


def _named(code: object) -> Any:
    inner: object = cast("object", code.func) if isinstance(code, partial) else code
    return inner if inspect.isroutine(inner) or inspect.isclass(inner) else type(inner)


def _is_async(runner: Callable[..., Any]) -> bool:
    called = getattr(runner, "__call__", runner)  # noqa: B004 - an object's method, not a check
    return inspect.iscoroutinefunction(runner) or inspect.iscoroutinefunction(called)


def _accepted_by(runner: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(runner).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return dict(arguments)
    return {name: value for name, value in arguments.items() if name in parameters}
