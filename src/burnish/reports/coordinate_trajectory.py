"""The trajectory of a run: loss by trial as sparklines, with the phases marked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from burnish.core.trials import TrialRow
from burnish.reports.reading import RunRecord, loss_of
from burnish.reports.report_parts import SPLITS, fenced
from burnish.reports.words import number, sparkline
from burnish.runs.standing import BASELINE

PER_LINE = 64
"""Trials and boundaries in one line; a longer run goes on below."""
_EDGE = "│"
_MARGIN = 9


@dataclass(frozen=True, kw_only=True)
class _Stretch:
    """Trials of one phase that stand together in one line."""

    cycle: int
    phase: str
    rows: tuple[TrialRow, ...]


def trajectory(run: RunRecord) -> Iterator[str]:
    """The part of the report."""
    yield from ("", "## Trajectory", "")
    if not run.rows:
        yield "Nothing was measured yet."
        return
    yield from fenced([*_drawing(run.rows)])
    yield ""
    yield (
        "Loss by trial, low is good; one column a trial. A gap was not measured, ✓ was accepted, "
        "│ is where a phase ends (b baseline, d demonstrations, n numeric, t textual). "
        f"`burnish runs show {run.header.id}` tells every trial."
    )


def _drawing(rows: Sequence[TrialRow]) -> Iterator[str]:
    scale = [loss_of(row, split) for row in rows for split in SPLITS]
    known = [loss for loss in scale if loss is not None]
    for line in _lines(rows):
        for split in SPLITS:
            yield _labelled(split, [_drawn(each, split, scale) for each in line])
        yield _labelled("accepted", [_ticks(each) for each in line])
        yield _labelled("phase", [_name(each) for each in line])
        yield ""
    if known:
        yield f"{'scale':<{_MARGIN}}▁ {number(min(known))}   █ {number(max(known))}"


def _lines(rows: Sequence[TrialRow]) -> Iterator[list[_Stretch]]:
    """The stretches of each line; a phase that does not fit goes on in the next."""
    line: list[_Stretch] = []
    used = 0
    for (cycle, phase), group in groupby(rows, lambda r: (r.trial.cycle, r.trial.phase)):
        left = tuple(group)
        while left:
            if used >= PER_LINE:
                yield line
                line, used = [], 0
            here, left = left[: PER_LINE - used], left[PER_LINE - used :]
            line.append(_Stretch(cycle=cycle, phase=phase, rows=here))
            used += len(here) + len(_EDGE)
    yield line


def _drawn(stretch: _Stretch, split: str, scale: Sequence[float | None]) -> str:
    losses = [loss_of(row, split) for row in stretch.rows]
    return sparkline(losses, scale) or " " * len(losses)


def _ticks(stretch: _Stretch) -> str:
    return "".join("✓" if row.trial.accepted else " " for row in stretch.rows)


def _labelled(label: str, parts: Sequence[str]) -> str:
    return f"{label:<{_MARGIN}}{_EDGE.join(parts)}".rstrip()


def _name(stretch: _Stretch) -> str:
    """As much of the phase's name as its stretch has room for."""
    room = len(stretch.rows)
    if stretch.phase == BASELINE:
        return "b".ljust(room)
    letter = stretch.phase[:1] or "?"
    names = (f"c{stretch.cycle} {stretch.phase}", f"c{stretch.cycle}/{letter}", letter)
    return next(name for name in names if len(name) <= room).ljust(room)
