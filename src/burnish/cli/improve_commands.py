"""`burnish optimize`, `delegate` and `refine`: the commands that make something better."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from burnish.cli import options
from burnish.cli.flags import FieldsCommand, Flag, flag_of, flag_values


class TaskCommand(FieldsCommand):
    """A command whose flags are fields of a run about one task."""

    strategy: ClassVar[str] = "delegate"
    parts: ClassVar[tuple[str, ...]] = ("target", "strategy")
    """The parts of the description that its flags may set."""
    explains: ClassVar[bool] = False

    def flags(self, args: Sequence[str], own: Sequence[Any]) -> Iterator[Flag]:
        del args, own
        return self.every_flag()

    def every_flag(self) -> Iterator[Flag]:
        from burnish.projects.description import STRATEGY, Doors
        from burnish.projects.file_kinds import WorkflowFile

        doors = Doors.of(WorkflowFile.target, self.strategy)
        for name, setting in doors.named().items():
            if name != STRATEGY and setting.path[0] in self.parts:
                yield flag_of(setting)


def delegate(
    ctx: typer.Context,
    workflow: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A workflow file.")
    ] = None,
    *,
    task_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file that contains the task.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="EXP", help="Make it a task of this experiment."),
    ] = None,
    primary: Annotated[
        str | None,
        typer.Option(metavar="TASK", help="With --target: continue from the BEST of this task."),
    ] = None,
    db: options.Db = None,
    output_dir: options.OutputDir = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            autocompletion=options.run_ids,
            help="Continue a run: its folder, or its name.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Validate everything without making paid calls.")
    ] = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Let a manager plan a task, delegate it to workers, and check the result.

    Exit code 0: all gates passed. 1: they did not, or an error. 2: interrupted, can be resumed.
    """
    from burnish.cli.delegation import DelegateRequest, delegate_task

    request = DelegateRequest(
        file=workflow,
        flags=flag_values(ctx),
        task_file=task_file,
        target=target,
        primary=primary,
        db=db,
        output_dir=output_dir,
        resume=resume,
        dry_run=dry_run,
        as_json=as_json,
        quiet=quiet,
    )
    delegate_task(request)


_look, _output = options.in_panel("Look first"), options.in_panel("Output")


class OptimizeCommand(FieldsCommand):
    """Its flags are the fields of the run: of every run, of its target, and of its strategy."""

    implied: ClassVar[Mapping[str, tuple[str, str]]] = {"--goal": ("--strategy", "frugal")}


@dataclass(frozen=True, kw_only=True)
class _Opening:
    """Which run is made or continued."""

    output_dir: options.OutputDir = None
    resume: Annotated[str | None, options.run_option("Continue a run, with the flags it had.")] = (
        None
    )
    fork: Annotated[
        str | None, options.run_option("Start a new run that reuses everything RUN has paid for.")
    ] = None
    retry_missing: Annotated[
        bool, typer.Option("--retry-missing", help="With --fork: try again what is missing.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class _Look:
    """What is shown instead of a search."""

    dry_run: Annotated[
        bool,
        _look(
            "--dry-run", help="Validate everything and estimate costs, without making paid calls."
        ),
    ] = False
    suggest_axes: Annotated[
        bool, _look("--suggest-axes", help="Print a block with everything that can be tuned.")
    ] = False
    report_only: Annotated[
        str | None,
        _look(
            metavar="RUN",
            autocompletion=options.run_ids,
            help="Only rewrite the report.md of a run.",
        ),
    ] = None


@options.flag_group("opening", _Opening)
@options.flag_group("look", _Look)
def optimize(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="An agent file, a graph file, an optimizer.json, a task file, a suite or a "
            "project file; agent.yaml by default.",
        ),
    ] = None,
    *,
    assignments: options.Assignments = None,
    opening: _Opening,
    request: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel="Graphs of agents",
            help="A PromptIter run request as JSON; it overrides the graph file.",
        ),
    ] = None,
    look: _Look,
    progress: options.Progress = "auto",
    quiet: options.Quiet = False,
    verbose: Annotated[
        bool,
        _output(
            "-v",
            "--verbose",
            help="Also show what critic, applier, reflector, patcher or editor said.",
        ),
    ] = False,
) -> None:
    """Make an agent file, a graph of agents, prompts, files or policy texts measurably better.

    Flags override the file; the file overrides variables such as BURNISH_MAX_TRIALS.
    The run ends at the first limit that it reaches.
    """
    from burnish.cli.optimization import OptimizeRequest, RunOpening, optimize_project

    optimize_project(
        OptimizeRequest(
            file=file,
            way=RunOpening(**vars(opening)),
            flags=flag_values(ctx, assignments),
            **vars(look),
            request=request,
            progress=progress,
            quiet=quiet,
            verbose=verbose,
        )
    )


class RefineCommand(TaskCommand):
    """A command with its own exit code for a wrong command line."""

    strategy: ClassVar[str] = "refine"
    parts: ClassVar[tuple[str, ...]] = ("strategy",)
    usage_exit = 2


def refine(
    ctx: typer.Context,
    run_dir: Annotated[
        Path | None, typer.Argument(metavar="RUN_DIR", help="The folder of a finished delegation.")
    ] = None,
    *,
    target: Annotated[
        str | None,
        typer.Option(metavar="EXP:TASK", help="Refine the best run of a task in an experiment."),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="SESSION", help="Continue an unfinished session: its id, or last."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, without making paid calls.")
    ] = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Make one result better: run its task again with a list of what is wrong with it.

    Exit code 0: BEST was written, or there is nothing to refine. 1: the seed stays the best, or
    an error. 2: it cannot be refined. 130: interrupted, can continue with --resume.
    """
    from burnish.cli.delegation import RefineRequest, refine_run

    request = RefineRequest(
        run=run_dir,
        target=target,
        flags=flag_values(ctx),
        resume=resume,
        dry_run=dry_run,
        as_json=as_json,
        quiet=quiet,
    )
    refine_run(request)
