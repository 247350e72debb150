"""`burnish optimize`, also known as `burnish test optimize`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from burnish.cli import options
from burnish.cli.flags import FieldsCommand, flag_values

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
    from burnish.cli.execution import RunOpening
    from burnish.cli.optimization import OptimizeRequest, optimize_project

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
