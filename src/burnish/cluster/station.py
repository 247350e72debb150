"""The side of a worker, and the link between it and a run.

A station builds the target of a run once, and does the work on cases. Everything paid is asked for
first: the run looks it up in its journal, notes it, and only then lets the worker perform it.
A link carries calls in both directions, over any way to send messages. Keys are sealed for one
worker, so that nobody who passes messages on or logs them can read one.
"""

import asyncio
import io
import itertools
import json
import os
import pickle
import zipfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from burnish.core.cases import Case, Outcome
from burnish.core.content import Codec, Json, canonical, codec
from burnish.core.errors import BurnishError, NotJournalable, WorkerTrouble
from burnish.core.money import Spend
from burnish.core.protocols import Call, Receipt, Scope, WorkUnit
from burnish.journal.executors import CancelledInside, task_cancelled
from burnish.journal.limits import Limits
from burnish.journal.outages import Waits
from burnish.projects.description import from_stored
from burnish.runs.build import build
from burnish.runs.case_work import CaseWorker, Scores, invalid_output, no_scores
from burnish.runs.setup import Setup, work_fingerprint
from burnish.system import Redactor

# -- The link --------------------------------------------------------------------------------------


_PADDING = padding.OAEP(mgf=padding.MGF1(SHA256()), algorithm=SHA256(), label=None)


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """Variables, encrypted for one worker."""

    secret: bytes
    """The key of the text, for the private key of the worker."""
    text: bytes


def seal(keys: Mapping[str, str], public_key: bytes) -> Sealed:
    """Encrypt variables for whoever made the public key."""
    public = load_der_public_key(public_key)
    assert isinstance(public, rsa.RSAPublicKey)
    secret = Fernet.generate_key()
    text = Fernet(secret).encrypt(json.dumps(dict(keys)).encode())
    return Sealed(secret=public.encrypt(secret, _PADDING), text=text)


class Opener:
    """Makes a pair of keys, and opens what was sealed for it."""

    def __init__(self) -> None:
        self._private = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def public_key(self) -> bytes:
        """What `seal` needs; anybody may see it."""
        public = self._private.public_key()
        return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    def open(self, sealed: Sealed) -> dict[str, str]:
        """The variables."""
        secret = self._private.decrypt(sealed.secret, _PADDING)
        return json.loads(Fernet(secret).decrypt(sealed.text))


@dataclass(frozen=True, kw_only=True)
class LinkMessage:
    """One step of a call."""

    kind: Literal["call", "return", "raise", "cancel"]
    number: int
    """The number of the call at the side that made it."""
    method: str = ""
    value: Any = field(default=None, repr=False)
    """The arguments, the result or the error; not shown, since it may hold what nobody may read."""


_Handler: TypeAlias = Callable[..., Awaitable[Any]]
_Clean: TypeAlias = Callable[[str], str]
"""Removes secrets from a text."""


class Link:
    """One side: calls methods of the other side, and serves its own.

    A call that is cancelled is cancelled at the other side too.
    """

    def __init__(
        self,
        send: Callable[[LinkMessage], None],
        handlers: Mapping[str, _Handler],
        *,
        clean: _Clean = str,
    ) -> None:
        self._send = send
        self._handlers = handlers
        self._clean = clean
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._serving: dict[int, asyncio.Task[None]] = {}
        self._broken: Exception | None = None

    @property
    def broken(self) -> bool:
        """Whether the other side is gone."""
        return self._broken is not None

    async def call(self, method: str, *args: Any) -> Any:
        """The result of a method of the other side; raises what it raised."""
        if self._broken is not None:
            raise self._broken
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._send(LinkMessage(kind="call", number=number, method=method, value=args))
        try:
            return await answer
        except asyncio.CancelledError:
            if self._broken is None:
                self._send(LinkMessage(kind="cancel", number=number))
            raise
        finally:
            self._waiting.pop(number, None)

    def tell(self, method: str, *args: Any) -> None:
        """Call a method of the other side without waiting for its end."""
        if self._broken is None:
            number = next(self._numbers)
            self._send(LinkMessage(kind="call", number=number, method=method, value=args))

    def receive(self, message: LinkMessage) -> None:
        """Take a message from the other side."""
        if self._broken is not None:
            return
        number = message.number
        if message.kind == "call":
            self._serving[number] = asyncio.create_task(self._serve(message))
        elif message.kind == "cancel":
            if number in self._serving:
                self._serving[number].cancel()
        elif (answer := self._waiting.get(number)) is not None and not answer.done():
            if message.kind == "return":
                answer.set_result(message.value)
            else:
                answer.set_exception(message.value)

    async def _serve(self, message: LinkMessage) -> None:
        number, reply = message.number, "return"
        try:
            result = await self._handlers[message.method](*message.value)
        except asyncio.CancelledError:
            if task_cancelled():
                return  # nobody waits for it any more
            reply, result = "raise", CancelledInside()
        except Exception as error:  # noqa: BLE001 - raised again at the other side
            reply, result = "raise", portable(error, self._clean)
        finally:
            self._serving.pop(number, None)
        if self._broken is None:
            self._send(LinkMessage(kind=reply, number=number, value=result))

    async def break_off(self, error: Exception) -> None:
        """Fail every call that waits, and cancel what is being served for the other side."""
        if self._broken is not None:
            return
        self._broken = error
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(error)
        serving = list(self._serving.values())
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


