"""The lines that show a plan and the progress of a run."""

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from rich.cells import cell_len

from burnish.core.cases import Case, Split, Usage
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
from burnish.metrics.judged import judged_parts
from burnish.models.addresses import addresses_of
from burnish.models.capabilities import expected_forms
from burnish.models.chat import ModelClient
from burnish.models.factory import ModelUse, missing_libraries
from burnish.models.roles import ModelRole
from burnish.runs.case_work import CALL_LIMIT
from burnish.runs.claims import claim_words, opinion_words, sealed_words
from burnish.runs.events import (
    BASELINE,
    ByLuck,
    Claim,
    Event,
    PhaseEnded,
    PhaseStarted,
    RunResumed,
    SealedResult,
    SearchEnded,
    SecondOpinion,
    SessionBegun,
    Steered,
    Stopping,
    TrialRecorded,
    Warned,
)
from burnish.runs.first_round import FirstRound
from burnish.runs.setup import Setup

_ROLE = Usage(requests=1, input_tokens=2500, output_tokens=500)
"""The usual size of a critic's request and answer: up to ten failing cases, and a paragraph."""

NOTHING_PAID = "nothing was paid; leave out --dry-run to start"
"""The last line of a plan."""


def plain_plan(setup: Setup) -> Iterator[str]:
    """The default plan."""
    yield f"strategy  {setup.strategy.name}, seed {setup.seed}"
    yield f"target    {setup.target.description.kind}"
    for surface in setup.target.surfaces:
        yield f"  {surface.kind:<7} {surface.id}"
    sweep = {s: _judged(setup, setup.dataset.cases(s), setup.target.estimate) for s in Split}
    for split in Split:
        cases = counted(len(setup.dataset.cases(split)), "case")
        yield f"{split.value:<9} {cases}; once through: about {spending(sweep[split])}"
    yield from reserved(setup)
    limits = budget_limits(setup.budget) or ["none: the strategy decides when to stop"]
    yield f"limits    {', '.join([*limits, *time_limits(setup)])}"
    yield NOTHING_PAID


def agent_line(setup: Setup) -> Iterator[str]:
    """What is optimised, if the target describes itself."""
    if isinstance(setup.target, Summarized):
        yield f"agent     {setup.target.plan_summary}"


def luck_line(words: str) -> str:
    """How often a run would accept edits that change nothing, as a line of a plan."""
    return f"by luck   {words}"


def notes(setup: Setup) -> Iterator[str]:
    """What the user should know before the start."""
    yield from (f"! {note}" for note in setup.notes)


def case_lines(setup: Setup, repeats: int) -> Iterator[str]:
    """The number of cases and repeats, and what holdout can show."""
    data = setup.dataset
    yield f"cases     train {len(data.train)}, holdout {len(data.holdout)}, {sealed_cases(setup)}"
    yield f"repeats   {repeats}"
    yield f"can show  {shown_by(len(data.holdout))}"


def sealed_cases(setup: Setup) -> str:
    """`sealed test 12`."""
    test = setup.dataset.test
    return f"sealed test {len(test)}" if test else "no sealed test"


def last_sweeps(setup: Setup) -> Spend:
    """What is reserved for the end: for the sealed test, or for measuring the winner again, and
    for a second judge.
    """
    split = Split.TEST if setup.dataset.test else setup.deciding_split
    measured = setup.dataset.test or setup.confirm
    cost = sweeps(setup, split, 2 * setup.test_repeats) if measured else NOTHING
    return cost + setup.second_judging


def first_round(
    setup: Setup, *, baseline: Spend, candidate: Spend, usual: Spend = NOTHING
) -> FirstRound:
    """The first round of a search, with what is asked before it and reserved for the end."""
    last = "both again at the end" if setup.confirm else ""
    return FirstRound(
        baseline=baseline,
        candidate=candidate,
        usual=usual,
        reserved=Spend(calls=len(setup.preflight())) + last_sweeps(setup),
        including="the sealed test" if setup.dataset.test else last,
    )


def reserved(setup: Setup) -> Iterator[str]:
    """The same as a line of a plan."""
    reserve = last_sweeps(setup)
    if reserve.calls:
        yield f"reserved  about {spending(reserve)} {_last(setup)}"


