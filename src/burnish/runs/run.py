"""A Run: what a strategy sees of the world."""

import json
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from burnish.core.cases import Case, Dataset, LeakWatch, Split
from burnish.core.content import Json, canonical, codec, stream
from burnish.core.errors import HoldoutLeak, Problem, RoleFailed, StrategyMisbehaved
from burnish.core.evaluations import Evaluation, Objective
from burnish.core.money import NOTHING, Spend, total
from burnish.core.protocols import Call, Effects, Receipt, Role, Scope, Target
from burnish.core.surfaces import Candidate
from burnish.core.trials import FINISHED, Standing, StopReason, Trial, TrialRow, screen
from burnish.journal.executors import AsyncioExecutor, together
from burnish.journal.limits import Budget, Meter
from burnish.journal.once import Cache, JournaledEffects
from burnish.runs.directory import RunDirectory
from burnish.runs.evaluation import Conditions, Evaluator, RoleAnswers
from burnish.runs.events import Advanced, EventData, Listener, Stopping, in_folders
from burnish.runs.probe import Probed, Prober, measured_runs
from burnish.runs.recorder import Announcer, Recorder, summary
from burnish.runs.roles import Asked, as_asked, ask_once
from burnish.runs.stoppers import (
    STOP_FILE,
    ImpureStopper,
    Stops,
    callback_stopper,
    out_of_time,
    stop_file,
)

Request = TypeVar("Request")
Answer = TypeVar("Answer")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class _Checked:
    """What a target said of a candidate, as the journal keeps it."""

    problems: tuple[Problem, ...]


