"""Launching a run: drive it, keep the report current, let go of everything."""

import asyncio
from collections.abc import Callable, Sequence

from burnish.reports.report import write_report
from burnish.runs.driving import Ending, drive
from burnish.runs.events import Listener
from burnish.runs.run import Run


def launch(open_run: Callable[[], Run], listeners: Sequence[Listener] = ()) -> Ending:
    """Drive a run to its end. However it ends, its report says what is known."""
    return asyncio.run(_launch(open_run, listeners))


async def _launch(open_run: Callable[[], Run], listeners: Sequence[Listener]) -> Ending:
    run = open_run()
    for listener in listeners:
        run.listen(listener)
    try:
        return await drive(run)
    finally:
        await run.close()
        write_report(run.directory.folder)
