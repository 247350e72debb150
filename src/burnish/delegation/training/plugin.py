"""Training by epochs as a plug-in: its plan, its lines, and its report.md."""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from burnish.core.cases import Split
from burnish.core.errors import in_shell
from burnish.core.formatting import (
    Drawing,
    Facts,
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
from burnish.core.money import NOTHING
from burnish.core.surfaces import TextSurface
from burnish.core.trials import SplitResult, TrialRow
from burnish.delegation.training.epochs import (
    PROPOSER,
    ROLE,
    EpochDetails,
    Epochs,
    PolicyChanged,
    textgrad,
)
from burnish.delegation.training.setup import EpochSettings, step_words
from burnish.runs.directory import RunRecord, loss_of, result_of
from burnish.runs.events import BASELINE, Warned, read_all
from burnish.runs.first_round import FirstRound
from burnish.runs.plugins import (
    DELEGATIONS,
    Ability,
    Building,
    RoleNeed,
    StrategyParts,
    StrategyPlugin,
    TargetParts,
)
from burnish.runs.progress import (
    NOTHING_PAID,
    all_sweeps,
    asking,
    first_round,
    notes,
    reserved,
    role_label,
    sealed_cases,
    sweeps,
)
from burnish.runs.report_sections import (
    changes_made,
    cost_rows,
    headline,
    provenance,
    started_with,
    status_rows,
    why,
)
from burnish.runs.setup import Setup
from burnish.runs.spec import StrategySettings

_ENDS = {
    "nothing_to_gain": "the loss on train is 0",
    "max_epochs": "all epochs were run",
    "nothing_proposed": "the proposer sees nothing to change",
}


def _plan_lines(setup: Setup, strategy: Epochs) -> Iterator[str]:
    """The lines of `--dry-run`."""
    settings, data = strategy.settings, setup.dataset
    yield f"strategy  {strategy.name}, seed {setup.seed}"
    for role in strategy.roles:
        yield f"  {role.name} {role_label(role)}".rstrip()
    yield f"texts     {', '.join(surface.id for surface in setup.target.surfaces)}"
    yield f"tasks     train {len(data.train)}, holdout {len(data.holdout)}, {sealed_cases(setup)}"
    yield f"epochs    {settings.epochs}, {counted(settings.repeats, 'run')} of each task in each"
    if strategy.proposer is not None:
        rate = settings.learning_rate
        yield f"step      learning rate {rate:g}: {step_words(rate)}"
        stays = f"a gain of {settings.accept_sigma:g} × its noise over the best mean"
        yield f"stays     {stays}{'' if settings.rollback else ', and all others too'}"

    parts = [sweeps(setup, split, settings.repeats) for split in (Split.TRAIN, Split.HOLDOUT)]
    epoch = parts[0] + parts[1]
    yield f"an epoch  about {spending(epoch)} for small delegations; long ones take more"
    texts = len(setup.target.surfaces)
    proposals = asking(strategy.roles).times(texts * max(0, settings.epochs - 1))
    if proposals.calls:
        yield f"          + {spending(proposals)} in total for proposals"
    yield from reserved(setup)
    sealed = sweeps(setup, Split.TEST, 2 * setup.test_repeats)
    yield f"the run   about {spending(epoch.times(settings.epochs) + proposals + sealed)}"
    yield _first_round(setup, strategy).line()
    yield from notes(setup)
    yield NOTHING_PAID


def _first_round(setup: Setup, strategy: Epochs) -> FirstRound:
    """The first epoch, which is the baseline, and the second, if that tries another text."""
    settings = strategy.settings
    epoch = all_sweeps(setup, (Split.TRAIN, Split.HOLDOUT), settings.repeats)
    texts = [each for each in setup.target.surfaces if isinstance(each, TextSurface)]
    second = epoch + asking(strategy.roles).times(len(texts))
    trains = strategy.proposer is not None and settings.epochs > 1
    return first_round(setup, baseline=epoch, candidate=second if trains else NOTHING)


def report(run: RunRecord, reason: str) -> Iterator[Section]:
    """The sections of the report."""
    yield from headline(run)
    yield Heading("Result")
    yield Facts(tuple(_summary(run, reason)))
    yield from _epochs(run)
    yield from _tasks(run)
    yield from _proposals(run)
    yield from changes_made(run)
    yield from _registry(run)
    yield Heading("Method")
    yield Listing(tuple(_method(run)))


def _summary(run: RunRecord, reason: str) -> Iterator[tuple[str, str]]:
    yield from status_rows(run, reason)
    held = bool(run.header.cases.get("holdout"))
    for split in ("train", "holdout") if held else ("train",):
        before, after = (number(loss_of(row, split)) for row in (run.baseline, run.best))
        note = "" if held else ", a training score: no task was held out"
        yield f"mean loss, {split}", f"{before} → {after}{note}"
    yield "epochs", f"{len(run.rows)}, {counted(run.accepted, 'update')} accepted"
    yield from cost_rows(run, unit="task", over="epochs")


def _epochs(run: RunRecord) -> Iterator[Section]:
    rows: list[tuple[str, ...]] = []
    for row in run.rows:
        trial = row.trial
        rate = EpochDetails.of(trial).learning_rate
        mark = "✓ " if trial.accepted else "↗ " if trial.kept else ""
        again = not trial.decision and not trial.problems
        reason = "the same texts again" if again else why(trial)
        reason = "the start" if trial.phase == BASELINE else reason
        texts, means = ", ".join(trial.touched) or "—", map(_mean, (trial.train, trial.holdout))
        rows.append((str(trial.cycle), texts, _figure(rate), *means, f"{mark}{cell(reason, 200)}"))
    heads = ("epoch", "text", "learning rate", "mean loss", "holdout", "decision")
    yield Heading("Every epoch")
    yield Table(heads, tuple(rows))
    yield Text.of(
        "Every update is compared with the best mean so far. ✓ became the best and is active in "
        "the registry; ↗ stayed without being better; all others were rolled back."
    )


def _mean(result: SplitResult | None) -> str:
    if result is None or result.measurement.loss is None:
        return "—"
    return f"{number(result.measurement.loss)} ±{number(result.measurement.std)}"


def _tasks(run: RunRecord) -> Iterator[Section]:
    rows: list[tuple[str, ...]] = []
    for split in ("train", "holdout"):
        held = " (held out)" if split == "holdout" else ""
        sides = [_losses(row, split) for row in (run.baseline, run.best)]
        rows += [
            (f"{cell(task, 60)}{held}", *(number(side.get(task)) for side in sides))
            for task in sides[0]
        ]
    yield Heading("Every task")
    yield Table(("task", "loss at the start", "loss now"), tuple(rows))


def _losses(row: TrialRow | None, split: str) -> dict[str, float | None]:
    """The mean loss of each task over its repeats; None if one is missing."""
    result = result_of(row, split)
    losses: dict[str, float | None] = {}
    if result is None:
        return losses
    for task, scores in result.scores.items():
        values = [value for each in scores.values() for value in each]
        present = [value for value in values if value is not None]
        whole = present and len(present) == len(values)
        losses[task] = 1 - sum(present) / len(present) if whole else None
    return losses


def _proposals(run: RunRecord) -> Iterator[Section]:
    items: list[str] = []
    for row in run.rows:
        if update := EpochDetails.of(row.trial).update:
            hope = f"{_figure(update.expected_loss_reduction)} × {_figure(update.confidence)}"
            reason = cell(update.rationale or "no reason given", 400)
            name = f"epoch {row.trial.cycle}, {update.artifact}"
            items.append(f"{name} (expected {hope}): {reason}")
    if items:
        yield Heading("What was tried")
        yield Listing(tuple(items))


def _figure(value: float | None) -> str:
    return "—" if value is None else f"{value:g}"


def _registry(run: RunRecord) -> Iterator[Section]:
    suite = run.header.project.config.get("suite")
    path = suite.get("registry") if isinstance(suite, dict) else None
    if path is None:
        return
    changes = [*read_all(run.events, PolicyChanged)]
    items = [
        f"{name}: version {version} was made active"
        for change in changes
        for name, version in change.versions.items()
    ]
    if not changes:
        items.append("nothing was changed")
    command = f"`burnish policy list --db {in_shell(path)}`"
    items.append(f"{command} shows the texts in force, `rollback` restores earlier ones")
    yield Heading("The registry")
    yield Listing(tuple(items))


def _method(run: RunRecord) -> Iterator[str]:
    cases = ", ".join(f"{split} {n}" for split, n in run.header.cases.items() if n)
    decided = "holdout also decided" if run.header.cases.get("holdout") else "no holdout"
    yield started_with(run)
    yield f"tasks: {cases}; train fed the proposals, {decided}"
    yield (
        "the loss weighs metrics, critique, rejections by gates, budget and ending; a task that\n"
        "failed or delivered nothing counts as 1, one that could not be run is missing"
    )
    yield "every result was graded by the initial critique rubric, even if the rubric changed"
    warnings = dict.fromkeys(each.message for each in read_all(run.events, Warned))
    yield from (each for each in warnings if not each.startswith("policy registry"))
    yield from provenance(run)
    yield "the tasks should resemble future tasks; burnish cannot check that"


# -- The plug-in -----------------------------------------------------------------------------------


class EpochsPlugin(StrategyPlugin):
    """The strategy `epochs` as a plug-in."""

    name: ClassVar[str] = Epochs.name
    Settings: ClassVar[type[StrategySettings]] = EpochSettings
    roles: ClassVar[tuple[RoleNeed, ...]] = (PROPOSER,)
    requires: ClassVar[tuple[Ability, ...]] = (DELEGATIONS,)
    ends: ClassVar[Mapping[str, str]] = _ENDS

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        settings: EpochSettings = building.spec.strategy.settings
        if not settings.with_textgrad:
            note = "the suite is only measured; add --with-textgrad to train"
            return StrategyParts(strategy=Epochs(settings=settings), notes=(note,))
        ref = building.writer(PROPOSER, parts)
        model_and_prompt = None if ref is None else building.asked(ROLE, ref, role=PROPOSER.name)
        if model_and_prompt is None:
            return None
        notes: list[str] = []
        if settings.epochs < 2:
            notes.append("one epoch only measures: updates need --epochs 2 or more")
        if settings.repeats < 2:
            notes.append(
                "one repeat cannot show noise, so any gain counts: use --repeats 2 or more"
            )
        return StrategyParts(
            strategy=Epochs(settings=settings, proposer=textgrad(*model_and_prompt)),
            client=model_and_prompt[0],
            notes=tuple(notes),
        )

    def first_round(self, setup: Setup) -> FirstRound:
        """What the first epochs take."""
        assert isinstance(setup.strategy, Epochs)
        return _first_round(setup, setup.strategy)

    def plan(self, setup: Setup) -> Iterable[str]:
        """What would run, and what it may cost."""
        assert isinstance(setup.strategy, Epochs)
        return _plan_lines(setup, setup.strategy)

    def repeats(self, setup: Setup) -> int:
        """Runs of every task in an epoch."""
        assert isinstance(setup.strategy, Epochs)
        return setup.strategy.settings.repeats

    def report(self, run: RunRecord) -> Iterable[Section]:
        return report(run, self.reason(run))

    def drawings(self, run: RunRecord) -> Iterable[Drawing]:
        return _losses_by_epoch(run)


def _losses_by_epoch(run: RunRecord) -> Iterator[Drawing]:
    """The mean loss of every epoch."""
    if len(run.rows) < 2:
        return
    series = {
        split: tuple(loss_of(row, split) for row in run.rows)
        for split in ("train", "holdout")
        if any(loss_of(row, split) is not None for row in run.rows)
    }
    yield Drawing(
        title="Loss by epoch",
        labels=tuple(str(row.trial.cycle) for row in run.rows),
        series=series,
        unit="mean loss",
        label="epoch",
        note="Lower is better.",
    )