class RemoteFailure(Exception):
    """An error of another process whose type cannot travel; its text has it."""


def portable(error: Exception, clean: _Clean = str) -> Exception:
    """The error, or one with the same text if it cannot be sent or contains a secret."""
    text = clean(str(error))
    known = type(error).__module__.partition(".")[0] in ("builtins", "burnish")
    if known and text == str(error) and _survives(error):
        return error
    if isinstance(error, BurnishError):
        return BurnishError(clean(error.message), remedy=clean(error.remedy))
    return RemoteFailure(f"{type(error).__name__}: {text}")


def _survives(error: Exception) -> bool:
    """Whether the other side would get the same error."""
    try:
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - made in this line
    except Exception:  # noqa: BLE001 - what it holds may refuse in any way
        return False
    return type(copy) is type(error) and str(copy) == str(error)


# -- The station -----------------------------------------------------------------------------------


T = TypeVar("T")
_Perform = Callable[[Scope], Awaitable[Receipt[T]]]
_REMEDY = "give the workers the same files: `--upload FOLDER`, a shared file system, or an image"


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a worker needs to take part in a run."""

    run: str
    """A name for this session of the run, unique on its workers."""
    spec: Mapping[str, Json] = field(repr=False)
    """The description as run.json stores it."""
    target: str = ""
    """The fingerprint of the target in the run; a worker with another one refuses."""
    root: str = ""
    """The folder that was uploaded, as the description spells it."""
    archive: bytes = field(default=b"", repr=False)
    """The files of that folder as a zip archive."""
    keys: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables that the operator passes on."""

    def located(self, folder: Path) -> dict[str, Json]:
        """The description with the paths of the uploaded folder as they are here."""

        def moved(value: Json) -> Json:
            if isinstance(value, dict):
                return {name: moved(item) for name, item in value.items()}
            if isinstance(value, list):
                return [moved(item) for item in value]
            if isinstance(value, str) and (value == self.root or value.startswith(self.root + "/")):
                return f"{folder}{value.removeprefix(self.root)}"
            return value

        spec = dict(self.spec)
        return {name: moved(item) for name, item in spec.items()} if self.root else spec


@dataclass(frozen=True, kw_only=True)
class PaidCall:
    """A Call as data, without the functions that only the worker has."""

    kind: str
    request: Json = field(repr=False)
    draw: int
    estimate: Spend
    computed: bool
    retried_as_a_whole: bool

    @classmethod
    def of(cls, call: Call[Any]) -> "PaidCall":
        return cls(
            kind=call.kind,
            request=call.request,
            draw=call.draw,
            estimate=call.estimate,
            computed=call.computed,
            retried_as_a_whole=call.retried_as_a_whole,
        )


@dataclass(frozen=True, kw_only=True)
class _Offer:
    """A call that this worker would perform, if the run says so."""

    call: Call[Any]
    perform: _Perform[Any]
    context: Context


