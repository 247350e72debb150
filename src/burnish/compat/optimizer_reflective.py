"""The algorithms of burnish behind AgentOptimizer: reflective search, on a run in `output_dir`."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from burnish.compat.optimizer_base import BaseOptimizer
from burnish.compat.optimizer_checks import check_folder
from burnish.compat.optimizer_closing import surely
from burnish.compat.optimizer_errors import as_wrong_input
from burnish.compat.optimizer_events import GepaEvents
from burnish.compat.optimizer_setup import Prepared, prepared
from burnish.compat.optimizer_showing import Reporter
from burnish.compat.optimizer_state import SearchState, Voice
from burnish.compat.optimizer_stopping import by_label
from burnish.core.errors import BurnishError, ConfigError, Interrupted, Problem
from burnish.reports.report import write_report
from burnish.runs.driving import drive
from burnish.runs.events import RunBroken, RunEnded, RunFailed
from burnish.runs.header import NAME as HEADER
from burnish.runs.opening import resume, start
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.strategies.reflective.result import OptimizeResult
from burnish.strategies.reflective.result_files import RoundFiles
from burnish.system.redaction import MARKER


@dataclass(kw_only=True)
class ReflectiveOptimizer(BaseOptimizer):
    """Reflective search: with racing as `reflective`, without as `gepa_reflective`.

    A run that is in `output_dir` already is gone on with: what it paid for is not paid again, and
    one that had finished gives its result again.
    """

    found: Mapping[str, str] = field(default_factory=dict[str, str], init=False)
    """The best texts, with nothing taken out of them."""

    async def run(self, *, reporter: Reporter | None = None) -> OptimizeResult:
        """Optimise; the prompts are back as they were before this returns or raises."""
        check_folder(self.folder)
        state, voice = SearchState(), Voice()
        ready = await prepared(self, by_label(self.extra_stop_callbacks, state, voice))
        self.baseline = {name: str(v) for name, v in ready.setup.target.baseline.values.items()}
        run = await _opened(ready.setup, self.folder)
        voice.run = run
        redactor = run.directory.redactor
        files = RoundFiles(self.folder, baseline=self.baseline, redactor=redactor)
        state.catch_up(self.folder)
        events = GepaEvents(
            callbacks=self.extra_gepa_callbacks,
            folder=self.folder,
            state=state,
            voice=voice,
            baseline=self.baseline,
            limit=ready.setup.budget.max_metric_calls,
        )
        shown = reporter or Reporter(verbose=0)
        try:
            with shown.watching(self.folder, ready.setup.budget) as views:
                for listener in (files, events, *views):
                    run.listen(listener)
                await self._driven(run, ready)
        finally:
            result = await self._closed(run, files)
        return result

    async def _closed(self, run: Run, files: RoundFiles) -> OptimizeResult:
        """Put the prompts back, then write what is known, also where that went wrong."""
        trouble = ""
        try:
            await surely(run.close())
        except BurnishError as error:
            trouble = str(error)
            raise
        finally:
            result = files.finish(trouble=trouble)
            write_report(self.folder)
        return result

    async def _driven(self, run: Run, ready: Prepared) -> None:
        """Search. What a run fails of is in its result; what is a bug, or an end, is raised."""
        try:
            await ready.tell_begin()
            ending = await drive(run)
            await ready.tell_end()
            self.found = {name: str(value) for name, value in ending.best.values.items()}
        except Interrupted:
            raise
        except BurnishError as error:
            # One that the run did not tell by itself, such as that of a callback.
            _tell_end(run, RunFailed(reason=str(error)))
        except (asyncio.CancelledError, KeyboardInterrupt):
            _tell_end(run, RunBroken(reason="it was cancelled"))
            raise
        except Exception as error:
            _tell_end(run, RunFailed(reason=f"{type(error).__name__}: {error}"))
            raise

    def best_texts(self, result: OptimizeResult) -> Mapping[str, str]:
        """The best texts as they were measured; refused where a secret was taken out of one."""
        spoiled = [
            name
            for name, text in self.found.items()
            if MARKER in text and MARKER not in self.baseline[name]
        ]
        if spoiled:
            told = "a secret was taken out of its best text, which would be lost in the source"
            remedy = "put `${VAR}` in its place, or copy best_prompts by hand"
            raise ConfigError([Problem(where=n, message=told, remedy=remedy) for n in spoiled])
        return self.found or result.best_prompts


def _tell_end(run: Run, ended: RunEnded) -> None:
    """Say how the session ended, unless the run itself has."""
    run.tell(ended, f"session:{run.directory.journal.session}:failed")


async def _opened(setup: Setup, folder: Path) -> Run:
    """The run to go on with, or a new one; where there is none, nothing is left open."""
    try:
        with as_wrong_input():
            is_run = (folder / HEADER).exists()
            return resume(setup, folder) if is_run else start(setup, folder=folder)
    except BaseException:
        for resource in setup.resources:
            await resource.close()
        raise
