"""Labelling cases in the terminal, and how far the people who did it agree."""

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click
import typer

from burnish.core.cases import Case
from burnish.core.errors import ConfigError
from burnish.core.formatting import counted, visible
from burnish.datasets.labels import (
    Labelling,
    Labels,
    LabelShape,
    Scale,
    forget_stale,
    labelling,
    shown_parts,
)
from burnish.metrics.raters import RaterPair, rater_pairs
from burnish.reports.rendering import Columns

_MOST_CHARS = 4_000
"""Of one text on the screen."""
_SHOWN = 20
_COMMANDS = {"s": "skip", "b": "back", "n": "note", "q": "quit"}


def label_cases(path: Path, *, person: str, scale: str | None, everything: bool) -> None:
    """Ask for a label of one case after the other; each is saved at once."""
    wanted = None if scale is None else Scale.of(scale)
    with labelling(path, person=person, scale=wanted) as session:
        first = 0 if everything else session.next_open()
        if first is not None:
            _Terminal(session, everything=everything).ask(first)
        of = f"{session.count:,} of {counted(len(session.cases), 'case')}"
        typer.echo(f"labelled {of} as {session.person}")
    labels = Labels.read(path)
    if labels.scale is not None:
        typer.echo(f"saved    {labels.path}")
    if len(labels.people) > 1:
        typer.echo(f"next     burnish data agreement {path}")


def forget_labels(path: Path) -> None:
    """Drop the labels of cases that are gone or have changed."""
    stale = forget_stale(path)
    for each in stale:
        typer.echo(f"dropped  the label of {visible(each.by)} for {visible(each.case)}")
    typer.echo(
        f"{counted(len(stale), 'label')} dropped" if stale else "every label matches its case"
    )


class _Terminal:
    """The conversation about one case after the other.

    On a terminal one key is an answer, where each answer has a key. Elsewhere a line is.
    """

    def __init__(self, session: Labelling, *, everything: bool) -> None:
        self._session = session
        self._everything = everything
        self._choices = self._keys()
        self._one_key = sys.stdin.isatty() and 0 < len(session.scale.classes) <= 9

    def ask(self, place: int) -> None:
        """Go on until all is answered, or the person quits."""
        trail: list[int] = []
        current: int | None = place
        while current is not None:
            self._show(current)
            command = self._command(current)
            if command == "quit":
                return
            if command == "back":
                if not trail:
                    typer.echo("this is the first one")
                current = trail.pop() if trail else current
                continue
            trail.append(current)
            current = self._next(current)

    def _next(self, place: int) -> int | None:
        if self._everything:
            return place + 1 if place + 1 < len(self._session.cases) else None
        return self._session.next_open(place)

    def _command(self, place: int) -> str:
        """Save an answer, or return what else the person wants."""
        earlier = self._session.label(place)
        note = earlier.note if earlier else ""
        while True:
            text = self._read()
            command = "quit" if text is None else _COMMANDS.get(text.strip().casefold(), "")
            if command == "note":
                note = self._note(place, earlier)
            elif command:
                return command
            elif text is not None and (answer := self._session.scale.read(text)) is not None:
                self._session.save(place, answer, note=note)
                return "answered"
            elif text is not None and text.strip():
                typer.echo(f"{visible(text.strip())[:60]!r} is no answer: {self._choices}")

    def _note(self, place: int, earlier: LabelShape | None) -> str:
        """A note goes with the answer; with the one there is already, at once."""
        typer.echo("note > ", nl=False)
        note = sys.stdin.readline().strip()
        if earlier is not None and earlier.label is not None:
            self._session.save(place, earlier.label, note=note)
            typer.echo("the note is saved with your label")
        return note

    def _keys(self) -> str:
        scale = self._session.scale
        if scale.is_score:
            answers = ["0 to 1"]
        elif scale == Scale():
            answers = ["p pass", "f fail"]
        else:
            answers = [f"{number} {name}" for number, name in enumerate(scale.classes, start=1)]
        return " · ".join([*answers, *(f"{key} {name}" for key, name in _COMMANDS.items())])

    def _read(self) -> str | None:
        """What the person typed; None at the end of the input."""
        typer.echo(f"{self._choices} > ", nl=False)
        if not self._one_key:
            line = sys.stdin.readline()
            if not sys.stdin.isatty():
                typer.echo(visible(line.rstrip("\n")))
            return line or None
        try:
            key = click.getchar()
        except EOFError:
            return None
        typer.echo(visible(key))
        return key

    def _show(self, place: int) -> None:
        session, case = self._session, self._session.cases[place]
        many = len(session.cases)
        typer.echo(f"\ncase {place + 1} of {many} · {visible(case.id)} · {session.count} labelled")
        for line in case_texts(case):
            typer.echo(line)
        if (label := session.label(place)) is not None:
            note = f" ({visible(label.note)})" if label.note else ""
            typer.echo(f"your label so far: {label.label}{note}")


