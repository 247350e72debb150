"""Reflection: minibatches of train, what the reflector is shown of them, and what it proposes."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Annotated, TypeAlias

from burnish.core.cases import Case, Split, spelled_labels
from burnish.core.content import canonical
from burnish.core.errors import Problem
from burnish.core.evaluations import CaseResult, Evaluation, Objective, Score, mean
from burnish.core.leaks import LeakWatch
from burnish.core.money import Spend, total
from burnish.core.outcomes import ToolCall
from burnish.core.protocols import Role
from burnish.core.surfaces import EPSILON, NO_LIMIT, Candidate, Origin, TextSurface
from burnish.journal.executors import together
from burnish.metrics.text_matching import without_middle
from burnish.models.answers import Explanation, PlainText
from burnish.models.chat import ModelClient
from burnish.models.roles import (
    HintedRequest,
    ModelRole,
    RewrittenText,
    RoleMessage,
    RolePrompt,
)
from burnish.runs.roles import Asked
from burnish.runs.run import Run
from burnish.strategies.reflective.attempts import ReflectiveAttempt
from burnish.strategies.reflective.settings import ReflectiveSettings

Minibatch: TypeAlias = tuple[Case, ...]

ROLE = "reflector"
MOST_IN_ALL = 24_000
"""Characters of all records of a request."""


# -- Minibatches ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An earlier reply to a case, and its score."""

    score: float
    text: str


@dataclass
class SearchMemory:
    """What the search has seen on train; the same again on a replay."""

    objective: Objective
    train: dict[str, dict[str, list[CaseResult]]] = field(
        default_factory=lambda: defaultdict[str, dict[str, list[CaseResult]]](dict)
    )
    """By candidate and case, every run on train."""
    replies: dict[str, list[Reply]] = field(
        default_factory=lambda: defaultdict[str, list[Reply]](list)
    )
    """By case, best first."""
    rejected: dict[tuple[str, str], list[str]] = field(
        default_factory=lambda: defaultdict[tuple[str, str], list[str]](list)
    )
    """By parent and field, each rejected diagnosis with the reason, as a line."""

    def add(self, evaluation: Evaluation) -> None:
        by_case = self.train[evaluation.candidate]
        for result in evaluation.results:
            runs = by_case.setdefault(result.case, [])
            if any(run.draw == result.draw for run in runs):
                continue
            runs.append(result)
            score = score_of(result, self.objective)
            if score is not None and result.outcome.output:
                replies = self.replies[result.case]
                replies.append(Reply(score=score, text=result.outcome.output))
                replies.sort(key=lambda reply: -reply.score)

    def next_draw(self, candidate: str, cases: Sequence[Case]) -> int:
        """The first draw that none of these cases has been run under."""
        runs = [run for case in cases for run in self.train[candidate].get(case.id, ())]
        return max((run.draw for run in runs), default=-1) + 1

    def failing(self, candidate: str, *, below: float) -> set[str]:
        """The train cases on which a candidate is known to score less than this."""
        cases: set[str] = set()
        for case, runs in self.train[candidate].items():
            scores = [score_of(run, self.objective) for run in runs]
            numbers = [score for score in scores if score is not None]
            if numbers and mean(numbers) < below:
                cases.add(case)
        return cases

    def best_replies(self, case: str, most: int, *, besides: str = "") -> list[Reply]:
        """The best distinct replies to a case other than the current one."""
        each = {reply.text: reply for reply in self.replies[case][::-1] if reply.text != besides}
        return list(each.values())[::-1][:most]

    def rejections(self, parent: str, name: str) -> str:
        """The latest three rejections of rewrites of this text."""
        return "\n".join(self.rejected[parent, name][-3:])


