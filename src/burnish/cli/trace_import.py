"""`burnish data import`: cases from exports of traces, and what is said about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from burnish.cli.case_reports import write_converted
from burnish.core.cases import Case
from burnish.core.errors import ConfigError, Problem
from burnish.core.formatting import counted
from burnish.datasets.case_files import CaseFile
from burnish.datasets.formats import format_of
from burnish.datasets.trace_formats import TraceLog, read_traces
from burnish.datasets.trace_selection import distinct, redacted, sample, where
from burnish.datasets.traces import LoggedTrace, ReplyUse, case_of_trace, joined_sessions
from burnish.system.config import near
from burnish.system.patterns import BadPattern, SlowPattern, require_pattern
from burnish.system.personal_data import PERSONAL, DataRedactor
from burnish.system.redaction import Redactor

_SHOWN = 3


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
    lossy: bool = False
    force: bool = False

    def run(self) -> None:
        """Read, choose, redact and write; print what was left out and why."""
        use = reply_use(self.reply)
        redactor = data_redactor(self.patterns, self.personal)
        condition = where(self.conditions)
        format_name = format_of(self.target)
        log = read_traces(self.source, format=self.read_as, fields=self.fields)
        matching = tuple(trace for trace in log.traces if condition(trace))
        self._refuse_nothing(log, matching)
        cases = joined_sessions(matching, use) if self.join else _cases(matching, use)
        once = distinct(cases)
        chosen = self._sampled(once.cases, matching)
        clean = tuple(_clean(case, redactor) for case in chosen)
        file = CaseFile(cases=clean, format="jsonl")
        write_converted(self.target, file, format_name, lossy=self.lossy, force=self.force)
        self._say(log, matching, once.repeated, len(once.cases), redactor)
        typer.echo(f"wrote    {self.target}: {counted(len(clean), 'case')}")
        typer.echo(f"next     burnish data check {self.target}")

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
            for problem in log.broken[:_SHOWN]:
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


def data_redactor(patterns: Sequence[str], personal: Sequence[str]) -> DataRedactor:
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


def reply_use(name: str) -> ReplyUse:
    """What becomes of replies, by its name."""
    names = [each.value for each in ReplyUse]
    if name not in names:
        remedy = near(name, names) or f"one of: {', '.join(names)}"
        raise ConfigError(
            [Problem(where="--reply", message=f"unknown use {name!r}", remedy=remedy)]
        )
    return ReplyUse(name)
