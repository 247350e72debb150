"""Running a user's function in a thread of its own.

Not in asyncio's pool: that has few threads, so that agents would wait for each other, and a
function that never returns would keep the program from ending.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any


async def in_thread(function: Callable[[], Any]) -> Any:
    """What the function returns or raises. Cancelled, it is left to itself."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(result)
        else:
            ended.set_exception(error)

    def work() -> None:
        result, error = _called(function)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True, name="burnish agent").start()
    return await ended


def _called(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return function(), None
    except StopIteration as error:
        # A future cannot hold it: it would end whatever loop waits for it.
        return None, RuntimeError(f"the agent raised StopIteration: {error}")
    except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
        return None, error
