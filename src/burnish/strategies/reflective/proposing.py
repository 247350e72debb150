"""Proposing: what the reflector is asked about a parent and its minibatch, and what comes of it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from burnish.core.candidates import Origin
from burnish.core.errors import Problem
from burnish.core.money import Spend, total
from burnish.core.protocols import Role
from burnish.core.surfaces import TextSurface
from burnish.runs.asking import Asked
from burnish.runs.run import Run
from burnish.strategies.reflective.attempts import NOTHING_TO_SHOW, Attempt
from burnish.strategies.reflective.memory import Memory, TurnedDown
from burnish.strategies.reflective.records import Recorder, worst_runs
from burnish.strategies.reflective.settings import ReflectiveSettings
from burnish.strategies.reflective.wording import Reflection, ReflectRequest

MAX_CHARS = 8000
"""For a text without a bound of its own."""


class Proposer:
    """Asks the reflector for other texts."""

    def __init__(
        self,
        run: Run,
        settings: ReflectiveSettings,
        reflector: Role[ReflectRequest, Reflection],
        memory: Memory,
    ) -> None:
        self._run = run
        self._settings = settings
        self._reflector = reflector
        self._memory = memory
        self._surfaces = {s.id: s for s in run.target.surfaces if isinstance(s, TextSurface)}
        self._recorder = Recorder(
            cases={case.id: case for case in run.dataset.train},
            objective=run.objective,
            thresholds={
                metric.name: bar
                for metric in run.setup.metrics
                if isinstance(bar := getattr(metric, "threshold", None), float | int)
            },
            secrets=run.secrets,
        )
        self.failures = 0
        """Questions in a row without a usable answer."""

    def need(self, fields: int) -> Spend:
        """What rewriting so many texts is expected to cost."""
        blank = ReflectRequest(
            field="",
            current_text="",
            records="",
            other_texts="",
            rejected="",
            must_keep="",
            max_chars=MAX_CHARS,
        )
        return total([self._reflector.estimate(blank)] * fields)

    async def propose(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """Each attempt with a candidate, or with why there is none."""
        prepared = [self._prepared(each) for each in attempts]
        requests = [request for _, asked in prepared for request in asked]
        # Every attempt becomes a trial: so no draw comes twice, however many texts one has.
        most = max((len(asked) for _, asked in prepared), default=0)
        draw = most * self._run.trial
        replies = await self._run.ask_together(self._reflector, requests, draw=draw)
        self._count(replies)
        waiting = iter(replies)
        return [self._answered(each, asked, waiting) for each, asked in prepared]

    def turned_down(self, attempt: Attempt) -> None:
        """Remember a rewrite that brought nothing."""
        for name, diagnosis in attempt.diagnosis.items():
            if self._run.secrets.leaked(diagnosis) is not None:
                # Whoever told it, the reflector is not told of it again.
                continue
            told = TurnedDown(diagnosis=diagnosis, reason=attempt.why)
            self._memory.turned_down[attempt.parent.id, name].append(told)

    def _prepared(self, attempt: Attempt) -> tuple[Attempt, list[ReflectRequest]]:
        """What to ask for an attempt: each of its texts, on the evidence of its minibatch."""
        if attempt.over or attempt.before is None:
            return attempt, []
        below = self._settings.perfect_score
        results = worst_runs(attempt.before, self._run.objective, below=below)
        if not results:
            results = worst_runs(attempt.before, self._run.objective, below=None)
        most = self._settings.history_top_k
        history = {
            r.case: self._memory.best_replies(r.case, most, besides=r.outcome.output)
            for r in results
        }
        records = self._recorder.of(results, history)
        attempt = replace(attempt, left_out=records.left_out)
        if not records.text:
            return replace(attempt, skipped=NOTHING_TO_SHOW), []
        return attempt, [self._request(attempt, name, records.text) for name in attempt.fields]

    def _request(self, attempt: Attempt, name: str, records: str) -> ReflectRequest:
        values, surface = attempt.parent.values, self._surfaces[name]
        others = [
            f"#### {other}\n{values[other]}"
            for other in self._surfaces
            if other != name and other in values
        ]
        kept = [*surface.placeholders, *surface.frozen]
        return ReflectRequest(
            field=name,
            current_text=str(values[name]),
            records=records,
            other_texts="\n\n".join(others) or "(none)",
            rejected=self._memory.rejections(attempt.parent.id, name),
            must_keep="\n".join(kept) or "(nothing in particular)",
            max_chars=surface.max_chars or MAX_CHARS,
        )

    def _answered(
        self,
        attempt: Attempt,
        asked: Sequence[ReflectRequest],
        replies: Iterator[Asked[Reflection]],
    ) -> Attempt:
        """The attempt with what came back for each of its texts."""
        if not asked:
            return attempt
        mine = {request.field: next(replies) for request in asked}
        given = {name: each.answer for name, each in mine.items() if each.answer is not None}
        attempt = replace(
            attempt,
            proposals=tuple(each.proposal for each in mine.values()),
            diagnosis={name: answer.diagnosis for name, answer in given.items()},
        )
        if not given:
            why = "; ".join(each.proposal.error for each in mine.values())
            return replace(attempt, problems=(Problem(message=why),))
        note = f"rewrite {', '.join(given)}"
        origin = Origin(kind="proposal", by="reflective", note=note)
        texts = {name: answer.new_text for name, answer in given.items()}
        candidate = attempt.parent.child(texts, origin=origin)
        return replace(attempt, candidate=candidate, fields=tuple(given))

    def _count(self, replies: Sequence[Asked[Reflection]]) -> None:
        for reply in replies:
            self.failures = self.failures + 1 if reply.answer is None else 0
