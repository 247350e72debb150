"""Automatic search as a plug-in: which proposers take part, its plan, its lines, its report."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from burnish.core.cases import Split
from burnish.core.formatting import (
    Drawing,
    Heading,
    Section,
    Table,
    Text,
    alternatives,
    cell,
    counted,
    number,
    spending,
)
from burnish.core.money import Spend
from burnish.core.surfaces import AGENT_SURFACES, Surface
from burnish.core.trials import Trial, TrialRow
from burnish.runs import progress
from burnish.runs import report_sections as sections
from burnish.runs.directory import RunRecord
from burnish.runs.events import BASELINE, PERSON, Event, TrialRecorded, read_all
from burnish.runs.first_round import FirstRound
from burnish.runs.plugins import (
    Building,
    RoleNeed,
    StrategyParts,
    TargetParts,
    fitting,
    lack,
    proposing_plugins,
    target_plugin,
)
from burnish.runs.progress import ProgressLines
from burnish.runs.setup import ProposerOffer, Setup
from burnish.runs.spec import StrategySettings
from burnish.strategies.auto.search import (
    NOT_PAID,
    Auto,
    AutoDetails,
    AutoSettings,
    ProposerStopped,
    gain_of,
)
from burnish.strategies.partial_evaluations import (
    MinibatchLines,
    MinibatchPlugin,
    agent_lines,
    minibatch_line,
)
from burnish.strategies.requirements import budget_with_an_end
from burnish.strategies.trail import (
    deciding_line,
    first_round,
    metrics_on_holdout,
    planned_cases,
    trail_report,
)

_ENDS = {
    "no_failures": "no failing case is left to learn from",
    "nothing_left": "no proposer has anything left to propose",
    "nothing_to_gain": "holdout is solved: no candidate could be better",
    "nothing_new": "too many rounds without a candidate worth running",
    "baseline_missing": "the baseline could not be measured",
}
_STOPS = {
    NOT_PAID: "too many tries in a row without an accept",
    "pinned": "people pinned everything that it may change",
    "reflector_failed": "the reflector no longer gives usable answers",
    "patcher_failed": "the models that walk losses back no longer give usable answers",
    "dead_axes": "no change of its surfaces reaches the agent",
    "no_examples": "there is no example to show",
    "examples_tried": "other examples do not help either",
    "space_exhausted": "everything was tried",
    "converged": "no point promises a gain",
}
"""By code, why a proposer stops, in words."""
_WRITERS = ("proposer", "reflector", "critic")
_GRAPHS = "Graphs of agents"
_ROLES = (
    RoleNeed(
        name="reflector",
        help="The model that rewrites texts: provider:name.",
        instead=_WRITERS,
        panel="Prompts of any agent",
    ),
    RoleNeed(
        name="proposer",
        help="The model that writes what is proposed: provider:name.",
        instead=_WRITERS[1:],
        panel=_GRAPHS,
    ),
    *(
        RoleNeed(name=name, help=f"The model that {what}.", instead=_WRITERS, panel=_GRAPHS)
        for name, what in (
            ("backwarder", "walks losses back"),
            ("aggregator", "merges gradients"),
            ("patcher", "writes patches"),
        )
    ),
)


class AutoPlugin(MinibatchPlugin):
    """Automatic search for the command line, run.json and report.md."""

    name: ClassVar[str] = Auto.name
    Settings: ClassVar[type[StrategySettings]] = AutoSettings
    roles: ClassVar[tuple[RoleNeed, ...]] = _ROLES
    needs: ClassVar[tuple[type[Surface], ...]] = AGENT_SURFACES
    needs_holdout: ClassVar[bool] = True
    ends: ClassVar[Mapping[str, str]] = _ENDS
    rationales: ClassVar[Mapping[str, Sequence[str]]] = {
        "reflector": ("diagnosis",),
        "patcher": ("reason",),
    }
    offers_fork: ClassVar[bool] = False

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        if not parts.dataset.holdout and not building.problems.found:
            message = "'auto' needs cases of holdout to decide on, and there are none"
            building.problems.add("target", message, f"add some, or {_others(building)}")
            return None
        settings: AutoSettings = building.spec.strategy.settings
        every = _named(building, list(_offers(building, parts)), settings.proposers)
        offers = tuple(each for each in every if each.begin is not None)
        left_out = [f"{each.name}: {each.left_out}" for each in every if each.begin is None]
        if not offers:
            if parts.texts():
                building.writer(_ROLES[0], parts)  # says which model is missing, if one is
            if not building.problems.found:
                why = "; ".join(left_out) or "there is nothing here that one may change"
                message = f"no proposer of 'auto' can work on this target ({why})"
                remedy = f"name a model: proposer: openai:gpt-4o, or {_others(building)}"
                building.problems.add("target", message, remedy)
            return None
        budget, notes = budget_with_an_end(building.spec.budget.budget())
        clients = [each.client for each in offers if each.client is not None]
        return StrategyParts(
            strategy=Auto(offers=offers, settings=settings),
            budget=budget,
            client=clients[0] if clients else None,
            notes=(*notes, *(f"left out of the search: {each}" for each in left_out)),
        )

    def first_round(self, setup: Setup) -> FirstRound:
        return _first_round(setup, _strategy(setup))

    def plan(self, setup: Setup) -> Iterable[str]:
        return _plan_lines(setup, _strategy(setup))

    def search_cost(self, setup: Setup) -> str:
        strategy = _strategy(setup)
        look, holdout = _costs(setup, strategy)
        most = look.times(2) + progress.asking(strategy.roles[:1]) + holdout.times(2)
        return f"a try up to {spending(most, tokens=False)}"

    def repeats(self, setup: Setup) -> int:
        return _strategy(setup).settings.repeats

    def progress(self) -> ProgressLines:
        return _AutoLines(self.ends)

    def drawings(self, run: RunRecord) -> Iterable[Drawing]:
        return _gains_by_proposer(run)

    def report(self, run: RunRecord) -> Iterable[Section]:
        return _report(run, self.reason(run))

    def trial_lines(self, row: TrialRow) -> Iterable[str]:
        details = AutoDetails.of(row.trial)
        if details.minibatch:
            before, after = details.parent_score, details.candidate_score
            yield f"proposer {row.trial.phase}, {counted(details.calls, 'call')}"
            yield minibatch_line(details.minibatch, before, after, beside="parent")


def _first_round(setup: Setup, strategy: Auto) -> FirstRound:
    settings, asking = strategy.settings, progress.asking(strategy.roles[:1])
    return first_round(setup, repeats=settings.repeats, minibatch=settings.minibatch, asking=asking)


def _offers(building: Building, parts: TargetParts) -> Iterator[ProposerOffer]:
    """What the other strategies offer for this target."""
    target = target_plugin(building.spec.target.kind)
    for plugin in proposing_plugins():
        if not lack(plugin, target.surfaces, target.abilities):
            yield from plugin.proposers(building, parts)


def _named(
    building: Building, offers: Sequence[ProposerOffer], names: Sequence[str]
) -> list[ProposerOffer]:
    """Those that are named; all if none is."""
    known = [each.name for each in offers]
    for name in names:
        if name not in known:
            building.problems.add(
                "strategy.settings.proposers",
                f"there is no proposer '{name}' for this target",
                f"take some of {alternatives(known)}" if known else "leave it out",
            )
    return [each for each in offers if each.name in names or not names]


def _others(building: Building) -> str:
    """The other strategies for such a target, as a remedy."""
    target = target_plugin(building.spec.target.kind)
    names = [n for n in fitting(target.surfaces, target.abilities) if n != AutoPlugin.name]
    return f"take the strategy {alternatives(names)}" if names else target.unsearched


def _strategy(setup: Setup) -> Auto:
    assert isinstance(setup.strategy, Auto)
    return setup.strategy


# -- The plan and the lines -----------------------------------------------------------------------


def _plan_lines(setup: Setup, strategy: Auto) -> Iterator[str]:
    settings, (look, holdout) = strategy.settings, _costs(setup, strategy)
    yield from agent_lines(setup)
    yield f"strategy  auto, seed {setup.seed}"
    yield f"score     the mean of {', '.join(setup.objective.weights)}"
    count = len(strategy.offers)
    yield f"proposers {count}{', of which what pays gets more of the budget' if count > 1 else ''}"
    for offer in strategy.offers:
        labels = [label for role in offer.roles if (label := progress.role_label(role))]
        asks = f" (asks {', '.join(dict.fromkeys(labels))})" if labels else ""
        yield f"  {offer.name}: {', '.join(offer.surfaces)}{asks}"
    yield from progress.case_lines(setup, settings.repeats)
    yield f"stops     a proposer after {settings.unpaid_tries} tries in a row without an accept"
    limits = [*progress.budget_limits(setup.budget), *progress.time_limits(setup)]
    yield f"limits    {', '.join(limits) or 'none'}"
    yield from deciding_line(setup, _deciding(setup, strategy))
    yield f"baseline  about {spending(holdout)}"
    yield f"a try     about {spending(look.times(2))} on train"
    if strategy.roles:
        yield f"          + {spending(progress.asking(strategy.roles[:1]))} if a model writes"
    yield f"          + up to {spending(holdout.times(2))} on holdout"
    yield from progress.reserved(setup)
    yield _first_round(setup, strategy).line()
    yield from progress.notes(setup)
    yield progress.NOTHING_PAID


def _costs(setup: Setup, strategy: Auto) -> tuple[Spend, Spend]:
    """The cost of a minibatch, and of the cases of holdout that decide."""
    settings = strategy.settings
    look = progress.sweeps(setup, Split.TRAIN, settings.repeats, most=settings.minibatch)
    held = _deciding(setup, strategy)
    return look, progress.sweeps(setup, Split.HOLDOUT, settings.repeats, most=held)


def _deciding(setup: Setup, strategy: Auto) -> int:
    """How many cases of holdout decide, as far as that is known before the start."""
    settings, asking = strategy.settings, progress.asking(strategy.roles[:1])
    return planned_cases(setup, settings, minibatch=settings.minibatch, asking=asking)


class _AutoLines(MinibatchLines):
    """Trials with their proposers, and who stops."""

    def lines(self, event: Event, width: int) -> list[str]:
        if stopped := event.read(ProposerStopped):
            words = _STOPS.get(stopped.reason, stopped.reason)
            return progress.wrapped(f"{progress.INDENT}{stopped.proposer} stops: {words}", width)
        return super().lines(event, width)

    def trial(self, trial: TrialRecorded, width: int) -> str:
        # Its letter stands in brackets, and the rest says what it did.
        note = trial.note.removeprefix(f"{trial.phase}: ")
        return super().trial(replace(trial, note=note), width)


# -- The report -----------------------------------------------------------------------------------


def _report(run: RunRecord, reason: str) -> Iterator[Section]:
    return trail_report(
        run,
        summary=_summary(run, reason),
        found=(*_who_found_what(run), *metrics_on_holdout(run)),
        trials=_trials(run),
        method=(
            f"cases: {sections.case_numbers(run)}; train fed the proposals, holdout decided",
            "a proposal must beat its parent on a few train cases; now and then the last of "
            "several such steps must beat the incumbent on holdout, where a winner is run twice",
            "a bandit chose who proposes, by the gain on holdout for each call",
        ),
    )


def _summary(run: RunRecord, reason: str) -> Iterator[tuple[str, str]]:
    yield from sections.result_rows(run, reason)
    yield "trials", f"{run.trials}, {run.accepted} accepted"
    yield from sections.cost_rows(run)


def _who_found_what(run: RunRecord) -> Iterator[Section]:
    """By proposer, what it tried, what that gained and cost, and when it stopped."""
    yield Heading("Who found what")
    proposers = _proposers(run)
    if not proposers:
        yield Text.of("Nothing was tried.")
        return
    yield Table(
        ("proposer", "tries", "kept", "accepted", "gain", "calls", "reflections", "stopped"),
        tuple(_proposer_row(run, name) for name in proposers),
    )
    yield Text.of(
        "Kept: it beat its parent on a minibatch, and the search went on from it. Accepted: "
        "candidates that led, and have a step by this proposer. The gain is in score on holdout, "
        "added up over them; the steps of a candidate share it equally. Calls are runs of cases "
        "and requests to models; reflections are the requests."
    )


def _gains_by_proposer(run: RunRecord) -> Iterator[Drawing]:
    """What the accepted candidates of each proposer gained."""
    proposers = _proposers(run)
    gained = tuple(sum(_shares(run, name)) for name in proposers)
    if any(gained):
        yield Drawing(
            title="What each proposer brought",
            labels=tuple(proposers),
            series={"gain": gained},
            unit="gain in score on holdout",
            kind="bars",
            label="proposer",
            note="The sum over accepted candidates; their steps share it. Holdout chose them, so "
            "a sealed test shows less.",
        )


def _proposers(run: RunRecord) -> list[str]:
    """Who proposed something or stopped, in this order."""
    names = [row.trial.phase for row in run.rows]
    names += [each.proposer for each in read_all(run.events, ProposerStopped)]
    return [n for n in dict.fromkeys(names) if n not in (BASELINE, PERSON)]


def _proposer_row(run: RunRecord, name: str) -> tuple[str, ...]:
    rows = [row for row in run.rows if row.trial.phase == name]
    gains = _shares(run, name)
    kept = [row for row in rows if row.trial.decision and row.trial.decision.code == "kept"]
    return (
        name,
        str(len(rows)),
        str(len(kept)),
        str(len(gains)),
        f"{sum(gains):+.3f}" if gains else "—",
        str(sum(AutoDetails.of(row.trial).calls for row in rows)),
        str(sum(len(row.trial.proposals) for row in rows)),
        _stop_words(run, name, rows[-1].number if rows else 0),
    )


def _shares(run: RunRecord, name: str) -> list[float]:
    return [gain for row in run.rows if (gain := _share(row.trial, name)) is not None]


def _share(trial: Trial, name: str) -> float | None:
    """The share of a proposer in what an accepted candidate gained; None without a step."""
    gain, steps = gain_of(trial), AutoDetails.of(trial).steps
    if gain is None or name not in steps:
        return None
    return gain * steps.count(name) / len(steps)


def _stop_words(run: RunRecord, name: str, last: int) -> str:
    """When and why a proposer stopped; nothing if it had tries after that."""
    stops = [each for each in read_all(run.events, ProposerStopped) if each.proposer == name]
    if not stops or stops[-1].trial <= last:
        return "—"
    reason = stops[-1].reason
    return f"before trial {stops[-1].trial}: {cell(_STOPS.get(reason, reason), 80)}"


def _trials(run: RunRecord) -> Iterator[Section]:
    rows: list[tuple[str, ...]] = []
    for row in run.rows:
        trial, details = row.trial, AutoDetails.of(row.trial)
        batch = "—"
        if details.parent_score is not None and details.candidate_score is not None:
            batch = f"{number(details.parent_score)} → {number(details.candidate_score)}"
        held = None if trial.holdout is None else trial.holdout.measurement
        part = "" if held is None or details.whole_holdout is not False else f" ({held.cases})"
        decision = f"{'✓ ' if trial.accepted else ''}{cell(sections.why(trial), 160)}"
        what = cell(trial.candidate.origin.note or ", ".join(trial.touched) or "—", 60)
        score = "—" if held is None else f"{number(held.score)}{part}"
        rows.append((str(row.number), what, batch, score, decision))
    yield Heading("Every trial")
    yield Table(("#", "what", "minibatch", "holdout", "decision"), tuple(rows))
    yield Text.of(
        "Scores, higher is better: on the minibatch, of the parent and the candidate; on "
        "holdout, of all cases or of the number in brackets. ✓ leads from here on."
    )
