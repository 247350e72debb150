"""What plans are made of: lines of `--dry-run` that several strategies have, and their costs."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from typing import Any

from burnish.core.cases import Case, Split
from burnish.core.money import NOTHING, Spend, total
from burnish.core.outcomes import Usage
from burnish.core.protocols import ForecastsCosts, Role, Summarized, calls_function
from burnish.core.surfaces import (
    ChoiceSurface,
    DemosSurface,
    NumberSurface,
    Surface,
    TextSurface,
    Value,
)
from burnish.core.words import counted, shorten, spending
from burnish.effects.budget import Budget
from burnish.evaluation.datasets.power import smallest_difference
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole
from burnish.runs.evaluating import CALL_LIMIT
from burnish.runs.setup import Setup

_ROLE = Usage(requests=1, input_tokens=2500, output_tokens=500)
"""What a critic reads and says, as a rule: up to ten failing cases, and a paragraph."""

NOTHING_PAID = "nothing was paid; leave out --dry-run to start"
"""The last line of a plan."""


def plain_plan(setup: Setup) -> Iterator[str]:
    """The plan of a strategy without words of its own."""
    yield f"strategy  {setup.strategy.name}, seed {setup.seed}"
    yield f"target    {setup.target.description.kind}"
    for surface in setup.target.surfaces:
        yield f"  {surface.kind:<7} {surface.id}"
    for split in Split:
        cases = counted(len(setup.dataset.cases(split)), "case")
        yield f"{split.value:<9} {cases}; once through: about {spending(_sweep(setup, split))}"
    reserve = _sweep(setup, Split.TEST).times(2 * setup.test_repeats)
    if reserve.calls:
        yield f"reserved  about {spending(reserve)} for the sealed test"
    limits = budget_limits(setup.budget) or ["none: the strategy decides when to stop"]
    yield f"limits    {', '.join([*limits, *time_limits(setup)])}"
    yield NOTHING_PAID


def agent_line(setup: Setup) -> Iterator[str]:
    """What is optimised, where the target has words for it."""
    if isinstance(setup.target, Summarized):
        yield f"agent     {setup.target.plan_summary}"


def notes(setup: Setup) -> Iterator[str]:
    """What the user should know before the start."""
    yield from (f"! {note}" for note in setup.notes)


def case_lines(setup: Setup, repeats: int) -> Iterator[str]:
    """How many cases there are, how often each is run, and what holdout can show."""
    data = setup.dataset
    yield f"cases     train {len(data.train)}, holdout {len(data.holdout)}, {sealed_cases(setup)}"
    yield f"repeats   {repeats}"
    yield f"can show  {shown_by(len(data.holdout))}"


def sealed_cases(setup: Setup) -> str:
    """`sealed test 12`."""
    test = setup.dataset.test
    return f"sealed test {len(test)}" if test else "no sealed test"


def reserved(setup: Setup) -> Iterator[str]:
    """What is set aside for the sealed test."""
    sealed = sweeps(setup, Split.TEST, 2 * setup.test_repeats)
    if sealed.calls:
        yield f"reserved  about {spending(sealed)} for the sealed test"


def budget_limits(budget: Budget, words: Callable[[Any], str] = str) -> list[str]:
    """The limits that are set, each with its name."""
    values = ((each.name, getattr(budget, each.name)) for each in fields(budget))
    return [f"{name} {words(value)}" for name, value in values if value not in (None, (), {})]


def time_limits(setup: Setup) -> list[str]:
    """How long a case, or a call of the user's function, may take."""
    limit = setup.case_policy.time_limit
    if limit is not None:
        return [f"time_limit {limit:g} s a case"]
    return [f"time_limit {CALL_LIMIT:g} s a call"] if calls_function(setup.target) else []


def role_label(role: Role[Any, Any] | None) -> str:
    """The model that plays a role; empty where a program does."""
    return getattr(getattr(getattr(role, "client", None), "ref", None), "label", "")


def surface_words(surface: Surface, now: Value) -> str:
    """What a surface may be and what it is now, as every plan says it."""
    match surface:
        case NumberSurface():
            whole = ", whole numbers" if surface.integer else ""
            return f"{surface.low:g} to {surface.high:g}{whole}, now {now}"
        case ChoiceSurface():
            return f"{', '.join(map(str, surface.choices))}; now {now}"
        case TextSurface():
            names = f", keeps {', '.join(surface.placeholders)}" if surface.placeholders else ""
            most = f" of at most {surface.max_chars:,}" if surface.max_chars else ""
            return f"{len(str(now)):,}{most} characters{shorten(names, 60)}"
        case DemosSurface():
            there = len(now) if isinstance(now, tuple) else 0
            room = f" of {surface.max_chars:,} characters" if surface.max_chars else ""
            return f"at most {surface.max_demos}{room}, now {there}"
        case _:
            return surface.accepts


def shown_by(cases: int, pass_rate: float = 0.5) -> str:
    """The smallest change that so many cases can show."""
    least = smallest_difference(cases, pass_rate=pass_rate)
    if math.isinf(least):
        return f"no change of the pass rate can be told from chance with {counted(cases, 'case')}"
    one = f"one case of the holdout is {1 / cases:.3f} of the pass rate"
    return f"{one}; a change under {least:.2f} may go unnoticed"


def sweeps(setup: Setup, split: Split, often: int, *, most: int | None = None) -> Spend:
    """What it takes to run the cases of a split so often, or the first few of them."""
    spends = (
        _run(setup, case) + total(metric.estimate(case) for metric in setup.metrics)
        for case in setup.dataset.cases(split)[:most]
    )
    return total(spends).times(often)


def asking(roles: Iterable[Role[Any, Any]]) -> Spend:
    """One question to each role, by the length that such questions have."""
    return total(_asking(role) for role in roles)


def _run(setup: Setup, case: Case) -> Spend:
    if case.recorded is not None:
        return NOTHING
    target = setup.target
    return target.forecast(case) if isinstance(target, ForecastsCosts) else target.estimate(case)


def _sweep(setup: Setup, split: Split) -> Spend:
    """What running every case of a split once is expected to cost, by what the target says."""
    return total(
        setup.target.estimate(case) + total(metric.estimate(case) for metric in setup.metrics)
        for case in setup.dataset.cases(split)
    )


def _asking(role: Role[Any, Any]) -> Spend:
    if not isinstance(role, ModelRole):
        return Spend(calls=1, unpriced=int(not role.priced))
    client: ModelClient = role.client
    cost = client.prices.nano_usd(client.ref, _ROLE) if client.priced else 0
    tokens = {"tokens_in": _ROLE.input_tokens, "tokens_out": _ROLE.output_tokens}
    return replace(client.estimate(), nano_usd=cost or 0, **tokens)
