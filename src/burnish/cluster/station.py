"""The side of a worker: it builds the target of a run once, and does the work on cases.

Everything paid is asked for first: the run looks it up in its journal, notes it, and only then lets
the worker perform it.
"""

import asyncio
import io
import itertools
import os
import zipfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from burnish.cluster.link import Link, LinkMessage
from burnish.core.cases import Case, Outcome
from burnish.core.content import Codec, Json, canonical, codec
from burnish.core.errors import NotJournalable, WorkerTrouble
from burnish.core.money import Spend
from burnish.core.protocols import Call, Receipt, Scope, WorkUnit
from burnish.journal.limits import Limits
from burnish.projects.description import from_stored
from burnish.runs.build import build
from burnish.runs.case_work import CaseWorker, Scores, invalid_output, no_scores
from burnish.runs.setup import Setup
from burnish.system import Redactor

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
        fingerprint = self._setup.target.description.fingerprint
        if self._order.target and fingerprint != self._order.target:
            message = "the target is not the same there: its files or settings differ"
            raise WorkerTrouble(message, remedy=_REMEDY)
        secrets = [*self._setup.secrets(), *self._order.keys.values()]
        redactor = Redactor.from_environment(extra=secrets)
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
        receipt = await worker.run(unit, WorkerScope(self, scope))
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
        receipt = await worker.grade(case, decoded, WorkerScope(self, scope))
        return self._sent(
            receipt, codec(Scores), lambda error: Scores(scores=no_scores(metrics, error.message))
        )

    async def _perform(self, number: int, scope: int) -> "Receipt[Json]":
        offer = self.offers.pop(number)
        work = self._performed(offer, WorkerScope(self, scope))
        try:
            # In the context of the agent that asked, which has its clock and its recorder.
            return await asyncio.create_task(work, context=offer.context)
        except Exception as error:  # kept for the agent, which gets it as it was raised
            self.errors[number] = error
            raise

    async def _performed(self, offer: _Offer, scope: "WorkerScope") -> "Receipt[Json]":
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


class WorkerScope:
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
