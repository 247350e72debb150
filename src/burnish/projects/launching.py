"""Launching a run: drive it, keep the report current, let go of everything."""

from collections.abc import Callable, Sequence
from pathlib import Path

from burnish.reports.report import write_report
from burnish.runs.driving import Ending, drive
from burnish.runs.events import Listener
from burnish.runs.header import NAME as HEADER
from burnish.runs.opening import resume, start
from burnish.runs.plugins import strategy_plugin, target_plugin
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.system.shutdown import run_to_end


def launch(open_run: Callable[[], Run], listeners: Sequence[Listener] = ()) -> Ending:
    """Drive a run to its end. However it ends, its report says what is known."""
    return run_to_end(launched(open_run, listeners))


def optimize(setup: Setup, folder: Path, *, listeners: Sequence[Listener] = ()) -> Ending:
    """Make the run in `folder`, or go on with the run that is there.

    So a program that was killed goes on where it was when it is started again, and one that
    had finished gives its result again without paying for anything.
    """

    def opened() -> Run:
        is_run = (folder / HEADER).exists()
        return resume(setup, folder) if is_run else start(setup, folder=folder)

    return launch(opened, listeners)


async def launched(open_run: Callable[[], Run], listeners: Sequence[Listener] = ()) -> Ending:
    """The same, in the event loop that is running."""
    run = open_run()
    plugins = (
        strategy_plugin(run.setup.strategy.name),
        target_plugin(run.target.description.kind),
    )
    files = [each for plugin in plugins if (each := plugin.result_files(run)) is not None]
    for listener in (*listeners, *files):
        run.listen(listener)
    try:
        return await drive(run)
    finally:
        try:
            await run.close()
        finally:
            try:
                for each in files:
                    each.finish()
            finally:
                write_report(run.directory.folder)  # last, since it may show what they hold
