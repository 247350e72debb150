"""From a project file or a stored run to a Setup, and running it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pydantic import JsonValue

from burnish.core.cases import Dataset
from burnish.core.errors import FileTrouble, ResumeRefused, in_shell
from burnish.models.factory import Models
from burnish.projects.description import Request, describe
from burnish.projects.dialects import Document, Flags
from burnish.projects.resuming import described_again
from burnish.reports.rendering import write_report
from burnish.runs.build import RunDescription, build
from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import Header
from burnish.runs.driver import Ending, drive
from burnish.runs.events import Listener
from burnish.runs.plugins import LiveParts, strategy_plugin, target_plugin
from burnish.runs.run import Run
from burnish.runs.setup import RESULTS as RUN_RESULTS
from burnish.runs.setup import Setup, resume, start
from burnish.system.shutdown import run_to_end

if TYPE_CHECKING:
    from burnish.tracking.trackers import RunTracking


def launch(open_run: Callable[[], Run], listeners: Sequence[Listener] = ()) -> Ending:
    """Run to the end. However it ends, its report is written.

    Whoever interrupts a run does not wait for report.html, unless there is one of before.
    """
    opened: list[Run] = []

    def open_and_note() -> Run:
        opened.append(open_run())
        return opened[-1]

    ending = run_to_end(launched(open_and_note, listeners))
    write_page(ending.folder, opened[-1].dataset, only_again=ending.interrupted)
    return ending


def write_page(folder: Path, cases: Dataset, *, only_again: bool = False) -> None:
    """Write report.html; a full disk does not fail the run.

    With `only_again`, only if there is one.
    """
    from burnish.pages.run_page import NAME, is_automatic, write_html

    if is_automatic() and (not only_again or (folder / NAME).exists()):
        with suppress(FileTrouble, OSError):
            write_html(folder, cases=cases)


def launch_in(setup: Setup, folder: Path | str, *, listeners: Sequence[Listener] = ()) -> Ending:
    """Start the run in a folder, or resume the one that is there, and run to the end."""
    return launch(lambda: start_or_resume(setup, Path(folder)), listeners)


def start_or_resume(setup: Setup, folder: Path) -> Run:
    """Start the run in `folder`, or resume the one that is there."""
    is_run = (folder / HEADER).exists()
    return resume(setup, folder) if is_run else start(setup, folder=folder)


async def launched(open_run: Callable[[], Run], listeners: Sequence[Listener] = ()) -> Ending:
    """The same, in the running event loop."""
    run = open_run()
    plugins = (
        strategy_plugin(run.setup.strategy.name),
        target_plugin(run.target.description.kind),
    )
    files = [each for plugin in plugins if (each := plugin.result_files(run)) is not None]
    tracked: list[RunTracking] = []
    try:
        tracked += tracking(run)
        for listener in (*listeners, *files, *tracked):
            run.listen(listener)
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
                for each in tracked:
                    each.finish()


def tracking(run: Run) -> "list[RunTracking]":
    """What shows the run in other systems, if there are any."""
    if not run.setup.tracking.to:
        return []
    from burnish.tracking.trackers import RunTracking

    return [RunTracking(run, run.setup.tracking)]


_OLD_NAMES = {
    "sealed_cases": "test",
    "train_cases": "train",
    "holdout_cases": "holdout",
    "prompt_files": "prompt",
    "metric_file": "metrics",
    "policy_db": "db",
    "baseline_only": "print_baseline",
    "no_rollback": "rollback",
}
"""What runs of version 0.1 call the flags that they were started with."""


@dataclass(frozen=True, kw_only=True)
class LoadedProject:
    """A project ready to run, and the folder of its runs."""

    setup: Setup
    root: Path
    """`results/optimizer` beside the file."""


def load_project(
    path: Path,
    flags: Flags,
    *,
    environ: Mapping[str, str] | None = None,
    models: Models | None = None,
    live: LiveParts | None = None,
    request: Request | None = None,
) -> LoadedProject:
    """Read a project file; all problems are reported at once.

    A folder stands in for a file if flags say everything. A `request` overrides the file; `models`
    replace the real ones, and `live` parts those that are described.
    """
    if path.is_dir():
        document = Document.of_flags(path, {"kind": "prompts"})
    else:
        document = Document.read(path)
    described = describe(document, flags, environ=environ, request=request)
    return _loaded(described, models, live=live)


def reload_project(
    folder: Path,
    flags: Flags,
    *,
    file: Path | None = None,
    models: Models | None = None,
    as_new: bool = False,
) -> LoadedProject:
    """A run's project as run.json describes it, changed by newer flags.

    `file` is the new location of the project file. `as_new` is for a new run with the same
    description: it drops what should happen at the end of the old one.
    """
    header = Header.read(folder)
    if not header.project.spec and header.project.kind != "python":
        return _of_old_run(header, flags, file=file, models=models)
    described = described_again(folder, flags, file=file, as_new=as_new)
    return _loaded(described, models, folder)


def _loaded(
    described: RunDescription,
    models: Models | None,
    folder: Path | None = None,
    live: LiveParts | None = None,
) -> LoadedProject:
    home = Path(described.spec.source.folder)
    setup = build(described, models=models, live=live, folder=folder)
    return LoadedProject(setup=setup, root=home / RUN_RESULTS)


def _of_old_run(
    header: Header, flags: Flags, *, file: Path | None, models: Models | None
) -> LoadedProject:
    """A run of version 0.1, which stored its file and flags: they are described again."""
    path = file or Path(header.project.file)
    if not path.exists():
        raise ResumeRefused(
            f"run {header.id} was started from {path}, which no longer exists",
            remedy="put the file back, or give its new location: "
            f"`burnish optimize FILE --resume {in_shell(header.id)}`",
        )
    overrides = cast("Mapping[str, JsonValue]", header.project.config.get("overrides") or {})
    ignored = ("agent_folder", "asked", "policy_versions")
    before = {_OLD_NAMES.get(k, k): v for k, v in overrides.items() if k not in ignored}
    return load_project(path, {**before, **flags}, models=models)
