"""What a refinement would do, before anything is paid or written."""

import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from burnish.core.content import Json
from burnish.core.errors import ConfigError, FileTrouble, SeedRefused
from burnish.projects.refining.opening import Seat, Wishes
from burnish.projects.refining.settings import RefineSettings
from burnish.projects.refining.workflows import RefineWorkflow, comparable, find_workflow
from burnish.strategies.refine.budgets import halved
from burnish.strategies.refine.prefixes import refinement_prefix
from burnish.strategies.refine.seeds import Seed
from burnish.strategies.refine.tiers import tier_of
from burnish.targets.delegation.workflow import Workflow


def plan_lines(seat: Seat, settings: RefineSettings, wished: Wishes) -> Iterator[str]:
    """The plan in lines."""
    seed = seat.seed
    yield f"seed     {seed.run_id}, loss {seed.loss:.4f}"
    yield f"files    {seed.deliverable}"
    if seed.gradient.empty:
        yield "nothing to refine"
        return
    with _workflow(seed, settings, wished) as workflow:
        for k, (tier, made) in enumerate(_made(seed, settings, workflow), start=1):
            who = ", ".join(f"{role} {label}" for role, label in made.models.items())
            yield f"[{k}]{tier and f' {tier}'} {who or 'a program'}"
        yield from (f"! {note}" for note in _notes(settings, workflow))
    yield from halved(seed.budget).lines()
    yield "the manager's first plan would begin with:"
    yield from (f"  {line}" for line in refinement_prefix(seed.gradient).splitlines())
    yield "nothing was run or paid; leave out --dry-run to start"


def plan_json(seat: Seat, settings: RefineSettings, wished: Wishes) -> dict[str, Json]:
    """The same for programs."""
    seed = seat.seed
    plan: dict[str, Json] = {
        "dry_run": True,
        "seed_run_id": seed.run_id,
        "seed_loss": round(seed.loss, 6),
        "deliverable": str(seed.deliverable),
        "gradient": seed.gradient.to_json(),
        "budget": halved(seed.budget).to_json(),
        "iterations": [],
        "notes": [],
    }
    if seed.gradient.empty:
        return plan
    with _workflow(seed, settings, wished) as workflow:
        plan["iterations"] = [
            {"k": k, "tier": tier or None, "models": dict[str, Json](made.models)}
            for k, (tier, made) in enumerate(_made(seed, settings, workflow), start=1)
        ]
        plan["notes"] = list(_notes(settings, workflow))
    return plan


@contextmanager
def _workflow(seed: Seed, settings: RefineSettings, wished: Wishes) -> Generator[RefineWorkflow]:
    """What it would run with; a plain workflow file is written to a place that goes again."""
    with tempfile.TemporaryDirectory(prefix="burnish-refine-") as folder:
        try:
            yield find_workflow(seed, settings, Path(folder), wished.load)
        except (ConfigError, FileTrouble) as error:
            raise SeedRefused(error.message, remedy=error.remedy) from error


def _made(
    seed: Seed, settings: RefineSettings, workflow: RefineWorkflow
) -> Iterator[tuple[str, Workflow]]:
    """The tier, where there is one, and the workflow of every iteration."""
    tiers = settings.tiers(workflow.usual_tiers)
    inherited = comparable(seed, workflow).models
    for k in range(1, settings.iterations + 1):
        if tiers.trivial:
            yield "", workflow.made(settings.models.or_else(inherited))
        else:
            pair = tiers.models(k, settings.iterations, inherited)
            yield tier_of(k, settings.iterations).value, workflow.made(pair)


def _notes(settings: RefineSettings, workflow: RefineWorkflow) -> Iterator[str]:
    yield from (*settings.warnings, *workflow.notes, *workflow.loaded.workflow.notes())
