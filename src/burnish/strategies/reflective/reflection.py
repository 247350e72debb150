"""Reflection: what the reflector is shown of a minibatch, and what it proposes."""

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Annotated, Any

from burnish.core.cases import (
    Case,
    ToolCall,
    answer_form,
    closed_labels,
    has_form,
    keeps_form,
    parts_in_capitals,
)
from burnish.core.content import canonical, short_id
from burnish.core.errors import Problem
from burnish.core.evaluations import CaseResult, Evaluation, Objective, Score
from burnish.core.money import Spend, total
from burnish.core.protocols import Role
from burnish.core.surfaces import NO_LIMIT, Candidate, Origin, TextSurface
from burnish.metrics.text_matching import without_middle
from burnish.models.answers import Explanation, PlainText, text_mark
from burnish.models.chat import ModelClient
from burnish.models.roles import (
    ModelRole,
    RewrittenText,
    RoleMessage,
    RolePrompt,
)
from burnish.runs.roles import GIVE_UP_AFTER, Asked
from burnish.runs.run import Run
from burnish.runs.setup import Proposed, ProposerEvidence, Tried
from burnish.strategies.partial_evaluations import Reply, SearchMemory
from burnish.strategies.reflective.attempts import REFLECTIVE, ReflectiveAttempt, ReflectiveSettings
from burnish.strategies.reflective.examples import TextWithExamples

ROLE = "reflector"
OF_TEXTS = "text_reflector"
"""The prompt for texts that are scored as a whole."""
MOST_IN_ALL = 24_000
"""Characters of all records of a request."""
_EXPECTED = "Expected answer: "
"""How the line of a record begins that has it."""
_ONLY = re.compile(
    r"\b(?:only|exactly|just|nothing (?:else|more)|no other|(?:one|single) word)\b", re.IGNORECASE
)
"""By what a text says that an answer is a label or a form, and no sentence with it."""


# -- Records: what the reflector reads about a case -----------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RecordWriter:
    """Writes one run of a case for the reflector, turn by turn, with every verdict."""

    cases: Mapping[str, Case]
    objective: Objective
    thresholds: Mapping[str, float]
    """By metric, if it has one."""

    def records(
        self, results: Sequence[CaseResult], history: Mapping[str, Sequence[Reply]]
    ) -> tuple[str, int]:
        """As many records as fit, and how many were left out."""
        records: list[str] = []
        for result in results:
            record = self.record(result, history.get(result.case, ()))
            fits = sum(map(len, records)) + len(record) <= MOST_IN_ALL or not records
            if fits:
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
                yield f"{_EXPECTED}{_cut(answer)}"
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
        if isinstance(number := score.details.get("number"), int | float):
            return f"Scored {number:g}"
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
        scored = [(objective.run_score(run), run) for run in evaluation.of_case(case)]
        numbered = [(score, run) for score, run in scored if score is not None]
        if numbered:
            score, run = min(numbered, key=lambda each: each[0])
            worst += [run] if below is None or score < below else []
    return worst


# -- Proposals ------------------------------------------------------------------------------------


class ReflectRequest(RoleMessage):
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
    form: str = ""
    """An answer in the form that those of train have, if they have one."""
    loose: bool = False
    """Whether an answer was no label, or had another form."""
    astray: bool = False
    """Whether no earlier rewrite changed that."""
    tried: str = ""
    """Marks of the last texts in its place, beside the same other texts, that were proposed."""
    other_records: str = ""
    """Other cases that the text is known to fail on, which are shown if the first ones led to
    nothing new."""


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
        rewrite=RewrittenText(
            part="new_text",
            current=lambda request: request.current_text,
            cases=lambda request: request.records,
            completed=_completed,
            tried=lambda request: request.tried.split(),
            otherwise=_with_other_cases,
        ),
    )


def _with_other_cases(request: ReflectRequest) -> ReflectRequest:
    if not request.other_records:
        return request
    return request.model_copy(update={"records": request.other_records, "other_records": ""})


