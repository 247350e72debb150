"""A run in the shape of PromptIter, assembled from the store."""

import asyncio
import json

from burnish.compat.promptiter import RunResult, Slimming
from burnish.core.content import Json
from burnish.server.apps.engines import assembled
from burnish.server.security import public
from burnish.server.stores.records import RunEvent, RunStore, StoredRun, json_pieces

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ESCAPED = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
_LEVELS = 7
"""Down to one case of one evaluation of one round: deeper parts are small."""


async def run_result(
    store: RunStore, record: StoredRun, slim: Slimming | None = None
) -> dict[str, Json]:
    """The result of a run, or its state so far."""
    if isinstance(record.result, dict) and record.status.finished:
        result = record.result
    else:
        events: list[RunEvent] = []
        key = (record.app_name, record.run_id)
        while page := await store.events(*key, after=len(events), limit=500):
            events += page
        result = await asyncio.to_thread(assembled, events, RunResult())
    result = result if slim is None else slim.slimmed(result)
    assert isinstance(result, dict)
    # The record is what was decided: a cancel wins over whatever the engine said last.
    return result | {
        "AppName": record.app_name,
        "ID": record.run_id,
        "Status": record.status.value,
        "CurrentRound": record.current_round,
        "ErrorMessage": public(record.error),
    }


def go_json(value: Json) -> bytes:
    """JSON as Go's encoder writes it, which PromptIter's clients may rely on.

    Encoded in pieces, because the codec blocks other threads and results may be large.
    """
    # These characters occur only inside strings, so escaping them afterwards is safe.
    pieces = json_pieces(value, _LEVELS, lambda inner: _ENCODER.encode(inner).translate(_ESCAPED))
    return "".join([*pieces, "\n"]).encode("utf-8", "replace")
