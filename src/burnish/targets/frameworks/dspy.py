"""Programs of DSPy: the instructions and demonstrations of their predictors."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import copy
from functools import partial
from importlib import import_module
from typing import Any, cast

from burnish.core.surfaces import Demonstration, Value
from burnish.models.providers import find_provider
from burnish.models.references import ModelRef
from burnish.targets.frameworks.adapters import AgentAdapter, AgentPart, query_fields
from burnish.targets.frameworks.own_models import own_model, unknown_model
from burnish.targets.user_code import in_thread
from burnish.tracing.steps import OpenStep

dspy: Any = import_module("dspy")
_ELSEWHERE = ("custom_llm_provider", "vertex_", "aws_")
"""Settings of a client that lead to another provider, or to a login of its own."""
_THOUGHTS = ("reasoning", "rationale", "trajectory")
"""Fields that are no answers, even though a predictor writes them."""


class DSPyProgram(AgentAdapter):
    """Instructions and demonstrations of every predictor.

    The query goes to the program's only input field, or is a JSON object of all of them; the reply
    is its only output field besides reasoning, or a JSON object of them.
    """

    library = "DSPy"

    @property
    def model(self) -> ModelRef | None:
        own = (predictor.lm for predictor in _predictors(self.agent).values() if predictor.lm)
        model: Any = next(own, dspy.settings.lm)
        # A class or an engine of someone else's may call anything under this name.
        spec = getattr(model, "_engine_spec", "")  # not in DSPy 3.0
        is_usual = model.__class__ is dspy.LM and isinstance(spec, str)
        return _reference(model) if is_usual else None

    @property
    def remembers(self) -> bool:
        return False

    @property
    def demonstrates(self) -> bool:
        return len(_predictors(self.agent)) == 1

    def parts(self) -> Iterator[AgentPart]:
        for name, predictor in _predictors(self.agent).items():
            yield AgentPart.text(f"{name}instructions", predictor.signature.instructions)
            demos = tuple(_demonstration(each, predictor.signature) for each in predictor.demos)
            yield AgentPart.demos(f"{name}demos", demos)

    def with_values(self, values: Mapping[str, Value]) -> Any:
        program = self.agent.deepcopy()
        originals = _predictors(self.agent)
        for name, predictor in _predictors(program).items():
            predictor.lm = originals[name].lm  # clients are not copied
            text = values.get(f"{name}instructions")
            if text is not None:
                predictor.signature = predictor.signature.with_instructions(text)
            demos = values.get(f"{name}demos")
            if isinstance(demos, tuple):
                before = {_demonstration(d, predictor.signature): d for d in predictor.demos}
                predictor.demos = [
                    before.get(each) or _example(each, predictor.signature) for each in demos
                ]
        return program

    def talk(self, agent: Any) -> "_DSPyTalk":
        return _DSPyTalk(agent, self)

    def inputs(self, message: str) -> dict[str, Any]:
        """The input fields of the program for a query."""
        if self.input:
            return {self.input: message}
        signature = next(iter(_predictors(self.agent).values())).signature
        return query_fields(message, [*signature.input_fields])

    def reply(self, prediction: Any) -> object:
        """The reply in a prediction."""
        fields = dict(prediction.items())
        if self.output:
            return fields[self.output]
        answers = {name: value for name, value in fields.items() if name not in _THOUGHTS}
        return next(iter(answers.values())) if len(answers) == 1 else answers


def _reference(model: Any) -> ModelRef:
    """The model of a client of DSPy's, at the address and with the key that it is called with."""
    provider, _, name = model.model.partition("/")
    row, settings = find_provider(provider), cast("dict[str, Any]", model.kwargs)

    def setting(*names: str) -> str:
        """The first that the client, or else a variable, has."""
        own = [str(settings.get(each) or "") for each in names]
        variables = [os.environ.get(f"{provider}_{each}".upper(), "") for each in names]
        return next(filter(None, (*own, *variables)), "")

    own_address = setting("base_url", "api_base")
    elsewhere = any(each.startswith(_ELSEWHERE) for each in settings) or (
        not own_address and getattr(sys.modules.get("litellm"), "api_base", None)
    )
    if row is None or not name or elsewhere:
        raise unknown_model(f"burnish cannot tell where the program's {model.model} is")
    ref = own_model(
        provider,
        name,
        address=own_address or row.address,
        key=setting("api_key"),
        api_version=setting("api_version") if row.protocol == "azure" else "",
    )
    if ref.base_url and row.protocol not in ("openai", "azure"):
        raise unknown_model(f"burnish cannot call the program's {model.model} at {ref.base_url}")
    return ref


