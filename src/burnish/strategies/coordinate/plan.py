"""The plan of coordinate descent: what would run, and what it may cost."""

from collections.abc import Iterator

from burnish.core.cases import Split
from burnish.core.money import NOTHING
from burnish.core.words import counted, spending
from burnish.runs.plans import (
    NOTHING_PAID,
    agent_line,
    asking,
    budget_limits,
    notes,
    role_label,
    sealed_cases,
    shown_by,
    surface_words,
    sweeps,
    time_limits,
)
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.costs import Expected, expected
from burnish.strategies.coordinate.settings import CoordinateSettings, PhaseLimits
from burnish.strategies.coordinate.strategy import Coordinate
from burnish.strategies.coordinate.tpe import warm_up


def plan_lines(setup: Setup, strategy: Coordinate) -> Iterator[str]:
    """The lines of `--dry-run`."""
    costs = expected_costs(setup, strategy)
    yield from _what(setup)
    yield from _axes(setup, strategy.settings)
    yield from _cases(setup, strategy.settings)
    yield from _phases(strategy)
    limits = [*search_limits(setup, strategy), *time_limits(setup)]
    yield f"limits    {', '.join(limits)}"
    yield from _costs(costs, strategy.settings)
    yield from notes(setup)
    yield NOTHING_PAID


def expected_costs(setup: Setup, strategy: Coordinate) -> Expected:
    """What the search is expected to cost, as well as can be told beforehand."""
    settings = strategy.settings
    skip = settings.holdout_policy == "skip"
    train = sweeps(setup, Split.TRAIN, settings.repeats)
    holdout = NOTHING if skip else sweeps(setup, Split.HOLDOUT, settings.repeats)
    return expected(
        settings,
        baseline=train + holdout,
        train=train,
        holdout=holdout,
        roles=asking(strategy.roles),
        sealed=sweeps(setup, Split.TEST, 2 * setup.test_repeats),
    )


def _what(setup: Setup) -> Iterator[str]:
    yield from agent_line(setup)
    yield f"strategy  {setup.strategy.name}, seed {setup.seed}"
    weights = setup.objective.weights.items()
    mean = ", ".join(f"{metric} × {weight:g}" for metric, weight in weights)
    extra = [
        f"{rate:g} {name.replace('_', ' ')}"
        for name, rate in vars(setup.objective.penalties).items()
        if rate
    ]
    yield f"loss      1 − the weighted mean of {mean}{''.join(f' + {each}' for each in extra)}"
    if setup.objective.constraints:
        yield f"only if   {', '.join(map(str, setup.objective.constraints))}"


def _axes(setup: Setup, settings: CoordinateSettings) -> Iterator[str]:
    values = setup.target.baseline.values
    # Without anybody who writes, texts stay as they are.
    surfaces = [each for each in setup.target.surfaces if settings.texts or each.kind != "text"]
    yield f"axes      {len(surfaces)}"
    for surface in surfaces:
        yield f"  {surface.kind:<7} {surface.id}: {surface_words(surface, values[surface.id])}"


def _cases(setup: Setup, settings: CoordinateSettings) -> Iterator[str]:
    data = setup.dataset
    held = "not used" if settings.holdout_policy == "skip" else len(data.holdout)
    yield f"cases     train {len(data.train)}, holdout {held}, {sealed_cases(setup)}"
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
        roles = " and ".join(f"{role.name} {role_label(role)}".strip() for role in strategy.roles)
        yield f"phase     textual: {_phase(settings.textual_phase)}; {roles}"


def _phase(limits: PhaseLimits) -> str:
    return f"at most {counted(limits.max_trials, 'trial')}, patience {limits.patience}"


def search_limits(setup: Setup, strategy: Coordinate) -> list[str]:
    """What ends a search."""
    return [f"max_cycles {strategy.settings.max_cycles}", *budget_limits(setup.budget)]


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
