"""`burnish optimize --dry-run` of an agent file: what would run, and what it may cost."""

from collections.abc import Iterator
from dataclasses import fields

import typer

from burnish.cli.estimating import time_limits
from burnish.core.surfaces import (
    ChoiceSurface,
    DemosSurface,
    NumberSurface,
    Surface,
    TextSurface,
    Value,
)
from burnish.projects.optimizer_costs import expected_costs
from burnish.reports.coordinate_headroom import shown_by
from burnish.reports.words import counted, shorten, spending
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.costs import Expected
from burnish.strategies.coordinate.settings import CoordinateSettings, PhaseLimits
from burnish.strategies.coordinate.strategy import Coordinate
from burnish.strategies.coordinate.tpe import warm_up
from burnish.targets.agent.target import AgentTarget


def show_plan(setup: Setup, strategy: Coordinate) -> None:
    """Say what would run; nothing is paid."""
    setup.check()
    costs = expected_costs(setup, strategy)
    parts = (
        _what(setup),
        _axes(setup),
        _cases(setup, strategy.settings),
        _phases(strategy),
        _limits(setup, strategy.settings),
        _costs(costs, strategy.settings),
        (f"! {note}" for note in setup.notes),
    )
    for line in (line for part in parts for line in part):
        typer.echo(line)
    typer.echo("nothing was paid; leave out --dry-run to start")


def _what(setup: Setup) -> Iterator[str]:
    target, weights = setup.target, setup.objective.weights
    if isinstance(target, AgentTarget):
        yield f"agent     {target.agent.block.name}, {target.client.ref.label}"
    yield f"strategy  {setup.strategy.name}, seed {setup.seed}"
    told = ", ".join(f"{metric} × {weight:g}" for metric, weight in weights.items())
    extra = [
        f"{rate:g} {name.replace('_', ' ')}"
        for name, rate in vars(setup.objective.penalties).items()
        if rate
    ]
    yield f"loss      1 − the weighted mean of {told}{''.join(f' + {each}' for each in extra)}"
    if setup.objective.constraints:
        yield f"only if   {', '.join(map(str, setup.objective.constraints))}"


def _axes(setup: Setup) -> Iterator[str]:
    values = setup.target.baseline.values
    yield f"axes      {len(setup.target.surfaces)}"
    for surface in setup.target.surfaces:
        yield f"  {surface.kind:<7} {surface.id}: {surface_words(surface, values[surface.id])}"


def surface_words(surface: Surface, now: Value) -> str:
    """What a surface may be and what it is now, as every plan says it."""
    match surface:
        case NumberSurface():
            whole = ", whole numbers" if surface.integer else ""
            return f"{surface.low:g} to {surface.high:g}{whole}, now {now}"
        case ChoiceSurface():
            return f"{', '.join(map(str, surface.choices))}; now {now}"
        case TextSurface():
            kept = f", keeps {', '.join(surface.placeholders)}" if surface.placeholders else ""
            most = f" of at most {surface.max_chars:,}" if surface.max_chars else ""
            return f"{len(str(now)):,}{most} characters{shorten(kept, 60)}"
        case DemosSurface():
            there = len(now) if isinstance(now, tuple) else 0
            room = f" of {surface.max_chars:,} characters" if surface.max_chars else ""
            return f"at most {surface.max_demos}{room}, now {there}"
        case _:
            return surface.accepts


def _cases(setup: Setup, settings: CoordinateSettings) -> Iterator[str]:
    data = setup.dataset
    held = "not used" if settings.holdout_policy == "skip" else len(data.holdout)
    sealed = f"sealed test {len(data.test)}" if data.test else "no sealed test"
    yield f"cases     train {len(data.train)}, holdout {held}, {sealed}"
    yield f"repeats   {settings.repeats}; a gain counts from {settings.accept_sigma:g} × its noise"
    if data.holdout and settings.holdout_policy != "skip":
        yield f"can show  {shown_by(len(data.holdout))}"


def _phases(strategy: Coordinate) -> Iterator[str]:
    settings = strategy.settings
    if settings.demonstrations:
        yield f"phase     demonstrations: {_phase(settings.demonstration_phase)}"
    if settings.numbers:
        limits = settings.numeric_phase
        start = warm_up(min(limits.patience, limits.max_trials))
        yield f"phase     numeric: {_phase(limits)}; warm-up {counted(start, 'point')}, then TPE"
    if settings.texts:
        roles = " and ".join(_role(role) for role in strategy.roles)
        yield f"phase     textual: {_phase(settings.textual_phase)}; {roles}"


def _phase(limits: PhaseLimits) -> str:
    return f"at most {counted(limits.max_trials, 'trial')}, patience {limits.patience}"


def _role(role: object) -> str:
    label = getattr(getattr(getattr(role, "client", None), "ref", None), "label", "")
    return f"{getattr(role, 'name', '')} {label}".strip()


def _limits(setup: Setup, settings: CoordinateSettings) -> Iterator[str]:
    budget = setup.budget
    values = ((each.name, getattr(budget, each.name)) for each in fields(budget))
    told = [f"{name} {value}" for name, value in values if value not in (None, (), {})]
    own = [f"max_cycles {settings.max_cycles}", *told, *time_limits(setup)]
    yield f"limits    {', '.join(own)}"


def _costs(costs: Expected, settings: CoordinateSettings) -> Iterator[str]:
    yield f"a trial   about {spending(costs.train)} on train"
    if costs.holdout.calls:
        always = settings.holdout_policy == "every_trial"
        when = "" if always else " where train improves"
        yield f"          + {spending(costs.holdout)} on holdout{when}"
    if costs.roles.calls:
        yield f"          + {spending(costs.roles)} for critic and applier in a textual phase"
    if costs.sealed.calls:
        yield f"reserved  about {spending(costs.sealed)} for the sealed test"
    least, most = counted(costs.least_trials, "trial"), counted(costs.most_trials, "trial")
    yield f"the run   about {spending(costs.least)} if nothing helps ({least}),"
    yield f"          at most about {spending(costs.most)} ({most})"
    yield "          by the length of prompts and references; tools, reasoning and what judges"
    yield "          read come on top"