def _last(setup: Setup) -> str:
    """What is done after the search; empty if nothing is."""
    parts = ["for a second judge"] if setup.second_judging.calls else []
    if setup.dataset.test:
        parts.insert(0, "for the sealed test")
    elif setup.confirm:
        parts.insert(0, f"to measure baseline and best again on {setup.deciding_split.value}")
    return " and ".join(parts)


def opening_words(setup: Setup, *, search: str = "", watched: bool = True) -> str:
    """What a run may cost, for its start; if somebody watches, also how it is stopped.

    `search` is what its strategy says of the search itself.
    """
    once = sweeps(setup, Split.TRAIN, 1) + sweeps(setup, Split.HOLDOUT, 1)
    most = "" if setup.budget.max_usd is None else f"at most {money(setup.budget.max_usd)}"
    cost = f"about {spending(once, tokens=False)} to run each case once"
    words = ", ".join(filter(None, (cost, search, most)))
    return f"{words}; Ctrl-C stops, and a resume goes on" if watched else words


def budget_limits(budget: Budget, words: Callable[[Any], str] = str) -> list[str]:
    """The names and values of the limits that are set."""
    values = ((each.name, getattr(budget, each.name)) for each in fields(budget))
    return [f"{name} {words(value)}" for name, value in values if value not in (None, (), {})]


def time_limits(setup: Setup) -> list[str]:
    """How long a case, or a call of the user's function, may take."""
    limit = setup.case_policy.time_limit
    if limit is not None:
        return [f"time_limit {limit:g} s per case"]
    return [f"time_limit {CALL_LIMIT:g} s per call"] if calls_function(setup.target) else []


def role_label(role: Role[Any, Any] | None) -> str:
    """The model of a role; empty if it has none."""
    return getattr(getattr(getattr(role, "client", None), "ref", None), "label", "")


def answer_forms(setup: Setup, home: Path) -> Iterator[str]:
    """How each model of a role or judge will be asked for structured answers, for plans."""
    roles = (getattr(role, "client", None) for role in setup.strategy.roles)
    judges = (
        judge.client
        for metric in setup.metrics
        for part in judged_parts(metric)
        for judge in part.panel.judges
    )
    for label, words in expected_forms((*roles, *judges), home).items():
        yield f"answers   {label}: {words}"


def model_lines(uses: Iterable[ModelUse], *, asked: int = 0, column: int = 10) -> Iterator[str]:
    """Where each model of a plan is, and what its key is taken from.

    `asked` is how many of them are asked once before the start; the words begin at `column`.
    """
    uses, indent = [*uses], " " * column
    for address in addresses_of(uses):
        first, *rest = wrapped(str(address), _NARROW - column)
        yield f"{'models':<{column}}{first}"
        yield from (f"{indent}{line.strip()}" for line in rest)
    if asked:
        which = "it is" if asked == 1 else "each is"
        yield f"{indent}{which} asked once before the start: {counted(asked, 'call')}"
    if (missing := missing_libraries(uses)) is not None:
        first, *rest = wrapped(missing.message, _NARROW - column)
        yield f"{'missing':<{column}}{first}"
        yield from (f"{indent}{line.strip()}" for line in rest)
        yield f"{indent}install it first: {missing.remedy}"


def surface_words(surface: Surface, now: Value) -> str:
    """The bounds of a surface and its current value, for plans."""
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
    """The expected cost of running the cases of a split, or the first few of them, so often."""
    return total(case_costs(setup, split)[:most]).times(often)


def all_sweeps(setup: Setup, splits: Iterable[Split], often: int) -> Spend:
    """The same for several splits together."""
    return total(sweeps(setup, split, often) for split in splits)


def case_costs(setup: Setup, split: Split) -> list[Spend]:
    """The expected cost of running each case of a split once."""

    def run(case: Case) -> Spend:
        target = setup.target
        if case.recorded is not None:
            return NOTHING
        forecasts = isinstance(target, ForecastsCosts)
        cost = target.forecast(case) if forecasts else target.estimate(case)
        return replace(cost, metric_calls=1)

    return [_judged(setup, [case], run) for case in setup.dataset.cases(split)]


