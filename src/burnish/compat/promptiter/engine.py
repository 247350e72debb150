"""The engine of PromptIter."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from burnish.compat.optimizer.base import surely
from burnish.compat.promptiter.evaluation import EVALSET_RESULTS, EvalResultFiles, EvaluationStack
from burnish.compat.promptiter.observer import Collector, Delivery, ObserverFailed
from burnish.compat.promptiter.plan import RunDefaults, RunPlan, Stages
from burnish.compat.promptiter.requests import RunRequest, tightened
from burnish.compat.promptiter.results import Observer, RunResult, RunStatus
from burnish.compat.promptiter.shapes import Snapshot
from burnish.compat.promptiter.snapshot import SurfaceMap
from burnish.compat.promptiter.stages import Aggregator, Backwarder, ModelStage, Optimizer
from burnish.compat.promptiter.translation import Patience, Translator
from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError, ConfigError, Interrupted, Problem
from burnish.core.money import Spend
from burnish.core.protocols import Target
from burnish.core.trials import FINISHED
from burnish.journal.limits import Budget
from burnish.models.references import ModelRef
from burnish.projects.evaluate import is_closable
from burnish.projects.measurements import threshold_of
from burnish.reports.rendering import write_report
from burnish.runs.directory import NAME as HEADER
from burnish.runs.driver import Ending, drive
from burnish.runs.events import PRUNE
from burnish.runs.run import Run
from burnish.runs.setup import RESULTS, Furnish, Setup, resume, start

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

    def check(self, request: RunRequest) -> None:
        """Raise ConfigError with all problems of a request, without calling any model."""
        run = _EngineRun(self._plan(request))
        run.plan.setup(run.collector).check()

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
        if ending.best.origin.kind == PRUNE:  # after the last round
            profile = self.plan.surface_map.profile(ending.best)
            self.collector.changed(accepted_profile=profile)
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
