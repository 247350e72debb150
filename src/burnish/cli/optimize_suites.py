"""`burnish optimize` of a suite: the plan of a dry run, and what became of the policy texts."""

from collections.abc import Iterator
from pathlib import Path

import typer

from burnish.core.cases import Split
from burnish.core.words import counted, spending
from burnish.projects.optimizer_costs import sweeps
from burnish.projects.suites.keeping import SuiteRecord
from burnish.runs.record import RunRecord
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.costs import asking
from burnish.strategies.epochs.settings import step_words
from burnish.strategies.epochs.strategy import Epochs


def show_suite_plan(setup: Setup, strategy: Epochs) -> None:
    """Say what would run; nothing is paid."""
    setup.check()
    for line in (*_what(setup, strategy), *_costs(setup, strategy)):
        typer.echo(line)
    for note in setup.notes:
        typer.echo(f"! {note}")
    typer.echo("nothing was paid; leave out --dry-run to start")


def _what(setup: Setup, strategy: Epochs) -> Iterator[str]:
    settings, data = strategy.settings, setup.dataset
    yield f"strategy  {strategy.name}, seed {setup.seed}"
    for role in strategy.roles:
        label = getattr(getattr(getattr(role, "client", None), "ref", None), "label", "")
        yield f"  {role.name} {label}".rstrip()
    yield f"texts     {', '.join(surface.id for surface in setup.target.surfaces)}"
    yield f"tasks     train {len(data.train)}, holdout {len(data.holdout)}"
    yield f"epochs    {settings.epochs}, {counted(settings.repeats, 'run')} of each task in each"
    if strategy.proposer is not None:
        rate = settings.learning_rate
        yield f"step      learning rate {rate:g}: {step_words(rate)}"
        stays = f"a gain of {settings.accept_sigma:g} × its noise over the best mean"
        yield f"stays     {stays}{'' if settings.rollback else ', and all else too'}"


def _costs(setup: Setup, strategy: Epochs) -> Iterator[str]:
    settings = strategy.settings
    parts = [sweeps(setup, split, settings.repeats) for split in (Split.TRAIN, Split.HOLDOUT)]
    epoch = parts[0] + parts[1]
    yield f"an epoch  about {spending(epoch)} for small delegations; long ones take more"
    texts = len(setup.target.surfaces)
    proposals = asking(strategy.roles).times(texts * max(0, settings.epochs - 1))
    if proposals.calls:
        yield f"          + {spending(proposals)} in all for proposals"
    yield f"the run   about {spending(epoch.times(settings.epochs) + proposals)}"


def tell_policy(folder: Path) -> None:
    """Which texts a run has made active, and where."""
    run = RunRecord.read(folder)
    record = SuiteRecord.of(run.header.project.config)
    changed: dict[str, object] = {}
    for event in run.events:
        versions = event.data.get("versions")
        if event.kind == "policy" and isinstance(versions, dict):
            changed.update(versions)
    if record is None or not changed:
        return
    for name, version in changed.items():
        typer.echo(f"policy   {name} v{version} is active")
    typer.echo(f"         burnish policy list --db {record.registry}")
