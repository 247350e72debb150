"""`burnish optimize -v`: what critic, applier, reflector, patcher or editor said."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from burnish.core.trials import Proposal
from burnish.core.words import visible
from burnish.runs.directory import look_into, trial_rows
from burnish.runs.events import Event, SessionBegun, Tick, TrialRecorded
from burnish.runs.plugins import strategy_plugin

_WIDTH = 100
_INDENT = "         "


class Rationales:
    """Writes the reasons of every trial that somebody proposed, before the line of the trial."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._folder: Path | None = None
        self._parts: Mapping[str, Sequence[str]] = {}
        """By role, the parts of an answer that give reasons."""

    def event(self, event: Event) -> None:
        """Tell what was said in a trial that was just recorded."""
        if begun := event.read(SessionBegun):
            self._folder = Path(begun.folder)
            self._parts = strategy_plugin(begun.strategy).rationales
        elif (trial := event.read(TrialRecorded)) and self._folder is not None:
            for proposal in _proposals(self._folder, trial.trial):
                for line in _lines(proposal, self._parts.get(proposal.role, ())):
                    self._write(line)

    def tick(self, tick: Tick) -> None:
        """Cases have no reasons."""


def _proposals(folder: Path, number: int) -> Iterator[Proposal]:
    with look_into(folder) as journal:
        row = next((row for row in trial_rows(journal) if row.number == number), None)
    yield from row.trial.proposals if row is not None else ()


def _lines(proposal: Proposal, parts: Sequence[str]) -> Iterator[str]:
    answer = proposal.answer if isinstance(proposal.answer, dict) else {}
    reasons = [str(answer[name]) for name in parts if answer.get(name)]
    confidence = answer.get("confidence")
    if isinstance(confidence, int | float):
        reasons.append(f"(confidence {confidence:.2f})")
    text = proposal.error or " ".join(reasons)
    if text:
        head = f"{proposal.role:<8} "
        line = visible(f"{head}{' '.join(text.split())}")
        yield from textwrap.wrap(line, _WIDTH, subsequent_indent=_INDENT)
