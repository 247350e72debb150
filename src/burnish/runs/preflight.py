"""Asks each model of a run once, before anything else is paid.

Without it, a reflector with a wrong key or name would be found after the whole baseline was paid.
"""

import asyncio

from burnish.core.content import Json, codec, record
from burnish.core.errors import EndpointDown
from burnish.core.money import Spend
from burnish.core.protocols import Call, Receipt, Scope
from burnish.journal.once import Unpaid
from burnish.models.chat import ModelClient
from burnish.models.errors import ModelRefused, ModelRejected, ModelUnavailable
from burnish.models.factory import EMBEDDINGS, ModelUse
from burnish.models.references import ModelRef
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


_UNREACHED = {"unknown host", "refused"}


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

    async def perform(_: Scope) -> Receipt[_Reached]:
        try:
            spend = await _reach(use)
        except ModelRejected as error:
            return Receipt(value=_Reached(rejected=str(error)), spend=Spend(calls=1))
        except ModelRefused as error:
            raise Unpaid(ModelRefused(f"{who}: {error.message}", remedy=error.remedy)) from None
        except ModelUnavailable as error:
            if error.cause in _UNREACHED:
                raise Unpaid(_unreachable(f"{who}: {error}", error, ref)) from None
            raise EndpointDown(
                f"{who}: {error}", remedy=f"when it answers, {run.how_to_go_on}"
            ) from None
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
    if error.cause == "unknown host":
        return ModelRefused(message, remedy=f"check {where} and the network")
    return ModelRefused(message, remedy=f"start the server, or correct {where}")
