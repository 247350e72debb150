"""Asks each model of a run once, before anything else is paid.

Without it, a reflector with a wrong key or name would be found after the whole baseline was paid.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

from burnish.core.content import Json, codec, record
from burnish.core.errors import EndpointDown
from burnish.core.formatting import duration
from burnish.core.money import Spend
from burnish.core.protocols import Call, Receipt, Scope
from burnish.journal.limits import Patience
from burnish.journal.once import Unpaid
from burnish.models.chat import ModelClient
from burnish.models.errors import ModelRefused, ModelRejected, ModelUnavailable
from burnish.models.factory import EMBEDDINGS, ModelUse
from burnish.models.references import ModelRef
from burnish.runs.events import Warned
from burnish.runs.run import Run


async def ask_each_model(run: Run) -> None:
    """Ask each model once; raise if one of them cannot answer.

    Each answer is journaled, so that a resume asks nobody again, and counts as a call.
    """
    tasks = [asyncio.create_task(_ask(run, use)) for use in run.setup.preflight()]
    try:
        # It ends with the first error: others may be waited for that this run cannot use any more.
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@record
class _Reached:
    """A model that answered, as the journal stores it."""

    rejected: str = ""
    """Why it turned this question away. It was reached, and may answer others."""


async def _ask(run: Run, use: ModelUse) -> None:
    """Ask one model, as an effect of this run alone: what answered an earlier run may be gone."""
    ref = use.model
    model: Json = [ref.label, ref.location, ref.api_version, ref.api_key]
    call = Call(
        kind="preflight",
        request={"run": run.directory.header.id, "model": model},
        codec=codec(_Reached),
        estimate=use.client.estimate(),
    )
    if run.replaying and run.directory.journal.find(call.key) is None:
        return  # it was not asked at the start, and has been used since
    who = ", ".join(use.roles)

    def waits(reason: str, seconds: float) -> None:
        message = f"{who}: {reason} (trying again for up to {duration(seconds)})"
        run.tell(Warned(message=message), f"preflight:{run.directory.journal.session}:{call.key}")

    async def perform(_: Scope) -> Receipt[_Reached]:
        try:
            spend = await patiently(lambda: _reach(use), use.client.patience, waits=waits)
        except ModelRejected as error:
            return Receipt(value=_Reached(rejected=str(error)), spend=Spend(calls=1))
        except ModelRefused as error:
            raise Unpaid(ModelRefused(f"{who}: {error.message}", remedy=error.remedy)) from None
        except ModelUnavailable as error:
            if error.unreached:
                raise Unpaid(_unreachable(f"{who}: {error}", error, ref)) from None
            remedy = (
                f"when it answers, go on with `burnish runs resume {run.directory.folder.name}`"
            )
            raise EndpointDown(f"{who}: {error}", remedy=remedy) from None
        return Receipt(value=_Reached(), spend=spend)

    try:
        await run.perform(lambda scope: scope.once(call, perform))
    except Unpaid as unpaid:
        raise unpaid.error from None


async def _reach(use: ModelUse) -> Spend:
    if use.roles != (EMBEDDINGS,):
        return await use.client.reach()
    return await _reach_embeddings(use.client)


async def _reach_embeddings(client: ModelClient) -> Spend:
    from burnish.retrieval.embedders import EndpointEmbedder  # few runs have one

    embedder = EndpointEmbedder(ref=client.ref, prices=client.prices, limits=client.limits)
    try:
        return await embedder.reach()
    finally:
        await embedder.close()


def _unreachable(message: str, error: ModelUnavailable, ref: ModelRef) -> ModelRefused:
    where = ref.address_setting
    if error.unreached == "unknown host":
        return ModelRefused(message, remedy=f"check {where} and the network")
    return ModelRefused(message, remedy=f"start the server, or correct {where}")


# -- Waiting ---------------------------------------------------------------------------------------


async def patiently(
    attempt: Callable[[], Awaitable[Spend]],
    patience: Patience,
    *,
    waits: Callable[[str, float], None],
) -> Spend:
    """The result of the first attempt that succeeds; waits for what may pass.

    `waits` is called once, with the first failure and the seconds for which it is tried again. The
    last attempt is made when they are over, and its error is raised.
    """
    started, number = patience.clock(), 0
    while True:
        number += 1
        try:
            return await attempt()
        except ModelUnavailable as error:
            seconds = _seconds(patience, error)
            left = seconds - (patience.clock() - started)
            if left <= 0:
                raise
            if number == 1:
                waits(str(error), seconds)
            # Waiting decides nothing, so this randomness needs no named stream.
            jitter = random.random()  # noqa: S311
            pause = patience.pauses.wait(number, jitter=jitter, requested=error.retry_after)
        await patience.sleep(min(pause, left))


def _seconds(patience: Patience, error: ModelUnavailable) -> float:
    """How long to wait for what an error is about."""
    if error.unreached == "unknown host":
        return 0.0
    # An answer of no use is billed, and a wrong address does not become right.
    soon = error.unreached == "refused" or error.usage is not None
    return patience.starting if soon else patience.busy
