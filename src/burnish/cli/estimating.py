"""`burnish optimize --dry-run`: what is set up and what it may cost, with nothing paid."""

from dataclasses import fields

import typer

from burnish.core.cases import Split
from burnish.core.money import Spend, total
from burnish.core.protocols import calls_functions
from burnish.projects import LoadedProject
from burnish.reports.words import counted, spending
from burnish.runs.evaluating import CALL_LIMIT
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
    typer.echo(f"limits    {_limits(setup)}")
    typer.echo("nothing was paid; leave out --dry-run to start")


def _sweep(setup: Setup, split: Split) -> Spend:
    """What running every case of a split once is expected to cost."""
    return total(
        setup.target.estimate(case) + total(metric.estimate(case) for metric in setup.metrics)
        for case in setup.dataset.cases(split)
    )


def _limits(setup: Setup) -> str:
    values = ((field.name, getattr(setup.budget, field.name)) for field in fields(setup.budget))
    limits = [f"{name} {value}" for name, value in values if value not in (None, (), {})]
    limits = limits or ["none: the strategy decides when to stop"]
    return ", ".join([*limits, *time_limits(setup)])


def time_limits(setup: Setup) -> list[str]:
    """How long a case, or a call of the user's function, may take."""
    limit = setup.case_policy.time_limit
    if limit is not None:
        return [f"time_limit {limit:g} s a case"]
    return [f"time_limit {CALL_LIMIT:g} s a call"] if calls_functions(setup.target) else []
