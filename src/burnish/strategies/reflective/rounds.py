"""Rounds: reflect on failures, rewrite, screen on the minibatch, decide on holdout."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pydantic import BaseModel, ConfigDict

from burnish.core.comparisons import Pair
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation
from burnish.core.gates import improves_on_minibatch, min_gain
from burnish.core.money import Spend, total
from burnish.core.protocols import Role
from burnish.core.surfaces import Candidate, Origin, TextSurface
from burnish.core.trials import Decision, Verdict
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RolePrompt
from burnish.runs.roles import Asked
from burnish.runs.run import Run
from burnish.strategies.reflective.attempts import (
    NOTHING_TO_SHOW,
    PERFECT,
    REFLECTIVE,
    Merges,
    ReflectiveAttempt,
    Trail,
)
from burnish.strategies.reflective.pool import Minibatch, Pool, SearchMemory, Train, TurnedDown
from burnish.strategies.reflective.race import Heat, Holdout, Stopped
from burnish.strategies.reflective.records import RecordWriter, worst_runs
from burnish.strategies.reflective.settings import ReflectiveSettings

ROLE = "reflector"


class _Words(BaseModel):
    model_config = ConfigDict(frozen=True)


class ReflectRequest(_Words):
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
    max_chars: int


class Reflection(_Words):
    """A diagnosis, and the text that follows from it."""

    diagnosis: str
    new_text: str


def reflector(client: ModelClient, prompt: RolePrompt) -> ModelRole[ReflectRequest, Reflection]:
    """The role that rewrites one text."""
    return ModelRole(
        name=ROLE,
        request_type=ReflectRequest,
        answer_type=Reflection,
        prompt=prompt,
        client=client,
    )


# -- Proposing ------------------------------------------------------------------------------------


_MAX_CHARS = 8000
"""For a text without a bound of its own."""


class Proposer:
    """Asks the reflector for other texts."""

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
        self._recorder = RecordWriter(
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
            max_chars=_MAX_CHARS,
        )
        return total([self._reflector.estimate(blank)] * fields)

    async def propose(self, attempts: Sequence[ReflectiveAttempt]) -> list[ReflectiveAttempt]:
        """Each attempt with a candidate, or with why there is none."""
        prepared = [self._prepared(each) for each in attempts]
        requests = [request for _, batch in prepared for request in batch]
        # Every attempt becomes a trial: so no draw comes twice, however many texts one has.
        most = max((len(batch) for _, batch in prepared), default=0)
        draw = most * self._run.trial
        replies = await self._run.ask_together(self._reflector, requests, draw=draw)
        self._count(replies)
        waiting = iter(replies)
        return [self._answered(each, batch, waiting) for each, batch in prepared]

    def turned_down(self, attempt: ReflectiveAttempt) -> None:
        """Remember a rewrite that brought nothing."""
        for name, diagnosis in attempt.diagnosis.items():
            if self._run.secrets.leaked(diagnosis) is not None:
                # Whoever told it, the reflector is not told of it again.
                continue
            rejection = TurnedDown(diagnosis=diagnosis, reason=attempt.why)
            self._memory.turned_down[attempt.parent.id, name].append(rejection)

    def _prepared(
        self, attempt: ReflectiveAttempt
    ) -> tuple[ReflectiveAttempt, list[ReflectRequest]]:
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

    def _request(self, attempt: ReflectiveAttempt, name: str, records: str) -> ReflectRequest:
        values, surface = attempt.parent.values, self._surfaces[name]
        others = [
            f"#### {other}\n{values[other]}"
            for other in self._surfaces
            if other != name and other in values
        ]
        pieces = [*surface.placeholders, *surface.frozen]
        return ReflectRequest(
            field=name,
            current_text=str(values[name]),
            records=records,
            other_texts="\n\n".join(others) or "(none)",
            rejected=self._memory.rejections(attempt.parent.id, name),
            must_keep="\n".join(pieces) or "(nothing in particular)",
            max_chars=surface.max_chars or _MAX_CHARS,
        )

    def _answered(
        self,
        attempt: ReflectiveAttempt,
        requests: Sequence[ReflectRequest],
        replies: Iterator[Asked[Reflection]],
    ) -> ReflectiveAttempt:
        """The attempt with what came back for each of its texts."""
        if not requests:
            return attempt
        mine = {request.field: next(replies) for request in requests}
        answers = {name: each.answer for name, each in mine.items() if each.answer is not None}
        attempt = replace(
            attempt,
            proposals=tuple(each.proposal for each in mine.values()),
            diagnosis={name: answer.diagnosis for name, answer in answers.items()},
        )
        if not answers:
            why = "; ".join(each.proposal.error for each in mine.values())
            return replace(attempt, problems=(Problem(message=why),))
        note = f"rewrite {', '.join(answers)}"
        origin = Origin(kind="proposal", by="reflective", note=note)
        texts = {name: answer.new_text for name, answer in answers.items()}
        candidate = attempt.parent.child(texts, origin=origin)
        return replace(attempt, candidate=candidate, fields=tuple(answers))

    def _count(self, replies: Sequence[Asked[Reflection]]) -> None:
        for reply in replies:
            self.failures = self.failures + 1 if reply.answer is None else 0


# -- Rounds ---------------------------------------------------------------------------------------


class Rounds:
    """Makes rounds; every attempt of one is recorded, whatever comes of it."""

    def __init__(
        self,
        run: Run,
        settings: ReflectiveSettings,
        *,
        fields: Sequence[str],
        pool: Pool,
        proposer: Proposer,
        holdout: Holdout,
        memory: SearchMemory,
    ) -> None:
        self._run = run
        self._settings = settings
        self._fields = tuple(fields)
        self._pool = pool
        self._proposer = proposer
        self._holdout = holdout
        self._train = Train(run, settings, memory)
        self._trail = Trail(run, settings, pool)
        self._merges = Merges(run, settings, pool)
        self.number = 0
        """The round under way."""
        self.idle = 0
        """Rounds in a row in which no candidate was run."""
        self._turns: dict[str, int] = {}
        """By parent, whose turn it is among the fields."""

    @property
    def need(self) -> Spend:
        """What the least costs that can still make a candidate lead."""
        return self._holdout.first_need if self._trail.waiting else self._round_and_holdout()

    @property
    def two_passes(self) -> int:
        """Rounds in which every case of train is looked at twice."""
        return 2 * self._train.in_a_pass

    @property
    def _asks(self) -> int:
        """How often the reflector is asked in a round: once for each text of each attempt."""
        texts = len(self._fields) if self._settings.field_selection == "all" else 1
        return texts * self._settings.proposals_per_round

    def _round(self, looks: int | None = None) -> Spend:
        """What a round costs at most before holdout is looked at.

        `looks` are those at parents, one for each proposal unless told.
        """
        count = self._settings.proposals_per_round
        looks = count if looks is None else looks
        return self._train.need.times(looks + count) + self._proposer.need(self._asks)

    def _round_and_holdout(self, looks: int | None = None) -> Spend:
        return self._round(looks) + self._holdout.least

    async def next(self) -> None:
        """One round. Raises Stopped when there is a reason to stop inside it."""
        self.number += 1
        attempts = await self._due() or await self._merging() or await self._reflecting()
        measured = any(each.after or each.heat for each in attempts)
        self.idle = 0 if measured else self.idle + 1
        for attempt in attempts:
            await self._settle(attempt)

    @property
    def learned_all(self) -> bool:
        """Whether there is one candidate to build on, and train has nothing more to say of it."""
        if self._settings.parent_selection not in ("trail", "current_best"):
            return False
        if self._settings.merge and self._merges.due:
            return False
        parent = self._trail.parent(self._run.rng("parent", self.number))
        return self._train.teaches_nothing(parent)

    async def finish(self) -> bool:
        """Ask holdout about a tip that nobody asked about yet; whether there was one."""
        if not self._trail.waiting:
            return False
        self.number += 1
        self.idle = 0
        for attempt in await self._raced([self._trail.attempt(self.number)]):
            await self._settle(attempt)
        return True

    async def _due(self) -> list[ReflectiveAttempt]:
        """The tip of the trail, where this may be the last chance to ask holdout about it."""
        if not self._trail.waiting:
            return []
        if await self._trail.last_chance(self._round() + self._holdout.need, asks=self._asks):
            return await self._raced([self._trail.attempt(self.number)])
        self._room_for(self._round())
        return []

    # -- reflecting ------------------------------------------------------------------------

    async def _reflecting(self) -> list[ReflectiveAttempt]:
        proposed = await self._proposer.propose(await self._started())
        screened = await self._screened(await self._checked(proposed))
        room = self._round() + self._holdout.need
        return await self._raced(await self._trail.followed(screened, room, asks=self._asks))

    async def _started(self) -> list[ReflectiveAttempt]:
        """For each proposal a parent, a minibatch, and how the parent does on it."""
        slots = range(self._settings.proposals_per_round)
        parents = [self._trail.parent(self._run.rng("parent", self.number, n)) for n in slots]
        looks = await self._train.instructive(
            parents, self.number, room=lambda n: self._room_for(self._round_and_holdout(looks=n))
        )
        return [self._start(n, parents[n], *looks[n]) for n in slots]

    def _start(
        self, slot: int, parent: Candidate, batch: Minibatch, before: Evaluation
    ) -> ReflectiveAttempt:
        attempt = ReflectiveAttempt(
            kind=REFLECTIVE,
            round=self.number,
            parents=(parent,),
            minibatch=batch,
            before=before,
            fields=self._chosen_fields(parent, slot),
        )
        if self._settings.skip_perfect and self._train.perfect(before):
            return replace(attempt, skipped=PERFECT)
        return attempt

    def _chosen_fields(self, parent: Candidate, slot: int) -> tuple[str, ...]:
        """Whose turn it is: each parent goes through its texts by itself."""
        if self._settings.field_selection == "all":
            return self._fields
        if self._settings.field_selection == "random":
            return (self._run.rng("field", self.number, slot).choice(self._fields),)
        turn = self._turns.get(parent.id, 0)
        self._turns[parent.id] = turn + 1
        return (self._fields[turn % len(self._fields)],)

    async def _checked(self, attempts: Sequence[ReflectiveAttempt]) -> list[ReflectiveAttempt]:
        """Turn away, before anything is paid, what is not worth it."""
        checked: list[ReflectiveAttempt] = []
        there: set[str] = set()
        for attempt in attempts:
            candidate = attempt.candidate
            if attempt.over or candidate is None:
                checked.append(attempt)
                continue
            problems = await self._run.check(candidate, parent=attempt.parent)
            if not problems and candidate.id in there:
                problems = [Problem(message="another proposal of this round is the same")]
            there.add(candidate.id)
            checked.append(replace(attempt, problems=tuple(problems)))
        return checked

    async def _screened(self, attempts: Sequence[ReflectiveAttempt]) -> list[ReflectiveAttempt]:
        """On the minibatch it was made from, a candidate must do better than its parent."""
        looks = [
            (each.candidate, each.minibatch)
            for each in attempts
            if not each.over and each.candidate is not None
        ]
        seen = iter(await self._train.look(looks))
        return [each if each.over else self._compared(each, next(seen)) for each in attempts]

    def _compared(self, attempt: ReflectiveAttempt, after: Evaluation) -> ReflectiveAttempt:
        assert attempt.before is not None
        pair = Pair(candidate=after, incumbent=attempt.before)
        decision = improves_on_minibatch(objective=self._run.objective, minibatch=pair)
        return replace(attempt, after=after, decision=decision)

    # -- merging ---------------------------------------------------------------------------

    async def _merging(self) -> list[ReflectiveAttempt]:
        merge = self._merges.next(self.number)
        if merge is None:
            return []
        lineage, candidate = merge
        attempt = self._merges.attempt(self.number, lineage, candidate)
        checked = await self._checked([attempt])
        return await self._raced([await self._merges.held_its_own(checked[0], lineage)])

    # -- deciding --------------------------------------------------------------------------

    async def _raced(self, attempts: Sequence[ReflectiveAttempt]) -> list[ReflectiveAttempt]:
        """On holdout, against whoever leads as the round begins."""
        waiting = [e.candidate for e in attempts if not e.over and e.candidate is not None]
        heats = iter(await self._holdout.heats(waiting, self._pool.incumbent.holdout))
        return [each if each.over else _ran(each, next(heats)) for each in attempts]

    async def _settle(self, attempt: ReflectiveAttempt) -> None:
        """Decide against whoever leads now, and put it on record."""
        attempt = await self._decided(attempt)
        self._run.record(attempt.trial(self._run.objective))
        decision, candidate, heat = attempt.decision, attempt.candidate, attempt.heat
        leads = decision is not None and decision.accepted
        if leads and candidate is not None:
            self._run.advance(candidate)
        if candidate is not None:
            self._pool.met(candidate)
        if candidate is not None and heat is not None and heat.whole and not attempt.unknown:
            self._pool.add(candidate, heat.evaluation, leads=leads)
            self._merges.due = True
        self._trail.settled(attempt)
        if candidate is not None:
            # A child goes on where its parent was among the texts.
            self._turns.setdefault(candidate.id, self._turns.get(attempt.parent.id, 0))
        if not (leads or attempt.kept or attempt.skipped or attempt.outdone):
            self._proposer.turned_down(attempt)

    async def _decided(self, attempt: ReflectiveAttempt) -> ReflectiveAttempt:
        heat = attempt.heat
        if attempt.over or attempt.candidate is None or heat is None:
            return attempt
        incumbent = self._pool.incumbent.holdout
        decision = self._decision(heat.evaluation, incumbent)
        if decision.accepted:
            heat = await self._holdout.again(attempt.candidate, heat.evaluation, incumbent)
            decision = _not_luck(heat.lost or self._decision(heat.evaluation, incumbent))
        if decision.verdict is Verdict.REJECT and not self._settings.racing:
            # The classic loop keeps whoever passed its minibatch.
            decision = replace(decision, verdict=Verdict.KEEP)
        return replace(attempt, heat=heat, decision=decision)

    def _decision(self, candidate: Evaluation, incumbent: Evaluation) -> Decision:
        pair = Pair(candidate=candidate, incumbent=incumbent)
        return min_gain(objective=self._run.objective, validation=pair)

    def _room_for(self, need: Spend) -> None:
        if self._run.stop_reason(need) is not None:
            raise Stopped


def _ran(attempt: ReflectiveAttempt, heat: Heat) -> ReflectiveAttempt:
    return replace(attempt, heat=heat, decision=heat.lost)


def _not_luck(again: Decision) -> Decision:
    """What a second run says: a winner who does not win again was lucky."""
    if again.verdict is not Verdict.REJECT:
        return again
    return replace(again, code="luck", reason=f"run again: {again.reason}")