def _completed(request: ReflectRequest, text: str) -> str:
    """The text with how answers are written, where its model left it out or the agent needs it.

    An agent with several texts may say it in another one.
    """
    if request.labels:
        line = f"Answer with exactly one of these, and nothing else: {request.labels}"
        stated = all(label in text for label in request.labels.split(", "))
    elif request.form:
        capitals = " and ".join(f"part {number}" for number in parts_in_capitals(request.form))
        case = f", with {capitals} in CAPITALS" if capitals else ""
        line = f"Write the answer in exactly this form{case}, and nothing else: {request.form}"
        stated = has_form(_without_answers(text, request.records), request.form)
    else:
        return text
    vague = request.loose and not _ONLY.search(text)
    needed = not stated or vague or request.astray or line in request.current_text
    bare = text.rstrip()
    whole = f"{bare}\n\n{line}{text[len(bare) :]}"
    fits = not isinstance(request.max_chars, int) or len(whole) <= request.max_chars
    return whole if needed and line not in text and fits and not request.other_texts else text


def _without_answers(text: str, records: str) -> str:
    """The text without the answers of cases, which it may have copied: they explain no form."""
    for line in records.splitlines():
        if line.startswith(_EXPECTED):
            text = text.replace(line.removeprefix(_EXPECTED).strip() or _EXPECTED, "")
    return text


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
        )
        self._labels = closed_labels(run.dataset.train)
        self._form = "" if self._labels else answer_form(run.dataset.train)
        self._tried: defaultdict[tuple[str, str], deque[str]] = defaultdict(_last_marks)
        """By text and what stands beside it: marks of what was proposed in its place."""
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
        answered = [
            self._answered(attempt, {request.field: next(queue) for request in batch})
            for attempt, batch in prepared
        ]
        for attempt in answered:
            if attempt.candidate is not None and len(attempt.fields) == 1:
                (name,) = attempt.fields
                mark = text_mark(self._text(attempt.candidate, name).text)
                self._tried[self._place(attempt.parent, name)].append(mark)
        return answered

    def remember_rejection(self, attempt: ReflectiveAttempt) -> None:
        """Remember a rewrite that was no improvement, for later requests."""
        reason = attempt.decision.reason if attempt.decision else ""
        why = "; ".join(map(str, attempt.problems)) or reason
        results = attempt.after.results if attempt.after else ()
        errors = (each.outcome.failure.message for each in results if each.outcome.failure)
        if error := next(errors, ""):
            why = f"{why}; with it the agent failed: {_cut(error)}"
        for name, diagnosis in attempt.diagnosis.items():
            # A text without reasons says itself what was tried.
            value = attempt.candidate.values.get(name) if attempt.candidate else None
            diagnosis = diagnosis or _cut(str(value or ""))
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
        records, left_out = self._records(results)
        attempt = replace(attempt, left_out=left_out)
        if not records:
            return replace(attempt, skipped="nothing to show"), []
        requests = [self._request(attempt, name, records) for name in attempt.fields]
        more: dict[str, Any] = {"other_records": self._other_records(attempt.parent, results)}
        if len(attempt.fields) == 1:
            tried = self._tried[self._place(attempt.parent, attempt.fields[0])]
            loose = not all(map(self._keeps_form, results))
            # The first rewrite may say in its own words how answers are written.
            more |= {"tried": " ".join(tried), "loose": loose, "astray": loose and bool(tried)}
        return attempt, [request.model_copy(update=more) for request in requests]

    def _records(self, results: Sequence[CaseResult]) -> tuple[str, int]:
        most = self._settings.history_top_k
        history = {
            r.case: self._memory.best_replies(r.case, most, besides=r.outcome.output)
            for r in results
        }
        return self._writer.records(results, history)

    def _other_records(self, parent: Candidate, shown: Sequence[CaseResult]) -> str:
        """As many other cases of train that a text is known to fail on, the latest ones."""
        known = self._memory.evaluation(parent.id)
        failures = worst_runs(known, self._run.objective, below=self._settings.perfect_score)
        cases = {result.case for result in shown}
        others = [each for each in failures if each.case not in cases]
        return self._records(others[-len(shown) :])[0]

    def _keeps_form(self, result: CaseResult) -> bool:
        return keeps_form(result.outcome.output, labels=self._labels, form=self._form)

    def _request(self, attempt: ReflectiveAttempt, name: str, records: str) -> ReflectRequest:
        values, surface = attempt.parent.values, self._surfaces[name]
        current = self._text(attempt.parent, name).text
        room = surface.max_chars and surface.max_chars - len(str(values[name])) + len(current)
        others = [
            f"The text {other}:\n{values[other]}"
            for other in self._surfaces
            if other != name and other in values
        ]
        pieces = [*surface.placeholders, *surface.frozen]
        return ReflectRequest(
            field=name,
            current_text=current,
            records=records,
            other_texts="\n\n".join(others),
            rejected=self._memory.rejections(attempt.parent.id, name),
            must_keep="\n".join(pieces),
            max_chars=room or NO_LIMIT,
            labels=", ".join(self._labels),
            form=self._form,
        )

    def _text(self, candidate: Candidate, name: str) -> TextWithExamples:
        """A text apart from its examples, which a rewrite leaves as they are."""
        return TextWithExamples.read(str(candidate.values[name]), self._run.dataset.train)

    def _place(self, parent: Candidate, name: str) -> tuple[str, str]:
        """A text of a candidate, and what stands beside it: other texts, and its examples."""
        examples = [case.id for case in self._text(parent, name).cases]
        beside = {other: value for other, value in parent.values.items() if other != name}
        return name, short_id([Candidate(values=beside).id, *examples])

    def _answered(
        self, attempt: ReflectiveAttempt, replies: Mapping[str, Asked[Reflection]]
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
        texts = {
            name: replace(self._text(attempt.parent, name), text=answer.new_text).write(
                self._surfaces[name].placeholders
            )
            for name, answer in answers.items()
        }
        candidate = attempt.parent.child(texts, origin=origin)
        return replace(attempt, candidate=candidate, fields=tuple(answers))


def _last_marks() -> deque[str]:
    """Every request has them, so a long search keeps only the last ones."""
    return deque(maxlen=100)


class ReflectionProposer:
    """Rewrites the texts of the incumbent in turn, for a search that combines proposers."""

    def __init__(
        self, run: Run, *, reflector: Role[ReflectRequest, Reflection], fields: Sequence[str]
    ) -> None:
        self._run = run
        self._fields = tuple(fields)
        self._memory = SearchMemory(objective=run.objective)
        self._proposer = Proposer(run, ReflectiveSettings(), reflector, self._memory)
        self._turn = 0
        self._last: ReflectiveAttempt | None = None

    @property
    def need(self) -> Spend:
        """One request to the reflector."""
        return self._proposer.need(1)

    async def propose(self, evidence: ProposerEvidence) -> Proposed:
        """A rewrite of the text whose turn it is."""
        self._last = None
        if self._proposer.failures >= GIVE_UP_AFTER:
            return Proposed(nothing_left="reflector_failed")
        self._memory.add(evidence.before)
        attempt = ReflectiveAttempt(
            kind=REFLECTIVE,
            round=evidence.round,
            parents=(evidence.parent,),
            minibatch=evidence.cases,
            before=evidence.before,
            fields=(self._fields[self._turn % len(self._fields)],),
        )
        self._turn += 1
        (self._last,) = await self._proposer.propose([attempt])
        return _proposed(self._last)

    def learn(self, tried: Tried) -> None:
        """Remember a rewrite that was no improvement, for later requests."""
        if self._last is None or tried.accepted:
            return
        attempt = replace(self._last, decision=tried.decision)
        problems = tried.problems or attempt.problems
        self._proposer.remember_rejection(replace(attempt, problems=problems))


def _proposed(attempt: ReflectiveAttempt) -> Proposed:
    skipped = (Problem(message=attempt.skipped),) if attempt.skipped else ()
    return Proposed(
        candidate=attempt.candidate,
        touched=attempt.fields,
        proposals=attempt.proposals,
        problems=(*skipped, *attempt.problems),
        source={"diagnosis": dict(attempt.diagnosis)} if attempt.diagnosis else None,
    )
