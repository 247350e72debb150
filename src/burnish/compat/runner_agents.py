"""Agents behind a runner: an object whose `run_async` yields the events of one turn."""

import importlib
import inspect
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

from pydantic_core import to_jsonable_python

from burnish.core.content import Json
from burnish.core.outcomes import Outcome, Step, ToolCall, Trace, Usage

_USER = "user"


@dataclass(frozen=True)
class RunnerAgent:
    """Calls `runner.run_async(user_id=…, session_id=…, new_message=…)` for each turn.

    The reply is the text of the final response, and the tools are those that events call. If the
    runner has a session service, each conversation gets a session of its own.
    """

    runner: Any
    user_id: str = _USER

    async def __call__(self, query: str, session: str) -> Outcome:
        await self._ensure_session(session)
        events = [
            event
            async for event in self.runner.run_async(
                user_id=self.user_id, session_id=session, new_message=_message(query)
            )
        ]
        calls = _tool_calls(events)
        reply = _reply(events)
        step = Step(id="agent", node="agent", input=query, output=reply, tools=calls)
        usage = sum((_usage(event) for event in events), Usage())
        return Outcome(replies=(reply,), trace=Trace(steps=(step,)), usage=usage, nano_usd=None)

    async def _ensure_session(self, session: str) -> None:
        service = getattr(self.runner, "session_service", None)
        if service is None:
            return
        place = {
            "app_name": getattr(self.runner, "app_name", ""),
            "user_id": self.user_id,
            "session_id": session,
        }
        if await _awaited(service.get_session(**place)) is None:
            await _awaited(service.create_session(**place))


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _message(text: str) -> Any:
    """The message as google-genai's type where that is installed, else as plain attributes."""
    with suppress(ImportError):
        types = importlib.import_module("google.genai.types")
        return types.Content(role=_USER, parts=[types.Part(text=text)])
    return SimpleNamespace(role=_USER, parts=[SimpleNamespace(text=text)])


def _parts(event: Any) -> list[Any]:
    return list(getattr(getattr(event, "content", None), "parts", None) or ())


def _reply(events: list[Any]) -> str:
    """The text of the last final response; of the last text at all if no event says it is final."""
    texts = [event for event in events if _text(event) and not getattr(event, "partial", False)]
    final = [event for event in texts if _is_final(event)]
    return _text((final or texts)[-1]) if texts else ""


def _is_final(event: Any) -> bool:
    says = getattr(event, "is_final_response", None)
    return bool(says()) if callable(says) else False


def _text(event: Any) -> str:
    parts = [part for part in _parts(event) if not getattr(part, "thought", False)]
    return "\n".join(part.text for part in parts if getattr(part, "text", None))


def _tool_calls(events: list[Any]) -> tuple[ToolCall, ...]:
    """The calls in order, each with its result; events of a stream may repeat a call."""
    calls: dict[str, ToolCall] = {}
    for number, call in enumerate(_of(events, "function_call")):
        key = str(getattr(call, "id", None) or number)
        arguments = cast("dict[str, Json]", to_jsonable_python(getattr(call, "args", None) or {}))
        calls[key] = ToolCall(name=call.name, arguments=arguments, id=key)
    for answer in _of(events, "function_response"):
        same = [
            key
            for key, call in calls.items()
            if key == getattr(answer, "id", None)
            or (
                not getattr(answer, "id", None) and call.name == answer.name and call.result is None
            )
        ]
        if same:
            result = cast("Json", to_jsonable_python(getattr(answer, "response", None)))
            calls[same[0]] = replace(calls[same[0]], result=result)
    return tuple(calls.values())


def _of(events: list[Any], kind: str) -> Iterator[Any]:
    for event in events:
        if not getattr(event, "partial", False):
            yield from (each for p in _parts(event) if (each := getattr(p, kind, None)) is not None)


def _usage(event: Any) -> Usage:
    metadata = getattr(event, "usage_metadata", None)
    if metadata is None:
        return Usage()
    return Usage(
        requests=1,
        input_tokens=getattr(metadata, "prompt_token_count", None) or 0,
        output_tokens=getattr(metadata, "candidates_token_count", None) or 0,
    )
