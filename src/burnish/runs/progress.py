"""The lines of a run and of its plan."""

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from rich.cells import cell_len

from burnish.core.cases import Case, Split
from burnish.core.formatting import (
    counted,
    duration,
    gain_words,
    money,
    number,
    padded,
    shorten,
    spending,
    visible,
)
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
from burnish.datasets.checks import smallest_difference
from burnish.journal.limits import Budget
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole
from burnish.runs.directory import sealed_words
from burnish.runs.evaluation import CALL_LIMIT
from burnish.runs.events import (
    BASELINE,
    Event,
    PhaseEnded,
    PhaseStarted,
    RunResumed,
    SealedResult,
    SearchEnded,
    SessionBegun,
    Stopping,
    TrialRecorded,
    Warned,
)
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


# -- The lines that a run prints as it goes on ----------------------------------------------------


INDENT = "   "
"""Before what is said in passing."""
_NOTE, _WIDEST_NOTE = 17, 28
_REST = 83
"""What a whole line takes beside its note."""
_SHORT = {"holdout": "hold"}
"""Words that would not fit into their column."""


class ProgressLines:
    """The lines of one run, event by event."""

    def __init__(self, ends: Mapping[str, str]) -> None:
        self._ends = ends

    def lines(self, event: Event, width: int) -> list[str]:
        """What an event means to a person, if anything."""
        if begun := event.read(SessionBegun):
            resumed = [self.going_on(begun)] if event.read(RunResumed) else []
            return [self.beginning(begun), *resumed]
        if trial := event.read(TrialRecorded):
            is_baseline = trial.phase == BASELINE
            return self.baseline(trial, width) if is_baseline else [self.trial(trial, width)]
        if warning := event.read(Warned):
            return wrapped(f"! {visible(warning.message)}", width)
        if event.read(Stopping):
            return wrapped(self.stopping, width)
        if sealed := event.read(SealedResult):
            words = sealed_words(sealed)
            return ["", *wrapped(f"sealed test, looked at once: {words}", width)]
        return self._of_phases(event, width)

    stopping = "stopping when this trial is done; once more stops at once"
    """Said when a run is asked to stop."""

    def beginning(self, begun: SessionBegun) -> str:
        """The first line of a run."""
        cases = begun.cases
        sizes = [f"{split.value} {cases[split.value]}" for split in Split if split.value in cases]
        return f"{begun.target} · {begun.strategy} · {', '.join(sizes)} cases"

    def going_on(self, begun: SessionBegun) -> str:
        """Where a resumed run is."""
        trials = begun.trials_recorded - 1
        after = counted(trials, "recorded trial") if trials > 0 else "the baseline"
        where = f"after {after}" if trials >= 0 else "from the start"
        return f"going on {where}; nothing is paid twice"

    def phase_title(self, phase: PhaseStarted) -> str:
        """`cycle 2 · words`."""
        return f"cycle {phase.cycle} · {phase.phase}"

    def baseline(self, trial: TrialRecorded, width: int) -> list[str]:
        """The start, measured; and what one case of holdout is worth."""
        loss = f"train {number(trial.train)} ±{number(trial.train_std)}   "
        loss = loss if trial.train is not None or trial.holdout is None else ""
        line = f"{'baseline':<18}{loss}{self.held(trial)}"
        if not trial.holdout_cases:
            return [line]
        least = f"one case of holdout is worth {number(1 / trial.holdout_cases)}"
        whole = f"{line}   {least}"
        return [whole] if cell_len(whole) <= width else [line, shorten_after(INDENT, least, width)]

    def held(self, trial: TrialRecorded) -> str:
        """What the start has on holdout."""
        return f"hold {number(trial.holdout)}"

    def trial(self, trial: TrialRecorded, width: int) -> str:
        """One trial in one line."""
        return trial_line(trial, width)

    def _of_phases(self, event: Event, width: int) -> list[str]:
        if phase := event.read(PhaseStarted):
            return [f"── {self.phase_title(phase)} ".ljust(width, "─")]
        if over := event.read(PhaseEnded):
            ended = ended_words(over.reason, self._ends)
            words = f"over after {counted(over.trials, 'trial')}, {over.accepts} accepted · {ended}"
            return [shorten_after(INDENT, words, width)]
        if search := event.read(SearchEnded):
            ended = ended_words(search.reason, self._ends)
            return [shorten_after(INDENT, f"search over · {ended}", width)]
        return []


