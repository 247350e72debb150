"""`burnish delegate`: run a manager-and-workers workflow on one task."""

from collections.abc import Iterator, Sequence
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