def _judged(setup: Setup, cases: Iterable[Case], run: Callable[[Case], Spend]) -> Spend:
    return total(run(case) + total(m.estimate(case) for m in setup.metrics) for case in cases)


def asking(roles: Iterable[Role[Any, Any]]) -> Spend:
    """The expected cost of one request of the usual length to each role."""

    def cost(role: Role[Any, Any]) -> Spend:
        if not isinstance(role, ModelRole):
            return Spend(calls=1, unpriced=int(not role.priced))
        client: ModelClient = role.client
        usd = client.prices.nano_usd(client.ref, _ROLE) if client.priced else 0
        tokens = {"tokens_in": _ROLE.input_tokens, "tokens_out": _ROLE.output_tokens}
        return replace(client.estimate(), nano_usd=usd or 0, **tokens)

    return total(map(cost, roles))


WIDTH = 100
"""Columns of a line where no terminal says how many it has."""
_NARROW = 80
"""Columns of the lines of a plan about models, whose addresses are long."""
INDENT = "   "
_NOTE, _WIDEST_NOTE = 17, 28
_REST = 83
"""The width of a whole line without its note."""


class ProgressLines:
    """Turns the events of one run into lines."""

    step: ClassVar[str] = "trial"
    """What a run that is asked to stop finishes first."""

    def __init__(self, ends: Mapping[str, str]) -> None:
        self._ends = ends
        self._longest = 0.0
        """Seconds of the longest trial so far, the baseline included."""

    def lines(self, event: Event, width: int) -> list[str]:
        """The lines for an event, if any."""
        if begun := event.read(SessionBegun):
            resumed = [self.going_on(begun)] if event.read(RunResumed) else []
            models = (visible(str(address)) for address in begun.models or ())
            where = chain.from_iterable(wrapped(words, width - len(INDENT)) for words in models)
            return [self.beginning(begun), *resumed, *(f"{INDENT}{line}" for line in where)]
        if trial := event.read(TrialRecorded):
            is_baseline = trial.phase == BASELINE
            self._longest = max(self._longest, trial.seconds)
            return self.baseline(trial, width) if is_baseline else [self.trial(trial, width)]
        if warning := event.read(Warned):
            parts = f"! {warning.message}".splitlines()
            return [line for part in parts for line in wrapped(visible(part), width)]
        if luck := event.read(ByLuck):
            return wrapped(f"by luck: {luck.words}", width)
        if steered := event.read(Steered):
            return wrapped(f"» {visible(steered.words)}", width)
        if event.read(Stopping):
            return wrapped(self.stopping(), width)
        if sealed := event.read(SealedResult):
            return ["", *wrapped(sealed_words(sealed), width)]
        if claim := event.read(Claim):
            # That of a sealed test is in the line of the test.
            sealed = claim.basis == "sealed test"
            return [] if sealed else ["", *wrapped(claim_words(claim), width)]
        if opinion := event.read(SecondOpinion):
            return ["", *wrapped(opinion_words(opinion), width)]
        return self._of_phases(event, width)

    def stopping(self) -> str:
        """How long a run that is asked to stop goes on, and what asking again does."""
        longest = f"{duration(self._longest)}, as long as the longest so far"
        return (
            f"stopping when this {self.step} ends, which may take "
            f"{longest if self._longest else 'minutes: none has ended yet'}. A second Ctrl-C stops "
            "at once: a resume then asks again what had no answer"
        )

    def beginning(self, begun: SessionBegun) -> str:
        """The first line of a run."""
        cases = begun.cases
        sizes = [f"{split.value} {cases[split.value]}" for split in Split if split.value in cases]
        return f"{begun.title or begun.target} · {begun.strategy} · {', '.join(sizes)} cases"

    def going_on(self, begun: SessionBegun) -> str:
        """The second line of a resumed run."""
        trials = begun.trials_recorded - 1
        after = counted(trials, "recorded trial") if trials > 0 else "the baseline"
        where = f"after {after}" if trials >= 0 else "from the start"
        return f"continuing {where}; nothing is paid twice"

    def phase_title(self, phase: PhaseStarted) -> str:
        """`cycle 2 · words`."""
        return f"cycle {phase.cycle} · {phase.phase}"

    def baseline(self, trial: TrialRecorded, width: int) -> list[str]:
        """The losses of the baseline, and what one case of holdout is worth."""
        loss = f"train {number(trial.train)} ±{number(trial.train_std)}   "
        loss = loss if trial.train is not None or trial.holdout is None else ""
        line = f"{'baseline':<18}{loss}{self.held(trial)}"
        if not trial.holdout_cases:
            return [line]
        least = f"one case of holdout is worth {number(1 / trial.holdout_cases)}"
        whole = f"{line}   {least}"
        return [whole] if cell_len(whole) <= width else [line, shorten_after(INDENT, least, width)]

    def held(self, trial: TrialRecorded) -> str:
        """The baseline's loss on holdout."""
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
    """`patience: too long without an accept`; just the code if it has no words."""
    return f"{code}: {ends[code]}" if code in ends else code