def ended_words(code: str, ends: Mapping[str, str]) -> str:
    """`patience: too long without an accept`; a code nobody has words for stands alone."""
    return f"{code}: {ends[code]}" if code in ends else code


def wrapped(text: str, width: int) -> list[str]:
    """A text in lines of at most so many columns."""
    return textwrap.wrap(text, max(20, width), subsequent_indent="  ")


def trial_line(trial: TrialRecorded, width: int) -> str:
    """One trial in one line; what matters least is left out where there is no room."""
    name = f"{trial_label(trial)} {note_words(trial, width)}"
    if not trial.measured:
        return turned_away_line(name, trial, width)
    gain = gain_words(trial.numbers)
    train = f"train {number(trial.train)} ±{number(trial.train_std)}"
    # What was merged of two is run on holdout alone.
    train = f"{'——':<18}" if trial.train is None else train
    held = "——" if trial.holdout is None else f"hold {number(trial.holdout)}"
    usd, seconds = spent_words(trial)
    parts = [
        (0, name),
        (0, train),
        (1, f"{f'({gain})' if gain else '':<20}"),
        (2, f"{held:<10}"),
        (0, f"{outcome(trial):<8}"),
        (3, usd),
        (4, seconds),
    ]
    return fitted(parts, width)


def trial_label(trial: TrialRecorded) -> str:
    """`[c1/n  2]`: the second of the phase that begins with n."""
    # Runs of an earlier burnish say only which of all it is.
    index = trial.trial if trial.index is None else trial.index
    return f"[c{trial.cycle}/{(trial.phase or 'trial')[0]} {index!s:>2}]"


def note_words(trial: TrialRecorded, width: int) -> str:
    """What was tried, in the room that a line of this width has for it."""
    note = trial.note or ", ".join(trial.touched)
    return padded(note, min(_WIDEST_NOTE, max(_NOTE, width - _REST)))


def spent_words(trial: TrialRecorded) -> tuple[str, str]:
    """What a trial cost, and how long it took."""
    return f"{money(trial.usd):>7}", duration(trial.seconds)


def turned_away_line(name: str, trial: TrialRecorded, width: int) -> str:
    """A trial that was not measured, and why."""
    # The files of a task have numbers in their own units, and no loss.
    return shorten_after(f"{name} {outcome(trial)}  ", trial.reason, width)


def outcome(trial: TrialRecorded) -> str:
    """What became of a trial, in a word and a sign."""
    if trial.accepted:
        return "accept ✓"
    if trial.kept:
        return "kept ↗"
    return "skipped ·" if trial.code == "skipped" else f"{_SHORT.get(trial.code, trial.code)} ✗"


def shorten_after(head: str, tail: str, width: int) -> str:
    """The head and as much of the tail as there is room for."""
    room = width - cell_len(head)
    return f"{head}{shorten(tail, room)}" if room > 3 else shorten(head, width)


def fitted(parts: list[tuple[int, str]], width: int) -> str:
    """The columns that there is room for; each comes with how soon it is left out."""
    for least in (5, 4, 3, 2, 1):
        line = " ".join(text for rank, text in parts if rank < least).rstrip()
        if cell_len(line) <= width:
            return line
    name, *others = (text for rank, text in parts if rank == 0)
    rest = " ".join(others).rstrip()
    return f"{shorten(name, max(9, width - len(rest) - 1))} {rest}"
