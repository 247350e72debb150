"""Launching a run: drive it, keep the report current, let go of everything."""

from collections.abc import Callable, Sequence
from pathlib import Path

from burnish.projects.suites.keeping import RegistryKeeper, SuiteRecord
from burnish.reports.report import write_report
from burnish.reports.round_files import RoundFiles
from burnish.reports.task_results import TaskLog, TaskResults
from burnish.runs.driving import Ending, drive
from burnish.runs.events import Listener
from burnish.runs.header import NAME as HEADER
from burnish.runs.opening import resume, start
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.strategies.reflective.strategy import Reflective
from burnish.system.loops import run_to_end
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.delegation.target import DelegationTarget
from burnish.targets.prompts.target import PromptsTarget


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
    written = (_round_files(run), _task_results(run), _registry(run))
    files = [each for each in written if each is not None]
    for listener in (*listeners, *files):
        run.listen(listener)
    try:
        return await drive(run)
    finally:
        try:
            await run.close()
        finally:
            write_report(run.directory.folder)
            for each in files:
                each.finish()


def _task_results(run: Run) -> TaskResults | None:
    """What writes the files of seed 002, where the run is over a task."""
    log = TaskLog.of(run.directory.header.project.config)
    if log is None or not isinstance(run.target, ArtifactsTarget):
        return None
    return TaskResults(run.directory.folder, log, run.target.files_of)


def _registry(run: Run) -> RegistryKeeper | None:
    """What keeps the policy registry, where texts of it are trained."""
    if not isinstance(run.target, DelegationTarget):
        return None
    # Delegations that were under way when a run was killed go on from here.
    run.target.move_in(run.directory)
    record = SuiteRecord.of(run.directory.header.project.config)
    return None if record is None else RegistryKeeper(run, record)


def _round_files(run: Run) -> RoundFiles | None:
    """What writes the files of seed 001, where its kind of search goes on."""
    if not isinstance(run.target, PromptsTarget) or run.setup.strategy.name != Reflective.name:
        return None
    texts = {name: str(text) for name, text in run.target.baseline.values.items()}
    redactor = run.directory.redactor
    return RoundFiles(run.directory.folder, baseline=texts, redactor=redactor)
