"""Reflective search as a plug-in: how it is built, its plan, its lines, its report and files."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, cast

from burnish.core.cases import Split
from burnish.core.content import short_id
from burnish.core.formatting import (
    Heading,
    Listing,
    Section,
    Table,
    Text,
    cell,
    counted,
    number,
    spending,
)
from burnish.core.money import Spend
from burnish.core.trials import Trial, TrialRow
from burnish.runs import progress
from burnish.runs import report_sections as sections
from burnish.runs.directory import RunRecord, loss_of
from burnish.runs.events import BASELINE
from burnish.runs.first_round import FirstRound
from burnish.runs.plugins import Building, ResultFiles, RoleNeed, StrategyParts, TargetParts
from burnish.runs.progress import ProgressLines
from burnish.runs.run import Run
from burnish.runs.setup import ProposerOffer, Setup
from burnish.runs.spec import StrategySettings
from burnish.strategies.partial_evaluations import (
    MinibatchLines,
    MinibatchPlugin,
    agent_lines,
    minibatch_line,
)
from burnish.strategies.reflective.attempts import (
    ENDS,
    MERGE,
    ReflectiveDetails,
    ReflectiveSettings,
)
from burnish.strategies.reflective.examples import EXAMPLES, ExamplesProposer
from burnish.strategies.reflective.reflection import (
    OF_TEXTS,
    ROLE,
    ReflectionProposer,
    reflector,
)
from burnish.strategies.reflective.search import Reflective
from burnish.strategies.requirements import budget_with_an_end
from burnish.strategies.trail import (
    LEAST_HOLDOUT,
    deciding_line,
    first_round,
    metrics_on_holdout,
    planned_cases,
    trail_report,
)

# -- The plan and the report -----------------------------------------------------------------------


def plan_lines(setup: Setup, strategy: Reflective) -> Iterator[str]:
    """The lines of `--dry-run`."""
    yield from agent_lines(setup)
    label = progress.role_label(strategy.reflector)
    racing = "racing" if strategy.settings.racing else "classic"
    reflector = f", reflector {label}" if label else ""
    yield f"strategy  {strategy.name} ({racing}), seed {setup.seed}{reflector}"
    yield f"score     the mean of {', '.join(setup.objective.weights)}"
    names, values = strategy.fields(setup.target), setup.target.baseline.values
    yield f"prompts   {len(names)}"
    for surface in setup.target.surfaces:
        if surface.id in names:
            yield f"  {surface.id}: {progress.surface_words(surface, values[surface.id])}"
    yield from progress.case_lines(setup, strategy.settings.repeats)
    settings = strategy.settings
    together = settings.proposals_per_round
    many = f", {together} proposals at once" if together > 1 else ""
    merge = f", at most {counted(settings.max_merges, 'merge')}" if settings.merge else ""
    yield f"reflects  on {counted(settings.minibatch, 'case')} a round{many}{merge}"
    limits = [*progress.budget_limits(setup.budget, _limit_words), *progress.time_limits(setup)]
    yield f"limits    {', '.join(limits) or 'none'}"
    yield from _costs(setup, strategy)
    yield from progress.notes(setup)
    yield progress.NOTHING_PAID


def _limit_words(value: Any) -> str:
    if isinstance(value, Mapping):
        bars = cast("Mapping[str, float]", value)
        return ", ".join(f"{name} {bar:g}" for name, bar in bars.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _search_cost(setup: Setup, strategy: Reflective) -> str:
    """What a round costs at most; how many there will be depends on what is found."""
    settings, (baseline, looks, again) = strategy.settings, _measured(setup, strategy)
    proposal = looks.times(2) + progress.asking(strategy.roles) + baseline.times(again)
    most = proposal.times(settings.proposals_per_round)
    return f"a round of the search up to {spending(most, tokens=False)}"


def _measured(setup: Setup, strategy: Reflective) -> tuple[Spend, Spend, int]:
    """The cost of holdout, of a minibatch, and how often a candidate is run on holdout."""
    settings, held = strategy.settings, _deciding(setup, strategy)
    baseline = progress.sweeps(setup, Split.HOLDOUT, settings.repeats, most=held)
    looks = progress.sweeps(setup, Split.TRAIN, settings.repeats, most=settings.minibatch)
    return baseline, looks, 2 if settings.racing else 1


def _deciding(setup: Setup, strategy: Reflective) -> int:
    """How many cases of holdout decide, as far as that is known before the start."""
    settings = strategy.settings
    if not settings.may_use_part_of_holdout:
        return len(setup.dataset.holdout)
    return planned_cases(
        setup,
        settings,
        minibatch=settings.minibatch,
        asking=_asking(setup, strategy),
        proposals=settings.proposals_per_round,
    )


def _costs(setup: Setup, strategy: Reflective) -> Iterator[str]:
    settings, (baseline, looks, again) = strategy.settings, _measured(setup, strategy)
    yield from deciding_line(setup, _deciding(setup, strategy))
    yield f"baseline  about {spending(baseline)}"
    per = " for each proposal:" if settings.proposals_per_round > 1 else ""
    yield f"a round  {per} about {spending(looks.times(2))} on train"
    asking = progress.asking(strategy.roles)
    yield f"          + {spending(asking)} for a text that the reflector rewrites"
    yield f"          + up to {spending(baseline.times(again))} on holdout"
    yield from progress.reserved(setup)
    yield "          estimated from the length of prompts and references, if the model is known"
    yield _first_round(setup, strategy).line()


def _first_round(setup: Setup, strategy: Reflective) -> FirstRound:
    settings = strategy.settings
    proposals = settings.proposals_per_round
    raced = 1 if settings.parent_selection == "trail" else proposals
    may_be_part = settings.may_use_part_of_holdout
    return first_round(
        setup,
        repeats=settings.repeats,
        minibatch=settings.minibatch,
        asking=_asking(setup, strategy),
        least_holdout=LEAST_HOLDOUT if may_be_part else len(setup.dataset.holdout),
        proposals=proposals,
        races=raced * (2 if settings.racing else 1),
    )


def _asking(setup: Setup, strategy: Reflective) -> Spend:
    """What a proposal costs beside its cases."""
    texts = len(strategy.fields(setup.target)) if strategy.settings.field_selection == "all" else 1
    return progress.asking(strategy.roles).times(texts)


def report(run: RunRecord, reason: str) -> Iterator[Section]:
    """The sections of the report."""
    return trail_report(
        run,
        summary=_summary(run, reason),
        found=(*metrics_on_holdout(run), *_ancestry(run)),
        trials=_trials(run),
        method=(
            f"cases: {sections.case_numbers(run)}; train fed the reflections, holdout decided",
            "a rewrite must beat its parent on a few train cases, then the leader on holdout",
        ),
    )


def _summary(run: RunRecord, reason: str) -> Iterator[tuple[str, str]]:
    yield from sections.result_rows(run, reason)
    yield "rounds", str(max((row.trial.cycle for row in run.rows), default=0))
    yield "trials", f"{run.trials}, {run.accepted} accepted{_of_these(run)}"
    yield from sections.cost_rows(run)


def _of_these(run: RunRecord) -> str:
    """What became of the others."""
    trials = [row.trial for row in run.rows if row.trial.phase != BASELINE]
    codes = Counter(trial.decision.code for trial in trials if trial.decision is not None)
    counts = {
        "kept to build on": sum(trial.kept for trial in trials),
        "not confirmed by a second run": codes["luck"],
        "lost a race early": codes["hopeless"] + codes["futile"],
        "merges": sum(trial.phase == MERGE for trial in trials),
        "without a proposal": sum(_nothing_proposed(trial) for trial in trials),
    }
    return "".join(f", {count} {what}" for what, count in counts.items() if count)


def _ancestry(run: RunRecord) -> Iterator[Section]:
    """The rewrites that the best candidate descends from, each with what it was made for."""
    yield Heading("How it came about")
    items: list[str] = []
    for row in _steps(run):
        diagnosis = "; ".join(ReflectiveDetails.of(row.trial).diagnosis.values())
        reason = cell(diagnosis or row.trial.candidate.origin.note or "—", 300)
        items.append(f"trial {row.number}, {', '.join(row.trial.touched) or '—'}: {reason}")
    yield Listing(tuple(items)) if items else Text.of("No rewrite was better than the baseline.")


def _steps(run: RunRecord) -> list[TrialRow]:
    """The trials that made the best candidate and its ancestors, in order."""
    made: dict[str, TrialRow] = {}
    for row in run.rows:
        if row.trial.phase != BASELINE and not _nothing_proposed(row.trial):
            made.setdefault(row.trial.candidate.id, row)
    queue = [run.best_candidate.id] if run.best_candidate is not None else []
    rows: dict[int, TrialRow] = {}
    while queue:
        row = made.get(queue.pop())
        if row is not None and row.number not in rows:
            rows[row.number] = row
            queue += row.trial.candidate.parents
    return [rows[number] for number in sorted(rows)]


def _trials(run: RunRecord) -> Iterator[Section]:
    rows: list[tuple[str, ...]] = []
    for row in run.rows:
        trial = row.trial
        what = trial.candidate.origin.note or ", ".join(trial.touched) or "—"
        mark = "✓ " if trial.accepted else "↗ " if trial.kept else ""
        decision = f"{mark}{cell(sections.why(trial), 160)}"
        details, batch, held = ReflectiveDetails.of(trial), "—", "—"
        if (before := details.parent_score) is not None:
            batch = f"{number(1 - before)} → {number(loss_of(row, 'train'))}"
        if trial.holdout is not None:
            measured = trial.holdout.measurement
            part = "" if details.holdout_is_whole else f" ({counted(measured.cases, 'case')})"
            held = f"{number(measured.loss)}{part}"
        rows.append((str(row.number), str(trial.cycle), cell(what, 40), batch, held, decision))
    yield Heading("Every trial")
    yield Table(("#", "round", "what", "minibatch", "holdout", "decision"), tuple(rows))
    yield Text.of(
        "Losses, lower is better: on the minibatch, of the parent and the candidate; on holdout, "
        "over the number of cases given, or all. ✓ leads from here on, ↗ was built on."
    )


def _nothing_proposed(trial: Trial) -> bool:
    failed = bool(trial.proposals) and all(each.answer is None for each in trial.proposals)
    return failed or bool(ReflectiveDetails.of(trial).skipped)


# -- The plug-in -----------------------------------------------------------------------------------


_REFLECTOR = RoleNeed(
    name=ROLE,
    help="The model that rewrites texts: provider:name.",
    instead=("proposer", "critic"),
    panel="Prompts of any agent",
)


class ReflectivePlugin(MinibatchPlugin):
    """Reflective search for the command line, run.json and report.md."""

    name: ClassVar[str] = Reflective.name
    Settings: ClassVar[type[StrategySettings]] = ReflectiveSettings
    roles: ClassVar[tuple[RoleNeed, ...]] = (_REFLECTOR,)
    needs_holdout: ClassVar[bool] = True
    ends: ClassVar[Mapping[str, str]] = ENDS
    rationales: ClassVar[Mapping[str, Sequence[str]]] = {"reflector": ("diagnosis",)}
    offers_fork: ClassVar[bool] = False

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        spec = building.spec
        settings: ReflectiveSettings = spec.strategy.settings.model_copy(
            update={"fields": parts.texts()}
        )
        budget, notes = budget_with_an_end(spec.budget.budget())
        ref = building.writer(_REFLECTOR, parts)
        prompt = OF_TEXTS if parts.unit else ROLE
        client = None if ref is None else building.asked(prompt, ref, role=ROLE)
        if client is None:
            return None
        return StrategyParts(
            strategy=Reflective(reflector=reflector(*client), settings=settings, unit=parts.unit),
            budget=budget,
            client=client[0],
            notes=(*notes, *_notes(parts, settings)),
        )

    def proposers(self, building: Building, parts: TargetParts) -> Iterable[ProposerOffer]:
        texts, name = parts.texts(), "reflection"
        if not texts:
            return
        if building.named(_REFLECTOR) is None and parts.own_model is None:
            why = f"{parts.no_model}: name one with {ROLE}: or --{ROLE} PROVIDER:NAME"
            yield ProposerOffer(name=name, surfaces=texts, left_out=why)
            return
        ref = building.writer(_REFLECTOR, parts)
        client = None if ref is None else building.asked(ROLE, ref)
        if client is None:
            return
        role = reflector(*client)
        yield ProposerOffer(
            name=name,
            surfaces=texts,
            begin=partial(ReflectionProposer, reflector=role, fields=texts),
            fingerprint=short_id([name, 1, list(texts)]),
            roles=(role,),
            client=client[0],
        )
        if len(texts) == 1 and parts.cases_demonstrate and not parts.demonstrations():
            yield ProposerOffer(
                name=EXAMPLES,
                surfaces=texts,
                begin=partial(ExamplesProposer, field=texts[0]),
                fingerprint=short_id([EXAMPLES, 1, *texts]),
            )

    def first_round(self, setup: Setup) -> FirstRound:
        assert isinstance(setup.strategy, Reflective)
        return _first_round(setup, setup.strategy)

    def plan(self, setup: Setup) -> Iterable[str]:
        assert isinstance(setup.strategy, Reflective)
        return plan_lines(setup, setup.strategy)

    def search_cost(self, setup: Setup) -> str:
        assert isinstance(setup.strategy, Reflective)
        return _search_cost(setup, setup.strategy)

    def progress(self) -> ProgressLines:
        return MinibatchLines(self.ends)

    def result_files(self, run: Run) -> ResultFiles | None:
        """The files of AgentOptimizer, when prompts are optimised."""
        if run.target.description.kind != "prompts":
            return None
        from burnish.strategies.reflective.result_files import RoundFiles

        texts = {name: str(text) for name, text in run.target.baseline.values.items()}
        redactor = run.directory.redactor
        return RoundFiles(run.directory.folder, baseline=texts, redactor=redactor)

    def report(self, run: RunRecord) -> Iterable[Section]:
        return report(run, self.reason(run))

    def trial_lines(self, row: TrialRow) -> Iterable[str]:
        details = ReflectiveDetails.of(row.trial)
        if details.minibatch:
            before, after = details.parent_score, details.candidate_score
            yield minibatch_line(details.minibatch, before, after, beside="parent")


def _notes(parts: TargetParts, settings: ReflectiveSettings) -> Iterator[str]:
    others = [*parts.numbers(), *parts.demonstrations()]
    if others:
        yield f"reflection only rewrites texts; left unchanged: {', '.join(others)}"
    if settings.merge and len(settings.fields) < 2:
        yield "merging has no effect: it needs two prompts, and there is only one"
