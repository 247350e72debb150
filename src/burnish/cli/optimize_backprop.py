"""`burnish optimize` by back-propagation: the plan of a dry run."""

from collections.abc import Iterator
from dataclasses import fields

import typer

from burnish.cli.estimating import time_limits
from burnish.cli.optimize_planning import surface_words
from burnish.core.cases import Split
from burnish.core.structures import Structured
from burnish.core.words import counted, spending
from burnish.projects.optimizer_costs import sweeps
from burnish.reports.coordinate_headroom import shown_by
from burnish.runs.setup import Setup
from burnish.strategies.backprop.settings import BackpropSettings
from burnish.strategies.backprop.strategy import Backprop
from burnish.strategies.coordinate.costs import asking

_GATES = {
    "min_gain": "a score on holdout that rises, by {gain:g} or more; a tie is no gain",
    "sigma": "a gain on train of {sigma:g} × its noise, and a holdout that is not worse",
    "strict": "a score on holdout that is better by {sigma:g} × its noise",
}


def show_backprop_plan(setup: Setup, strategy: Backprop) -> None:
    """Say what would run; nothing is paid."""
    setup.check()
    parts = (
        _what(setup, strategy),
        _surfaces(setup, strategy),
        _cases(setup, strategy.settings),
        _decision(strategy.settings),
        _limits(setup, strategy.settings),
        _costs(setup, strategy),
        (f"! {note}" for note in setup.notes),
    )
    for line in (line for part in parts for line in part):
        typer.echo(line)
    typer.echo("nothing was paid; leave out --dry-run to start")


def _what(setup: Setup, strategy: Backprop) -> Iterator[str]:
    target = setup.target
    if isinstance(target, Structured):
        structure = target.structure
        nodes, edges = counted(len(structure.nodes), "node"), counted(len(structure.edges), "edge")
        yield f"graph     {nodes}, {edges}, from {structure.entry}"
    else:
        yield f"agent     {target.description.kind}: a graph of one, unless its runs leave steps"
    yield f"strategy  {strategy.name}, seed {setup.seed}"
    for role in strategy.roles:
        label = getattr(getattr(getattr(role, "client", None), "ref", None), "label", "")
        yield f"  {role.name:<11} {label}".rstrip()
    yield f"score     the mean of {', '.join(setup.objective.weights)}"


def _surfaces(setup: Setup, strategy: Backprop) -> Iterator[str]:
    names, values = strategy.targets(setup.target), setup.target.baseline.values
    yield f"surfaces  {len(setup.target.surfaces)}, {len(names)} may be patched"
    for surface in setup.target.surfaces:
        mark = "*" if surface.id in names else " "
        words = surface_words(surface, values[surface.id])
        yield f"  {mark} {surface.kind:<7} {surface.id}: {words}"


def _cases(setup: Setup, settings: BackpropSettings) -> Iterator[str]:
    data = setup.dataset
    sealed = f"sealed test {len(data.test)}" if data.test else "no sealed test"
    yield f"cases     train {len(data.train)}, holdout {len(data.holdout)}, {sealed}"
    yield f"repeats   {settings.repeats}"
    yield f"can show  {shown_by(len(data.holdout))}"


def _decision(settings: BackpropSettings) -> Iterator[str]:
    told = _GATES[settings.gate].format(gain=settings.min_score_gain, sigma=settings.accept_sigma)
    yield f"accepts   {told}"
    guards = settings.guards
    if guards.protected:
        yield f"          no protected case gets worse: {', '.join(guards.protected)}"
    if guards.no_new_failures:
        yield "          no case that passed fails"
    for metric, floor in guards.floors.items():
        yield f"          {metric} stays at {floor:g} or more"


def _limits(setup: Setup, settings: BackpropSettings) -> Iterator[str]:
    own = [f"max_rounds {settings.max_rounds}"]
    if settings.max_rounds_without_acceptance:
        own.append(f"max_rounds_without_acceptance {settings.max_rounds_without_acceptance}")
    if settings.target_score is not None:
        own.append(f"target_score {settings.target_score:g}")
    values = ((each.name, getattr(setup.budget, each.name)) for each in fields(setup.budget))
    own += [f"{name} {value}" for name, value in values if value not in (None, (), {})]
    own += time_limits(setup)
    yield f"limits    {', '.join(own)}"


def _costs(setup: Setup, strategy: Backprop) -> Iterator[str]:
    settings = strategy.settings
    train = sweeps(setup, Split.TRAIN, settings.repeats)
    holdout = sweeps(setup, Split.HOLDOUT, settings.repeats)
    each = holdout + (train if settings.gate == "sigma" else holdout.times(0))
    patches = len(strategy.targets(setup.target)) * settings.candidates_per_round
    yield f"baseline  about {spending(holdout)}"
    yield f"a round   about {spending(train)} on train, nothing where that is known already"
    backward = asking([strategy.backwarder])
    yield f"          + {spending(backward)} per failing case and step, for the backwarder"
    merging = asking([strategy.aggregator]).times(len(strategy.targets(setup.target)))
    yield f"          + up to {spending(merging)} for the aggregator"
    yield f"          + up to {spending(asking([strategy.patcher]).times(patches))} for the patcher"
    many = f", {settings.candidates_per_round} times" if settings.candidates_per_round > 1 else ""
    yield f"          + {spending(each)} to decide{many}"
    sealed = sweeps(setup, Split.TEST, 2 * setup.test_repeats)
    if sealed.calls:
        yield f"reserved  about {spending(sealed)} for the sealed test"
    yield "          one call for each agent of the graph and turn; cycles and tools take more, and"
    yield "          how many cases fail is not known before"