def minibatch(
    cases: Sequence[Case], size: int, number: int, shuffle: Callable[[int], random.Random]
) -> Minibatch:
    """The cases of one minibatch; the last of a pass is filled up from the start of the pass."""
    size = min(size, len(cases))
    in_a_pass = -(-len(cases) // size)
    number_of_pass, place = divmod(number, in_a_pass)
    order = list(cases)
    shuffle(number_of_pass).shuffle(order)
    chosen = order[place * size : (place + 1) * size]
    return (*chosen, *order[: size - len(chosen)])


class Train:
    """Evaluates candidates on a few cases of train, several side by side.

    Each proposal of a round has a slot. What a slot sees and chooses must not depend on which
    of them is faster: all choose before any looks, and results are taken in the slots' order.
    """

    def __init__(self, run: Run, settings: ReflectiveSettings, memory: SearchMemory) -> None:
        self._run = run
        self._settings = settings
        self._memory = memory
        self._cases = run.dataset.train
        self._looked: dict[int, int] = {}
        """By slot, how many minibatches were taken."""
        self.in_a_pass = -(-len(self._cases) // settings.minibatch)
        """Minibatches that cover every case."""

    def cost(self, size: int) -> Spend:
        """What a look at so many cases is expected to cost."""
        batch = self._cases[:size]
        return self._run.estimate(Split.TRAIN, cases=batch, repeats=self._settings.repeats)

    async def instructive(
        self, parents: Sequence[Candidate], number: int, *, room: Callable[[int], None]
    ) -> list[tuple[Minibatch, Evaluation]]:
        """The next minibatch of each parent; where results are reused, the next with a failure.

        `number` is the round; `room` is called with the number of looks before each repetition.
        """
        settings = self._settings
        choosy = settings.reuse and settings.skip_perfect
        looks: dict[int, tuple[Minibatch, Evaluation]] = {}
        for turn in range(self.in_a_pass):
            slots = [
                slot
                for slot in range(len(parents))
                if slot not in looks or (choosy and self.perfect(looks[slot][1]))
            ]
            if not slots:
                break
            if turn:
                room(len(slots))
            batches = [
                self._known_failures(parents[slot], number, slot) or self._next(slot)
                for slot in slots
            ]
            evaluations = await self.look(
                [(parents[slot], batch) for slot, batch in zip(slots, batches, strict=True)]
            )
            looks |= dict(zip(slots, zip(batches, evaluations, strict=True), strict=True))
        return [looks[slot] for slot in range(len(parents))]

    async def look(self, looks: Sequence[tuple[Candidate, Minibatch]]) -> list[Evaluation]:
        """Evaluate candidates; with a new draw each time, unless results are reused."""
        evaluations = await together(
            self._run.evaluate(
                candidate,
                split=Split.TRAIN,
                cases=batch,
                repeats=self._settings.repeats,
                draw=0 if self._settings.reuse else self._memory.next_draw(candidate.id, batch),
            )
            for candidate, batch in looks
        )
        for each in evaluations:
            self._memory.add(each)
        return evaluations

    def perfect(self, evaluation: Evaluation) -> bool:
        """Whether every case has the perfect score; a missing one has not."""
        bar = self._settings.perfect_score - EPSILON
        scores = [self._run.objective.case_score(evaluation, case) for case in evaluation.cases]
        return all(score is not None and score >= bar for score in scores)

    def teaches_nothing(self, parent: Candidate) -> bool:
        """Whether every case was looked at, none is known to fail, and no look would be new."""
        if not (self._settings.reuse and self._settings.skip_perfect):
            return False
        seen = self._memory.train[parent.id]
        return all(case.id in seen for case in self._cases) and not self._failing(parent)

    def evidence(self, parent: Candidate, number: int) -> tuple[Minibatch, Evaluation] | None:
        """A minibatch of cases that are known to fail, with their latest runs; for nothing."""
        failing = self._failing(parent)
        cases = [case for case in self._cases if case.id in failing]
        size = min(len(cases), self._settings.minibatch)
        batch = tuple(self._run.rng("evidence", number).sample(cases, size))
        seen = self._memory.train[parent.id]
        results = [run for case in batch for run in seen[case.id][-self._settings.repeats :]]
        known = Evaluation(candidate=parent.id, split=Split.TRAIN, results=tuple(results))
        return (batch, known) if batch else None

    def _failing(self, parent: Candidate) -> set[str]:
        return self._memory.failing(parent.id, below=self._settings.perfect_score - EPSILON)

    def _known_failures(self, parent: Candidate, number: int, slot: int) -> Minibatch:
        """Every other time, where results are reused, only cases that are known to fail."""
        rng = self._run.rng("failures", number, slot)
        if not self._settings.reuse or rng.random() < 0.5:
            return ()
        failing = self._failing(parent)
        cases = [case for case in self._cases if case.id in failing]
        size = self._settings.minibatch
        return tuple(rng.sample(cases, size)) if len(cases) >= size else ()

    def _next(self, slot: int) -> Minibatch:
        looked = self._looked.get(slot, 0)
        self._looked[slot] = looked + 1
        return minibatch(
            self._cases,
            self._settings.minibatch,
            looked * self._settings.proposals_per_round + slot,
            lambda number: self._run.rng("minibatches", number),
        )


# -- Records: what the reflector reads about a case -----------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RecordWriter:
    """Writes one run of a case for the reflector, turn by turn, with every verdict."""

    cases: Mapping[str, Case]
    objective: Objective
    thresholds: Mapping[str, float]
    """By metric, if it has one."""
    secrets: LeakWatch

    def records(
        self, results: Sequence[CaseResult], history: Mapping[str, Sequence[Reply]]
    ) -> tuple[str, int]:
        """As many records as fit, and how many were left out."""
        records: list[str] = []
        for result in results:
            record = self.record(result, history.get(result.case, ()))
            fits = sum(map(len, records)) + len(record) <= MOST_IN_ALL or not records
            if fits and self.secrets.shows(record):
                records.append(record)
        return "\n\n".join(records), len(results) - len(records)

    def record(self, result: CaseResult, history: Sequence[Reply] = ()) -> str:
        """One run, as one person would describe it to another: input, answers, what is wrong."""
        lines = [f"Case {result.case}", *self._turns(result)]
        if result.outcome.failure is not None:
            lines.append(f"The agent failed: {_cut(result.outcome.failure.message)}")
        lines += self._verdicts(result, None)
        lines += [f"Earlier answer, worth {r.score:.2f}: {_cut(r.text)}" for r in history]
        return "\n".join(lines)

    def _turns(self, result: CaseResult) -> Iterator[str]:
        case, outcome = self.cases[result.case], result.outcome
        inputs = outcome.asked or [turn.input for turn in case.turns]
        expected = [turn.expected for turn in case.turns]
        turns = zip_longest(inputs, expected, outcome.replies)
        for number, (message, answer, reply) in enumerate(turns):
            if len(inputs) > 1:
                yield f"Turn {number + 1}"
            yield f"Input: {_cut(message or '')}"
            if answer is not None:
                yield f"Expected answer: {_cut(answer)}"
            yield f"The agent's answer: {_cut(reply) if reply else '(nothing)'}"
            steps = [step for step in outcome.trace.steps if step.turn == number]
            tools = [_tool(tool) for step in steps for tool in step.tools]
            yield from ["Tools it used:", *tools] if tools else []
            yield from self._verdicts(result, number)

    def _verdicts(self, result: CaseResult, turn: int | None) -> Iterator[str]:
        for score in result.scores:
            if score.turn == turn:
                yield from self._verdict(score)

    def _verdict(self, score: Score) -> Iterator[str]:
        reason = f": {_cut(score.reason)}" if score.reason else ""
        yield f"{self._grade(score)}{reason}"
        rubrics = score.details.get("rubrics")
        for row in rubrics if isinstance(rubrics, list) else ():
            if isinstance(row, dict):
                word = "met" if row.get("verdict") == "yes" else "not met"
                why = f" ({row['reason']})" if row.get("reason") else ""
                yield f"- {row.get('id')} is {word}{why}"

    def _grade(self, score: Score) -> str:
        """What a metric says of an answer; a number only where it is more than yes or no."""
        if score.value is None:
            return f"Not judged by {score.metric}"
        if score.passed is None:
            return f"Worth {score.value:.2f} by {score.metric}"
        if score.passed:
            return f"Right by {score.metric}"
        if score.value <= 0:
            return f"Wrong by {score.metric}"
        bar = self.thresholds.get(score.metric)
        needed = "" if bar is None else f", {bar:.2f} is needed"
        return f"Not good enough by {score.metric} (worth {score.value:.2f}{needed})"


def _tool(tool: ToolCall) -> str:
    arguments = _cut(canonical(dict(tool.arguments)).decode())
    back = f"failed: {tool.error}" if tool.error else canonical(tool.result).decode()
    return f"- {tool.name}({arguments}) → {_cut(back)}"


def _cut(text: str) -> str:
    return without_middle(text, 1500)


def worst_runs(
    evaluation: Evaluation, objective: Objective, *, below: float | None
) -> list[CaseResult]:
    """The worst run of each case, except cases at or above `below`."""
    worst: list[CaseResult] = []
    for case in evaluation.cases:
        scored = [(score_of(run, objective), run) for run in evaluation.of_case(case)]
        numbered = [(score, run) for score, run in scored if score is not None]
        if numbered:
            score, run = min(numbered, key=lambda each: each[0])
            worst += [run] if below is None or score < below else []
    return worst


def score_of(result: CaseResult, objective: Objective) -> float | None:
    """The score of one run."""
    alone = Evaluation(candidate="", split=Split.TRAIN, results=(result,))
    return objective.case_score(alone, result.case)


# -- Proposals ------------------------------------------------------------------------------------


class ReflectRequest(HintedRequest):
    """What the reflector sees."""

    field: str
    """The text to rewrite."""
    current_text: str
    records: str
    """The cases of the minibatch: asked, expected, said, and what each metric says of it."""
    other_texts: str
    """The texts beside it, which stay as they are."""
    rejected: str
    """What was tried from this text and turned down, and why."""
    must_keep: str
    """Placeholders and frozen parts."""
    max_chars: int | str
    """The text's own limit; empty if it has none."""
    labels: str = ""
    """The answers that train expects again and again, as they are spelled."""


class Reflection(RoleMessage):
    """A diagnosis, and the text that follows from it."""

    diagnosis: Explanation
    new_text: Annotated[str, PlainText()]


def reflector(client: ModelClient, prompt: RolePrompt) -> ModelRole[ReflectRequest, Reflection]:
    """The role that rewrites one text."""
    return ModelRole(
        name=ROLE,
        request_type=ReflectRequest,
        answer_type=Reflection,
        prompt=prompt,
        client=client,
        rewrite=RewrittenText(part="new_text", current=lambda request: request.current_text),
    )


class Proposer:
    """Asks the reflector for better texts."""

    def __init__(
        self,
        run: Run,
        settings: ReflectiveSettings,
        reflector: Role[ReflectRequest, Reflection],
        memory: SearchMemory,
    ) -> None:
        self._run = run
        self._settings = settings
        self._reflector = reflector
        self._memory = memory
        self._surfaces = {s.id: s for s in run.target.surfaces if isinstance(s, TextSurface)}
        self._writer = RecordWriter(
            cases={case.id: case for case in run.dataset.train},
            objective=run.objective,
            thresholds={
                metric.name: bar
                for metric in run.setup.metrics
                if isinstance(bar := getattr(metric, "threshold", None), float | int)
            },
            secrets=run.secrets,
        )
        self._labels = ", ".join(spelled_labels(run.dataset.train))
        self.failures = 0

    def need(self, fields: int) -> Spend:
        """The expected cost of rewriting so many texts."""
        blank = ReflectRequest(
            field="",
            current_text="",
            records="",
            other_texts="",
            rejected="",
            must_keep="",
            max_chars=NO_LIMIT,
        )
        return total([self._reflector.estimate(blank)] * fields)

    async def propose(self, attempts: Sequence[ReflectiveAttempt]) -> list[ReflectiveAttempt]:
        """Each attempt with a candidate, or with the reason why there is none."""
        prepared = [self._prepared(each) for each in attempts]
        requests = [request for _, batch in prepared for request in batch]
        # Every attempt becomes a trial: so no draw comes twice, however many texts one has.
        most = max((len(batch) for _, batch in prepared), default=0)
        replies = await self._run.ask_together(
            self._reflector, requests, draw=most * self._run.trial
        )
        for reply in replies:
            self.failures = self.failures + 1 if reply.answer is None else 0
        queue = iter(replies)
        return [
            _answered(attempt, {request.field: next(queue) for request in batch})
            for attempt, batch in prepared
        ]

    def remember_rejection(self, attempt: ReflectiveAttempt) -> None:
        """Remember a rewrite that was no improvement, for later requests."""
        reason = attempt.decision.reason if attempt.decision else ""
        why = "; ".join(map(str, attempt.problems)) or reason
        for name, diagnosis in attempt.diagnosis.items():
            if self._run.secrets.shows(diagnosis):
                self._memory.rejected[attempt.parent.id, name].append(f"- {diagnosis} → {why}")

    def _prepared(
        self, attempt: ReflectiveAttempt
    ) -> tuple[ReflectiveAttempt, list[ReflectRequest]]:
        """One request for each text of an attempt, with the evidence of its minibatch."""
        before, objective = attempt.before, self._run.objective
        if attempt.over or before is None:
            return attempt, []
        failures = worst_runs(before, objective, below=self._settings.perfect_score)
        results = failures or worst_runs(before, objective, below=None)
        most = self._settings.history_top_k
        history = {
            r.case: self._memory.best_replies(r.case, most, besides=r.outcome.output)
            for r in results
        }
        records, left_out = self._writer.records(results, history)
        attempt = replace(attempt, left_out=left_out)
        if not records:
            return replace(attempt, skipped="nothing to show"), []
        return attempt, [self._request(attempt, name, records) for name in attempt.fields]

    def _request(self, attempt: ReflectiveAttempt, name: str, records: str) -> ReflectRequest:
        values, surface = attempt.parent.values, self._surfaces[name]
        others = [
            f"The text {other}:\n{values[other]}"
            for other in self._surfaces
            if other != name and other in values
        ]
        pieces = [*surface.placeholders, *surface.frozen]
        return ReflectRequest(
            field=name,
            current_text=str(values[name]),
            records=records,
            other_texts="\n\n".join(others),
            rejected=self._memory.rejections(attempt.parent.id, name),
            must_keep="\n".join(pieces),
            max_chars=surface.max_chars or NO_LIMIT,
            labels=self._labels,
            hints=self._run.steering.hints,
        )


def _answered(
    attempt: ReflectiveAttempt, replies: Mapping[str, Asked[Reflection]]
) -> ReflectiveAttempt:
    """The attempt with the reply for each of its texts."""
    if not replies:
        return attempt
    answers = {name: each.answer for name, each in replies.items() if each.answer is not None}
    attempt = replace(
        attempt,
        proposals=tuple(each.proposal for each in replies.values()),
        diagnosis={name: answer.diagnosis for name, answer in answers.items()},
    )
    if not answers:
        why = "; ".join(each.proposal.error for each in replies.values())
        return replace(attempt, problems=(Problem(message=why),))
    origin = Origin(kind="proposal", by="reflective", note=f"rewrite {', '.join(answers)}")
    texts = {name: answer.new_text for name, answer in answers.items()}
    candidate = attempt.parent.child(texts, origin=origin)
    return replace(attempt, candidate=candidate, fields=tuple(answers))