class Station:
    """One run on this worker."""

    def __init__(self, order: Order, send: Callable[[LinkMessage], None], *, folder: Path) -> None:
        self._order = order
        self._folder = folder
        self._redactor = Redactor(secrets=())
        self.offers: dict[int, _Offer] = {}
        self.errors: dict[int, Exception] = {}
        """By number of the offer, what it raised here: the run only has a copy."""
        self.numbers = itertools.count()
        self.link = Link(
            send,
            {"run": self._run, "grade": self._grade, "perform": self._perform},
            clean=lambda text: self._redactor.without_known(text),
        )
        self._setup: Setup | None = None
        self._waits = Waits(seconds=0)

    def build(self) -> None:
        """Build the target and the metrics."""
        os.environ.update(self._order.keys)
        if self._order.archive:
            with zipfile.ZipFile(io.BytesIO(self._order.archive)) as archive:
                archive.extractall(self._folder)
        stored = self._order.located(self._folder)
        description = from_stored(stored, {}, source="the description of the run")
        models = description.spec.models.models(limits=_SharedLimits(self))
        self._setup = build(description, models=models)
        fingerprint = work_fingerprint(self._setup.target, self._setup.model_uses())
        if self._order.target and fingerprint != self._order.target:
            message = "the target is not the same there: its files, settings or addresses differ"
            raise WorkerTrouble(message, remedy=_REMEDY)
        secrets = [*self._setup.secrets(), *self._order.keys.values()]
        redactor = Redactor.from_environment(extra=secrets)
        self._waits = Waits(
            seconds=60 * self._setup.wait_minutes,
            tell=partial(self.link.tell, "outage"),
            redact=redactor.text,
        )
        self._redactor = replace(redactor, shapes="own-secrets")

    async def close(self) -> None:
        """Cancel everything and close the target."""
        await self.link.break_off(WorkerTrouble("the run has ended"))
        for name, value in self._order.keys.items():
            if os.environ.get(name) == value:
                del os.environ[name]
        if self._setup is not None:
            for resource in reversed(self._setup.resources):
                await resource.close()

    async def _run(self, scope: int, unit: WorkUnit, call_limit: float | None) -> "Receipt[Json]":
        setup = self._built
        worker = CaseWorker(
            target=setup.target,
            metrics=(),
            policy=setup.case_policy,
            concurrency=setup.concurrency,
            call_limit=call_limit,
        )
        with self._waits.apply():
            receipt = await worker.run(unit, _WorkerScope(self, scope))
        return self._sent(
            receipt, codec(Outcome), lambda error: Outcome(failure=invalid_output(error))
        )

    async def _grade(
        self, scope: int, case: Case, outcome: Json, grading: list[tuple[str, str]]
    ) -> "Receipt[Json]":
        setup = self._built
        own = {(m.name, m.fingerprint): m for m in (*setup.second_metrics, *setup.metrics)}
        if lacking := [name for name, digest in grading if (name, digest) not in own]:
            message = f"these metrics are not the same there: {', '.join(lacking)}"
            raise WorkerTrouble(message, remedy=_REMEDY)
        metrics = [own[each] for each in grading]
        worker = CaseWorker(
            target=setup.target,
            metrics=metrics,
            policy=setup.case_policy,
            concurrency=setup.concurrency,
        )
        decoded = codec(Outcome).decode(outcome)
        with self._waits.apply():
            receipt = await worker.grade(case, decoded, _WorkerScope(self, scope))
        return self._sent(
            receipt, codec(Scores), lambda error: Scores(scores=no_scores(metrics, error.message))
        )

    async def _perform(self, number: int, scope: int) -> "Receipt[Json]":
        offer = self.offers.pop(number)
        work = self._performed(offer, _WorkerScope(self, scope))
        try:
            # In the context of the agent that asked, which has its clock and its recorder.
            return await asyncio.create_task(work, context=offer.context)
        except Exception as error:  # kept for the agent, which gets it as it was raised
            self.errors[number] = error
            raise

    async def _performed(self, offer: _Offer, scope: "_WorkerScope") -> "Receipt[Json]":
        receipt = await offer.perform(scope)
        return self._sent(receipt, offer.call.codec, offer.call.otherwise)

    def _sent(
        self,
        receipt: Receipt[T],
        spelled: Codec[T],
        otherwise: Callable[[NotJournalable], T] | None,
    ) -> "Receipt[Json]":
        """The receipt as data, without the secrets that only this worker knows."""
        try:
            data = spelled.encode(receipt.value)
            text = canonical(data).decode()
        except NotJournalable as error:
            if otherwise is None:
                raise
            data = spelled.encode(otherwise(error))
            text = canonical(data).decode()
        if not self._redactor.is_clean(text):
            data = self._redactor.json(data)
        return Receipt(
            value=data,
            spend=receipt.spend,
            missing=receipt.missing,
            mended=receipt.mended,
            unusable=receipt.unusable,
        )

    @property
    def _built(self) -> Setup:
        assert self._setup is not None
        return self._setup


class _WorkerScope:
    """Effects on a worker: the run decides whether a call is performed here at all."""

    def __init__(self, station: Station, number: int) -> None:
        self._station = station
        self._number = number
        """The number of this scope in the run."""
        self.used: dict[str, Spend] = {}

    async def once(self, call: Call[T], perform: _Perform[T]) -> T:
        """The result of `call` from the journal of the run, performed here if necessary."""
        station, number = self._station, next(self._station.numbers)
        station.offers[number] = _Offer(call=call, perform=perform, context=copy_context())
        try:
            value, spends = await station.link.call("once", self._number, number, PaidCall.of(call))
        except Exception as error:  # noqa: BLE001 - the agent gets it
            station.offers.pop(number, None)
            raise station.errors.pop(number, error) from None
        # If this is cancelled instead, the offer stays: the effect belongs to the run.
        station.offers.pop(number, None)
        self.used.update(spends)
        return call.codec.decode(value)


class _SharedLimits(Limits):
    """The limits of endpoints, which the run keeps for all workers together."""

    def __init__(self, station: Station) -> None:
        super().__init__()
        self._station = station

    @asynccontextmanager
    async def place(self, endpoint: str) -> AsyncGenerator[None, None]:
        link, number = self._station.link, next(self._station.numbers)
        try:
            await link.call("take_place", number, endpoint)
            yield
        finally:
            link.tell("leave_place", number)