class _DSPyTalk:
    """Programs have no memory: each message is a call of its own."""

    def __init__(self, program: Any, adapter: DSPyProgram) -> None:
        self._program = program
        self._adapter = adapter

    async def send(self, message: str, history: list[dict[str, str]]) -> object:
        del history
        inputs, tracer = self._adapter.inputs(message), _PredictorTracer(self._program)
        callbacks = [*dspy.settings.callbacks, tracer]
        with dspy.context(callbacks=callbacks, track_usage=True, lm=_uncached(dspy.settings.lm)):
            if not hasattr(
                cast("Any", type(self._program)), "forward"
            ):  # DSPy warns who looks at the program
                prediction = await self._program.acall(**inputs)
            else:
                prediction = await in_thread(partial(self._program, **inputs))
        tracer.used(prediction)
        return self._adapter.reply(prediction)


class _PredictorTracer:
    """A callback that records each call of a predictor as a step."""

    def __init__(self, program: Any) -> None:
        named = _predictors(program)
        self._names = {id(each): name.rstrip(".") or "program" for name, each in named.items()}
        self._open: dict[str, OpenStep] = {}
        self._last: OpenStep | None = None

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        if id(instance) in self._names:
            fields = inputs.get("kwargs", inputs)
            step = OpenStep(self._names[id(instance)], inputs=fields)
            self._open[call_id] = step.__enter__()

    def on_module_end(
        self, call_id: str, outputs: Any, exception: BaseException | None = None
    ) -> None:
        if (step := self._open.pop(call_id, None)) is not None:
            step.output = dict(outputs.items()) if outputs is not None else None
            step.__exit__(type(exception) if exception else None, exception, None)
            self._last = step

    def __getattr__(self, event: str) -> Any:
        """Of DSPy's other events, nothing is recorded."""
        if not event.startswith("on_"):
            raise AttributeError(event)
        return _ignore

    def used(self, prediction: Any) -> None:
        """The usage of the whole call; DSPy does not say which predictor used it."""
        by_model: dict[str, dict[str, int]] = prediction.get_lm_usage() or {}
        if (last := self._last) is None:
            return
        for tokens in by_model.values():
            inputs, outputs = tokens.get("prompt_tokens"), tokens.get("completion_tokens")
            last.used(requests=1, input_tokens=inputs or 0, output_tokens=outputs or 0)


def _ignore(**_: object) -> None:
    """Takes any event."""


def _uncached(model: Any) -> Any:
    """The same model without its cache: a repeat must be a new answer, not the same one again."""
    if not getattr(model, "cache", False):
        return model
    fresh = copy(model)
    fresh.cache = False
    return fresh


def _predictors(program: Any) -> dict[str, Any]:
    """The predictors by the prefix of their surfaces; it is empty for the only one."""
    named = [(name.removesuffix(".predict"), each) for name, each in program.named_predictors()]
    return {"" if len(named) == 1 else f"{name}.": each for name, each in named}


def _demonstration(demo: Any, signature: Any) -> Demonstration:
    return Demonstration(
        input=_spelled(demo, [*signature.input_fields]),
        output=_spelled(demo, [*signature.output_fields]),
    )


def _spelled(demo: Any, fields: list[str]) -> str:
    """Some fields as text: the only one as it is, several as a JSON object."""
    values = {name: demo[name] for name in fields if name in demo}
    if len(fields) == 1 and values:
        return str(values[fields[0]])
    return json.dumps(values, ensure_ascii=False, default=str)


def _example(demo: Demonstration, signature: Any) -> Any:
    fields = {
        **_fields(demo.input, [*signature.input_fields]),
        **_fields(demo.output, [*signature.output_fields]),
    }
    return dspy.Example(**fields).with_inputs(*signature.input_fields)


def _fields(text: str, names: list[str]) -> dict[str, Any]:
    """The fields that a text stands for; an answer alone is the last of them."""
    if len(names) > 1:
        with suppress(ValueError):
            data: Any = json.loads(text)
            if isinstance(data, dict) and set(cast("dict[str, Any]", data)) <= set(names):
                return cast("dict[str, Any]", data)
    return {names[-1]: text}
