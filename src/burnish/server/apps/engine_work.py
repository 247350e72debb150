"""A run of a PromptIter engine as work for the manager."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from burnish.compat.promptiter import Engine, RunRequest, RunResult, RunStatus
from burnish.core.content import Json
from burnish.runs.opening import Furnish
from burnish.runs.stoppers import STOP_FILE
from burnish.server.apps.engine_pieces import Pieces
from burnish.server.stores import records
from burnish.server.threads import LoopThread
from burnish.server.work import Ended, Order

STRATEGY = "backprop"


class EngineWork:
    """A request that an engine found good."""

    strategy = STRATEGY

    def __init__(
        self,
        engine: Engine,
        request: RunRequest,
        *,
        thread: LoopThread | None = None,
        owned: bool = False,
    ) -> None:
        self._engine = engine
        self._request = request
        self._owned = owned
        self._latest: Json = None
        self.thread = thread
        self.spec: Mapping[str, Json] = {}

    def so_far(self) -> Json:
        """The rounds that were finished."""
        return self._latest

    async def drive(self, order: Order) -> Ended:
        """Begin or go on."""
        order.place.fetch()
        pieces, states = Pieces(order.tell), [RunResult()]

        def progress(result: RunResult) -> None:
            states[0] = result
            if not order.stop.asked:  # what a stop leaves open is told when the run goes on
                pieces(result)

        order.stop.when_asked(_touch(order.place.folder))
        try:
            result = await self._run(order, progress, order.place.furnish)
        finally:
            (order.place.folder / STOP_FILE).unlink(missing_ok=True)
            # Here, in the run's own thread: a large result takes a while.
            self._latest = states[0].to_json()
            await self.drop()
        return self._ended(result, stopped=order.stop.asked)

    async def _run(
        self, order: Order, progress: Callable[[RunResult], None], furnish: Furnish
    ) -> RunResult:
        # What a killed service had asked for is not asked for any more.
        (order.place.folder / STOP_FILE).unlink(missing_ok=True)
        return await self._engine.run(
            self._request, run_dir=order.place.folder, progress=progress, furnish=furnish
        )

    def _ended(self, result: RunResult, *, stopped: bool) -> Ended:
        cut = result.burnish is not None and result.burnish.get("EndedBecause") == "stop_file"
        if result.status is RunStatus.CANCELED:
            raise asyncio.CancelledError
        if stopped and cut:
            return Ended(status=records.RunStatus.QUEUED)
        status = records.RunStatus(result.status.value)
        return Ended(status=status, result=self._latest, error=result.error_message)

    async def drop(self) -> None:
        """Close an engine that was made for this run."""
        if self._owned:
            await self._engine.close()


def _touch(folder: Path) -> Callable[[str], None]:
    """Stop through the file that every run looks for."""

    def ask(why: str) -> None:
        del why
        if folder.is_dir():
            (folder / STOP_FILE).touch()

    return ask