def wrapped(text: str, width: int) -> list[str]:
    """A text in lines of at most so many columns."""
    return textwrap.wrap(text, max(20, width), subsequent_indent="  ")


def trial_line(trial: TrialRecorded, width: int) -> str:
    """One trial in one line, without the least important columns if there is no room."""
    name = f"{trial_label(trial)} {note_words(trial, width)}"
    if not trial.measured:
        return turned_away_line(name, trial, width)
    gain = gain_words(trial.numbers)
    train, spread = f"train {number(trial.train)}", f"±{number(trial.train_std)}"
    if trial.train is None:  # a merged candidate is run on holdout alone
        train, spread = f"{'——':<11}", " " * 6
    held = "——" if trial.holdout is None else f"hold {number(trial.holdout)}"
    usd, seconds = spent_words(trial)
    parts = [
        (0, name),
        (0, train),
        (5, spread),
        (4, f"{f'({gain})' if gain else '':<20}"),
        (1, f"{held:<10}"),
        (0, f"{outcome(trial):<8}"),
        (2, usd),
        (3, seconds),
    ]
    return fitted(parts, width)


def trial_label(trial: TrialRecorded) -> str:
    """`[c1/n  2]`: the second trial of the phase that begins with n."""
    # Runs of an earlier burnish only have the number of the trial.
    index = trial.trial if trial.index is None else trial.index
    return f"[c{trial.cycle}/{(trial.phase or 'trial')[0]} {index!s:>2}]"


def note_words(trial: TrialRecorded, width: int) -> str:
    """What was tried, padded for a line of this width."""
    note = trial.note or ", ".join(trial.touched)
    return padded(note, min(_WIDEST_NOTE, max(_NOTE, width - _REST)))


def spent_words(trial: TrialRecorded) -> tuple[str, str]:
    """The cost and the duration of a trial."""
    return f"{money(trial.usd):>7}", duration(trial.seconds)


def turned_away_line(name: str, trial: TrialRecorded, width: int) -> str:
    """A trial that was not measured, and why."""
    return shorten_after(f"{name} {outcome(trial)}  ", trial.reason, width)


def outcome(trial: TrialRecorded) -> str:
    """The outcome of a trial as a word and a sign."""
    if trial.accepted:
        return "accept ✓"
    if trial.kept:
        return "kept ↗"
    if trial.code == "skipped":
        return "skipped ·"
    return "hold ✗" if trial.code == "holdout" else f"{trial.code} ✗"


def shorten_after(head: str, tail: str, width: int) -> str:
    """The head and as much of the tail as there is room for."""
    room = width - cell_len(head)
    return f"{head}{shorten(tail, room)}" if room > 3 else shorten(head, width)


def fitted(parts: list[tuple[int, str]], width: int) -> str:
    """The columns that fit; those with the highest rank are left out first."""
    for least in range(max(rank for rank, _ in parts) + 1, 0, -1):
        line = " ".join(text for rank, text in parts if rank < least).rstrip()
        if cell_len(line) <= width:
            return line
    name, *others = (text for rank, text in parts if rank == 0)
    rest = " ".join(others).rstrip()
    return f"{shorten(name, max(9, width - len(rest) - 1))} {rest}"
