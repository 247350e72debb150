"""A PromptIter engine of one's own program as an app."""

import asyncio
import threading
from typing import TYPE_CHECKING

from burnish.compat.promptiter import Engine, RunRequest, read_request
from burnish.compat.promptiter.anatomy import Anatomy
from burnish.core.content import Json
from burnish.server.apps.asking import Asked, refuse_kind
from burnish.server.apps.engine_work import STRATEGY, EngineWork
from burnish.server.naming import check_app_name
from burnish.server.threads import LoopThread

if TYPE_CHECKING:
    from burnish.server.work import Work


class EngineApp:
    """An engine under a name. All its runs share one loop: what it holds belongs to that loop."""

    folder = None

    def __init__(self, name: str, engine: Engine) -> None:
        self.name = check_app_name(name)
        self.engine = engine
        self._thread: LoopThread | None = None
        self._lock = threading.Lock()

    def plan(self, request: Json) -> "Work":
        """Check a request in PromptIter's terms."""
        asked = Asked.read(request)
        if asked.kind != "promptiter":
            raise refuse_kind(asked.kind, self.name)
        return self.planned(read_request(asked.promptiter, strict=False)[0])

    def planned(self, request: RunRequest) -> EngineWork:
        """Check a request; its teacher and judge are live objects, which only this process has."""
        self.engine.check(request)
        return EngineWork(self.engine, request, thread=self._loop())

    def about(self) -> dict[str, Json]:
        """An engine."""
        return {"name": self.name, "kind": "engine", "strategy": STRATEGY, "promptiter": True}

    def structure(self) -> dict[str, Json]:
        """The structure of its target."""
        return Anatomy.of(self.engine.target).snapshot.to_json()

    async def close(self) -> None:
        """Close the engine in the loop that it lived in."""
        thread, self._thread = self._thread, None
        if thread is None:
            await self.engine.close()
            return
        await thread.submit(self.engine.close()).ended()
        thread.close()
        await asyncio.to_thread(thread.join)

    def _loop(self) -> LoopThread:
        with self._lock:  # requests are planned in several threads
            if self._thread is None:
                self._thread = LoopThread(f"engine-{self.name}")
            return self._thread
