"""New cases from failures, documents and traces: a model writes them, and all are checked."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from pydantic import Field, model_validator

from burnish.core.cases import Case, Turn
from burnish.core.content import Json, NotBlank, stream
from burnish.core.errors import ConfigError, Interrupted, PriceUnknown, Problem
from burnish.core.formatting import shorten
from burnish.core.money import Spend, total
from burnish.datasets.formats import read_some_cases
from burnish.datasets.proposals import (
    Screened,
    named_apart,
    proposed_for,
    screened,
    write_proposals,
)
from burnish.datasets.splits import groups
from burnish.datasets.trace_exports import read_traces
from burnish.datasets.traces import SOURCE, ReplyUse, case_of_trace, distinct, redacted
from burnish.journal.journal import Journal
from burnish.journal.limits import Budget
from burnish.journal.once import JournaledEffects, JournalScope
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.models.roles import ModelRole, RoleMessage, in_force
from burnish.reports.evaluation import EvalReport
from burnish.reports.evaluation_cases import CaseRow, CaseVerdict
from burnish.retrieval.chunks import SourceSettings
from burnish.retrieval.documents import find_files, read_chunks
from burnish.runs.directory import RunRecord, find_run, result_of
from burnish.runs.roles import ask_once
from burnish.strategies.measure import Measure
from burnish.system import Redactor
from burnish.system.files import FileLock
from burnish.system.redaction import DataRedactor

_GROWTH_RESULTS = Path("results") / "grow"
_ROLE = "case_writer"
_EXAMPLES, _CHARS = 3, 6_000
"""Cases shown for their form, and characters of a source or of a written turn."""


class CaseKind(StrEnum):
    """What a new case is in relation to its source."""

    PARAPHRASE = "paraphrase"
    EDGE = "edge"
    ADVERSARIAL = "adversarial"
    MULTI_TURN = "multi-turn"

    @property
    def rule(self) -> str:
        """What the writer is told."""
        return {
            CaseKind.PARAPHRASE: "Ask the same thing in clearly different words, as another person "
            "would; the right answer stays the same.",
            CaseKind.EDGE: "Ask about a borderline of the same matter: unusual values, missing or "
            "extra information, two things at once.",
            CaseKind.ADVERSARIAL: "Ask in a way that tempts the agent into a wrong answer: a false "
            "premise, a misleading hint, an instruction that it must not follow.",
            CaseKind.MULTI_TURN: "Make it a conversation of two to four turns of the user; later "
            "turns only make sense with the earlier ones.",
        }[self]


class WriterRequest(RoleMessage):
    """What the writer of cases is asked."""

    kind: str
    rule: str
    count: int
    origin: str
    source: str
    examples: list[dict[str, Json]]


class WrittenTurn(RoleMessage):
    """One turn of a new case."""

    input: NotBlank
    expected: str | None = None


class WrittenCase(RoleMessage):
    """A new case, as a model wrote it."""

    turns: list[WrittenTurn] = Field(min_length=1)
    why: str = ""

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, value: Any) -> Any:
        """A case of one turn may be written without `turns`."""
        if not isinstance(value, dict) or "turns" in value or "input" not in value:
            return cast("object", value)
        row = cast("dict[str, object]", value)
        turn = {key: row[key] for key in ("input", "expected") if key in row}
        return {"turns": [turn], "why": row.get("why", "")}


class WriterAnswer(RoleMessage):
    """What the writer of cases answers."""

    cases: list[WrittenCase]


@dataclass(frozen=True, kw_only=True)
class GrowthSource:
    """Something that new cases are made from."""

    name: str
    origin: str
    """`failure`, `document` or `trace`."""
    text: str
    home: int
    """The place of the file that its cases are for."""
    asked: str = ""
    """The question of its case, which a new case must not repeat."""


@dataclass(frozen=True, kw_only=True)
class GrowthOptions:
    """What is grown, from what, by whom, and what may be spent on it."""

    files: tuple[Path, ...]
    """One for each split."""
    out: Path
    model: str
    base_url: str = ""
    api_key: str = ""
    redactor: DataRedactor
    runs: tuple[str, ...] = ()
    documents: tuple[Path, ...] = ()
    traces: tuple[Path, ...] = ()
    into: Path | None = None
    """The file that cases from documents and new traces are for; the first one by default."""
    kinds: tuple[CaseKind, ...] = (CaseKind.PARAPHRASE, CaseKind.EDGE, CaseKind.ADVERSARIAL)
    count: int = 1
    most: int = 20
    """Sources that are used."""
    seed: int = 42
    concurrency: int = 8
    max_calls: int | None = None
    max_usd: float | None = None


@dataclass(frozen=True, kw_only=True)
class Growth:
    """What was asked, what was written, and what is left of it."""

    sources: int
    asked: int
    """Answers that were requested, paid for now or earlier."""
    planned: int
    written: int
    screened: Screened
    new: int
    """Proposals that were not in the file before."""
    unusable: Mapping[str, int]
    """Why something that was written cannot be used, and how often."""
    spent: Spend
    stopped: str = ""
    """The limit that ended it early."""


@dataclass(frozen=True, kw_only=True)
class Grower:
    """Grows proposals for files of cases. What a model answered once is never paid again."""

    options: GrowthOptions
    models: Models | None = None
    """Replace the real ones, for tests."""

    def sources(self) -> tuple[GrowthSource, ...]:
        """What cases are made from, cut to a random sample if there is more than enough."""
        splits = self._splits()
        found = [*self._failures(splits), *self._documents(), *self._traces(splits)]
        if not found:
            message = "there is nothing to grow cases from"
            remedy = "name --run RUN with failing cases, --documents FILE or --traces LOG"
            raise ConfigError([Problem(message=message, remedy=remedy)])
        if len(found) <= self.options.most:
            return tuple(found)
        places = stream(self.options.seed, "grow").sample(range(len(found)), self.options.most)
        return tuple(found[place] for place in sorted(places))

    def check(self, models: Models | None = None) -> ModelRole[WriterRequest, WriterAnswer]:
        """The role that writes; raises whatever would keep it from answering."""
        options = self.options
        prompt = in_force(_ROLE, options.files[0].resolve().parent)
        models = models or self.models or Models()
        ref = ModelRef.parse(options.model, base_url=options.base_url, api_key=options.api_key)
        client = models.client(ref, prompt.settings, role=_ROLE)
        client.check()
        if options.max_usd is not None and not client.priced:
            raise PriceUnknown(
                f"max_usd is set, but the price of {options.model} is not known",
                remedy="limit calls instead: --max-calls",
            )
        return ModelRole(
            name=_ROLE,
            request_type=WriterRequest,
            answer_type=WriterAnswer,
            prompt=prompt,
            client=client,
        )

    def grow(self) -> Growth:
        """Ask for cases, check them, and add them to the proposals."""
        models = self.models or Models()
        sources, role = self.sources(), self.check(models)
        home = self.options.files[0].resolve().parent / _GROWTH_RESULTS
        home.mkdir(parents=True, exist_ok=True)
        with FileLock.acquire(home / "grow.lock", holding="growing cases here"):
            journal = Journal(home)
            redactor = Redactor.from_environment(extra=models.secrets())
            effects = JournaledEffects(journal, redactor=redactor)
            try:
                return asyncio.run(self._closing(models, self._grow(sources, role, effects)))
            except KeyboardInterrupt:
                raise Interrupted("interrupted; the same command goes on") from None
            finally:
                journal.close()

    async def _closing(self, models: Models, growing: Coroutine[Any, Any, Growth]) -> Growth:
        try:
            return await growing
        finally:
            await models.close()

    async def _grow(
        self,
        sources: Sequence[GrowthSource],
        role: ModelRole[WriterRequest, WriterAnswer],
        effects: JournaledEffects,
    ) -> Growth:
        options, splits = self.options, self._splits()
        scope = effects.scope(trial=0)
        budget = Budget(max_calls=options.max_calls, max_usd=options.max_usd)
        jobs = [(source, kind) for source in sources for kind in options.kinds]
        cases: list[tuple[Case, int]] = []
        names = {case.id for split in splits for case in split}
        unusable, asked, stopped = Counter[str](), 0, ""
        while asked < len(jobs):
            spent = total(scope.used.values())
            if (limit := budget.spend_limit(spent)) is not None:
                stopped = str(limit.detail)
                break
            block = jobs[asked : asked + self._room(spent)]
            requests = [self._request(source, kind, splits) for source, kind in block]
            replies = await asyncio.gather(*(self._ask(role, r, scope) for r in requests))
            for (source, kind), reply in zip(block, replies, strict=True):
                for each in self._cases(source, kind, reply):
                    if isinstance(each, str):
                        unusable[each] += 1
                    else:
                        cases.append((named_apart(each, names), source.home))
            asked += len(block)
        left = screened(cases, splits)
        homes = {case.id: home for case, home in cases}
        named = [
            proposed_for(case, options.files[homes[case.id]], options.files, options.out)
            for case in left.fit
        ]
        return Growth(
            sources=len(sources),
            asked=asked,
            planned=len(jobs),
            written=len(cases),
            screened=left,
            new=write_proposals(options.out, named),
            unusable=unusable,
            spent=total(scope.used.values()),
            stopped=stopped,
        )

    def _room(self, spent: Spend) -> int:
        """How many may be asked at once without passing the limit of calls."""
        most, usual = self.options.max_calls, self.options.concurrency
        return usual if most is None else min(usual, most - spent.calls)

    async def _ask(
        self,
        role: ModelRole[WriterRequest, WriterAnswer],
        request: WriterRequest,
        scope: JournalScope,
    ) -> WriterAnswer | str:
        reply = await ask_once(role, request, draw=self.options.seed, scope=scope)
        return reply.failure if reply.answer is None else reply.answer

    def _request(
        self, source: GrowthSource, kind: CaseKind, splits: Sequence[Sequence[Case]]
    ) -> WriterRequest:
        # Of the file that the new case is for: no text of another split reaches it.
        shown = [case for case in splits[source.home] if case.turns][:_EXAMPLES]
        return WriterRequest(
            kind=kind.value,
            rule=kind.rule,
            count=self.options.count,
            origin=source.origin,
            source=source.text,
            examples=[_example(case) for case in shown],
        )

    def _cases(
        self, source: GrowthSource, kind: CaseKind, reply: WriterAnswer | str
    ) -> Iterator[Case | str]:
        """The cases of an answer, and a reason for each that is none."""
        if isinstance(reply, str):
            yield "no usable answer"
            return
        if not reply.cases:
            yield "no case in the answer"
        for number, written in enumerate(reply.cases[: self.options.count], start=1):
            name = f"{source.name}-{kind.value}-{number}"
            why = _unfit(written, source, kind)
            yield why or _case(name, written, self._about(source, kind, written))

    def _about(
        self, source: GrowthSource, kind: CaseKind, written: WrittenCase
    ) -> Iterator[tuple[str, Json]]:
        """Where a case comes from. An answer of a model is proposed until somebody accepts it."""
        yield from (("grown", kind.value), ("from", source.origin), ("of", source.name))
        yield "model", self.options.model
        if any(turn.expected is not None for turn in written.turns):
            yield "expected", "proposed"
        if why := " ".join(written.why.split()):
            yield "why", shorten(why, 300)

    # -- Sources ---------------------------------------------------------------------------------

    def _splits(self) -> list[tuple[Case, ...]]:
        return [read_some_cases(path).cases for path in self.options.files]

    @property
    def _into(self) -> int:
        """The place of the file for cases that come from no other case."""
        into = self.options.into
        places = {path.resolve(): place for place, path in enumerate(self.options.files)}
        if into is not None and into.resolve() not in places:
            names = ", ".join(map(str, self.options.files))
            raise ConfigError.of(
                "--into", f"{into} is not one of the files", f"name one of {names}"
            )
        return 0 if into is None else places[into.resolve()]

    def _failures(self, splits: Sequence[Sequence[Case]]) -> Iterator[GrowthSource]:
        homes = {case.id: (case, place) for place, cases in enumerate(splits) for case in cases}
        for run in self.options.runs:
            failures = _failures_of(find_run(run))
            known = [name for name in failures if name in homes]
            if failures and not known:
                message = "none of its failing cases is in these files"
                raise ConfigError.of(run, message, "name the files of cases that it was run on")
            for name in known:
                case, place = homes[name]
                yield _of_case(case, place, "failure", failures[name])

    def _documents(self) -> Iterator[GrowthSource]:
        for path in self.options.documents:
            settings = SourceSettings(source=str(path.resolve()), folder=path.resolve().parent)
            chunks = read_chunks(settings, find_files(settings))
            for number, chunk in enumerate(chunks, start=1):
                yield GrowthSource(
                    name=f"{Path(chunk.source).stem}-{number}",
                    origin="document",
                    text=chunk.passage[:_CHARS],
                    home=self._into,
                )

    def _traces(self, splits: Sequence[Sequence[Case]]) -> Iterator[GrowthSource]:
        held = [(case, place) for place, cases in enumerate(splits) for case in cases]
        for log in self.options.traces:
            traces = read_traces(log).traces
            cases = distinct([case_of_trace(trace, ReplyUse.KEEP) for trace in traces]).cases
            clean = [redacted(case, self.options.redactor) for case in cases]
            places = _nearest_homes(clean, held, self._into)
            for case, place in zip(clean, places, strict=True):
                yield _of_case(case, place, "trace", "")


def _failures_of(folder: Path) -> dict[str, str]:
    """The failing cases of a run, each with what went wrong; never those of a sealed test."""
    run = RunRecord.read(folder)
    if run.header.strategy == Measure.name:
        rows = EvalReport.read(folder).cases
        return {row.case: _why(row) for row in rows if row.verdict is CaseVerdict.FAIL}
    found: dict[str, str] = {}
    for split in ("train", "holdout"):
        if (result := result_of(run.best, split)) is not None:
            found |= {case: result.errors.get(case, "") for case in result.failed_cases}
    return found


def _why(row: CaseRow) -> str:
    """What the agent said in the first try that failed, and why that is wrong."""
    tries = [one for one in row.tries if one.verdict is CaseVerdict.FAIL]
    if not tries:
        return ""
    reasons = [score.reason for score in tries[0].scores if score.passed is False and score.reason]
    replies = [f"the agent replied: {reply}" for reply in tries[0].replies]
    return "\n".join(filter(None, [*replies, tries[0].error, *reasons]))


def _of_case(case: Case, home: int, origin: str, why: str) -> GrowthSource:
    lines = [f"{message.role}: {message.content}" for message in case.history]
    for turn in case.turns:
        lines.append(f"the user says: {turn.input}")
        if turn.expected is not None:
            lines.append(f"the right answer: {turn.expected}")
    return GrowthSource(
        name=case.id,
        origin=origin,
        text="\n".join(filter(None, [*lines, why]))[:_CHARS],
        home=home,
        asked="\n".join(turn.input for turn in case.turns),
    )


def _nearest_homes(
    cases: Sequence[Case], held: Sequence[tuple[Case, int]], otherwise: int
) -> list[int]:
    """The file of each case: that of a case which asks nearly the same, if there is one."""
    homes = [otherwise] * len(cases)
    for group in groups([*(case for case, _ in held), *cases]):
        known = [held[member][1] for member in group if member < len(held)]
        for member in group:
            if member >= len(held) and known:
                homes[member - len(held)] = known[0]
    return homes


def _example(case: Case) -> dict[str, Json]:
    turns: list[Json] = [
        {"input": shorten(turn.input, 600), "expected": turn.expected} for turn in case.turns[:4]
    ]
    return {"turns": turns}


def _case(name: str, written: WrittenCase, about: Iterator[tuple[str, Json]]) -> Case:
    turns = tuple(Turn(input=turn.input, expected=turn.expected) for turn in written.turns)
    return Case(name=name, turns=turns, extras={SOURCE: dict(about)})


def _unfit(written: WrittenCase, source: GrowthSource, kind: CaseKind) -> str:
    """Why what a model wrote is no case; empty if it is one."""
    asked = [turn.input for turn in written.turns]
    if any(len(text) > _CHARS for text in asked):
        return "too long"
    if kind is CaseKind.MULTI_TURN and len(asked) < 2:
        return "one turn where several were asked for"
    if kind is not CaseKind.MULTI_TURN and len(asked) > 1 and "\n" not in source.asked:
        return "several turns where one was asked for"
    if " ".join("\n".join(asked).split()).casefold() == " ".join(source.asked.split()).casefold():
        return "the source itself, unchanged"
    return ""
