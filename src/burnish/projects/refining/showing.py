"""What a refinement would do, before anything is paid or written."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from burnish.core.errors import ConfigError, FileTrouble, SeedRefused
from burnish.projects.refining.opening import Seat, Wishes
from burnish.projects.refining.settings import RefineSettings
from burnish.projects.refining.workflows import RefineWorkflow, comparable, find_workflow
from burnish.strategies.refine.budgets import halved
from burnish.strategies.refine.prefixes import refinement_prefix
from burnish.strategies.refine.tiers import ModelPair, tier_of


def plan_lines(seat: Seat, settings: RefineSettings, wished: Wishes) -> Iterator[str]:
    """The plan in lines."""
    seed = seat.seed
    yield f"seed     {seed.run_id}, loss {seed.loss:.4f}"
    yield f"files    {seed.deliverable}"
    if seed.gradient.empty:
        yield "nothing to refine"
        return
    with tempfile.TemporaryDirectory(prefix="burnish-refine-") as folder:
        try:
            workflow = find_workflow(seed, settings, Path(folder), wished.load)
        except (ConfigError, FileTrouble) as error:
            raise SeedRefused(error.message, remedy=error.remedy) from error
        yield from _models(seat, settings, workflow)
    limits = halved(seed.budget).to_json()
    yield "budget   " + ", ".join(f"{name} {value}" for name, value in limits.items())
    yield "the manager's first plan would begin with:"
    yield from (f"  {line}" for line in refinement_prefix(seed.gradient).splitlines())
    yield "nothing was run or paid; leave out --dry-run to start"


def _models(seat: Seat, settings: RefineSettings, workflow: RefineWorkflow) -> Iterator[str]:
    base = workflow.loaded.workflow
    tiers = settings.tiers(workflow.usual_tiers)
    inherited = comparable(seat.seed, base).models
    for k in range(1, settings.iterations + 1):
        pair = settings.models.or_else(inherited)
        named = "" if tiers.trivial else f" {tier_of(k, settings.iterations).value}"
        chosen = pair if tiers.trivial else tiers.models(k, settings.iterations, inherited)
        yield f"[{k}]{named} {_told(workflow, chosen)}"
    for note in (*settings.warnings, *base.notes()):
        yield f"! {note}"


def _told(workflow: RefineWorkflow, pair: ModelPair) -> str:
    made = workflow.made(pair)
    return ", ".join(f"{role} {label}" for role, label in made.models.items()) or "a program"
