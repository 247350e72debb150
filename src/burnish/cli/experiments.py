"""`burnish experiments`: tasks that belong together, their runs, and the best of each."""

import json
from pathlib import Path
from typing import Annotated

import typer

from burnish.cli import options

app = typer.Typer(no_args_is_help=True, help="Tasks that belong together, and the best of each.")

_Root = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="The folder of experiments; $BURNISH_EXPERIMENTS_ROOT, or results/experiments.",
    ),
]


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(help="The name of the experiment.")],
    *,
    goal: Annotated[str, typer.Option(help="The goal of the experiment.")] = "",
    root: _Root = None,
) -> None:
    """Create an experiment, and print its id."""
    from burnish.delegation.experiments import Experiment

    typer.echo(Experiment.new(name, goal=goal, root=root).folder.name)


@app.command("list")
def show_all(*, root: _Root = None, as_json: options.AsJson = False) -> None:
    """List the experiments."""
    from burnish.delegation.experiments import Experiment
    from burnish.reports.rendering import Columns

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


@app.command("show")
def show(
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


@app.command("best")
def best(
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