class Run:
    """One optimisation, or one measurement, under way.

    Everything a strategy decides on comes from here, and everything paid goes through the
    journal, so running the strategy again over the same journal is what resume is.
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
        self.stopped: StopReason | None = None
        """The first reason to stop that the strategy was given."""
        self._effects = JournaledEffects(
            directory.journal, redactor=directory.redactor, cache=cache
        )
        self._evaluator = Evaluator(
            target=setup.target,
            metrics=setup.metrics,
            # Twice as many cases are open as agents run: the others are being kept and judged.
            executor=AsyncioExecutor(2 * setup.concurrency),
            policy=setup.case_policy,
            concurrency=setup.concurrency,
            call_limit=directory.header.call_limit,
        )
        self._surfaces = {surface.id: surface for surface in setup.target.surfaces}
        self.secrets = LeakWatch(setup.dataset)
        """Knows the text that no proposer may see."""
        self.answering = RoleAnswers()
        """Knows which roles never gave a usable answer."""
        self._meter = Meter()
        self._stops = Stops(setup.budget, directory.journal, impure=self._impure_stoppers())
        self._signal: str = ""
        self._recorder = Recorder(directory, baseline=setup.target.baseline)
        self._announcer = Announcer(directory)

    async def search(self) -> None:
        """Let the strategy search until there is a reason to stop; for whoever drives the run."""
        await self._search(self)

    # -- what the strategy works on --------------------------------------------------------

    @property
    def target(self) -> Target:
        """The thing being optimised."""
        return self.setup.target

    @property
    def objective(self) -> Objective:
        """What evaluations are reduced to."""
        return self.setup.objective

    @property
    def dataset(self) -> Dataset:
        """The cases. Only the text of train may reach a proposer."""
        return self.setup.dataset

    @property
    def budget(self) -> Budget:
        """The limits, for showing; to know when to stop, ask `stop_reason`."""
        return self.setup.budget

    @property
    def trial(self) -> int:
        """The number of the trial under way."""
        return self._recorder.trial

    @property
    def replaying(self) -> bool:
        """Whether the trial under way is recorded already."""
        return self._effects.replays(self.trial)

    @property
    def forked(self) -> bool:
        """Whether it takes results from an earlier run, which has paid for them."""
        return self._cache is not None

    @property
    def spent(self) -> Spend:
        """What the results used so far cost."""
        return self._meter.spent

    @property
    def billed(self) -> Spend:
        """What was started so far costs, lost calls included."""
        return self.directory.journal.billed

    @property
    def tried(self) -> bool:
        """Whether anything but the baseline was measured."""
        return self._recorder.tried

    @property
    def standing(self) -> Standing:
        """What the recorded trials add up to."""
        return replace(self._recorder.standing, spent=self._meter.spent)

    def rng(self, *names: str | int) -> random.Random:
        """A fresh generator for this purpose: the same names give the same numbers, always."""
        return stream(self.setup.seed, *names)

    # -- effects ---------------------------------------------------------------------------

    async def evaluate(
        self,
        candidate: Candidate,
        *,
        split: Split,
        cases: Collection[Case] | None = None,
        repeats: int = 1,
        draw: int = 0,
    ) -> Evaluation:
        """Run and score a candidate over a split, or over some cases of it.

        What was run before under the same draws is not run again; `draw` is the first of them.
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

        `look_ahead` blocks are begun before they are asked for. What a gate then does not
        want is billed and not spent.
        """
        sealed = split is Split.TEST
        if sealed:
            self._read_sealed_test()
        chosen = self.dataset.cases(split) if cases is None else cases
        units = self._evaluator.units(candidate, chosen, range(draw, draw + repeats))
        blocks = self._evaluator.blocks(
            units,
            scope=lambda: self._scope(sealed=sealed),
            size=block_size * repeats,
            # A recorded trial ended where it ended: what lies beyond may not be in the journal.
            look_ahead=0 if self.replaying else look_ahead,
            seen=self._announcer.counter(candidate, split, len(units), lambda: self.spent),
        )
        ran = sum(unit.case.recorded is None for unit in units)
        with self._recorder.times.measuring(split.value, ran):
            async with aclosing(blocks) as parts:
                async for block in parts:
                    for done in block:
                        self._meter.use(done.spends)
                    results = tuple(done.result for done in block)
                    yield Evaluation(candidate=candidate.id, split=split, results=results)

    async def ask(self, role: Role[Request, Answer], request: Request, *, draw: int = 0) -> Answer:
        """Ask a role. What it saw and said goes into the record of this trial.

        Raises RoleFailed when it gave no usable answer, on a replay too.
        """
        place = self._recorder.asking(role.name, self._encoded(role, request))
        scope = self._scope()
        reply = await ask_once(role, request, draw=draw, scope=scope)
        self._meter.use(scope.used)
        self.answering.count(role.name, reply.failure)
        if reply.answer is None:
            self._recorder.answered(place, error=reply.failure)
            raise RoleFailed(reply.failure)
        self._recorder.answered(
            place, answer=role.answers.encode(reply.answer), mended=reply.mended
        )
        return reply.answer

    async def ask_together(
        self, role: Role[Request, Answer], requests: Sequence[Request], *, draw: int = 0
    ) -> list[Asked[Answer]]:
        """Ask a role several things at once, each under a draw of its own; replies in order.

        What it saw and said is in each reply, for the record of the trial that it belongs to.
        """
        scopes = [self._scope() for _ in requests]
        seen = [self._encoded(role, request) for request in requests]
        replies = await together(
            ask_once(role, request, draw=draw + place, scope=scopes[place])
            for place, request in enumerate(requests)
        )
        for scope, reply in zip(scopes, replies, strict=True):
            self._meter.use(scope.used)
            self.answering.count(role.name, reply.failure)
        return [as_asked(role, *each) for each in zip(seen, replies, strict=True)]

    def _encoded(self, role: Role[Request, Answer], request: Request) -> Json:
        """What the role will see, which may hold no text that no proposer may see."""
        seen = role.encode(request)
        if (case := self.secrets.leaked(seen)) is not None:
            raise HoldoutLeak(
                f"the request to the role '{role.name}' contains text of case '{case}', "
                "which no proposer may see",
                remedy="build requests from train cases only",
            )
        return seen

    async def check(self, candidate: Candidate, *, parent: Candidate) -> list[Problem]:
        """Why this candidate is not worth paying for; an empty list when it is. Costs no call."""
        problems = screen(
            candidate,
            parent=parent,
            surfaces=self._surfaces,
            seen=self._recorder.seen,
            training=self.dataset.train,
        )
        problems = problems or self._leaked_secrets(candidate)
        if problems:
            return problems
        checked = await self.remember(
            "check",
            {"target": self.target.description.fingerprint, "candidate": candidate.id},
            _Checked,
            lambda: _Checked(problems=tuple(self.target.check(candidate))),
        )
        return list(checked.problems)

    async def probe(self, candidates: Sequence[Candidate], *, measured: Evaluation) -> Probed:
        """Whether any of these would do anything else in the runs of the incumbent. Costs nothing.

        Where nobody can tell, the answer is that it would.
        """
        cases = {case.id: case for case in self.dataset.cases(measured.split)}
        prober = Prober(target=self.target, effects=self._effects)
        return await prober.probe(
            candidates,
            before=self.incumbent,
            measured=[*measured_runs(cases, measured)],
            scope=self._scope(),
        )

    def _leaked_secrets(self, candidate: Candidate) -> list[Problem]:
        """A text that holds what no proposer may see would be shown to it the next time."""
        return [
            Problem(where=name, message=f"the text contains text of case '{case}', a held out one")
            for name, value in candidate.values.items()
            if isinstance(value, str) and (case := self.secrets.leaked(value)) is not None
        ]

    async def remember(
        self, kind: str, request: Json, gives: type[T], compute: Callable[[], T]
    ) -> T:
        """A computation kept in the journal: a check, a sampler's suggestion. Costs nothing.

        An upgrade that computes it differently does not rewrite the history of this run.
        """

        async def perform(effects: Effects) -> Receipt[T]:
            del effects
            return Receipt(value=compute())

        call = Call(kind=kind, request=request, codec=codec(gives), estimate=NOTHING, computed=True)
        return await self._scope().once(call, perform)

    async def perform(self, work: Callable[[Scope], Awaitable[T]]) -> T:
        """Work of the strategy's own, which pays through the journal; what it used is spent."""
        scope = self._scope()
        try:
            return await work(scope)
        finally:
            self._meter.use(scope.used)

    # -- decisions -------------------------------------------------------------------------

    def stop_reason(self, need: Spend = NOTHING) -> StopReason | None:
        """Why to stop now. With `need`, also when that much more would go over a limit.

        What the sealed test will cost is set aside from the start.
        """
        reason = self._stops.look(self.standing, need + self.reserve, replaying=self.replaying)
        if not self.replaying:
            reason = self._stopped_before() or reason
        self.stopped = self.stopped or reason
        return reason

    def _stopped_before(self) -> StopReason | None:
        """Why the search ended when the sealed test was begun and not read to the end."""
        journal = self.directory.journal
        begun = journal.mark("sealed_read")
        if begun is None or journal.mark("sealed_done") is not None:
            return None
        return codec(StopReason).decode(json.loads(begun))

    @cached_property
    def reserve(self) -> Spend:
        """What is set aside for the sealed test: the baseline and the best, once."""
        return self.estimate(Split.TEST, repeats=2 * self.setup.test_repeats)

    def estimate(
        self, split: Split, *, cases: Collection[Case] | None = None, repeats: int = 1
    ) -> Spend:
        """What evaluating one candidate on a split, or some of its cases, is expected to cost."""
        chosen = self.dataset.cases(split) if cases is None else cases
        spends = (
            self._estimate_run(case) + total(metric.estimate(case) for metric in self.setup.metrics)
            for case in chosen
        )
        return total(spends).times(repeats)

    def _estimate_run(self, case: Case) -> Spend:
        if case.recorded is not None:
            return NOTHING
        return replace(self.target.estimate(case), metric_calls=1)

    def record(self, trial: Trial) -> TrialRow:
        """Put a trial on disk, accepted or not, before the next decision."""
        if self.stopped is not None:
            raise StrategyMisbehaved(
                f"a trial was recorded after the run was told to stop ({self.stopped.code})",
                remedy="once stop_reason gives a reason, a trial is finished or dropped whole: "
                "a resume with more budget could not tell where it was cut",
            )
        row, index = self._recorder.record(trial, spent=self._meter.spent, replaying=self.replaying)
        self.tell(summary(row, self.standing, index), f"trial:{row.number}")
        return row

    def advance(self, candidate: Candidate) -> None:
        """Make a candidate the incumbent, and write it where the user can adopt it.

        It belongs to the trial that was recorded last.
        """
        if not self.trial:
            raise StrategyMisbehaved(
                "a candidate was made the incumbent before any trial was recorded",
                remedy="record the trial first: it says why",
            )
        self.incumbent = candidate
        number = self.trial - 1
        exporter = self.setup.exporter or in_folders(self.target)
        exported = exporter(candidate, self.directory.folder, number)
        self.directory.export(exported)
        files = tuple(sorted(exported.files))
        advanced = Advanced(trial=number, candidate=candidate.id, files=files)
        self.tell(advanced, f"advanced:{number}")

    # -- telling ---------------------------------------------------------------------------

    def listen(self, listener: Listener) -> None:
        """Tell a listener what happens from now on."""
        self._announcer.listen(listener)

    def tell(self, data: EventData, key: str) -> None:
        """Keep an event under a key that is the same on a replay, and tell it once."""
        self._announcer.announce(data.kinds[0], key, data.to_json())

    def announce(self, kind: str, key: str, data: Mapping[str, Json] | None = None) -> None:
        """The same for an event that no type describes."""
        self._announcer.announce(kind, key, data)

    # -- life ------------------------------------------------------------------------------

    def ask_to_stop(self, why: str) -> None:
        """Finish the trial in flight, then stop."""
        self._signal = why
        session = self.directory.journal.session
        self.tell(Stopping(reason=why), f"session:{session}:stopping")

    async def close(self) -> None:
        """Leave nothing running and let go of the directory."""
        await self._effects.cancel_all()
        if self._cache is not None:
            self._cache.close()
        self.directory.close()
        async with AsyncExitStack() as resources:
            # All of them, the last one first; what one of them raises comes after the others.
            for resource in self.setup.resources:
                resources.push_async_callback(resource.close)

    def outside_reason(self, *, searching: bool) -> StopReason | None:
        """Why the world wants the run to stop, for whoever watches it from another thread.

        After the search only a signal does; users' own stop callbacks are not called here.
        """
        stoppers = self._outside_stoppers() if searching else [self._signal_stopper]
        return next((reason for each in stoppers if (reason := each.look()) is not None), None)

    def stop_words(self) -> str:
        """Why the world wants the search to stop, for work that breaks off; '' where it does not.

        Strategies that finish the trial under way ask `stop_reason`. Whoever hears of a stop file
        obeys it, so it is gone then.
        """
        reason = self.outside_reason(searching=True)
        if reason is None:
            return ""
        if reason.code == "stop_file":
            (self.directory.folder / STOP_FILE).unlink(missing_ok=True)
        return reason.detail

    @property
    def calls_ended(self) -> int:
        """How many effects have ended in this session."""
        return self._effects.landed

    @property
    def blocking_limit(self) -> float | None:
        """Seconds for which a call may block the event loop."""
        limit = self.setup.case_policy.time_limit
        return self.directory.header.call_limit if limit is None else limit

    def _impure_stoppers(self) -> list[ImpureStopper]:
        callbacks = sorted(self.setup.stop_callbacks.items())
        stoppers = [callback_stopper(label, callback) for label, callback in callbacks]
        return [*self._outside_stoppers(), *stoppers]

    def _outside_stoppers(self) -> list[ImpureStopper]:
        journal, minutes = self.directory.journal, self.setup.budget.max_minutes
        stoppers = [self._signal_stopper, stop_file(self.directory.folder)]
        if minutes is not None:
            stoppers.append(out_of_time(minutes, lambda: journal.active_seconds))
        return stoppers

    @property
    def _signal_stopper(self) -> ImpureStopper:
        return ImpureStopper(label="signal", look=self._look_for_signal)

    def _look_for_signal(self) -> StopReason | None:
        return StopReason(code="signal", detail=self._signal) if self._signal else None

    def _scope(self, *, sealed: bool = False) -> Scope:
        return self._effects.scope(trial=self.trial, sealed=sealed)

    def _read_sealed_test(self) -> None:
        if not self.directory.journal.sealed_read:
            why = codec(StopReason).encode(self.stopped or FINISHED)
            self.directory.journal.set_mark("sealed_read", canonical(why).decode())
