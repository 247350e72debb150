"""Asking a model: the request and the reply as data, and one journaled call.

The request is also what the journal key is made of, so a model is sent nothing else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Protocol, TypeAlias, TypeVar

from burnish.core.cases import Message, ToolUse
from burnish.core.content import Json, codec, short_id
from burnish.core.money import Spend
from burnish.core.outcomes import Usage
from burnish.core.protocols import Call, Effects, Receipt
from burnish.journal.limits import Limits, RetryPolicy, retry
from burnish.models.errors import ModelRejected, ModelUnavailable
from burnish.models.prices import Prices
from burnish.models.references import ModelRef

T = TypeVar("T")
Finish: TypeAlias = Literal["stop", "length", "content_filter", "tool_call", "other"]
Form: TypeAlias = Literal["json_schema", "json_object", "prompt"]
"""How a structured answer is requested: a schema that the endpoint enforces, JSON mode with the
schema in the prompt, or the prompt alone."""


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as a model is told of it."""

    name: str
    description: str
    parameters: Mapping[str, Json]
    """A JSON schema of its arguments."""


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """A conversation up to where the model answers."""

    messages: tuple[Message, ...]
    schema: Mapping[str, Json] | None = None
    """The JSON schema that the answer must keep, where it is to be JSON."""
    schema_name: str = "answer"
    tools: tuple[ToolSpec, ...] = ()
    """The tools the model may ask for."""


@dataclass(frozen=True, kw_only=True)
class ChatReply:
    """What a model answered, once."""

    text: str
    uses: tuple[ToolUse, ...] = ()
    """The tools it asks for, before it can answer."""
    finish: Finish = "stop"
    """`length`: cut off, so never to be adopted as it is."""
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    """What the endpoint says it is."""
    seconds: float = 0.0
    form: Form | None = None
    """How a structured answer was requested; None where none was, or where nobody can tell."""
    verbatim: Json = None
    """The answer as its provider wants it back in the next request."""

    @property
    def message(self) -> Message:
        """The answer as a message of the conversation."""
        return Message(role="assistant", content=self.text, uses=self.uses, verbatim=self.verbatim)


class Backend(Protocol):
    """Reaches the models of some providers.

    Raises ModelUnavailable (try again), ModelRejected (this request will never do) or
    ModelRefused (nothing will do until the user changes something).
    """

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        """One attempt at one answer. `draw` names the sample: equal draws may be equal answers."""
        ...

    def check(self, ref: ModelRef) -> None:
        """Raise ModelRefused when this model cannot be asked: extra, key, file, setting missing.

        Costs nothing and calls nobody.
        """
        ...

    def identity(self, ref: ModelRef) -> str:
        """What tells this model from another under the same reference: a file's content.

        Empty where the reference says all that can be known.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and memory."""
        ...


RETRIES = RetryPolicy(attempts=5, first_wait=0.5, longest_wait=30.0)


@dataclass(frozen=True, kw_only=True)
class _Answered:
    """How a call ended, as the journal keeps it: a reply, or why there is none."""

    reply: ChatReply | None = None
    nano_usd: int | None = 0
    """What it cost; None when the price is unknown."""
    trouble: Literal["", "unavailable", "rejected"] = ""
    message: str = ""
    attempts: int = 1


@dataclass(frozen=True, kw_only=True)
class Priced:
    """A reply and what it cost."""

    reply: ChatReply
    nano_usd: int | None


@dataclass
class EndpointAttempts:
    """The attempts at one request: each in its turn, and again while the endpoint is away."""

    endpoint: str
    limits: Limits
    policy: RetryPolicy
    count: int = 0

    async def make(self, post: Callable[[], Awaitable[T]]) -> T:
        """What the first attempt gives that succeeds; else the error of the last one."""

        async def attempt(number: int) -> T:
            self.count = number
            async with self.limits.place(self.endpoint):
                return await post()

        return await retry(
            attempt,
            policy=self.policy,
            again=lambda error: isinstance(error, ModelUnavailable),
            requested_wait=lambda error: getattr(error, "retry_after", None),
        )


@dataclass(frozen=True, kw_only=True)
class ModelClient:
    """One model, ready to be asked by agents, judges and roles alike."""

    ref: ModelRef
    backend: Backend
    prices: Prices = field(default_factory=Prices)
    limits: Limits = field(default_factory=Limits)
    retries: RetryPolicy = RETRIES

    @cached_property
    def priced(self) -> bool:
        """Whether the price of a call is known."""
        return self.prices.known(self.ref)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the model, whatever tells it from its namesakes, and its settings."""
        return short_id([self.ref.fingerprint, self.backend.identity(self.ref)])

    def check(self) -> None:
        """Raise what would keep this model from answering, before anything is paid."""
        self.backend.check(self.ref)

    def estimate(self) -> Spend:
        """One call, at a price that is only known afterwards."""
        return Spend(calls=1, unpriced=0 if self.priced else 1)

    async def ask(self, request: ChatRequest, *, draw: int, effects: Effects) -> Priced:
        """The model's answer, once for each request and draw.

        Raises ModelUnavailable or ModelRejected when there is none, on a replay too.
        """
        call = Call(
            kind="model",
            request=self._request(request),
            codec=codec(_Answered),
            draw=draw,
            estimate=self.estimate(),
        )
        answered = await effects.once(call, lambda _: self._perform(request, draw))
        if answered.reply is not None:
            return Priced(reply=answered.reply, nano_usd=answered.nano_usd)
        if answered.trouble == "rejected":
            raise ModelRejected(answered.message)
        attempts = f" (after {answered.attempts} attempts)" if answered.attempts > 1 else ""
        raise ModelUnavailable(f"{answered.message}{attempts}")

    def _request(self, request: ChatRequest) -> Json:
        data = codec(ChatRequest).encode(request)
        assert isinstance(data, dict)
        return {"model": self.fingerprint, "named": self.ref.label, **data}

    async def _perform(self, request: ChatRequest, draw: int) -> Receipt[_Answered]:
        attempts = EndpointAttempts(self.ref.endpoint, self.limits, self.retries)
        try:
            reply = await attempts.make(lambda: self._attempt(request, draw))
        except ModelUnavailable as error:
            gone = _Answered(trouble="unavailable", message=str(error), attempts=attempts.count)
            # Nobody answered, so nobody sent a bill; what a timeout cost is the endpoint's secret.
            return Receipt(value=gone, spend=Spend(calls=1), missing=True)
        except ModelRejected as error:
            refused = _Answered(trouble="rejected", message=str(error), attempts=attempts.count)
            return Receipt(value=refused, spend=Spend(calls=1))
        return self._receipt(reply, attempts.count)

    async def _attempt(self, request: ChatRequest, draw: int) -> ChatReply:
        limit = self.ref.settings.timeout
        try:
            async with asyncio.timeout(limit):
                return await self.backend.complete(self.ref, request, draw=draw)
        except TimeoutError as error:
            raise ModelUnavailable(f"{self.ref.label} did not answer within {limit:g} s") from error

    def _receipt(self, reply: ChatReply, attempts: int) -> Receipt[_Answered]:
        usage = replace(reply.usage, requests=max(1, reply.usage.requests))
        cost = self.prices.nano_usd(self.ref, usage, reply.model)
        spend = Spend(
            calls=1,
            tokens_in=usage.input_tokens,
            tokens_out=usage.output_tokens,
            nano_usd=cost or 0,
            unpriced=1 if cost is None else 0,
        )
        answered = _Answered(reply=replace(reply, usage=usage), nano_usd=cost, attempts=attempts)
        return Receipt(value=answered, spend=spend)
