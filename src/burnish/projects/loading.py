"""From a project file, or from a run that goes on, to a Setup."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from burnish.core.errors import ResumeRefused
from burnish.models.factory import Models
from burnish.projects.describing import Flags, Request, describe, described_again
from burnish.projects.dialects import Document
from burnish.runs.building import Description, build
from burnish.runs.header import Header
from burnish.runs.opening import RESULTS
from burnish.runs.plugins import strategy_plugin
from burnish.runs.setup import Setup
from burnish.runs.spec import Source
from burnish.system import read_text

FLAGS_ALONE = "prompts"
"""The kind of a run that flags describe without any file."""
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
_OLD_ONLY = ("agent_folder", "asked", "policy_versions")


@dataclass(frozen=True, kw_only=True)
class LoadedProject:
    """A project ready to run, and where its runs lie."""

    setup: Setup
    root: Path
    """`results/optimizer` beside the file."""


def load_project(
    path: Path,
    flags: Flags,
    *,
    environ: Mapping[str, str] | None = None,
    models: Models | None = None,
    request: Request | None = None,
) -> LoadedProject:
    """Read a project file; everything that is wrong with it is said at once.

    A folder stands for flags that say everything; what they name is found from there. A `request`
    is laid over the file, and `models` stand in for the real ones.
    """
    if path.is_dir():
        document = Document.of_flags(path, {"kind": FLAGS_ALONE})
    else:
        document = Document.read(path)
    return _loaded(describe(document, flags, environ=environ, request=request), models)


def reload_project(
    folder: Path,
    flags: Flags,
    *,
    file: Path | None = None,
    models: Models | None = None,
    as_new: bool = False,
) -> LoadedProject:
    """A run's project as run.json describes it, with newer flags over it.

    `file` is where the project file lies now, where it was moved. `as_new` is for a new run that
    begins with the description of this one: what was to happen at the end of this one is not said
    of it.
    """
    header = Header.read(folder)
    if not header.project.spec and header.project.kind != "python":
        return _of_old_run(header, flags, file=file, models=models)
    described = described_again(folder, flags, file=file, as_new=as_new)
    project = _loaded(described, models, folder)
    # Last, since notes are told by their number, and the others were told at the start.
    notes = (*project.setup.notes, *_changed(described.spec.source, header))
    return replace(project, setup=replace(project.setup, notes=notes))


def _loaded(
    described: Description, models: Models | None, folder: Path | None = None
) -> LoadedProject:
    home = Path(described.spec.source.folder)
    setup = build(described, models=models, folder=folder)
    return LoadedProject(setup=setup, root=home / RESULTS)


def _changed(source: Source, header: Header) -> tuple[str, ...]:
    """What to say where the file is not what it was when the run was started."""
    path = Path(source.file)
    if not source.digest or not path.is_file():
        return ()
    now = hashlib.sha256(read_text(path).removeprefix("\ufeff").encode()).hexdigest()[:16]
    if now == source.digest:
        return ()
    message = (
        f"{path.name} has changed since this run was started: the run goes on as it was described"
    )
    if strategy_plugin(header.strategy).over:
        return (message,)
    fork = f"`burnish optimize {path.name} --fork {header.id}`"
    return (f"{message}; {fork} starts from the file as it is now",)


def _of_old_run(
    header: Header, flags: Flags, *, file: Path | None, models: Models | None
) -> LoadedProject:
    """A run of version 0.1, which kept its file and its flags: they are described anew."""
    path = file or Path(header.project.file)
    if not path.exists():
        raise ResumeRefused(
            f"run {header.id} was started from {path}, which is gone",
            remedy="put the file back, or say where it is now: "
            f"`burnish optimize FILE --resume {header.id}`",
        )
    kept = cast("Mapping[str, JsonValue]", header.project.config.get("overrides") or {})
    before = {_OLD_NAMES.get(k, k): v for k, v in kept.items() if k not in _OLD_ONLY}
    return load_project(path, {**before, **flags}, models=models)
