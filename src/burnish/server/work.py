"""What the manager drives: an app plans work for a request, and the work is driven to its end."""

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from burnish.core.content import Json
from burnish.server.places import Place
from burnish.server.stores.records import UNCHANGED, NewEvent, RunChanges, RunStatus
from burnish.server.threads import LoopThread


class Tell(Protocol):
    """Keeps an event of a run; may be called from any thread, and does not wait."""

    def __call__(self, event: NewEvent, changes: RunChanges = UNCHANGED, /) -> None:
        """Keep the event, and change the run with it."""
        ...


class StopSwitch:
    """Asks a run to stop after the trial in flight, from another thread than the run's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._why = ""
        self._obey: Callable[[str], None] | None = None

    @property
    def asked(self) -> bool:
        """Whether anybody has asked."""
        return bool(self._why)

    def ask(self, why: str) -> None:
        """Ask; a run that cannot hear it yet is told as soon as it can."""
        with self._lock:
            self._why, obey = self._why or why, self._obey
        if obey is not None:
            obey(why)

    def when_asked(self, obey: Callable[[str], None]) -> None:
        """What the run does when it is asked; called from any thread."""
        with self._lock:
            self._obey, why = obey, self._why
        if why:
            obey(why)


@dataclass(frozen=True, kw_only=True)
class Order:
    """What work is given when it is driven."""

    run_id: str
    place: Place
    tell: Tell
    stop: StopSwitch = field(default_factory=StopSwitch)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How work ended; `queued` where it can go on later."""

    status: RunStatus
    result: Json = None
    error: str = ""
    best_score: float | None = None


class Work(Protocol):
    """A run that was found good and can be driven."""

    @property
    def strategy(self) -> str:
        """How it searches."""
        ...

    @property
    def spec(self) -> Mapping[str, Json]:
        """The description that the run is built from; empty where a program has built it."""
        ...

    @property
    def thread(self) -> LoopThread | None:
        """The loop that it must run in; None for one of its own."""
        ...

    async def drive(self, order: Order) -> Ended:
        """Begin or go on, to the end. BurnishError where it fails; cancelled, it can go on."""
        ...

    def so_far(self) -> Json:
        """The result of a run that was stopped."""
        ...

    async def drop(self) -> None:
        """Let go of what was opened for it, where it is not driven after all."""
        ...


class App(Protocol):
    """Something that can run, under a name."""

    @property
    def name(self) -> str:
        """What requests call it."""
        ...

    @property
    def folder(self) -> Path | None:
        """Where its file lies; None where a program made it."""
        ...

    def plan(self, request: Json) -> Work:
        """The work that a request asks for; ConfigError with all that is wrong. Pays nothing.

        May block: it is called in a worker thread.
        """
        ...

    def about(self) -> dict[str, Json]:
        """What it is, for lists."""
        ...

    def structure(self) -> dict[str, Json]:
        """Its nodes and surfaces, in PromptIter's shape; ConfigError where it has none."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


def entered(thread: LoopThread | None, name: str) -> AbstractContextManager[LoopThread]:
    """The thread to run in: one that stays, or one that ends with the run."""
    return LoopThread(name) if thread is None else nullcontext(thread)
