"""Asking a model: the request and the reply as data, one journaled call, and what it costs.

The journal key is made of the request, so a model is sent nothing else. Prices are in whole
nano-dollars; an unknown price is None, never 0.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from typing import Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from burnish.core.cases import Message, ToolUse, Usage
from burnish.core.content import MOST, Json, canonical, codec, short_id
from burnish.core.errors import NotJournalable
from burnish.core.money import NOTHING, Spend, to_nano
from burnish.core.protocols import Call, Effects, Receipt
from burnish.journal.limits import Limits
from burnish.journal.outages import RetryPolicy, Setback, retry
from burnish.models.errors import ModelRejected, ModelUnavailable
from burnish.models.http_calls import receiving
from burnish.models.providers import Price, Provider, cost
from burnish.models.references import ModelRef, ModelSettings, is_here, is_providers_own
from burnish.system.config import nearest


@dataclass(frozen=True, kw_only=True)
class Prices:
    """The prices of a run.

    In order: the model's own block, the table of the run, the provider's row, genai-prices offline.
    """

    overrides: Mapping[str, Price] = field(default_factory=dict[str, Price])
    """By reference, such as `openai:gpt-4o`."""
    warnings: list[str] = field(default_factory=list[str], compare=False)
    """One warning for each model whose price is unknown."""
    _unlisted: set[tuple[str, str, str]] = field(
        default_factory=set[tuple[str, str, str]], compare=False, repr=False
    )

    def __post_init__(self) -> None:
        for reference in self.overrides:
            ModelRef.parse(reference)

    def nano_usd(self, ref: ModelRef, usage: Usage, model: str = "") -> int | None:
        """What this usage cost.

        `model` is the name from the endpoint: an Azure deployment's name says nothing about prices.
        """
        listing = (ref.label, ref.location, model)
        if ref.price is None and listing in self._unlisted:
            return None
        usd = self._usd(ref, usage, model)
        if usd is not None:
            return to_nano(usd)
        self._unlisted.add(listing)
        warning = (
            f"the price of {ref.label} is unknown: its cost is not included in the US dollars "
            "unless you set its price"
        )
        if warning not in self.warnings:
            self.warnings.append(warning)
        return None

    def known(self, ref: ModelRef) -> bool:
        # An embedding model has no price for output, since it gives none.
        usages = (Usage(requests=1, input_tokens=1, output_tokens=out) for out in (1, 0))
        return any(self._usd(ref, usage, "") is not None for usage in usages)

    def _usd(self, ref: ModelRef, usage: Usage, model: str) -> Decimal | None:
        if own := ref.price or self.overrides.get(ref.label):
            return own.of(usage)
        row = ref.row
        if row.is_local:
            return Decimal(0) if is_here(ref) else None
        if not is_providers_own(ref):
            return None
        listed = (_listed(row, name, usage) for name in (model, ref.name) if name)
        return next((usd for usd in listed if usd is not None), None)


def nearest_model(ref: ModelRef) -> str:
    """The listed model of a provider that was probably meant by an unlisted name; empty if none."""
    if not ref.row.price_list or not is_providers_own(ref):
        return ""
    from genai_prices.data_snapshot import get_snapshot

    rows = (row for row in get_snapshot().providers if row.id == ref.row.price_list)
    names = [*ref.row.prices, *(model.id for row in rows for model in row.models)]
    likely = nearest(ref.name, names)
    return "" if likely in (None, ref.name) else f"{ref.row.name}:{likely}"


def _listed(row: Provider, name: str, usage: Usage) -> Decimal | None:
    """The price in the provider's row, or in the data shipped with genai-prices."""
    if (own := row.prices.get(name)) is not None:
        return own.of(usage)
    if not row.price_list:
        return None
    from genai_prices import Usage as Tokens
    from genai_prices.data_snapshot import get_snapshot

    try:
        home, model = get_snapshot().find_provider_model(name, None, row.price_list, None)
    except LookupError:
        return None
    now = datetime.now(tz=UTC)
    price = model.get_prices(now)
    if price.input_mtok is None or (price.output_mtok is None and usage.output_tokens):
        return None  # it would be added up as 0
    if price.output_mtok is None and isinstance(price.input_mtok, Decimal):
        return cost(usage, price.input_mtok, Decimal(0))  # an embedding says nothing
    if isinstance(price.input_mtok, Decimal) and isinstance(price.output_mtok, Decimal):
        return cost(usage, price.input_mtok, price.output_mtok)
    tokens = Tokens(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    return model.calc_price(tokens, home, genai_request_timestamp=now).total_price


T = TypeVar("T")
Finish: TypeAlias = Literal["stop", "length", "content_filter", "tool_call", "other"]
Form: TypeAlias = Literal["json_schema", "json_object", "prompt"]
"""How a structured answer is requested: a schema enforced by the endpoint, JSON mode with the
schema in the prompt, or the prompt alone.
"""
LADDER: tuple[Form, ...] = ("json_schema", "json_object", "prompt")
"""The forms, the best one first."""


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as the model sees it."""

    name: str
    description: str
    parameters: Mapping[str, Json]
    """A JSON schema of its arguments."""


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """A conversation up to where the model answers."""

    messages: tuple[Message, ...]
    schema: Mapping[str, Json] | None = None
    """The JSON schema of the answer, if it is to be JSON."""
    schema_name: str = "answer"
    tools: tuple[ToolSpec, ...] = ()
    """The tools that the model may call."""


@dataclass(frozen=True, kw_only=True)
class ChatReply:
    """One answer of a model."""

    text: str
    uses: tuple[ToolUse, ...] = ()
    """The tools it calls before it can answer."""
    finish: Finish = "stop"
    """`length`: cut off, so never to be adopted."""
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    """The model's name according to the endpoint."""
    seconds: float = 0.0
    form: Form | None = None
    """How a structured answer was requested; None if it was not, or if that is unknown."""
    verbatim: Json = None
    """The answer in the form that its provider expects back in the next request."""

    @property
    def message(self) -> Message:
        return Message(role="assistant", content=self.text, uses=self.uses, verbatim=self.verbatim)


class Backend(Protocol):
    """Calls the models of some providers.

    Raises ModelUnavailable (try again), ModelRejected (this request will never succeed) or
    ModelRefused (nothing will succeed until the user changes something).
    """

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        """One attempt at one answer; equal `draw`s of a request may give equal answers."""
        ...

    def check(self, ref: ModelRef) -> None:
        """Raise ModelRefused if this model cannot be used: a missing key, file or setting.

        Costs nothing and makes no calls. A provider's library may be missing: plans need none.
        """
        ...

    def identity(self, ref: ModelRef) -> str:
        """What distinguishes models under the same reference, such as a file's content.

        Empty if the reference says it all.
        """
        ...

    async def close(self) -> None:
        """Close connections and free memory."""
        ...


@runtime_checkable
class FindsForms(Protocol):
    """A backend whose endpoints may refuse or ignore a form of structured answers."""

    def refused_forms(self, ref: ModelRef) -> tuple[Form, ...]:
        """The forms that were of no use for this model so far."""
        ...

    def refuse_forms(self, ref: ModelRef, forms: Collection[Form]) -> None:
        """Leave out these forms: they were found to be of no use, perhaps by another process."""
        ...


class _FormUnknown(Exception):
    """The request that was to find the best form got no answer; users never see this."""


RETRIES = RetryPolicy(attempts=5, first_wait=0.5, longest_wait=30.0)


@dataclass(frozen=True, kw_only=True)
class _Answered:
    """How a call ended, as it is journaled: a reply, or why there is none."""

    reply: ChatReply | None = None
    nano_usd: int | None = 0
    """What it cost; None if the price is unknown."""
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
    """The attempts at one request, within the endpoint's limits."""

    ref: ModelRef
    limits: Limits
    policy: RetryPolicy
    count: int = 0
    wasted: Usage = field(default_factory=Usage)
    """What answers cost that could not be used."""

    async def make(self, post: Callable[[], Awaitable[T]]) -> T:
        """The result of the first attempt that succeeds, or the error of the last one."""

        async def attempt(number: int) -> T:
            self.count = number
            async with self.limits.place(self.ref.endpoint):
                try:
                    return await post()
                except ModelUnavailable as error:
                    self.wasted += error.usage or Usage()
                    raise

        # One model of a provider may be away while others are there.
        model = " ".join(filter(None, [self.ref.label, self.ref.location]))
        return await retry(attempt, policy=self.policy, again=_setback, endpoint=model)


def _setback(error: Exception) -> Setback | None:
    return error.setback if isinstance(error, ModelUnavailable) else None


@dataclass(frozen=True, kw_only=True)
class ModelClient:
    """One model, ready for agents, judges and roles."""

    ref: ModelRef
    backend: Backend
    prices: Prices = field(default_factory=Prices)
    limits: Limits = field(default_factory=Limits)
    retries: RetryPolicy = RETRIES

    @cached_property
    def priced(self) -> bool:
        return self.prices.known(self.ref)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the model, its identity and its settings."""
        return short_id([self.ref.fingerprint, self.backend.identity(self.ref)])

    def check(self) -> None:
        """Raise what would keep this model from answering, before any paid call."""
        self.backend.check(self.ref)

    def estimate(self) -> Spend:
        """One call, whose price is only known afterwards."""
        return Spend(calls=1, unpriced=0 if self.priced else 1)

    def doubt(self, reply: ChatReply) -> None:
        """Use a plainer form from now on: this answer shows that its form is not enforced.

        A replay gets the same answers, and so draws the same conclusions.
        """
        if isinstance(self.backend, FindsForms) and reply.form in LADDER[:-1]:
            self.backend.refuse_forms(self.ref, [reply.form])

    async def ask(self, request: ChatRequest, *, draw: int, effects: Effects) -> Priced:
        """The model's answer, once for each request and draw.

        Raises ModelUnavailable or ModelRejected if there is none, also on a replay.
        """
        data = codec(ChatRequest).encode(request)
        assert isinstance(data, dict)
        call = Call(
            kind="model",
            request={"model": self.fingerprint, "named": self.ref.label, **data},
            codec=codec(_Answered),
            draw=draw,
            estimate=self.estimate(),
        )
        answered = await effects.once(call, lambda nested: self._perform(request, draw, nested))
        if answered.reply is not None:
            return Priced(reply=answered.reply, nano_usd=answered.nano_usd)
        if answered.trouble == "rejected":
            raise ModelRejected(answered.message)
        attempts = f" (after {answered.attempts} attempts)" if answered.attempts > 1 else ""
        raise ModelUnavailable(f"{answered.message}{attempts}")

    async def reach(self) -> Spend:
        """Ask the smallest question once, outside of any journal; what the answer cost.

        Raises ModelError if there is none.
        """
        client = replace(self, ref=replace(self.ref, settings=_smallest(self.ref)))
        attempts = EndpointAttempts(self.ref, self.limits, self.retries)
        reply = await attempts.make(lambda: client._attempt(_PREFLIGHT, draw=0))
        usage = replace(reply.usage, requests=1)
        cost = self.prices.nano_usd(self.ref, usage, reply.model)
        return _spend(usage, cost) + self._spend(attempts.wasted)

    async def _perform(
        self, request: ChatRequest, draw: int, effects: Effects
    ) -> Receipt[_Answered]:
        attempts = EndpointAttempts(self.ref, self.limits, self.retries)

        async def post() -> ChatReply:
            return await attempts.make(lambda: self._attempt(request, draw))

        try:
            if request.schema is None or not isinstance(self.backend, FindsForms):
                reply = await post()
            else:
                reply = await self._structured(self.backend, post, effects)
        except (ModelUnavailable, ModelRejected) as error:
            missing = isinstance(error, ModelUnavailable)
            trouble = "unavailable" if missing else "rejected"
            failed = _Answered(trouble=trouble, message=str(error), attempts=attempts.count)
            # Without an answer there is no bill; what a timeout cost, only the endpoint knows.
            wasted = self._spend(attempts.wasted) if attempts.wasted.requests else Spend(calls=1)
            return Receipt(value=failed, spend=wasted, missing=missing)
        usage = replace(reply.usage, requests=max(1, reply.usage.requests))
        cost = self.prices.nano_usd(self.ref, usage, reply.model)
        spend = _spend(replace(usage, requests=1), cost) + self._spend(attempts.wasted)
        answered = _Answered(
            reply=replace(reply, usage=usage), nano_usd=cost, attempts=attempts.count
        )
        return Receipt(value=answered, spend=spend)

    async def _structured(
        self, backend: FindsForms, post: Callable[[], Awaitable[ChatReply]], effects: Effects
    ) -> ChatReply:
        """A structured answer; the first one of a run finds the form for all.

        Others wait for it, and what it found is journaled, so that a resume goes on in that form.
        """
        own: list[ChatReply | Exception] = []

        async def find(_: Effects) -> Receipt[tuple[Form, ...]]:
            try:
                own.append(await post())
            except Exception as error:  # noqa: BLE001 - raised again below, for this request alone
                own.append(error)
                raise _FormUnknown from None
            return Receipt(value=backend.refused_forms(self.ref))

        ref = self.ref
        call = Call(
            kind="form",
            request={"model": [ref.provider, ref.name, ref.location, ref.api_version]},
            codec=codec(tuple[Form, ...]),
            estimate=NOTHING,
        )
        with suppress(_FormUnknown):
            backend.refuse_forms(ref, await effects.once(call, find))
        result = own[0] if own else await post()
        if isinstance(result, Exception):
            raise result
        return result

    def _spend(self, usage: Usage) -> Spend:
        """What answers without a use cost: nobody knows the name of the model that gave them."""
        if not usage.requests:
            return Spend()
        return _spend(usage, self.prices.nano_usd(self.ref, usage))

    async def _attempt(self, request: ChatRequest, draw: int) -> ChatReply:
        limit = self.ref.settings.timeout
        size = sum(len(message.content) for message in request.messages)
        with receiving() as received:
            try:
                async with asyncio.timeout(limit):
                    reply = await self.backend.complete(self.ref, request, draw=draw)
            except TimeoutError as error:
                late = f"{self.ref.label} did not answer within {limit:g} s"
                raise ModelUnavailable(late, usage=received.usage(size)) from error
            except ModelUnavailable as error:
                error.usage = received.usage(size)
                raise
        if fault := _fault(reply):
            received.begun = True
            usage = received.usage(size)
            raise ModelUnavailable(f"{self.ref.label} returned {fault}", usage=usage)
        return reply


PREFLIGHT = "Reply with the word: ok"
"""The question that shows whether a model can be reached."""
_PREFLIGHT = ChatRequest(messages=(Message(role="user", content=PREFLIGHT),))


def _smallest(ref: ModelRef) -> ModelSettings:
    """The settings of a question whose answer is of no use, and may be cut off."""
    settings = replace(
        ModelSettings(), timeout=ref.settings.timeout, max_answer_mb=ref.settings.max_answer_mb
    )
    cannot = "max_tokens" in ref.row.unsupported and is_providers_own(ref)
    return settings if cannot else replace(settings, max_tokens=16)


def _spend(usage: Usage, nano_usd: int | None) -> Spend:
    return Spend(
        calls=usage.requests,
        tokens_in=usage.input_tokens,
        tokens_out=usage.output_tokens,
        nano_usd=nano_usd or 0,
        unpriced=usage.requests if nano_usd is None else 0,
    )


def _fault(reply: ChatReply) -> str:
    """What no model can mean, and no journal can store; '' for a sound reply."""
    usage = reply.usage
    for count in (usage.requests, usage.input_tokens, usage.output_tokens):
        if type(count) is not int or not 0 <= count <= MOST:
            return "an impossible number of tokens"
    tools: list[Json] = [[use.id, use.name, dict(use.arguments)] for use in reply.uses]
    try:
        canonical([reply.text, reply.model, *tools, reply.verbatim])
    except NotJournalable:
        return "an answer that is not Unicode text, or not JSON"
    return ""
