"""A Run: what a strategy works with."""

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from burnish.core.cases import Case, Dataset, Split
from burnish.core.comparisons import one_line
from burnish.core.content import Json, codec, stream
from burnish.core.errors import Problem, RoleFailed, StrategyMisbehaved, in_shell
from burnish.core.evaluations import CaseResult, Evaluation, Objective
from burnish.core.leaks import LeakWatch
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import (
    Call,
    Effects,
    Metric,
    Receipt,
    Role,
    Scope,
    Target,
    reply_source,
    surfaces_of,
)
from burnish.core.surfaces import Candidate
from burnish.core.trials import Standing, StopReason, Trial, TrialRow, screen
from burnish.journal.executors import AsyncioExecutor, together
from burnish.journal.limits import Budget, Meter
from burnish.journal.once import Cache, EffectWatch, JournaledEffects, NamedScope
from burnish.journal.outages import Waits
from burnish.runs.candidate_checks import Lead, Offers, Probed, Prober
from burnish.runs.case_work import CaseWork, CaseWorker
from burnish.runs.closing import Confirmations, Estimates, SearchEnd
from burnish.runs.directory import AFTER_SEARCH, RunDirectory
from burnish.runs.evaluation import Conditions, EvaluatedCase, Evaluator
from burnish.runs.events import (
    Advanced,
    EventData,
    Exported,
    Listener,
    Stopping,
    Warned,
    in_folders,
)
from burnish.runs.recorder import Announcer, Recorder, summary
from burnish.runs.roles import Asked, LeakGuard, RoleAnswers, as_asked, ask_once
from burnish.runs.steering import Steering
from burnish.runs.stoppers import GIVE_UP_AFTER_ALIKE, RETRY_MISSING, Breakers, Outages

Request = TypeVar("Request")
Answer = TypeVar("Answer")
T = TypeVar("T")
_FIRST_OTHER_DRAW = 500_000
"""The draws of runs that only find out who can be reached; no measurement uses them."""


@dataclass(frozen=True, kw_only=True)
class _Checked:
    """A target's check of a candidate, as the journal stores it."""

    problems: tuple[Problem, ...]


