"""Ending something for sure, though whoever waits for it is told to leave."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def surely(work: Coroutine[Any, Any, None]) -> None:
    """Wait until it is done; being cancelled meanwhile is put off, not ignored."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
        except Exception:  # noqa: BLE001 - told below, by the task itself
            break
    task.result()
    if cancelled:
        raise asyncio.CancelledError
