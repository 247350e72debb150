"""Running `burnish delegate`: from flags to a delegation, its progress, and its last words."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import typer

from burnish.cli.delegate_showing import StopNotice, last_words, say, show_plan, shown_path
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Interrupted, Problem, ResumeRefused, RunNotFound
from burnish.projects.delegation.loading import LoadedWorkflow, load_workflow
from burnish.projects.delegation.overrides import WorkflowOverrides
from burnish.projects.delegation.runs import Loading, driven, kept_delegation
from burnish.projects.experiments.attaching import attach, offer, would_attach
from burnish.projects.suites.registries import texts_to_read
from burnish.runs.header import NAME as HEADER
from burnish.runs.index import find_run
from burnish.strategies.delegate import Delegate
from burnish.system import read_text, validate_config
from burnish.targets.delegation.beginning import Given
from burnish.targets.delegation.delegating import Delegation
from burnish.targets.delegation.home import is_delegation, new_run_id
from burnish.targets.delegation.policy import PolicyTexts
from burnish.targets.delegation.record import COMPLETION
from burnish.targets.delegation.result import DelegationResult

ROOT = Path("results") / "delegations"
"""Where runs lie, beside the workflow file, when nobody says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line says."""

    file: Path | None = None
    task: str | None = None
    task_file: Path | None = None
    inputs: tuple[Path, ...] = ()
    target: str | None = None
    """The experiment that the task is added to."""
    primary: str | None = None
    """The task whose BEST it goes on from."""
    db: Path | None = None
    """The registry whose policy texts are read."""
    output_dir: Path | None = None
    resume: str | None = None
    dry_run: bool = False
    overrides: Mapping[str, Any] = field(default_factory=dict[str, Any])
    as_json: bool = False
    quiet: bool = False

    def check(self) -> None:
        """Refuse flags that do not go together."""
        said = {
            "--task": self.task is not None,
            "--task-file": self.task_file is not None,
            "--input": bool(self.inputs),
            "-o": self.output_dir is not None,
            "--target": self.target is not None,
            "--primary": self.primary is not None,
            "--db": self.db is not None,
            **{_flag(name): True for name in self.told},
        }
        problems: list[Problem] = []
        if self.resume is not None:
            message = "a run that goes on keeps what it was started with"
            problems += [Problem(where=name, message=message) for name, is_ in said.items() if is_]
        elif self.file is None:
            problems.append(Problem(message="no workflow file is named", remedy="name one"))
        if self.resume is None and said["--task"] == said["--task-file"]:
            remedy = 'say it with --task "…" or --task-file FILE, one of the two'
            problems.append(Problem(message="what is to be done?", remedy=remedy))
        if self.primary is not None and self.target is None:
            told = "it goes with --target: a task can only go on in an experiment"
            problems.append(Problem(where="--primary", message=told))
        if self.target is not None and self.output_dir is not None:
            problems.append(Problem(where="-o", message="with --target the run lies in its task"))
        if problems:
            raise ConfigError(problems)

    @property
    def told(self) -> dict[str, Any]:
        """The overrides that were really given."""
        return {name: value for name, value in self.overrides.items() if value is not None}


def delegate_task(
    asked: Asked, *, load: Loading = load_workflow, policy: PolicyTexts | None = None
) -> None:
    """Do what is asked; exit code 1 where the gates were not passed, 2 when interrupted.

    `policy` is what prompts are made of; the active texts of the registry unless said.
    """
    asked.check()
    plan = _resumed(asked, load) if asked.resume is not None else _fresh(asked, load)
    if asked.dry_run:
        folder, task = str(plan.folder), ""
        if asked.target is not None:
            folder, task = "in its task", would_attach(asked.target, primary=asked.primary)
        show_plan(plan.delegation.workflow, folder=folder, task=task, as_json=asked.as_json)
        return
    if policy is None and asked.resume is None:
        policy = texts_to_read(asked.db, asked.target)
    result = asyncio.run(_driven(plan if policy is None else plan.reading(policy), asked))
    told = offer(plan.delegation.kept, result.run_dir)
    if asked.as_json:
        typer.echo(read_text(result.run_dir / COMPLETION).rstrip())
    else:
        last_words(result, task=told)
    if result.status != "complete":
        raise typer.Exit(1)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """A delegation that could start."""

    delegation: Delegation
    loaded: LoadedWorkflow
    folder: Path

    def reading(self, policy: PolicyTexts) -> "_Plan":
        """The same with these policy texts."""
        return replace(self, delegation=replace(self.delegation, policy=policy))


def _fresh(asked: Asked, load: Loading) -> _Plan:
    assert asked.file is not None
    overrides = validate_config(dict(asked.told), WorkflowOverrides, source="the command line")
    task = asked.task if asked.task_file is None else read_text(asked.task_file)
    if not str(task).strip():
        where = "--task" if asked.task_file is None else str(asked.task_file)
        raise ConfigError([Problem(where=where, message="it is empty", remedy="say what to do")])
    Given(inputs=asked.inputs).check()
    loaded = load(asked.file, overrides)
    run_id = "<run id>" if asked.dry_run else new_run_id()
    folder = asked.output_dir or asked.file.resolve().parent / ROOT / run_id
    kept: dict[str, Json] = {
        "file": str(asked.file.resolve()),
        "overrides": overrides.to_json(),
        "inputs": [str(path.resolve()) for path in asked.inputs],
    }
    delegation = Delegation(
        workflow=loaded.workflow, task=str(task), inputs=asked.inputs, kept=kept
    )
    plan = _Plan(delegation=delegation, loaded=loaded, folder=folder)
    return plan if asked.target is None or asked.dry_run else _in_experiment(plan, asked)


def _in_experiment(plan: _Plan, asked: Asked) -> _Plan:
    """The same as a new task of an experiment."""
    delegation = plan.delegation
    attached = attach(str(asked.target), delegation.task, primary=asked.primary)
    seed = attached.seed_deliverable
    kept: dict[str, Json] = {
        **delegation.kept,
        **attached.kept,
        "seed_deliverable": None if seed is None else str(seed.resolve()),
    }
    delegation = replace(delegation, steer=attached.steer, seed_deliverable=seed, kept=kept)
    return replace(plan, delegation=delegation, folder=attached.folder)


def _resumed(asked: Asked, load: Loading) -> _Plan:
    folder = _found(str(asked.resume), asked.file)
    delegation, loaded = kept_delegation(folder, file=asked.file, load=load)
    return _Plan(delegation=delegation, loaded=loaded, folder=folder)


def _found(name: str, file: Path | None) -> Path:
    """A delegation by its path, by its name beside the workflow file, or as any run is found."""
    beside = [] if file is None else [file.resolve().parent / ROOT / name]
    for folder in (Path(name), ROOT / name, *beside):
        if is_delegation(folder) and not (folder / HEADER).is_file():
            raise ResumeRefused(
                f"{folder} was delegated by an earlier version, and cannot be resumed",
                remedy="delegate its task again; what it delivered can be refined",
            )
        if is_delegation(folder):
            return folder.resolve()
    with contextlib.suppress(RunNotFound):
        if is_delegation(folder := find_run(name)):
            return folder
    raise RunNotFound(
        f"there is no delegation '{name}'",
        remedy=f"give the path to its folder, or its name under {ROOT}",
    )


async def _driven(plan: _Plan, asked: Asked) -> DelegationResult:
    """Drive it; a first signal stops it after the iteration, a second at once."""
    strategy = Delegate(plan.delegation, listen=None if asked.quiet or asked.as_json else say)
    go_on = f"go on    burnish delegate --resume {shown_path(plan.folder)}"
    try:
        return await driven(strategy, plan.folder, listeners=(StopNotice(Delegate.name),))
    except Interrupted as error:
        raise Interrupted(error.message, remedy=go_on) from error
    finally:
        await plan.loaded.models.close()


def _flag(name: str) -> str:
    names = {"max_total_workers": "max_workers", "max_total_tokens": "max_tokens"}
    return f"--{names.get(name, name).replace('_', '-')}"
