"""The words of training by epochs: its plan, and report.md with the mean loss of each epoch."""

from collections.abc import Iterator

from burnish.core.cases import Split
from burnish.core.formatting import (
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
from burnish.core.trials import SplitResult, TrialRow
from burnish.delegation.training.epochs import Epochs, PolicyChanged
from burnish.delegation.training.proposals import EpochDetails
from burnish.delegation.training.settings import step_words
from burnish.runs.directory import RunRecord, loss_of, result_of
from burnish.runs.events import BASELINE, Warned, read_all
from burnish.runs.progress import NOTHING_PAID, asking, notes, role_label, sweeps
from burnish.runs.report_sections import (
    changes_made,
    cost_rows,
    forked_from,
    headline,
    started_with,
    status_rows,
    why,
)
from burnish.runs.setup import Setup

ENDS = {
    "nothing_to_gain": "the loss on train is 0",
    "max_epochs": "it had all its epochs",
    "nothing_proposed": "nobody sees a text that should change",
}
"""Why a training ended."""


def plan_lines(setup: Setup, strategy: Epochs) -> Iterator[str]:
    """The lines of `--dry-run`."""
    yield from _what(setup, strategy)
    yield from _costs(setup, strategy)
    yield from notes(setup)
    yield NOTHING_PAID


def _what(setup: Setup, strategy: Epochs) -> Iterator[str]:
    settings, data = strategy.settings, setup.dataset
    yield f"strategy  {strategy.name}, seed {setup.seed}"
    for role in strategy.roles:
        yield f"  {role.name} {role_label(role)}".rstrip()
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
        rows.append(
            (
                str(trial.cycle),
                ", ".join(trial.touched) or "—",
                "—" if rate is None else f"{rate:g}",
                _mean(row.trial.train),
                _mean(row.trial.holdout),
                f"{mark}{cell(reason, 200)}",
            )
        )
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
    """The mean loss of each task over its repeats; None where one is missing."""
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
            items.append(f"{name} (hoped for {hope}): {reason}")
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
        items.append("nothing in it was changed")
    items.append(f"`burnish policy list --db {path}` shows what is read now, `rollback` goes back")
    yield Heading("The registry")
    yield Listing(tuple(items))


def _method(run: RunRecord) -> Iterator[str]:
    cases = ", ".join(f"{split} {n}" for split, n in run.header.cases.items() if n)
    decided = "holdout decided too" if run.header.cases.get("holdout") else "no holdout"
    yield started_with(run)
    yield f"tasks: {cases}; train fed the proposals, {decided}"
    yield (
        "the loss weighs metrics, critique, rejections by gates, budget and ending; a task that\n"
        "failed or left nothing counts 1, one that could not be run is missing"
    )
    yield "whatever became of the critique rubric, every result was graded by that of the start"
    yield from _notes(run)
    yield from forked_from(run)
    yield "the tasks should resemble those to come; burnish cannot see whether they do"


def _notes(run: RunRecord) -> list[str]:
    """What was said before the start, such as that a critic grades its own work."""
    messages = (warning.message for warning in read_all(run.events, Warned))
    return list(dict.fromkeys(each for each in messages if not each.startswith("policy registry")))
