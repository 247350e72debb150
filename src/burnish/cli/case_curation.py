"""The work of `burnish data` on labels and new cases: labelling, agreement, judges, growth."""

import json
import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import typer

from burnish.cli.case_files import data_redactor, kinds_kept
from burnish.cli.optimization import chosen_progress, resumable
from burnish.cli.output import this_program
from burnish.cli.progress import file_name, view
from burnish.core.cases import Case
from burnish.core.content import codec
from burnish.core.errors import ConfigError, Problem, in_shell
from burnish.core.formatting import counted, listed, shorten, spending, visible
from burnish.datasets.formats import read_cases
from burnish.datasets.labels import (
    Labelling,
    Labels,
    LabelShape,
    Scale,
    forget_stale,
    labelling,
    person_name,
    shown_parts,
)
from burnish.datasets.proposals import Acceptance, source_of, sources_beside
from burnish.metrics.agreement import Agreement, JudgeVerdict, RaterPair, rater_pairs
from burnish.models.dotenv import load_dotenv
from burnish.projects.dialects import Flags
from burnish.projects.growth import CaseKind, Grower, Growth, GrowthOptions
from burnish.projects.judge_checks import Disagreement, JudgeChecked, prepare_judge_check
from burnish.reports.terminal import Columns
from burnish.system.config import near

_MOST_CHARS = 4_000
"""Of one text on the screen."""
_SHOWN = 20
_DISAGREEMENTS_SHOWN = 10
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
        typer.echo(f"next     {this_program()} data agreement {in_shell(path)}")


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
        for line in _case_texts(case):
            typer.echo(line)
        if (label := session.label(place)) is not None:
            note = f" ({visible(label.note)})" if label.note else ""
            typer.echo(f"your label so far: {label.label}{note}")


def _case_texts(case: Case) -> Iterator[str]:
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
        remedy = f"let two people label: `burnish data label {in_shell(path)} --as NAME`"
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


_CHARS = 160


def growth_options(
    files: Sequence[Path],
    *,
    kinds: str,
    redact: Sequence[str],
    keep: Sequence[str],
    concurrency: int | None,
    **more: Any,
) -> GrowthOptions:
    """The options as the flags have them; problems of all of them are raised together."""
    problems = [
        Problem(where=str(path), message="named twice")
        for path in sorted({each for each in files if files.count(each) > 1})
    ]
    names = [each.strip() for each in kinds.split(",") if each.strip()]
    known = [kind.value for kind in CaseKind]
    for name in names:
        if name not in known:
            remedy = near(name, known) or f"there are: {', '.join(known)}"
            problems.append(
                Problem(where="--kinds", message=f"unknown kind '{name}'", remedy=remedy)
            )
    if not names:
        remedy = f"name some of: {', '.join(known)}"
        problems.append(Problem(where="--kinds", message="no kind is named", remedy=remedy))
    out: Path = more["out"]
    if not out.parent.is_dir() or out.is_dir() or out.suffix != ".jsonl":
        remedy = "name a .jsonl file in a folder that exists"
        problems.append(Problem(where="-o", message=f"cannot write {out}", remedy=remedy))
    if problems:
        raise ConfigError(problems)
    return GrowthOptions(
        files=tuple(files),
        kinds=tuple(dict.fromkeys(CaseKind(name) for name in names)),
        redactor=data_redactor(redact, kinds_kept(keep)),
        concurrency=concurrency or 8,
        **more,
    )


def grow_cases(options: GrowthOptions, *, dry_run: bool, as_json: bool) -> None:
    """Grow proposals, or only say what would be asked."""
    load_dotenv(Path.cwd(), os.environ)
    grower = Grower(options=options)
    if dry_run:
        grower.check()
        sources = grower.sources()
        calls = len(sources) * len(options.kinds)
        origins = [source.origin for source in sources]
        parts = [counted(origins.count(each), each) for each in dict.fromkeys(origins)]
        typer.echo(f"sources  {', '.join(parts)}")
        typer.echo(f"would ask {options.model} {counted(calls, 'time')} at most; nothing was paid")
        return
    growth = grower.grow()
    if as_json:
        data = {**asdict(growth), "proposals": str(options.out)}
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False, default=dict))
        return
    _show(growth, options.out)


def _show(growth: Growth, out: Path) -> None:
    typer.echo(f"asked    {growth.asked} of {counted(growth.planned, 'request')}")
    typer.echo(f"written  {counted(growth.written, 'case')}")
    for reason, count in growth.unusable.items():
        typer.echo(f"unusable {count}: {reason}")
    screened = growth.screened
    for word, names, why in (
        ("repeated", screened.repeated, "another case asks nearly the same"),
        ("leaking", screened.leaking, "nearly a case of another file, or with text of one"),
    ):
        if names:
            typer.echo(f"{word:8} {len(names)} left out, {why}: {listed(names)}")
    typer.echo(f"spent    {spending(growth.spent)}")
    if growth.stopped:
        typer.echo(f"stopped  {growth.stopped}; the same command with a higher limit goes on")
    typer.echo(f"proposed {counted(growth.new, 'new case')} in {out}")
    if screened.fit:
        typer.echo(f"next     {this_program()} data accept {in_shell(out)}")


