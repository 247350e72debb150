"""`burnish optimize --dry-run`: what is set up and what it may cost, with nothing paid."""

from dataclasses import fields

import typer

from burnish.core.cases import Split
from burnish.core.money import Spend, total
from burnish.effects.budget import Budget
from burnish.projects import LoadedProject
from burnish.reports.words import counted, spending
from burnish.runs.setup import Setup


def show_estimate(project: LoadedProject) -> None:
    """Say what would run."""
    setup = project.setup
    setup.check()
    typer.echo(f"strategy  {setup.strategy.name}, seed {setup.seed}")
    typer.echo(f"target    {setup.target.description.kind}")
    for surface in setup.target.surfaces:
        typer.echo(f"  {surface.kind:<7} {surface.id}")
    for split in Split:
        cases = counted(len(setup.dataset.cases(split)), "case")
        typer.echo(
            f"{split.value:<9} {cases}; once through: about {spending(_sweep(setup, split))}"
        )
    reserve = _sweep(setup, Split.TEST).times(2 * setup.test_repeats)
    if reserve.calls:
        typer.echo(f"reserved  about {spending(reserve)} for the sealed test")
    typer.echo(f"limits    {_limits(setup.budget)}")
    typer.echo("nothing was paid; leave out --dry-run to start")


def _sweep(setup: Setup, split: Split) -> Spend:
    """What running every case of a split once is expected to cost."""
    return total(
        setup.target.estimate(case) + total(metric.estimate(case) for metric in setup.metrics)
        for case in setup.dataset.cases(split)
    )


def _limits(budget: Budget) -> str:
    values = ((field.name, getattr(budget, field.name)) for field in fields(budget))
    limits = [f"{name} {value}" for name, value in values if value not in (None, (), {})]
    return ", ".join(limits) or "none: the strategy decides when to stop"
