"""Calling a model: one journaled, retried, limited, priced call."""

import asyncio
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from burnish.core.codec import codec
from burnish.core.content import Json, short_id
from burnish.core.effects import Call, Effects, Receipt
from burnish.core.money import Spend
from burnish.effects.limits import Limits
from burnish.effects.retries import RetryPolicy, retry
from burnish.models.chat import Backend, ChatReply, ChatRequest
from burnish.models.prices import Prices
from burnish.models.references import ModelRef
from burnish.models.troubles import ModelRejected, ModelUnavailable

RETRIES = RetryPolicy(attempts=5, first_wait=0.5, longest_wait=30.0)


@dataclass(frozen=True, kw_only=True)
class Answered:
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
            codec=codec(Answered),
            draw=draw,
            estimate=self.estimate(),
        )
        answered = await effects.once(call, lambda _: self._perform(request, draw))
        if answered.reply is not None:
            return Priced(reply=answered.reply, nano_usd=answered.nano_usd)
        told = f"{answered.message} (after {answered.attempts} attempts)"
        if answered.trouble == "rejected":
            raise ModelRejected(answered.message)
        raise ModelUnavailable(told if answered.attempts > 1 else answered.message)

    def _request(self, request: ChatRequest) -> Json:
        data = codec(ChatRequest).encode(request)
        assert isinstance(data, dict)
        return {"model": self.fingerprint, "named": self.ref.label, **data}

    async def _perform(self, request: ChatRequest, draw: int) -> Receipt[Answered]:
        attempts = 0

        async def attempt(number: int) -> ChatReply:
            nonlocal attempts
            attempts = number
            async with self.limits.place(self.ref.endpoint):
                return await self._attempt(request, draw)

        try:
            reply = await retry(
                attempt,
                policy=self.retries,
                again=lambda error: isinstance(error, ModelUnavailable),
                asked=lambda error: getattr(error, "retry_after", None),
            )
        except ModelUnavailable as error:
            gone = Answered(trouble="unavailable", message=str(error), attempts=attempts)
            # Nobody answered, so nobody sent a bill; what a timeout cost is the endpoint's secret.
            return Receipt(value=gone, spend=Spend(calls=1), missing=True)
        except ModelRejected as error:
            refused = Answered(trouble="rejected", message=str(error), attempts=attempts)
            return Receipt(value=refused, spend=Spend(calls=1))
        return self._receipt(reply, attempts)

    async def _attempt(self, request: ChatRequest, draw: int) -> ChatReply:
        limit = self.ref.settings.timeout
        try:
            async with asyncio.timeout(limit):
                return await self.backend.complete(self.ref, request, draw=draw)
        except TimeoutError as error:
            raise ModelUnavailable(f"{self.ref.label} did not answer within {limit:g} s") from error

    def _receipt(self, reply: ChatReply, attempts: int) -> Receipt[Answered]:
        usage = replace(reply.usage, requests=max(1, reply.usage.requests))
        cost = self.prices.nano_usd(self.ref, usage, reply.model)
        spend = Spend(
            calls=1,
            tokens_in=usage.input_tokens,
            tokens_out=usage.output_tokens,
            nano_usd=cost or 0,
            unpriced=1 if cost is None else 0,
        )
        kept = Answered(reply=replace(reply, usage=usage), nano_usd=cost, attempts=attempts)
        return Receipt(value=kept, spend=spend)
