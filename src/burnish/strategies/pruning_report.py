"""The words about pruning: a line of the plan, and a section of the report."""

from collections.abc import Iterator
from dataclasses import replace

from burnish.core.cases import Split
from burnish.core.formatting import (
    Heading,
    Section,
    Table,
    Text,
    alternatives,
    cell,
    counted,
    money,
    number,
    spending,
)
from burnish.core.money import Spend, to_usd, total
from burnish.core.trials import TrialRow
from burnish.journal.limits import Budget
from burnish.runs.closing import SHARE, closing_share, pays_for
from burnish.runs.directory import RunRecord, loss_of
from burnish.runs.events import PRUNE, PhaseEnded, read_all
from burnish.runs.progress import sweeps
from burnish.runs.report_sections import SPLITS, why
from burnish.runs.setup import Setup
from burnish.strategies.pruning import PruneDetails
from burnish.strategies.settings import PruningSettings


def plan_lines(setup: Setup, settings: PruningSettings) -> Iterator[str]:
    """What a search leaves for pruning its winner, as a line of a plan."""
    if not settings.prune:
        return
    budget, sealed = setup.budget, _cost(setup, Split.TEST, 2 * setup.test_repeats)
    splits = (Split.TRAIN, Split.HOLDOUT) if settings.uses_holdout else (Split.TRAIN,)
    first = total(_cost(setup, split, 2 * settings.repeats) for split in splits)
    if not pays_for(budget, sealed, first):
        yield f"pruning   none: {SHARE:.0%} of the limits do not pay for one look at the winner"
        return
    amounts = _amounts(budget, closing_share(budget, sealed))
    if amounts:
        yield f"reserved  at most {', '.join(amounts)} for pruning the winner"
    else:
        yield "pruning   at most as many trials as the winner has parts"


def _cost(setup: Setup, split: Split, often: int) -> Spend:
    runs = sum(case.recorded is None for case in setup.dataset.cases(split))
    return replace(sweeps(setup, split, often), metric_calls=often * runs)


def _amounts(budget: Budget, share: Spend) -> list[str]:
    """The share of each limit that is set."""
    words = {
        "max_metric_calls": f"{share.metric_calls:,} metric calls",
        "max_calls": f"{share.calls:,} calls",
        "max_tokens": f"{share.tokens:,} tokens",
        "max_usd": money(to_usd(share.nano_usd)),
        "max_minutes": f"{SHARE * (budget.max_minutes or 0):g} minutes",
    }
    return [text for name, text in words.items() if getattr(budget, name) is not None]


def pruning(run: RunRecord) -> Iterator[Section]:
    """Which parts of the winner were taken out, which stayed, and what that cost."""
    rows = [row for row in run.rows if row.trial.phase == PRUNE]
    if not rows:
        return
    gone = [row for row in rows if row.trial.accepted]
    size = sum(PruneDetails.of(row.trial).size or 0 for row in gone)
    ends = [each.reason for each in read_all(run.events, PhaseEnded) if each.phase == PRUNE]
    cost = spending(total(row.spend for row in rows))
    yield Heading("What was taken out again")
    yield Text.of(
        "After the search, parts of the winner were taken out one at a time and the rest was "
        "measured again. What is not missed left: "
        f"{len(gone)} of {counted(len(rows), 'part')}, {counted(size, 'character')}. "
        f"It cost {cost}, and ended since {alternatives(dict.fromkeys(ends)) or 'the run did'}."
    )
    yield Table(
        ("#", "part", "brought by trial", *SPLITS, "missed"),
        tuple(_row(row) for row in rows),
    )


def _row(row: TrialRow) -> tuple[str, ...]:
    details = PruneDetails.of(row.trial)
    brought = "—" if details.brought_by is None else str(details.brought_by)
    mark = "✓ no" if row.trial.accepted else "yes"
    return (
        str(row.number),
        cell(details.part or "—", 60),
        brought,
        *(_measured(row, split) for split in SPLITS),
        f"{mark}: {cell(why(row.trial), 160)}",
    )


def _measured(row: TrialRow, split: str) -> str:
    """The loss, or the primary number of a task."""
    primary = PruneDetails.of(row.trial).primary
    if not isinstance(primary, dict):
        return number(loss_of(row, split))
    value = primary.get(split)
    return f"{value:.4g}" if isinstance(value, int | float) else "—"
