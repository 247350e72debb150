"""Where the gain came from: by phase with why it ended, and by axis."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from burnish.core.content import Json
from burnish.core.trials import TrialRow
from burnish.reports.coordinate_words import ended_words
from burnish.reports.reading import RunRecord
from burnish.reports.report_parts import gains
from burnish.reports.words import cell, number
from burnish.runs.audit import axis_target
from burnish.runs.standing import BASELINE


@dataclass(frozen=True, kw_only=True)
class PhaseStory:
    """One phase of one cycle."""

    cycle: int
    phase: str
    rows: tuple[TrialRow, ...]
    gain: float | None
    """Loss removed on train; None where an accept was not measured."""
    ended: str
    """Why it ended, as a code; empty while it is under way."""

    @property
    def accepted(self) -> int:
        """How many of its trials were accepted."""
        return sum(row.trial.accepted for row in self.rows)


def phases(run: RunRecord) -> list[PhaseStory]:
    """The phases in order, those without a trial included."""
    names: dict[tuple[int, str], None] = {}
    ends: dict[tuple[int, str], str] = {}
    for event in run.events:
        if event.kind == "phase_started":
            names[_phase(event.data.get("cycle"), event.data.get("phase"))] = None
        if event.kind == "phase_ended":
            at = _phase(event.data.get("cycle"), event.data.get("phase"))
            ends[at] = str(event.data.get("reason"))
    tried = [row for row in run.rows if row.trial.phase != BASELINE]
    names |= dict.fromkeys((row.trial.cycle, row.trial.phase) for row in tried)
    won = gains(run)
    stories: list[PhaseStory] = []
    for cycle, phase in names:
        rows = tuple(r for r in tried if (r.trial.cycle, r.trial.phase) == (cycle, phase))
        ended = ends.get((cycle, phase), "")
        gain = _sum([won[row.number] for row in rows if row.trial.accepted])
        stories.append(PhaseStory(cycle=cycle, phase=phase, rows=rows, gain=gain, ended=ended))
    return stories


def attribution(run: RunRecord) -> Iterator[str]:
    """The part of the report."""
    yield from ("", "## Where the gain came from", "")
    yield "| cycle | phase | trials | accepted | Δloss on train | ended by |"
    yield "|---|---|---|---|---|---|"
    stories = phases(run)
    for each in stories:
        ended = ended_words(each.ended) if each.ended else "under way"
        yield (
            f"| {each.cycle} | {cell(each.phase, 40)} | {len(each.rows)} | {each.accepted} | "
            f"{fall(each.gain)} | {cell(ended, 80)} |"
        )
    yield from _by_axis(run)
    yield from _headroom(stories)


def _by_axis(run: RunRecord) -> Iterator[str]:
    groups: dict[str, list[TrialRow]] = {}
    for row in run.rows:
        if row.trial.phase != BASELINE:
            groups.setdefault(axis_target(row.trial) or "—", []).append(row)
    if not groups:
        return
    yield from ("", "| axis | trials | accepted | Δloss on train |", "|---|---|---|---|")
    won = gains(run)
    for axis, rows in groups.items():
        taken = [row for row in rows if row.trial.accepted]
        told = fall(_sum([won[row.number] for row in taken]))
        yield f"| {cell(axis, 100)} | {len(rows)} | {len(taken)} | {told} |"
    if any(", " in axis for axis in groups):
        yield ""
        yield "Axes in one row were moved together: what each of them won cannot be told apart."


def _headroom(stories: Sequence[PhaseStory]) -> Iterator[str]:
    """What descent by turns is for: numbers that found more once the prompt was better."""
    for at, later in enumerate(stories):
        before = stories[:at]
        searched = any(each.phase == "numeric" for each in before)
        better = [each for each in before if each.phase != "numeric" and each.accepted]
        if later.phase == "numeric" and searched and better and later.gain:
            last = better[-1]
            yield ""
            yield (
                f"The numbers of cycle {later.cycle} found {number(later.gain)} more after the "
                f"{last.phase} phase of cycle {last.cycle} had improved the prompt."
            )
            return


def _phase(cycle: Json, phase: Json) -> tuple[int, str]:
    return (cycle if isinstance(cycle, int) else 0, str(phase))


def _sum(found: Sequence[float | None]) -> float | None:
    known = [gain for gain in found if gain is not None]
    return sum(known, 0.0) if len(known) == len(found) else None


def fall(gain: float | None) -> str:
    """A gain as what it does to the loss: `−0.219`."""
    return "—" if gain is None else f"{-gain:+z.3f}".replace("-", "−").replace("+0.000", "0.000")