class Run:
    """One optimisation or measurement in progress.

    Everything that a strategy decides on comes from here, and everything paid goes through the
    journal, so a resume runs the strategy again over the same journal.
    """

    def __init__(
        self,
        setup: Conditions,
        directory: RunDirectory,
        *,
        search: "Callable[[Run], Awaitable[None]]",
        cache: Cache | None = None,
    ) -> None:
        self.setup = setup
        self.directory = directory
        self._search = search
        self._cache = cache
        self.incumbent: Candidate = setup.target.baseline
        self._effects = JournaledEffects(
            directory.journal, redactor=directory.redactor, cache=cache
        )
        self._evaluator = self.evaluating(setup.metrics)
        self.answering = RoleAnswers()
        self._meter = Meter()
        self._estimates = Estimates(setup, self._meter)
        self.confirmations = Confirmations(setup, directory, self._estimates)
        self.closing = SearchEnd(
            setup,
            directory,
            self.confirmations,
            trial=lambda: self.trial,
        )
        self._outages_told = 0
        self.waits = Waits(
            seconds=60 * setup.wait_minutes,
            tell=self._tell_of_outage,
            redact=directory.redactor.text,
        )
        """How long endpoints are waited for that answer nobody."""
        self._breakers = Breakers(
            self._meter,
            exceeded=self.closing.exceeded,
            replaying=lambda: self.replaying,
            in_vain=lambda reason: self.waits.in_vain(reason),
            again=lambda: RETRY_MISSING if self.forked else self.how_to_go_on,
        )
        self._recorder = Recorder(directory, baseline=setup.target.baseline)
        self._announcer = Announcer(directory)
        self.offers = Offers(setup)
        self.steering = Steering(
            directory,
            self._effects,
            setup.target,
            watch=lambda: self.secrets,
            tell=self.tell,
            trial=lambda: self.trial,
        )
        """What people send to the run while it goes on."""

    def evaluating(self, metrics: Sequence[Metric]) -> Evaluator:
        """Runs and scores cases of this run, by these metrics."""
        setup, call_limit = self.setup, self.directory.header.call_limit
        work: CaseWork
        if setup.pool is None:
            work = CaseWorker(
                target=setup.target,
                metrics=metrics,
                policy=setup.case_policy,
                concurrency=setup.concurrency,
                call_limit=call_limit,
            )
        else:
            work = setup.pool.work(metrics, call_limit=call_limit)
        return Evaluator(
            target=setup.target,
            metrics=metrics,
            work=work,
            # Twice as many cases as agents at once: the others are being stored and judged.
            executor=AsyncioExecutor(2 * setup.concurrency),
            policy=setup.case_policy,
            concurrency=setup.concurrency,
            weighted=setup.objective.weights,
        )

    @cached_property
    def secrets(self) -> LeakWatch:
        """Text that no proposer may see."""
        # Older runs left out whole records, and must ask the same again when they are resumed.
        if not self.directory.header.withholds:
            return LeakWatch(self.setup.dataset, drops=True)
        return self.setup.leak_watch

    @cached_property
    def _guard(self) -> LeakGuard:
        return LeakGuard(self.secrets, self.tell)

    async def search(self) -> None:
        """Let the strategy search until there is a reason to stop."""
        await self._search(self)

    @property
    def target(self) -> Target:
        """The thing being optimised."""
        return self.setup.target

    @property
    def objective(self) -> Objective:
        """Reduces evaluations to the numbers that are compared."""
        return self.setup.objective

    @property
    def dataset(self) -> Dataset:
        """The cases. Only the text of train may reach a proposer."""
        return self.setup.dataset

    @property
    def budget(self) -> Budget:
        """The limits, for display; `stop_reason` says when to stop."""
        return self.setup.budget

    @property
    def searches(self) -> bool:
        """Whether it looks for a better candidate, rather than measure what is there."""
        return getattr(self.setup.strategy, "searches", True)

    @property
    def how_to_go_on(self) -> str:
        """What to do with a run that has failed, once the cause is gone."""
        return f"resume the run (`burnish runs resume {in_shell(self.directory.folder.name)}`)"

    @property
    def trial(self) -> int:
        """The number of the current trial."""
        return self._recorder.trial

    @property
    def replaying(self) -> bool:
        """Whether the current trial is already recorded."""
        return self._effects.replays(self.trial)

    @property
    def forked(self) -> bool:
        """Whether it takes results from an earlier run, which paid for them."""
        return self._cache is not None

    @property
    def spent(self) -> Spend:
        """What the results used so far cost."""
        return self._meter.spent + self.confirmations.meter.spent

    @property
    def runs_used(self) -> int:
        """Runs of cases used so far. A fork did not pay for those it imports, but counts them."""
        return self._meter.runs

    @property
    def billed(self) -> Spend:
        """What everything started so far costs, lost calls included."""
        return self.directory.journal.billed

    @property
    def tried(self) -> bool:
        """Whether anything but the baseline was measured."""
        return self._recorder.tried

    @property
    def standing(self) -> Standing:
        """The totals of the recorded trials."""
        return self.offers.standing(replace(self._recorder.standing, spent=self._meter.spent))

    def rng(self, *names: str | int) -> random.Random:
        """A new random generator; the same names always give the same numbers."""
        return stream(self.setup.seed, *names)

    async def evaluate(
        self,
        candidate: Candidate,
        *,
        split: Split,
        cases: Collection[Case] | None = None,
        repeats: int = 1,
        draw: int = 0,
    ) -> Evaluation:
        """Run and score a candidate on a split, or on some cases of it.

        Runs that were made before under the same draws are not repeated; `draw` is the first one.
        """
        chosen = self.dataset.cases(split) if cases is None else cases
        blocks = self.blocks(
            candidate,
            split=split,
            cases=chosen,
            repeats=repeats,
            draw=draw,
            block_size=max(1, len(chosen)),
        )
        async with aclosing(blocks) as parts:
            results = [result async for part in parts for result in part.results]
        return Evaluation(candidate=candidate.id, split=split, results=tuple(results))

    async def evaluate_side_by_side(
        self,
        candidates: Sequence[Candidate],
        *,
        split: Split,
        draws: Sequence[int],
        metrics: Sequence[Metric] | None = None,
        confirmation: str = "",
    ) -> list[Evaluation]:
        """Evaluate one or two candidates after the search, unseen by everything that decides.

        Both sides of a case are measured beside each other, so that what changes meanwhile, such as
        a judge that drifts, is no gain of either. What a confirmation uses is under its name in the
        journal, and belongs to no trial.
        """
        sealed = split is Split.TEST
        if sealed:
            self.closing.begin_sealed_test()
        evaluator = self._evaluator if metrics is None else self.evaluating(metrics)
        rows = evaluator.rows(candidates, self.dataset.cases(split), draws)
        meter = self.confirmations.meter if confirmation else self._meter
        purpose = "" if sealed else "measuring again" if confirmation else "second judge"
        count = sum(map(len, rows))

        def scope() -> Scope:
            if not confirmation:
                return self._scope(sealed=sealed)
            return NamedScope(self._scope(trial=AFTER_SEARCH), confirmation)

        results: dict[str, list[CaseResult]] = {each.id: [] for each in candidates}
        measured = evaluator.side_by_side(
            rows,
            scope=scope,
            seen=self._announcer.counter(split, count, lambda: self.spent, purpose=purpose),
        )
        async with aclosing(measured) as parts:
            async for row in parts:
                for unit, done in row:
                    self._breakers.require_answer(done)
                    meter.use(done.spends, run=done.run if sealed else "")
                    results[unit.candidate.id].append(done.result)
        return [
            Evaluation(candidate=candidate, split=split, results=tuple(found))
            for candidate, found in results.items()
        ]

    @property
    def deciding_split(self) -> Split:
        """Holdout; train in a run without one."""
        return self.setup.deciding_split

    async def blocks(
        self,
        candidate: Candidate,
        *,
        split: Split,
        cases: Collection[Case] | None = None,
        repeats: int = 1,
        draw: int = 0,
        block_size: int,
        look_ahead: int = 0,
    ) -> AsyncGenerator[Evaluation, None]:
        """The same, `block_size` cases at a time, so that a gate may end it early.

        `look_ahead` blocks start before they are requested. Those that are not used are billed,
        but not spent.
        """
        if split is Split.TEST:
            raise StrategyMisbehaved(
                "the sealed test was asked for during the search",
                remedy="measure on train or holdout: the test is read once, after the search",
            )
        chosen = self.dataset.cases(split) if cases is None else cases
        units = self._evaluator.units(candidate, chosen, range(draw, draw + repeats))
        incumbent = candidate.id == self.incumbent.id
        blocks = self._evaluator.blocks(
            units,
            scope=self._scope,
            size=block_size * repeats,
            # What comes after the end of a recorded trial may not be in the journal.
            look_ahead=0 if self.replaying else look_ahead,
            seen=self._announcer.counter(split, len(units), lambda: self.spent),
            breaker=lambda: self._breakers.block(incumbent=incumbent),
            only_here=None if incumbent else self._incumbent_answers,
        )
        rest, size, outages, not_run = list(units), block_size * repeats, Outages(), ""
        ran = sum(unit.case.recorded is None for unit in units)
        with self._recorder.times.measuring(split.value, ran):
            async with aclosing(blocks) as parts:
                async for block in parts:
                    part, rest = rest[:size], rest[size:]
                    self._use(block, outages, whole=len(block) == len(part))
                    results = [done.result for done in block]
                    # A single run, such as a delegation, says itself why nobody answered.
                    if len(units) > 1 and self._breakers.in_doubt(outages, block[-1]):
                        last = part[len(block) - 1].case
                        not_run = await self._unreachable(candidate, last, block[-1], outages)
                        later = part[len(block) :] if not_run else ()
                        results += (self._evaluator.not_run(unit, not_run) for unit in later)
                    yield self._noted(candidate, split, results)
                    if not_run:
                        break
        for start in range(0, len(rest) if not_run else 0, size):
            units = rest[start : start + size]
            results = [self._evaluator.not_run(unit, not_run) for unit in units]
            yield self._noted(candidate, split, results)

    def _use(self, block: Sequence[EvaluatedCase], outages: Outages, *, whole: bool) -> None:
        """Count the results of a block in order; `whole` says whether it has all of them."""
        for left, done in enumerate(block, 1 - len(block)):
            self._breakers.use(done, whole=whole or left < 0, outages=outages)

    def _noted(
        self, candidate: Candidate, split: Split, results: Sequence[CaseResult]
    ) -> Evaluation:
        """Results of a candidate, known to whatever depends on all of them."""
        self.offers.measured.add(candidate.id, split, tuple(results))
        if split is Split.TRAIN:
            self._guard.note_runs(candidate, results)
        return Evaluation(candidate=candidate.id, split=split, results=tuple(results))

    async def _unreachable(
        self, candidate: Candidate, case: Case, last: EvaluatedCase, outages: Outages
    ) -> str:
        """Why the candidate's other cases need not be run; empty if they are to be.

        Runs of it failed alike. If the incumbent answers, only the candidate cannot be reached,
        such as one with another model; otherwise EndpointDown is raised. That run is billed, but
        not spent: it belongs to no measurement.
        """
        answered = candidate.id != self.incumbent.id and await self._incumbent_answers(case)
        self._breakers.require_answers(last.outage, answered=answered)
        if not (answered and outages.too_many):
            return ""
        alike = f"{GIVE_UP_AFTER_ALIKE} in a row failed in the same way: {one_line(last.outage)}"
        message = f"candidate {candidate.id} cannot be reached: of its runs, {alike}"
        self.tell(Warned(message=message), f"unreachable:{self.trial}:{candidate.id}")
        return f"not run: of the candidate's runs, {alike}"

    async def _incumbent_answers(self, case: Case) -> bool:
        """Whether a run of the incumbent is answered; it raises if its key or model is refused."""
        draws = [_FIRST_OTHER_DRAW + self.trial]
        unit = self._evaluator.units(self.incumbent, [case], draws)[0]
        return not (await self._evaluator.case(unit, self._scope)).outage

    async def ask(self, role: Role[Request, Answer], request: Request, *, draw: int = 0) -> Answer:
        """Ask a role. Its request and answer go into the record of this trial.

        Raises RoleFailed when it gave no usable answer, on a replay too.
        """
        request, seen = self._guard.cleared(role, request, trial=self.trial)
        place = self._recorder.asking(role.name, seen)
        scope = self._scope()
        reply = await ask_once(role, request, draw=draw, scope=scope)
        self._meter.use(scope.used)
        self.answering.count(role.name, reply.failure)
        self._breakers.count_role(role.name, reply.outage)
        asked = as_asked(role, seen, reply)
        self._guard.note_answer(asked.proposal)
        self._recorder.answered(place, asked.proposal)
        if reply.answer is None:
            raise RoleFailed(reply.failure)
        return reply.answer

    async def ask_together(
        self, role: Role[Request, Answer], requests: Sequence[Request], *, draw: int = 0
    ) -> list[Asked[Answer]]:
        """Ask a role several things at once, each under a different draw; replies in order.

        Each reply contains its request and answer, for the record of the trial it belongs to.
        """
        scopes = [self._scope() for _ in requests]
        clean = [self._guard.cleared(role, each, trial=self.trial) for each in requests]
        replies = await together(
            ask_once(role, request, draw=draw + place, scope=scopes[place])
            for place, (request, _) in enumerate(clean)
        )
        for scope, reply in zip(scopes, replies, strict=True):
            self._meter.use(scope.used)
            self.answering.count(role.name, reply.failure)
            self._breakers.count_role(role.name, reply.outage)
        asked = [
            as_asked(role, seen, reply) for (_, seen), reply in zip(clean, replies, strict=True)
        ]
        for each in asked:
            self._guard.note_answer(each.proposal)
        return asked

    async def check(
        self,
        candidate: Candidate,
        *,
        parent: Candidate,
        again: bool = False,
        shows: Collection[str] = (),
    ) -> list[Problem]:
        """Why this candidate is not worth paying for; empty when it is. Makes no paid call.

        With `again`, it may be one that was tried before. The answers to the train cases in
        `shows` may stand in its texts.
        """
        problems = screen(
            candidate,
            parent=parent,
            surfaces=surfaces_of(self.target, candidate),
            seen=() if again else self._recorder.seen,
            training=[case for case in self.dataset.train if case.id not in shows],
        )
        # A text that contains what no proposer may see would be shown to it the next time.
        problems = problems or self._guard.problems_of(candidate)
        problems = problems or self.steering.problems(candidate, parent)
        if problems:
            return problems
        checked = await self.remember(
            "check",
            {"target": self.target.description.fingerprint, "candidate": candidate.id},
            _Checked,
            lambda: _Checked(problems=tuple(self.target.check(candidate))),
        )
        return list(checked.problems)

    async def probe(
        self,
        candidates: Sequence[Candidate],
        *,
        measured: Evaluation,
        before: Candidate | None = None,
    ) -> Probed:
        """Whether any of these would act differently in measured runs, or may. Is free.

        They are compared with `before`: the incumbent, if nothing else is given.
        """
        return await Prober(target=self.target, effects=self._effects).probe(
            candidates,
            before=before or self.incumbent,
            measured=measured,
            cases={case.id: case for case in self.dataset.cases(measured.split)},
            scope=self._scope(),
        )

    async def remember(
        self, kind: str, request: Json, gives: type[T], compute: Callable[[], T]
    ) -> T:
        """Store a free computation in the journal, such as a check or a sampler's suggestion.

        An upgrade that computes it differently does not change the history of this run.
        """

        async def perform(effects: Effects) -> Receipt[T]:
            del effects
            return Receipt(value=compute())

        call = Call(kind=kind, request=request, codec=codec(gives), estimate=NOTHING, computed=True)
        return await self._scope().once(call, perform)

    async def perform(self, work: Callable[[Scope], Awaitable[T]]) -> T:
        """Let the strategy do work that pays through the journal; what it used is spent."""
        scope = self._scope()
        try:
            return await work(scope)
        finally:
            self._meter.use(scope.used)

    def stop_reason(self, need: Spend = NOTHING) -> StopReason | None:
        """Why to stop now. With `need`, also when that much more would exceed a limit.

        The cost of what is measured after the search is reserved from the start.
        """
        return self.closing.reason(need, self.standing, replaying=self.replaying)

    @property
    def stopped(self) -> StopReason | None:
        """The first reason to stop that the strategy got."""
        return self.closing.stopped

    def estimate(
        self, split: Split, *, cases: Collection[Case] | None = None, repeats: int = 1
    ) -> Spend:
        """What evaluating one candidate on a split, or some of its cases, is expected to cost."""
        chosen = self.dataset.cases(split) if cases is None else cases
        return self._estimates.cases(chosen, repeats)

    def record(self, trial: Trial) -> TrialRow:
        """Store a trial on disk, accepted or not, before the next decision."""
        if self.stopped is not None:
            raise StrategyMisbehaved(
                f"a trial was recorded after the run was told to stop ({self.stopped.code})",
                remedy="once stop_reason returns a reason, finish the trial or drop it as a whole: "
                "a resume with more budget could not know where it was cut",
            )
        # A user who stops a run cuts its calls off: that is no fault of the agent's.
        by_user = self.closing.by_user(self.closing.outside_reason(searching=True))
        if self.searches and not self.trial and not by_user:
            # A fork would import what it takes from an earlier run once more.
            folder = in_shell(self.directory.folder.name)
            changed = f"if its file has changed, start a new one with --fork {folder}"
            again = f"{self.how_to_go_on}; {changed}"
            if self.forked:
                again = "start a new run without --fork"
            self._breakers.require_an_answer(
                source=reply_source(self.target), forget=self.directory.journal.forget, again=again
            )
        row, index = self._recorder.record(trial, spent=self._meter.spent, replaying=self.replaying)
        self.tell(summary(row, self.standing, index), f"trial:{row.number}")
        if not (trial.accepted or trial.kept):
            self.offers.forget(trial.candidate.id)
        return row

    def advance(self, candidate: Candidate) -> None:
        """Make the last recorded trial's candidate the incumbent, and write its files."""
        if not self.trial:
            raise StrategyMisbehaved(
                "a candidate was made the incumbent before any trial was recorded",
                remedy="record the trial first: it says why",
            )
        self.incumbent = candidate
        number = self.trial - 1
        self.offers.add(Lead(trial=number, candidate=candidate, score=self.standing.best_score))
        files = tuple(sorted(self._export(candidate, number).files))
        advanced = Advanced(trial=number, candidate=candidate.id, files=files)
        self.tell(advanced, f"advanced:{number}")

    @property
    def changed(self) -> bool:
        """Whether the incumbent is not the baseline."""
        return self.incumbent.id != self.target.baseline.id

    def settle_offer(self) -> None:
        """Once the search is over, offer the last incumbent that is not worse than the baseline."""
        event = self.offers.settle()
        if event is None:
            return
        lead = self.offers.last
        self.incumbent = lead.candidate
        self._export(lead.candidate, lead.trial)
        self.tell(event, f"withheld:{event.trial}")
        self.tell(Warned(message=event.words), f"withheld:{event.trial}:warning")

    def _export(self, candidate: Candidate, number: int) -> Exported:
        exporter = self.setup.exporter or in_folders(self.target)
        exported = exporter(candidate, self.directory.folder, number)
        self.directory.export(exported)
        return exported

    def listen(self, listener: Listener) -> None:
        """Tell a listener what happens from now on."""
        self._announcer.listen(listener)

    def watch_effects(self, watch: EffectWatch) -> None:
        """Let someone see the effects of this run as they are performed."""
        self._effects.watch = watch

    def tell(self, data: EventData, key: str) -> None:
        """Store an event under a key that is the same on a replay, and deliver it once."""
        self._announcer.announce(data.kinds[0], key, data.to_json())

    def _tell_of_outage(self, message: str) -> None:
        self._outages_told += 1
        session = self.directory.journal.session
        self.tell(Warned(message=message), f"outage:{session}:{self._outages_told}")

    def forget_unanswered(self) -> None:
        """Let a resume ask again for what nobody answered since the last trial."""
        self._effects.forget_unanswered()

    def announce(self, kind: str, key: str, data: Mapping[str, Json] | None = None) -> None:
        """The same for an event without a type."""
        self._announcer.announce(kind, key, data)

    def ask_to_stop(self, why: str) -> None:
        """Finish the current trial, then stop."""
        self.closing.signal = why
        session = self.directory.journal.session
        self.tell(Stopping(reason=why), f"session:{session}:stopping")

    async def close(self) -> None:
        """Cancel what is running and close the directory and all resources."""
        await self._effects.cancel_all()
        if self._cache is not None:
            self._cache.close()
        self.directory.close()
        async with AsyncExitStack() as resources:
            # All of them are closed, the last one first, even if one of them raises.
            for resource in self.setup.resources:
                resources.push_async_callback(resource.close)
            if self.setup.pool is not None:
                resources.push_async_callback(self.setup.pool.close)

    @property
    def calls_ended(self) -> int:
        """The number of effects that have ended in this session."""
        return self._effects.landed

    @property
    def blocking_limit(self) -> float | None:
        """Seconds for which a call may block the event loop."""
        limit = self.setup.case_policy.time_limit
        return self.directory.header.call_limit if limit is None else limit

    def _scope(self, *, trial: int | None = None, sealed: bool = False) -> Scope:
        trial = self.trial if trial is None else trial
        return self._effects.scope(trial=trial, sealed=sealed)
