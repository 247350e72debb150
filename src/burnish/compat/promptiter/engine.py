"""The engine of PromptIter: it runs a request, collects the result and informs an observer."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from burnish.compat.optimizer.base import surely
from burnish.compat.promptiter.evaluation import EVALSET_RESULTS, EvalResultFiles, EvaluationStack
from burnish.compat.promptiter.plan import RunDefaults, RunPlan, Stages
from burnish.compat.promptiter.requests import RunRequest, tightened
from burnish.compat.promptiter.results import (
    AcceptanceDecision,
    AggregationResult,
    BackwardResult,
    EvaluationResult,
    Event,
    EventKind,
    Observer,
    Payload,
    RoundCompleted,
    RoundResult,
    RunResult,
    RunStatus,
    StopDecision,
)
from burnish.compat.promptiter.shapes import PatchSet, Snapshot
from burnish.compat.promptiter.snapshot import SurfaceMap
from burnish.compat.promptiter.stages import Aggregator, Backwarder, ModelStage, Optimizer
from burnish.compat.promptiter.translation import (
    NO_LOSSES,
    Patience,
    RoundContext,
    Translator,
    acceptance,
    additions,
    chosen,
)
from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError, ConfigError, Interrupted, Problem
from burnish.core.evaluations import Evaluation, Objective
from burnish.core.money import Spend
from burnish.core.protocols import Target
from burnish.core.trials import FINISHED
from burnish.journal.limits import Budget
from burnish.models.references import ModelRef
from burnish.projects.measurements import threshold_of
from burnish.reports.rendering import write_report
from burnish.runs.directory import NAME as HEADER
from burnish.runs.driver import Ending, drive
from burnish.runs.evaluation import is_closable
from burnish.runs.events import Event as RunEvent
from burnish.runs.events import Tick
from burnish.runs.run import Run
from burnish.runs.setup import RESULTS, Furnish, Setup, resume, start
from burnish.strategies.backprop.rounds import Attempt, Round
from burnish.strategies.backprop.search import Stage, StageBegun

# -- The observer ----------------------------------------------------------------------------------


class ObserverFailed(BurnishError):
    """An observer raised an exception, which ends the run; it can be resumed."""

    def __init__(self, event: Event, error: Exception) -> None:
        super().__init__(f'append run event "{event.kind.value}": {error}')


class Delivery:
    """Delivers events in order; an async observer gets the next one when it has finished."""

    def __init__(self, observer: Observer | None) -> None:
        self._observer = observer
        self._last: asyncio.Task[None] | None = None
        self._counts: dict[str, int] = {}
        self.run: Run | None = None
        self.failed: ObserverFailed | None = None
        self.abort: Callable[[], object] = lambda: None
        """Ends the run when an async observer fails."""

    def deliver(self, event: Event, *, fresh: bool) -> None:
        """Deliver an event after the earlier ones, unless an earlier session already did.

        `fresh` says that the run reaches this stage for the first time.
        """
        run, key = self.run, self._key(event)
        if self._observer is None or run is None or self.failed is not None:
            return
        if (run.replaying and not fresh) or run.directory.journal.mark(key) is not None:
            return
        try:
            answer = self._observer(event)
        except Exception as error:  # the user's own, which ends the run
            self.failed = ObserverFailed(event, error)
            raise self.failed from error
        if inspect.isawaitable(answer):
            self._last = asyncio.ensure_future(self._delivered(self._last, event, answer, run, key))
        else:
            run.directory.journal.set_mark(key, "heard")

    async def settled(self) -> None:
        """Wait for all deliveries; raises if an observer failed."""
        if self._last is not None:
            await self._last
        if self.failed is not None:
            raise self.failed

    async def drop(self) -> None:
        """Cancel the pending delivery."""
        if self._last is not None:
            self._last.cancel()
            with suppress(asyncio.CancelledError):
                await self._last

    def _key(self, event: Event) -> str:
        """A unique key; with several candidates, a round repeats some stages."""
        name = f"observer:{event.round}:{event.kind.value}"
        self._counts[name] = place = self._counts.get(name, 0) + 1
        return f"{name}:{place}"

    async def _delivered(
        self,
        before: "asyncio.Task[None] | None",
        event: Event,
        answer: Awaitable[None],
        run: Run,
        key: str,
    ) -> None:
        if before is not None:
            await before
        if self.failed is not None:
            if inspect.iscoroutine(answer):
                answer.close()  # or Python warns that nobody awaited it
            return
        try:
            await answer
        except Exception as error:  # noqa: BLE001 - the user's own, told by the run
            self.failed = ObserverFailed(event, error)
            self.abort()
        else:
            run.directory.journal.set_mark(key, "heard")


_DOING: dict[EventKind, str] = {
    EventKind.STRUCTURE_SNAPSHOT: "evaluate baseline validation: ",
    EventKind.BASELINE_VALIDATION: "evaluate baseline validation: ",
    EventKind.ROUND_STARTED: "evaluate train round {}: ",
    EventKind.ROUND_TRAIN_EVALUATION: "extract train losses round {}: ",
    EventKind.ROUND_LOSSES: "backward round {}: ",
    EventKind.ROUND_BACKWARD: "aggregate round {}: ",
    EventKind.ROUND_AGGREGATION: "optimize round {}: ",
    EventKind.ROUND_PATCH_SET: "apply patches round {}: ",
    EventKind.ROUND_OUTPUT_PROFILE: "evaluate validation round {}: ",
}
"""The prefix of errors after each stage, as in PromptIter."""


@dataclass(kw_only=True)
class Collector:
    """Builds the result of one run; on a replay it reports only new stages."""

    translator: Translator
    context: RoundContext
    patience: Patience
    objective: Objective
    delivery: Delivery
    result: RunResult
    progress: Callable[[RunResult], None] | None = None
    files: EvalResultFiles | None = None
    _fresh: bool = False
    _stage: EventKind | None = None
    _attempts: list[Attempt] = field(default_factory=list[Attempt])
    _tried: list[Attempt] = field(default_factory=list[Attempt])
    _leading: Evaluation | None = None

    def event(self, event: RunEvent) -> None:
        if event.read(StageBegun):
            self._fresh = True

    def tick(self, tick: Tick) -> None:
        """PromptIter has no event for a case."""

    def __call__(self, stage: Stage, subject: Round | Attempt | Evaluation | None, /) -> None:
        kind, fresh = EventKind(stage), self._fresh
        self._fresh = False
        self._stage = kind
        announced, payload = self._payload_of(kind, subject)
        if self.progress is not None:
            self.progress(self.result)
        if announced:
            event = Event(kind=kind, round=self.result.current_round, payload=payload)
            self.delivery.deliver(event, fresh=fresh)

    @property
    def doing(self) -> str:
        if self._stage is None:
            return ""
        return _DOING.get(self._stage, "").format(self.result.current_round)

    def changed(self, **fields: Any) -> RunResult:
        """Update fields of the result."""
        self.result = self.result.model_copy(update=fields)
        return self.result

    def stopped(self, reason: str) -> None:
        """Record that the run ended although its last round had not stopped it."""
        if not self.result.rounds:
            return
        last = self.result.rounds[-1]
        if last.acceptance is None and self._tried:
            self._show_chosen(chosen(self._tried))
            self._round(acceptance=acceptance(chosen(self._tried), self.objective))
        if last.stop is None or not last.stop.should_stop:
            self._round(stop=StopDecision(should_stop=True, reason=reason))

    def _payload_of(
        self, kind: EventKind, subject: Round | Attempt | Evaluation | None
    ) -> tuple[bool, Payload]:
        """Whether the stage is reported to observers, and its payload."""
        if isinstance(subject, Attempt):
            return self._of_attempt(kind, subject)
        if isinstance(subject, Round):
            return True, self._of_round(kind, subject)
        if isinstance(subject, Evaluation):
            self._leading = subject
            self.changed(baseline_validation=self._measured(subject, "baseline"))
            return True, self.result.baseline_validation
        if kind is EventKind.STRUCTURE_SNAPSHOT:
            return True, self.result.structure
        self._attempts, self._tried = [], []
        number = self.result.current_round + 1
        new = RoundResult(round=number, input_profile=self.result.accepted_profile)
        self.changed(current_round=number, rounds=(*self.result.rounds, new))
        return True, None

    def _of_round(self, kind: EventKind, current: Round) -> Payload:
        self.context.round = current
        translator = self.translator
        match kind:
            case EventKind.ROUND_TRAIN_EVALUATION:
                train = self._measured(current.train, f"round{current.number}_train")
                self._round(
                    train=train, input_profile=translator.surface_map.profile(current.parent)
                )
                return train
            case EventKind.ROUND_LOSSES:
                losses = translator.losses(current)
                self._round(losses=losses, burnish=self._added(current) or None)
                return losses
            case EventKind.ROUND_BACKWARD:
                backward = translator.backward(current)
                self._round(backward=backward)
                return backward
            case EventKind.ROUND_AGGREGATION:
                aggregation = translator.aggregation(current)
                self._round(aggregation=aggregation)
                return aggregation
            case _:
                return self._nothing_failed(current)

    def _nothing_failed(self, current: Round) -> RoundCompleted:
        """A round without losses has empty stages and is not validated again."""
        why = NO_LOSSES
        if current.missing:
            why = f"{NO_LOSSES}: {len(current.missing)} cases are missing"
        self._round(
            backward=BackwardResult(),
            aggregation=AggregationResult(),
            patches=PatchSet(),
            output_profile=self.result.rounds[-1].input_profile,
        )
        stop = StopDecision(should_stop=True, reason=why)
        return self._completed(AcceptanceDecision(reason=why), stop)

    def _of_attempt(self, kind: EventKind, attempt: Attempt) -> tuple[bool, Payload]:
        surface_map = self.translator.surface_map
        match kind:
            case EventKind.ROUND_PATCH_SET:
                self._attempts.append(attempt)
                patches = surface_map.patches(attempt.patches)
                if len(self._attempts) == 1:
                    self._round(patches=patches)
                return True, patches
            case EventKind.ROUND_OUTPUT_PROFILE:
                profile = surface_map.profile(attempt.candidate)
                if not self._tried:
                    self._round(output_profile=profile)
                return True, profile
            case EventKind.ROUND_VALIDATION:
                return attempt.holdout is not None, self._validated(attempt)
            case _:
                return self._decided(attempt)

    def _validated(self, attempt: Attempt) -> EvaluationResult | None:
        self._tried.append(attempt)
        if attempt.holdout is None:
            return None
        place = "" if len(self._attempts) == 1 else f"_{len(self._tried)}"
        stage = f"round{attempt.round.number}_validation{place}"
        result = self._measured(attempt.holdout, stage)
        if len(self._tried) == 1:
            self._round(validation=result)
        return result

    def _decided(self, attempt: Attempt) -> tuple[bool, Payload]:
        if attempt.decision is not None and attempt.decision.accepted:
            self._leading = attempt.holdout
            self.changed(accepted_profile=self.translator.surface_map.profile(attempt.candidate))
        if len(self._tried) < len(self._attempts):
            return False, None
        shown = chosen(self._tried)
        self._show_chosen(shown)
        leader = self._leading
        score = None if leader is None else self.objective.measure(leader).score
        stop = self.patience.after(attempt.round.number, self._tried, score)
        self._round(burnish=self._added(attempt.round))
        return True, self._completed(acceptance(shown, self.objective), stop)

    def _show_chosen(self, shown: Attempt) -> None:
        """Show the accepted candidate if the round has several."""
        if shown is self._tried[0] or shown.holdout is None:
            return
        surface_map = self.translator.surface_map
        self._round(
            patches=surface_map.patches(shown.patches),
            output_profile=surface_map.profile(shown.candidate),
            validation=self.translator.evaluation(shown.holdout),
        )

    def _completed(self, accepted: AcceptanceDecision, stop: StopDecision) -> RoundCompleted:
        self._round(acceptance=accepted, stop=stop)
        return RoundCompleted(
            accepted=accepted.accepted,
            acceptance_reason=accepted.reason,
            score_delta=accepted.score_delta,
            should_stop=stop.should_stop,
            stop_reason=stop.reason,
        )

    def _round(self, **fields: Any) -> None:
        *done, last = self.result.rounds
        self.changed(rounds=(*done, last.model_copy(update=fields)))

    def _added(self, current: Round) -> dict[str, Json]:
        named = self.translator.surface_map.name_of
        return additions(current, self._tried, self.objective, named)

    def _measured(self, evaluation: Evaluation, stage: str) -> EvaluationResult:
        result = self.translator.evaluation(evaluation)
        if self.files is not None:
            self.files.write(result, stage)
        return result


# -- The engine ------------------------------------------------------------------------------------


_Progress: TypeAlias = Callable[[RunResult], None]
"""Called with the result so far after every stage, also for stages of earlier sessions."""


class PromptIterEngine:
    """Runs PromptIter on a burnish target.

    Each of the three stages is a model name (`openai:gpt-4o`), what `backwarder`, `aggregator` or
    `optimizer` returns, or an object with PromptIter's method.
    """

    def __init__(
        self,
        target: Target,
        evaluation: EvaluationStack,
        *,
        backwarder: Backwarder | ModelStage | ModelRef | str | None,
        aggregator: Aggregator | ModelStage | ModelRef | str | None,
        optimizer: Optimizer | ModelStage | ModelRef | str | None,
        budget: Budget | None = None,
        defaults: RunDefaults | None = None,
    ) -> None:
        """`budget` applies to every run: a request can tighten it. It can override `defaults`."""
        self.target = target
        self.evaluation = evaluation
        self.budget = budget or Budget()
        self.defaults = defaults or RunDefaults()
        self.stages = Stages(backwarder=backwarder, aggregator=aggregator, optimizer=optimizer)
        if problems := list(self.stages.problems()):
            raise ConfigError(problems)

    async def describe(self) -> Snapshot:
        """The structure of the target, with everything that can be edited."""
        return SurfaceMap.of(self.target).snapshot

    def tightened(self, request: RunRequest) -> RunRequest:
        """A client's request with its limits cut to those of this engine."""
        usual = self.defaults
        operator = {
            "budget": vars(self.budget),
            "execution": {"concurrency": usual.concurrency},
            "strategy": {"settings": usual.settings.model_dump(exclude_unset=True)},
        }
        return tightened(request, operator)

    def check(self, request: RunRequest, *, new: bool = False) -> None:
        """Raise ConfigError with all problems of a request, without calling any model.

        The limits of a `new` run must pay for its baseline.
        """
        run = _EngineRun(self._plan(request))
        run.plan.setup(run.collector).check(new=new)

    async def run(
        self,
        request: RunRequest,
        *,
        observer: Observer | None = None,
        run_dir: str | Path | None = None,
        progress: _Progress | None = None,
        furnish: Furnish | None = None,
    ) -> RunResult:
        """Optimize the target.

        A wrong request raises ConfigError before any file is written or paid call is made. A
        failed run returns a result that says so, with the finished rounds. `run_dir` is a new
        folder, or that of an earlier run of the same request, which is then resumed; the default
        is a new folder in the output folder. `furnish` may add files to a new folder before it
        appears, such as the location of the journal.
        """
        run = _EngineRun(self._plan(request), observer, progress)
        return await run.drive(None if run_dir is None else Path(run_dir), furnish)

    async def close(self) -> None:
        """Close the target and the models."""
        if is_closable(self.target):
            await self.target.close()
        await self.evaluation.models.close()

    def _plan(self, request: object) -> RunPlan:
        if not isinstance(request, RunRequest):
            message = f"expected a RunRequest, found {type(request).__name__}"
            raise ConfigError([Problem(where="request", message=message)])
        return RunPlan.of(
            request, self.target, self.stages, self.evaluation, self.budget, self.defaults
        )


