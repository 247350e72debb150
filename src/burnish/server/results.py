"""A run as PromptIter's clients see it, put together from what the store has."""

import asyncio

from burnish.compat.promptiter import RunResult
from burnish.core.content import Json
from burnish.server.apps.engines import assembled
from burnish.server.stores.documents import Slimming, slimmed
from burnish.server.stores.records import RunEvent, RunStore, StoredRun

_PAGE = 500


async def run_result(
    store: RunStore, record: StoredRun, slim: Slimming | None = None
) -> dict[str, Json]:
    """The result of a run, or its state so far."""
    if isinstance(record.result, dict) and record.status.finished:
        result = record.result
    else:
        events = await _every_event(store, record)
        result = await asyncio.to_thread(assembled, events, RunResult())
    result = result if slim is None else slimmed(result, slim)
    assert isinstance(result, dict)
    # The record is what was decided: a cancel wins over whatever the engine said last.
    return result | {
        "AppName": record.app_name,
        "ID": record.run_id,
        "Status": record.status.value,
        "CurrentRound": record.current_round,
        "ErrorMessage": record.error,
    }


async def _every_event(store: RunStore, record: StoredRun) -> list[RunEvent]:
    events: list[RunEvent] = []
    while page := await store.events(
        record.app_name, record.run_id, after=len(events), limit=_PAGE
    ):
        events += page
    return events