def show_proposals(proposals: Path) -> None:
    """Print every proposal; nothing is added."""
    cases = read_cases(proposals, format="jsonl").cases
    for case in cases:
        _show_case(case)
    typer.echo(f"{counted(len(cases), 'proposal')}; nothing was added")
    if cases:
        command = shlex.join(["burnish", "data", "accept", str(proposals), "--case", cases[0].id])
        typer.echo(f"next     {command}, or --all")


def _show_case(case: Case) -> None:
    source = source_of(case)
    home = f" for {source['for']}" if "for" in source else ""
    grown = f" · {source['grown']} of {source['of']}" if "grown" in source else ""
    typer.echo(f"{visible(case.id)}{visible(grown)}{visible(home)}")
    proposed = " (proposed by a model)" if source.get("expected") == "proposed" else ""
    for turn in case.turns:
        typer.echo(f"  asked     {visible(shorten(turn.input, _CHARS))}")
        if turn.expected is not None:
            typer.echo(f"  expected  {visible(shorten(turn.expected, _CHARS))}{proposed}")


def accept_cases(chosen: Sequence[Acceptance], *, person: str, dry_run: bool) -> None:
    """Add the chosen proposals to their files, as far as they are still new there."""
    for each in chosen:
        if not dry_run:
            each.write(person=person_name(person))
        _say(each, dry_run=dry_run)
    files = dict.fromkeys(file_name(str(path)) for each in chosen for path in each.files)
    if not dry_run and any(each.screened.fit for each in chosen):
        typer.echo(f"next     {this_program()} data check {' '.join(files)}")


def _say(each: Acceptance, *, dry_run: bool) -> None:
    screened, home = each.screened, file_name(str(each.home))
    word = "would add" if dry_run else "added   "
    typer.echo(f"{word} {counted(len(screened.fit), 'case')} to {home}")
    if screened.repeated:
        names = listed(screened.repeated)
        typer.echo(f"repeated {len(screened.repeated)} left out, asked there already: {names}")
    if screened.leaking:
        names = listed(screened.leaking)
        typer.echo(f"leaking  {len(screened.leaking)} left out, nearly in another file: {names}")
    if not dry_run and sources_beside(each.home).exists():
        typer.echo(f"sources  {file_name(str(sources_beside(each.home)))}")


def check_judges(labels: Path, flags: Flags, *, progress: str, as_json: bool) -> None:
    """Ask the judges, compare them with the labels, and print the agreement."""
    check = prepare_judge_check(labels, flags)
    with resumable([]), view(chosen_progress(progress), check.setup) as listeners:
        result = check.run(listeners)
    if as_json:
        data = {
            "metrics": {
                name: {
                    "said": [*agreed.sentences(), *result.verdicts[name].sentences()],
                    **_fields(agreed),
                    "verdict": codec(JudgeVerdict).encode(result.verdicts[name]),
                }
                for name, agreed in result.agreements.items()
            },
            "disagreements": [codec(Disagreement).encode(each) for each in result.disagreements],
            "notes": [*check.notes],
            "folder": str(result.ending.folder),
        }
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        for note in check.notes:
            typer.echo(f"note     {note}")
        _show_agreement(result)


def _show_agreement(checked: JudgeChecked) -> None:
    for name, agreed in checked.agreements.items():
        typer.echo(f"\n{name}")
        for sentence in (*agreed.sentences(), *checked.verdicts[name].sentences()):
            typer.echo(f"  {sentence}")
    apart = checked.disagreements
    if apart:
        typer.echo(f"\n{counted(len(apart), 'case')} on which label and judge differ")
    for each in apart[:_DISAGREEMENTS_SHOWN]:
        typer.echo(f"  {each.case} · {each.metric}: {_disagreement_words(each)}")
    if len(apart) > _DISAGREEMENTS_SHOWN:
        typer.echo(f"  … and {len(apart) - _DISAGREEMENTS_SHOWN} more: --json shows all")
    typer.echo(f"\nspent    {spending(checked.ending.spent)}")
    typer.echo(f"journal  {checked.ending.folder}")


def _disagreement_words(each: Disagreement) -> str:
    label = each.label if not isinstance(each.label, bool) else ("pass" if each.label else "fail")
    verdict = "nothing" if each.value is None else f"{each.value:.2f}"
    return f"label {label}, judge {verdict}{f' ({each.reason})' if each.reason else ''}"


def _fields(agreed: Agreement) -> dict[str, object]:
    data = codec(Agreement).encode(agreed)
    assert isinstance(data, dict)
    return {**data}
