"""`burnish optimize`, `delegate` and `refine`: the commands that make something better.

With them, `burnish experiments` and `policy`: tasks of delegations, and the texts they read.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from burnish.cli import options
from burnish.cli.options import FieldsCommand, Flag, flag_of, flag_values

if TYPE_CHECKING:
    from burnish.delegation.policy import PolicyRegistry


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
    require: options.Require = None,
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
    Exit code 0: finished; 1: an error; 2: interrupted, can be resumed;
    4: finished, and what --require asks for was not shown.
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
            require=require,
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


# -- burnish experiments, burnish policy -----------------------------------------------------------


policy_app = typer.Typer(
    no_args_is_help=True, help="The texts that make up the prompts of delegations."
)
experiments_app = typer.Typer(
    no_args_is_help=True, help="Tasks that belong together, and the best of each."
)
_Root = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="The folder of experiments; $BURNISH_EXPERIMENTS_ROOT, or results/experiments.",
    ),
]


_Name = Annotated[str, typer.Argument(metavar="TEXT", help="Such as worker_pitfalls.")]
_Number = Annotated[int, typer.Argument(metavar="VERSION", help="0 is the shipped one.")]
_Experiment = Annotated[
    str | None, typer.Option("--target", metavar="EXP", help="The registry of this experiment.")
]


@policy_app.command("list")
def show_all(
    *, db: options.Db = None, target: _Experiment = None, as_json: options.AsJson = False
) -> None:
    """List the texts: the version of each in use, and how many there are."""
    from burnish.delegation.policy import NAMES
    from burnish.reports.terminal import Columns

    registry = _registry(db, target)
    rows = {name: registry.history(name) for name in NAMES}
    active, pins = registry.active(), registry.pins()
    if as_json:
        entries = [
            {"text": n, "active": active[n], "pinned": pins.get(n), "versions": len(rows[n])}
            for n in NAMES
        ]
        typer.echo(json.dumps(entries))
        return
    table = Columns("text", "active", "pinned", "versions", "characters")
    for name, versions in rows.items():
        pinned = f"v{pins[name]}" if name in pins else ""
        size = len(registry.content(name, pins.get(name, active[name])))
        table.add(name, f"v{active[name]}", pinned, str(len(versions)), f"{size:,}")
    table.show()
    typer.echo(f"registry {registry.path}{'' if registry.path.exists() else ' (not created yet)'}")


@policy_app.command("epochs")
def epochs(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="Its name.")],
    *,
    db: options.Db = None,
    target: _Experiment = None,
    as_json: options.AsJson = False,
) -> None:
    """List the epochs of a suite with their mean loss; an edited suite is a new version."""
    from burnish.delegation.training.target import TrainingLog
    from burnish.reports.terminal import Columns

    rows = TrainingLog(_registry(db, target).path).epochs(suite)
    if as_json:
        typer.echo(json.dumps(rows))
        return
    if not rows:
        typer.echo(f"there are no epochs of a suite '{suite}' here")
        return
    table = Columns("suite", "epoch", "mean loss", "when")
    for row in rows:
        loss = row["mean_loss"]
        shown = f"{loss:.4f}" if isinstance(loss, float) else "—"
        table.add(
            f"{suite} #{row['suite_id']}", str(row["epoch_num"]), shown, str(row["completed_at"])
        )
    table.show()


@policy_app.command("show")
def show(
    name: _Name,
    version: Annotated[
        int | None,
        typer.Argument(metavar="VERSION", help="By default, the version that is in use."),
    ] = None,
    *,
    history: Annotated[bool, typer.Option("--history", help="List all versions instead.")] = False,
    db: options.Db = None,
    target: _Experiment = None,
) -> None:
    """Print a text, or its history."""
    registry = _registry(db, target)
    if not history:
        versions = registry.history(name)
        read = next((each.number for each in versions if each.pinned), None)
        usual = read if read is not None else next(each.number for each in versions if each.active)
        typer.echo(registry.content(name, usual if version is None else version).rstrip("\n"))
        return
    for each in registry.history(name):
        marks = "".join(
            f" {w}" for w, on in (("active", each.active), ("pinned", each.pinned)) if on
        )
        from_ = "shipped" if each.number == 0 else f"from v{each.parent}, {each.created_at}"
        typer.echo(f"v{each.number:<4} {len(each.content):>6,} characters  {from_}{marks}")


@policy_app.command("diff")
def diff(
    name: _Name,
    before: _Number,
    after: Annotated[
        int | None,
        typer.Argument(metavar="VERSION", help="By default, the version that is in use."),
    ] = None,
    *,
    db: options.Db = None,
    target: _Experiment = None,
) -> None:
    """Show how two versions of a text differ."""
    registry = _registry(db, target)
    registry.content(name, before)
    other = registry.in_force()[name] if after is None else after
    lines = registry.diff(name, before, other)
    typer.echo("\n".join(lines) if lines else f"v{before} and v{other} are the same")


@policy_app.command("rollback")
def rollback(
    name: _Name, version: _Number, *, db: options.Db = None, target: _Experiment = None
) -> None:
    """Make a version the active one: runs that start from now on use it."""
    registry = _registry(db, target)
    registry.content(name, version)
    before = registry.active()[name]
    registry.activate({name: version})
    typer.echo(f"{name}: v{before} → v{version} is active")
    if name in registry.pins():
        typer.echo(f"! it is pinned at v{registry.pins()[name]}, so runs use that version")


@policy_app.command("pin")
def pin(
    name: _Name,
    version: Annotated[
        int | None, typer.Argument(metavar="VERSION", help="By default, the active version.")
    ] = None,
    *,
    db: options.Db = None,
    target: _Experiment = None,
) -> None:
    """Pin a text to a version: runs use it, and training does not change it."""
    typer.echo(f"{name}: pinned at v{_registry(db, target).pin(name, version)}")


@policy_app.command("unpin")
def unpin(name: _Name, *, db: options.Db = None, target: _Experiment = None) -> None:
    """Unpin a text: runs use its active version, and training may change it."""
    registry = _registry(db, target)
    registry.unpin(name)
    typer.echo(f"{name}: v{registry.active()[name]} is read")


@policy_app.command("put")
def put(
    name: _Name,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new text.")],
    *,
    db: options.Db = None,
    target: _Experiment = None,
) -> None:
    """Add your own text as a new version, and make it active."""
    from burnish.system import read_text

    number = _registry(db, target).add(name, read_text(file), activate=True)
    typer.echo(f"{name}: v{number} is active")


def _registry(db: Path | None, experiment: str | None) -> "PolicyRegistry":
    from burnish.delegation.training.setup import find_registry

    return find_registry(db, experiment)


@experiments_app.command("new")
def new_experiment(
    name: Annotated[str, typer.Argument(help="The name of the experiment.")],
    *,
    goal: Annotated[str, typer.Option(help="The goal of the experiment.")] = "",
    root: _Root = None,
) -> None:
    """Create an experiment, and print its id."""
    from burnish.delegation.experiments import Experiment

    typer.echo(Experiment.new(name, goal=goal, root=root).folder.name)


@experiments_app.command("list")
def list_experiments(*, root: _Root = None, as_json: options.AsJson = False) -> None:
    """List the experiments."""
    from burnish.delegation.experiments import Experiment
    from burnish.reports.terminal import Columns

    records = [each.record for each in Experiment.all(root)]
    if as_json:
        typer.echo(json.dumps([each.to_json() for each in records], ensure_ascii=False))
        return
    if not records:
        typer.echo('there are no experiments; `burnish experiments new "…"` makes one')
        return
    table = Columns("experiment", "tasks", "name", "goal", cut=("goal",))
    for each in records:
        table.add(each.experiment_id, str(len(each.task_order)), each.name, each.goal)
    table.show()


@experiments_app.command("show")
def show_experiment(
    experiment: Annotated[str, typer.Argument(metavar="EXP", help="Its id.")],
    *,
    root: _Root = None,
    as_json: options.AsJson = False,
) -> None:
    """Show the tasks of an experiment, with the loss of each best run."""
    from burnish.delegation.experiments import Experiment, summary, summary_lines

    record = Experiment.find(experiment, root=root)
    if as_json:
        typer.echo(json.dumps(summary(record), ensure_ascii=False))
        return
    for line in summary_lines(record):
        typer.echo(line)


@experiments_app.command("best")
def choose_best(
    target: Annotated[str, typer.Argument(metavar="EXP:TASK", help="The task.")],
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN", autocompletion=options.run_ids, help="The run to choose as BEST."
        ),
    ] = None,
    *,
    auto: Annotated[bool, typer.Option("--auto", help="Let the lowest loss decide again.")] = False,
    root: _Root = None,
) -> None:
    """Choose the BEST of a task by hand; a lower loss does not replace it."""
    from burnish.core.errors import ConfigError, Problem
    from burnish.delegation.experiments import TaskBest, find_task

    if (run is None) != auto:
        problem = Problem(message="which run is the best?", remedy="name a run, or use --auto")
        raise ConfigError([problem])
    place = TaskBest(find_task(target, root=root))
    put = place.choose_by_loss() if run is None else place.choose(run)
    typer.echo(f"best     {put}")