class _EngineRun:
    """One run of the engine."""

    def __init__(
        self,
        plan: RunPlan,
        observer: Observer | None = None,
        progress: _Progress | None = None,
    ) -> None:
        self.plan = plan
        self.delivery = Delivery(observer)
        assets = plan.assets
        self.collector = Collector(
            translator=Translator(
                surface_map=plan.surface_map,
                origins=assets.origins,
                cases={c.id: c for c in (*assets.dataset.train, *assets.dataset.holdout)},
            ),
            context=plan.context,
            patience=Patience(request=plan.request),
            objective=plan.objective,
            delivery=self.delivery,
            progress=progress,
            result=RunResult(
                app_name=plan.stack.app_name,
                status=RunStatus.RUNNING,
                structure=plan.surface_map.snapshot,
                accepted_profile=plan.surface_map.profile(plan.start),
            ),
        )

    async def drive(self, folder: Path | None, furnish: Furnish | None) -> RunResult:
        """Open the run, run it to its end, close it."""
        plan, collector = self.plan, self.collector
        root = plan.stack.output_dir or RESULTS
        run = _opened(plan.setup(collector), folder, root, furnish)
        header = run.directory.header
        self.delivery.run = run
        collector.changed(id=header.id)
        collector.files = EvalResultFiles(
            folder=_results_folder(plan.stack.output_dir, run.directory.folder),
            app_name=plan.stack.app_name,
            run_id=header.id,
            thresholds={
                metric.name: threshold
                for metric in plan.assets.metrics
                if (threshold := threshold_of(metric)) is not None
            },
            at=datetime.fromisoformat(header.started_at).timestamp(),
        )
        run.listen(collector)
        try:
            await self._search(run)
        finally:
            await surely(self._close(run))
            if collector.progress is not None:
                collector.progress(collector.result)
        return collector.result

    async def _search(self, run: Run) -> None:
        """A failure is part of the result; cancellation and bugs are raised too."""
        work = asyncio.ensure_future(drive(run))
        self.delivery.abort = work.cancel
        try:
            ending = await work
            await self.delivery.settled()
            self._finish(run, ending)
        except Interrupted:
            self._cancel()
            raise
        except BurnishError as error:
            self._fail(run, error)
        except asyncio.CancelledError:
            if self.delivery.failed is not None:
                self._fail(run, self.delivery.failed)
                return
            self._cancel()
            raise
        except Exception as error:  # the run's record says how it ended
            self._fail(run, BurnishError(f"{type(error).__name__}: {error}"))
            raise

    def _finish(self, run: Run, ending: Ending) -> None:
        if ending.interrupted:
            self._cancel()
        else:
            self.collector.changed(status=RunStatus.SUCCEEDED)
        if ending.reason != FINISHED:
            self.collector.stopped(f"{ending.reason.code}: {ending.reason.detail}")
        facts: dict[str, Json] = {
            "Folder": str(run.directory.folder),
            "EndedBecause": ending.reason.code,
            "Best": ending.best.id,
            "Spent": codec(Spend).encode(ending.spent),
            "Billed": codec(Spend).encode(ending.billed),
        }
        self.collector.changed(burnish=facts)

    def _cancel(self) -> None:
        self.collector.changed(status=RunStatus.CANCELED, error_message="run canceled")

    def _fail(self, run: Run, error: BurnishError) -> None:
        doing = "" if isinstance(error, ObserverFailed) else self.collector.doing
        message = run.directory.redactor.text(f"{doing}{error.message}")
        self.collector.changed(status=RunStatus.FAILED, error_message=message)

    async def _close(self, run: Run) -> None:
        await self.delivery.drop()
        await run.close()
        write_report(run.directory.folder)


def _results_folder(output_dir: Path | None, run: Path) -> Path:
    return run / EVALSET_RESULTS if output_dir is None else output_dir.absolute()


def _opened(setup: Setup, folder: Path | None, root: Path, furnish: Furnish | None) -> Run:
    # The agent may change the working directory.
    if folder is None:
        return start(setup, root=root.absolute(), furnish=furnish)
    home = folder.absolute()
    is_run = (home / HEADER).exists()
    return resume(setup, home) if is_run else start(setup, folder=home, furnish=furnish)
