"""`burnish optimize` by reflection: the plan of a dry run, and the baseline by itself."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import cast

import typer

from burnish.cli.estimating import time_limits
from burnish.cli.optimize_planning import surface_words
from burnish.core.cases import Split
from burnish.core.surfaces import TextSurface
from burnish.core.words import counted, number, spending
from burnish.projects.optimizer_costs import sweeps
from burnish.projects.prompts.bounds import budget_floor
from burnish.reports.coordinate_headroom import shown_by
from burnish.reports.terminal import Columns
from burnish.runs.record import RunRecord, result_of
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.costs import asking
from burnish.strategies.reflective.strategy import Reflective
from burnish.targets.agent.target import AgentTarget
from burnish.targets.prompts.target import PromptsTarget


def show_reflective_plan(setup: Setup, strategy: Reflective) -> None:
    """Say what would run; nothing is paid."""
    setup.check()
    parts = (
        _what(setup, strategy),
        _texts(setup, strategy),
        _cases(setup, strategy),
        _search(strategy),
        _limits(setup),
        _costs(setup, strategy),
        (f"! {note}" for note in setup.notes),
    )
    for line in (line for part in parts for line in part):
        typer.echo(line)
    typer.echo("nothing was paid; leave out --dry-run to start")


def _what(setup: Setup, strategy: Reflective) -> Iterator[str]:
    target = setup.target
    if isinstance(target, PromptsTarget):
        inner = target.agent.description
        yield f"agent     {inner.config.get('call') or inner.kind}, prompts in mode '{target.mode}'"
    if isinstance(target, AgentTarget):
        yield f"agent     {target.agent.block.name}, {target.client.ref.label}"
    label = getattr(getattr(getattr(strategy.reflector, "client", None), "ref", None), "label", "")
    racing = "racing" if strategy.settings.racing else "classic"
    told = f", reflector {label}" if label else ""
    yield f"strategy  {strategy.name} ({racing}), seed {setup.seed}{told}"
    yield f"score     the mean of {', '.join(setup.objective.weights)}"


def _texts(setup: Setup, strategy: Reflective) -> Iterator[str]:
    names, values = strategy.fields(setup.target), setup.target.baseline.values
    yield f"prompts   {len(names)}"
    for surface in setup.target.surfaces:
        if isinstance(surface, TextSurface) and surface.id in names:
            yield f"  {surface.id}: {surface_words(surface, values[surface.id])}"


def _cases(setup: Setup, strategy: Reflective) -> Iterator[str]:
    data = setup.dataset
    sealed = f"sealed test {len(data.test)}" if data.test else "no sealed test"
    yield f"cases     train {len(data.train)}, holdout {len(data.holdout)}, {sealed}"
    yield f"repeats   {strategy.settings.repeats}"
    yield f"can show  {shown_by(len(data.holdout))}"


def _search(strategy: Reflective) -> Iterator[str]:
    settings = strategy.settings
    together = settings.proposals_per_round
    many = f", {together} proposals at once" if together > 1 else ""
    merge = f", at most {counted(settings.max_merges, 'merge')}" if settings.merge else ""
    yield f"reflects  on {counted(settings.minibatch, 'case')} a round{many}{merge}"


def _limits(setup: Setup) -> Iterator[str]:
    budget = setup.budget
    values = ((each.name, getattr(budget, each.name)) for each in fields(budget))
    told = [f"{name} {_plain(value)}" for name, value in values if value not in (None, (), {})]
    yield f"limits    {', '.join([*told, *time_limits(setup)]) or 'none'}"


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        bars = cast("Mapping[str, float]", value)
        return ", ".join(f"{name} {bar:g}" for name, bar in bars.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _costs(setup: Setup, strategy: Reflective) -> Iterator[str]:
    settings = strategy.settings
    baseline = sweeps(setup, Split.HOLDOUT, settings.repeats)
    looks = sweeps(setup, Split.TRAIN, settings.repeats, most=settings.minibatch)
    sealed = sweeps(setup, Split.TEST, 2 * setup.test_repeats)
    again = 2 if settings.racing else 1
    yield f"baseline  about {spending(baseline)}"
    per = " for each proposal:" if settings.proposals_per_round > 1 else ""
    yield f"a round  {per} about {spending(looks.times(2))} on train"
    yield f"          + {spending(asking(strategy.roles))} for a text that the reflector rewrites"
    yield f"          + up to {spending(baseline.times(again))} on holdout"
    if sealed.calls:
        yield f"reserved  about {spending(sealed)} for the sealed test"
    yield "          by the length of prompts and references, where the agent's model is known"
    floor = budget_floor(setup.dataset, settings, test_repeats=setup.test_repeats)
    yield f"at least  {counted(floor, 'metric call')} to finish one round"


def show_reflective_baseline(folder: Path) -> None:
    """The pass rate, the score and every metric on holdout: a reflective search starts there."""
    run = RunRecord.read(folder)
    result = result_of(run.baseline, "holdout")
    if result is None:
        typer.echo("the baseline was not measured: see `stopped` above")
        return
    measured = result.measurement
    typer.echo("")
    table = Columns("", "holdout")
    table.add("pass rate", number(measured.pass_rate))
    table.add("score", number(measured.score))
    for metric, value in sorted(measured.components.items()):
        table.add(metric, number(value))
    table.show()
