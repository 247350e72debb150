"""The work of `burnish data` on files of cases: import, convert, split and check."""

import json
import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from burnish.cli.output import this_program
from burnish.core.cases import Case, Split
from burnish.core.content import codec
from burnish.core.errors import ConfigError, Problem, in_shell
from burnish.core.formatting import counted
from burnish.datasets.agent_cases import CaseFile
from burnish.datasets.checks import Findings, SplitFacts, check
from burnish.datasets.columns import columns_words
from burnish.datasets.formats import read_cases, write_cases
from burnish.datasets.splits import split
from burnish.datasets.trace_exports import TraceLog, read_traces
from burnish.datasets.traces import (
    LoggedTrace,
    ReplyUse,
    case_of_trace,
    distinct,
    joined_sessions,
    redacted,
    sample,
    where,
)
from burnish.reports.terminal import Columns
from burnish.system.config import near
from burnish.system.redaction import PERSONAL, DataRedactor, Redactor
from burnish.system.user_code import BadPattern, SlowPattern, require_pattern

_BROKEN_SHOWN = 3


def _stem(source: Path) -> str:
    """Its name without the ending."""
    double = next((end for end in (".evalset.json", ".test.json") if source.name.endswith(end)), "")
    return source.name.removesuffix(double or source.suffix)


def _read(path: Path, columns: Mapping[str, str], read_as: str | None = None) -> CaseFile:
    """Read a file of cases, and say which columns were taken if their names alone do not tell."""
    file = read_cases(path, format=read_as, **columns)
    if words := columns_words(file, str(path)):
        typer.echo(words, err=True)
    return file


def check_cases(
    files: list[Path], *, near: float, columns: Mapping[str, str], as_json: bool
) -> None:
    """Check the files against each other; exit code 1 if there is an error."""
    twice = {path for path in files if files.count(path) > 1}
    if twice:
        raise ConfigError([Problem(where=str(p), message="named twice") for p in sorted(twice)])
    stems = [path.name for path in files]
    names = {path: path.name if stems.count(path.name) == 1 else str(path) for path in files}
    findings = check({names[path]: _read(path, columns).cases for path in files}, near=near)
    if as_json:
        # What cannot be shown at all is infinite, which JSON cannot say.
        data = json.loads(
            json.dumps(codec(Findings).encode(findings)), parse_constant=lambda _: None
        )
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        _show(findings)
    if findings.errors:
        raise typer.Exit(1)


def _show(findings: Findings) -> None:
    table = Columns("file", "cases", "turns", "labels", "usual answer", "can show", cut=("labels",))
    for facts in findings.splits:
        table.add(*_row(facts))
    table.show()
    typer.echo("can show: the smallest difference in pass rate that a paired comparison on this")
    typer.echo("many cases finds in 4 of 5 tries, at 95 % confidence")
    if not findings.found:
        typer.echo("no other findings: no repeats, no leaks")
    for finding in findings.found:
        remedy = f" — {finding.remedy}" if finding.remedy else ""
        typer.echo(f"{finding.severity.value:8} {finding.where}: {finding.message}{remedy}")


def _row(facts: SplitFacts) -> Iterator[str]:
    labels = ", ".join(f"{label} {count}" for label, count in facts.labels.items())
    usual = "—" if facts.usual_share is None else f"{facts.usual_share:.0%}"
    small = facts.smallest_difference
    yield from (facts.name, str(facts.cases), str(facts.turns), labels or "—", usual)
    yield f"{small:.2f}" if math.isfinite(small) else "nothing"


def convert_cases(
    source: Path, target: Path, *, read_as: str | None, columns: Mapping[str, str], force: bool
) -> None:
    """Read cases in any format, and write them as JSON lines."""
    file = _read(source, columns, read_as)
    _refuse_overwriting([target], force=force)
    write_cases(target, file.cases)
    typer.echo(f"wrote    {target}: {counted(len(file.cases), 'case')}")


def split_cases(
    source: Path,
    shares: tuple[float, float, float],
    *,
    seed: int,
    near: float,
    columns: Mapping[str, str],
    out: Path | None,
    force: bool,
) -> None:
    """Split a file into three beside it."""
    by_split = dict(zip(Split, shares, strict=True))
    result = split(_read(source, columns).cases, seed=seed, shares=by_split, near=near)
    folder, stem = out or source.parent, _stem(source)
    parts = [part for part in Split if result.dataset.cases(part)]
    files = {part: folder / f"{stem}-{part.value}.jsonl" for part in parts}
    _refuse_overwriting(files.values(), force=force)
    folder.mkdir(parents=True, exist_ok=True)
    for each, path in files.items():
        cases = result.dataset.cases(each)
        write_cases(path, cases)
        typer.echo(f"{each.value:8} {counted(len(cases), 'case'):10} {path}")
    for note in result.notes:
        typer.echo(f"note     {note}")
    typer.echo(f"next     {this_program()} data check {shlex.join(map(str, files.values()))}")


def _refuse_overwriting(paths: Iterable[Path], *, force: bool) -> None:
    there = [path for path in paths if path.exists()]
    if there and not force:
        raise ConfigError(
            [Problem(where=str(path), message="this file already exists") for path in there],
            remedy="use --force to overwrite it",
        )