def case_texts(case: Case) -> Iterator[str]:
    """What the person needs to see of a case, folded to the width of the terminal."""
    for name, text in shown_parts(case):
        yield from _folded(name, text)


def _folded(name: str, text: str) -> Iterator[str]:
    width = max(40, shutil.get_terminal_size().columns)
    more = f" … and {len(text) - _MOST_CHARS:,} more characters" if len(text) > _MOST_CHARS else ""
    for number, line in enumerate((visible(text[:_MOST_CHARS]) + more).splitlines() or ["(empty)"]):
        start = f"{name:9} " if number == 0 else " " * 10
        yield textwrap.fill(
            line or " ",
            width=width,
            initial_indent=start,
            subsequent_indent=" " * 10,
            replace_whitespace=False,
            break_on_hyphens=False,
        )


def print_agreement(path: Path, *, as_json: bool) -> None:
    """Compare everyone who labelled these cases with everyone else."""
    labels = Labels.read(path)
    people = labels.people
    if len(people) < 2:
        who = f"only {people[0]} has" if people else "nobody has"
        remedy = f"let two people label: burnish data label {path} --as NAME"
        raise ConfigError.of(path.name, f"{who} labelled these cases", remedy)
    pairs = rater_pairs(labels.answers())
    if as_json:
        data = {"labels": str(labels.path), "pairs": [asdict(pair) for pair in pairs]}
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
        return
    if labels.scale is not None and labels.scale.is_score:
        typer.echo("a score counts as a pass from 0.5")
    table = Columns("people", "cases", "agree", "raw agreement", "kappa", cut=("people",))
    for pair in pairs:
        table.add(*_row(pair))
    table.show()
    for pair in pairs:
        _show_differing(pair, labels)


def _row(pair: RaterPair) -> Iterator[str]:
    yield f"{visible(pair.one)}, {visible(pair.other)}"
    yield str(pair.cases)
    yield "—" if pair.agreement is None else str(pair.agreement.count)
    yield "—" if pair.agreement is None else str(pair.agreement)
    yield "—" if pair.kappa is None else str(pair.kappa)


def _show_differing(pair: RaterPair, labels: Labels) -> None:
    if not pair.differing:
        return
    typer.echo(
        f"\n{counted(len(pair.differing), 'case')} on which {pair.one} and {pair.other} differ"
    )
    table = Columns("case", pair.one, pair.other, "notes", cut=("case",), folded=("notes",))
    for case in pair.differing[:_SHOWN]:
        both = [labels.given[person, case] for person in (pair.one, pair.other)]
        notes = "; ".join(f"{each.by}: {each.note}" for each in both if each.note)
        table.add(case, *(str(each.label) for each in both), notes)
    table.show()
    if len(pair.differing) > _SHOWN:
        typer.echo(f"… and {len(pair.differing) - _SHOWN} more: --json shows all")
