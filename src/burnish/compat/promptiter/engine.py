"""The engine: describes a target, and runs PromptIter's rounds on it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from burnish.compat.optimizer.base import surely
from burnish.compat.promptiter.evaluation import EvalResultFiles, EvaluationStack
from burnish.compat.promptiter.observer import Collector, Delivery, ObserverFailed
from burnish.compat.promptiter.plan import RunDefaults, RunPlan, Stages, cases_of
from burnish.compat.promptiter.requests import RunRequest
from burnish.compat.promptiter.results import Observer, RunResult, RunStatus
from burnish.compat.promptiter.shapes import Snapshot
from burnish.compat.promptiter.snapshot import SurfaceMap
from burnish.compat.promptiter.stage_models import ModelStage
from burnish.compat.promptiter.stages import Aggregator, Backwarder, Optimizer
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
from burnish.runs.run import Run
from burnish.runs.setup import Furnish, Setup, resume, start

_Progress: TypeAlias = Callable[[RunResult], None]
"""Is given the whole result so far after every stage, those of an earlier session too."""
_CANCELED = "run canceled"


@dataclass(frozen=True, kw_only=True)
class _Listeners:
    """Whom a run tells what."""

    observer: Observer | None = None
    progress: _Progress | None = None


class PromptIterEngine:
    """PromptIter on a target of burnish.

    The three stages are models by name (`openai:gpt-4o`), what `backwarder`, `aggregator` and
    `optimizer` make, or objects with PromptIter's own methods.
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
        """`budget` holds for every run: a request can make its limits stricter, not wider.

        `defaults` hold where a request says nothing.
        """
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

    def check(self, request: RunRequest) -> None:
        """Raise everything that is wrong with a request. Calls nobody."""
        _EngineRun(self._plan(request), _Listeners()).setup.check()

    async def run(
        self,
        request: RunRequest,
        *,
        observer: Observer | None = None,
        run_dir: str | Path | None = None,
        progress: _Progress | None = None,
        furnish: Furnish | None = None,
    ) -> RunResult:
        """Optimise, and say what came of it.

        A wrong request raises ConfigError before anything is written or paid. A run that fails
        gives a result that says so, with the rounds that were finished. `run_dir` is a new
        folder, or that of an earlier run of the same request, which is then gone on with;
        without it the run gets a folder of its own in the output folder. `furnish` may put more
        into a new folder before it appears, such as where the journal lies.
        """
        plan = self._plan(request)
        folder = None if run_dir is None else Path(run_dir)
        engine_run = _EngineRun(plan, _Listeners(observer=observer, progress=progress))
        return await engine_run.driven(folder, furnish)

    async def close(self) -> None:
        """Let go of the target and of models."""
        if is_closable(self.target):
            await self.target.close()
        await self.evaluation.models.close()

    def _plan(self, request: object) -> RunPlan:
        if not isinstance(request, RunRequest):
            message = f"a RunRequest is wanted, found {type(request).__name__}"
            raise ConfigError([Problem(where="request", message=message)])
        return RunPlan.of(
            request, self.target, self.stages, self.evaluation, self.budget, self.defaults
        )


class _EngineRun:
    """One run of the engine."""

    def __init__(self, plan: RunPlan, listeners: _Listeners) -> None:
        self._plan = plan
        self._delivery = Delivery(listeners.observer)
        surface_map, assets = plan.surface_map, plan.assets
        self._collector = Collector(
            translator=Translator(
                surface_map=surface_map, origins=assets.origins, cases=cases_of(assets.dataset)
            ),
            context=plan.context,
            patience=Patience(request=plan.request),
            objective=plan.objective,
            delivery=self._delivery,
            progress=listeners.progress,
            result=RunResult(
                app_name=plan.stack.app_name,
                status=RunStatus.RUNNING,
                structure=surface_map.snapshot,
                accepted_profile=surface_map.profile(plan.start),
            ),
        )

    @property
    def setup(self) -> Setup:
        """Everything the run is made of."""
        return self._plan.setup(self._collector)

    async def driven(self, folder: Path | None, furnish: Furnish | None = None) -> RunResult:
        """Open the run, drive it to its end, close it."""
        run = _opened(self.setup, folder, self._plan.stack.output_dir, furnish)
        header = run.directory.header
        self._delivery.run = run
        self._collector.changed(id=header.id)
        self._collector.files = EvalResultFiles(
            folder=self._plan.stack.output_dir.absolute(),
            app_name=self._plan.stack.app_name,
            run_id=header.id,
            thresholds={
                metric.name: bar
                for metric in self._plan.assets.metrics
                if (bar := threshold_of(metric)) is not None
            },
            at=datetime.fromisoformat(header.started_at).timestamp(),
        )
        run.listen(self._collector)
        try:
            await self._ended(run)
        finally:
            await surely(self._closed(run))
            self._report()
        return self._collector.result

    async def _ended(self, run: Run) -> None:
        """Search. What a run fails of is in its result; cancellation and bugs are raised too."""
        work = asyncio.ensure_future(drive(run))
        self._delivery.abort = work.cancel
        try:
            ending = await work
            await self._delivery.settled()
            self._finished(run, ending)
        except Interrupted:
            self._collector.changed(status=RunStatus.CANCELED, error_message=_CANCELED)
            raise
        except BurnishError as error:
            self._failed(run, error)
        except asyncio.CancelledError:
            if self._delivery.failed is not None:
                self._failed(run, self._delivery.failed)
                return
            self._collector.changed(status=RunStatus.CANCELED, error_message=_CANCELED)
            raise
        except Exception as error:
            self._failed(run, BurnishError(f"{type(error).__name__}: {error}"))
            raise

    def _finished(self, run: Run, ending: Ending) -> None:
        collector = self._collector
        if ending.interrupted:
            collector.changed(status=RunStatus.CANCELED, error_message=_CANCELED)
        else:
            collector.changed(status=RunStatus.SUCCEEDED)
        if ending.reason != FINISHED:
            collector.stopped(f"{ending.reason.code}: {ending.reason.detail}")
        collector.changed(burnish=_ending(run, ending))

    def _failed(self, run: Run, error: BurnishError) -> None:
        doing = "" if isinstance(error, ObserverFailed) else self._collector.doing
        message = run.directory.redactor.text(f"{doing}{error.message}")
        self._collector.changed(status=RunStatus.FAILED, error_message=message)

    async def _closed(self, run: Run) -> None:
        await self._delivery.dropped()
        await run.close()
        write_report(run.directory.folder)

    def _report(self) -> None:
        if self._collector.progress is not None:
            self._collector.progress(self._collector.result)


def _opened(setup: Setup, folder: Path | None, root: Path, furnish: Furnish | None) -> Run:
    """The run to go on with, or a new one."""
    # The agent may change the folder that the program stands in.
    if folder is None:
        return start(setup, root=root.absolute(), furnish=furnish)
    home = folder.absolute()
    is_run = (home / HEADER).exists()
    return resume(setup, home) if is_run else start(setup, folder=home, furnish=furnish)


def _ending(run: Run, ending: Ending) -> dict[str, Json]:
    return {
        "Folder": str(run.directory.folder),
        "EndedBecause": ending.reason.code,
        "Best": ending.best.id,
        "Spent": codec(Spend).encode(ending.spent),
        "Billed": codec(Spend).encode(ending.billed),
    }
