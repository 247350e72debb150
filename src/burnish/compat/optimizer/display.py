"""What a program prints while it optimises: nothing, a panel that moves, or the reflection too."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from burnish.compat.optimizer.callbacks import read_row
from burnish.core.content import Json
from burnish.core.formatting import visible
from burnish.core.trials import Proposal
from burnish.journal.limits import Budget
from burnish.reports.progress import WIDTH, LineView, LiveView
from burnish.runs.events import Event, Listener, Tick, TrialRecorded

_PLAIN = str.maketrans(
    {
        "✓": "+", "↗": "^", "✗": "x", "▼": "-", "▲": "+", "±": "~", "·": "|", "→": "->", "—": "-",
        "─": "-", "…": "...", "×": "x", "≥": ">=", "≤": "<=", "−": "-", "’": "'", "σ": "s",
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Reporter:
    """Says what happens, as loudly as was asked."""

    verbose: int = 1

    def say(self, line: str) -> None:
        """Print a line, unless nothing is to be printed."""
        if self.verbose:
            _print(line if sys.stdout.isatty() else _plain(line))

    @contextmanager
    def watching(self, folder: Path, budget: Budget) -> Generator[list[Listener], None, None]:
        """The views of a run."""
        if not self.verbose:
            yield []
            return
        more: list[Listener] = [Reflections(folder, self)] if self.verbose > 1 else []
        console = Console()
        if console.is_interactive:
            with LiveView(console, budget) as live:
                yield [live, *more]
            return
        yield [LineView(self.say, width=lambda: WIDTH), *more]


class Reflections:
    """Prints what the reflection model was asked and what it said."""

    def __init__(self, folder: Path, reporter: Reporter) -> None:
        self._folder = folder
        self._reporter = reporter

    def event(self, event: Event) -> None:
        """Print the questions of a round once it is on record."""
        recorded = event.read(TrialRecorded)
        if recorded is None:
            return
        for proposal in read_row(self._folder, recorded.trial).trial.proposals:
            for line in _dialogue(recorded.trial, proposal):
                self._reporter.say(line)

    def tick(self, tick: Tick) -> None:
        """Nothing: a case is no question."""


def _plain(line: str) -> str:
    """The line in ASCII, for logs."""
    return line.translate(_PLAIN).encode("ascii", "replace").decode()


def _dialogue(number: int, proposal: Proposal) -> list[str]:
    request = proposal.request
    messages = request.get("messages") if isinstance(request, dict) else None
    lines = [f"   round {number}: {proposal.role} was asked"]
    for message in messages if isinstance(messages, list) else []:
        lines += _indented(message.get("content") if isinstance(message, dict) else message)
    lines.append(f"   round {number}: {proposal.role} said")
    return [*lines, *_indented(proposal.error or proposal.answer)]


def _indented(value: Json) -> list[str]:
    shown = value if isinstance(value, str) else repr(value)
    return [f"     {line}" for line in visible(shown).splitlines()]


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
