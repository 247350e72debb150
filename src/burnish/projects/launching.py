"""Launching a run: drive it, keep the report current, let go of everything."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from burnish.reports.report import write_report
from burnish.runs.driving import Ending, drive
from burnish.runs.events import Listener
from burnish.runs.header import NAME as HEADER
from burnish.runs.opening import resume, start
from burnish.runs.run import Run
from burnish.runs.setup import Setup


def launch(open_run: Callable[[], Run], listeners: Sequence[Listener] = ()) -> Ending:
    """Drive a run to its end. However it ends, its report says what is known."""
    return asyncio.run(_launch(open_run, listeners))


def optimize(setup: Setup, folder: Path, *, listeners: Sequence[Listener] = ()) -> Ending:
    """Make the run in `folder`, or go on with the run that is there.

    So a program that was killed goes on where it was when it is started again, and one that
    had finished gives its result again without paying for anything.
    """

    def opened() -> Run:
        is_run = (folder / HEADER).exists()
        return resume(setup, folder) if is_run else start(setup, folder=folder)

    return launch(opened, listeners)


async def _launch(open_run: Callable[[], Run], listeners: Sequence[Listener]) -> Ending:
    run = open_run()
    for listener in listeners:
        run.listen(listener)
    try:
        return await drive(run)
    finally:
        await run.close()
        write_report(run.directory.folder)
