"""A function as a model: it is passed messages, and returns what the model would have said."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from burnish.journal.executors import is_infrastructure, status_of
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.errors import ModelRefused, ModelUnavailable
from burnish.models.references import ModelRef
from burnish.system.code_hash import code_hash
from burnish.system.user_code import function_name

PROVIDER = "python"
"""The provider of models that are functions of a program."""


def reference_to(function: Callable[..., Any]) -> ModelRef:
    """The name of a function as a model."""
    return ModelRef(provider=PROVIDER, name=function_name(function))


class CallableBackend:
    """Calls a function with messages as `{"role": …, "content": …}`; it may be async."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        del draw
        messages = [{"role": each.role, "content": each.content} for each in request.messages]
        try:
            answer = await asyncio.to_thread(self._function, messages)
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception as error:  # the border to the user's function, which may be a client
            message = f"{ref.name} raised {type(error).__name__}: {error}"
            if _may_pass(error):
                raise ModelUnavailable(message) from error
            raise ModelRefused(message, remedy="correct the function") from error
        text = text_of(answer)
        if text is None:
            message = f"{ref.name} returned {type(answer).__name__}, not a text"
            raise ModelRefused(message, remedy="correct the function")
        return ChatReply(text=text if request.schema is None else _marked(text), model=ref.name)

    def check(self, ref: ModelRef) -> None:
        """A function can always be called."""

    def identity(self, ref: ModelRef) -> str:
        del ref
        return code_hash(self._function)

    async def close(self) -> None:
        """Nothing is held open."""


def _may_pass(error: Exception) -> bool:
    """Whether it is an outage, and no mistake in the function that every call would repeat."""
    status = status_of(error) or 0
    return is_infrastructure(error) or isinstance(error, TimeoutError) or status >= 500


def _marked(text: str) -> str:
    """A text that is the answer itself, as models mark it that are asked for JSON."""
    plain = text.lstrip()
    if (plain.startswith("{") and plain.rstrip().endswith("}")) or "```" in text:
        return text
    return f"```\n{text}\n```"


def text_of(answer: Any) -> str | None:
    """What was said: a text, a client's message with one, or the first choice in OpenAI's form."""
    if isinstance(answer, str):
        return answer
    choices = getattr(answer, "choices", None)
    if choices:
        return str(choices[0].message.content or "")
    said = getattr(answer, "content", getattr(answer, "text", None))
    return said if isinstance(said, str) else None