@dataclass(frozen=True, kw_only=True)
class TraceImport:
    """What is read, which of it is taken, and what becomes of it."""

    source: Path
    target: Path
    read_as: str | None = None
    fields: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    size: int | None = None
    seed: int = 42
    reply: str = ReplyUse.KEEP
    join: bool = False
    patterns: tuple[str, ...] = ()
    personal: tuple[str, ...] = PERSONAL
    force: bool = False

    def run(self) -> None:
        """Read, choose, redact and write; print what was left out and why."""
        use = _reply_use(self.reply)
        redactor = _data_redactor(self.patterns, self.personal)
        condition = where(self.conditions)
        log = read_traces(self.source, format=self.read_as, fields=self.fields)
        matching = tuple(trace for trace in log.traces if condition(trace))
        self._refuse_nothing(log, matching)
        cases = joined_sessions(matching, use) if self.join else _cases(matching, use)
        once = distinct(cases)
        chosen = self._sampled(once.cases, matching)
        clean = tuple(_clean(case, redactor) for case in chosen)
        _refuse_overwriting([self.target], force=self.force)
        write_cases(self.target, clean)
        self._say(log, matching, once.repeated, len(once.cases), redactor)
        typer.echo(f"wrote    {self.target}: {counted(len(clean), 'case')}")
        typer.echo(f"next     {this_program()} data check {in_shell(self.target)}")

    def _refuse_nothing(self, log: TraceLog, matching: Sequence[LoggedTrace]) -> None:
        if matching:
            return
        conditions = " ".join(f"--where {each}" for each in self.conditions)
        message = f"none of {counted(len(log.traces), 'trace')} matches {conditions}"
        names = sorted({name for trace in log.traces for name in trace.scores})
        remedy = f"the scores here are: {', '.join(names)}" if names else "the log has no scores"
        raise ConfigError([Problem(where=str(self.source), message=message, remedy=remedy)])

    def _sampled(self, cases: tuple[Case, ...], traces: Sequence[LoggedTrace]) -> tuple[Case, ...]:
        if self.size is None:
            return cases
        by_name = {trace.id: trace for trace in traces} | {
            t.session: t for t in traces if t.session
        }
        held = [by_name[case.name] for case in cases]
        names = {id(trace) for trace in sample(held, self.size, self.seed)}
        return tuple(c for c, trace in zip(cases, held, strict=True) if id(trace) in names)

    def _say(
        self,
        log: TraceLog,
        matching: Sequence[LoggedTrace],
        repeated: int,
        questions: int,
        redactor: DataRedactor,
    ) -> None:
        files = f" in {counted(log.files, 'file')}" if log.files > 1 else ""
        typer.echo(
            f"read     {counted(len(log.traces), 'trace')}{files} ({', '.join(log.formats)})"
        )
        if log.broken:
            typer.echo(f"broken   {counted(len(log.broken), 'record')} left out:")
            for problem in log.broken[:_BROKEN_SHOWN]:
                typer.echo(f"         {problem}")
        if len(matching) < len(log.traces):
            typer.echo(f"matching {counted(len(matching), 'trace')}")
        if repeated:
            typer.echo(
                f"repeated {counted(repeated, 'trace')} left out: the same question as another"
            )
        if self.size is not None and self.size < questions:
            typer.echo(f"sample   {self.size} of {questions}, seed {self.seed}")
        if removed := redactor.summary():
            typer.echo(f"redacted {removed}")


def _cases(traces: Sequence[LoggedTrace], use: ReplyUse) -> tuple[Case, ...]:
    return tuple(case_of_trace(trace, use) for trace in traces)


def _clean(case: Case, redactor: DataRedactor) -> Case:
    try:
        return redacted(case, redactor)
    except SlowPattern as error:
        raise ConfigError([Problem(where="--redact", message=str(error))]) from None


def _data_redactor(patterns: Sequence[str], personal: Sequence[str]) -> DataRedactor:
    """Keys always; these patterns and kinds of personal data too."""
    for pattern in patterns:
        try:
            require_pattern(pattern)
        except BadPattern as error:
            message = f"{pattern!r} is not a regular expression: {error}"
            raise ConfigError([Problem(where="--redact", message=message)]) from None
    secrets = Redactor.from_environment()
    return DataRedactor(secrets=secrets, personal=tuple(personal), patterns=tuple(patterns))


def kinds_kept(names: Sequence[str]) -> tuple[str, ...]:
    """The kinds of personal data to remove, without those that `--keep` names."""
    for name in names:
        if name not in PERSONAL:
            remedy = near(name, list(PERSONAL)) or f"one of: {', '.join(PERSONAL)}"
            problem = Problem(where="--keep", message=f"unknown kind {name!r}", remedy=remedy)
            raise ConfigError([problem])
    return tuple(kind for kind in PERSONAL if kind not in names)


def _reply_use(name: str) -> ReplyUse:
    """What becomes of replies, by its name."""
    names = [each.value for each in ReplyUse]
    if name not in names:
        remedy = near(name, names) or f"one of: {', '.join(names)}"
        raise ConfigError(
            [Problem(where="--reply", message=f"unknown use {name!r}", remedy=remedy)]
        )
    return ReplyUse(name)
