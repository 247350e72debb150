"""Strands: lines of work, such as tasks and threads, and how they fork and join.

A context variable is copied silently when a task starts. So a new strand is recognised when a
context is used by someone other than its owner. The open ends of a finished strand pass to the
strand that started it.
"""

import asyncio
import threading
import weakref
from collections.abc import Iterable
from itertools import takewhile
from typing import Any, Generic, TypeVar, cast

_Task = asyncio.Task[Any]
_Loop = asyncio.AbstractEventLoop
Head = TypeVar("Head")
"""The type of a recorded step."""


class Strand(Generic[Head]):
    """One line of work, in which one step follows the other."""

    def __init__(
        self, owner: object, heads: tuple[Head, ...] = (), loop: _Loop | None = None
    ) -> None:
        self._owner = weakref.ref(owner)
        self._task = isinstance(owner, asyncio.Task)
        self.loop = owner.get_loop() if isinstance(owner, asyncio.Task) else loop
        self.heads = heads
        """The open ends: what comes right before the next step."""
        self.covered: set[Head] = set()
        """What steps of this strand, and of those it joined, come after."""
        self.children: list[Strand[Head]] = []
        """Strands begun from here that may go on."""
        self.joined: list[Strand[Head]] = []
        """Strands begun from here that have ended, in the order in which that was seen."""
        self.taken: tuple[Head, ...] = ()
        """Its open ends that were taken over already."""
        self.taken_at = 0
        """When that was, in settlings of the strand it was begun from."""
        self.settled = 0
        """How often it was looked for strands that are over."""
        self.forked = False
        """Whether it was begun from another one."""
        self.open = 0
        """How many of its steps are under way."""
        self.last = 0
        """When its last step ended, on the recorder's clock."""
        self.carried: bool | None = None
        """Whether a carried function is still running; None where there is none."""

    def begin(self, child: "Strand[Head]") -> None:
        """Register a strand that starts here."""
        child.forked = True
        self.children.append(child)

    def is_owned_by(self, owner: object) -> bool:
        """Whether this is its task or thread."""
        return self._owner() is owner

    @property
    def ended(self) -> bool:
        """Whether no more steps can come."""
        if self.carried is not None:
            return not self.carried
        task = self._owner()
        return self._task and (task is None or (isinstance(task, asyncio.Task) and task.done()))

    @property
    def over(self) -> bool:
        """Whether it seems to have ended: a thread counts as over when its steps have ended."""
        if self.carried is None and not self._task:
            return not self.open
        return self.ended

    def settle(self) -> None:
        """Take over the open ends of the child strands that are over."""
        going: list[Strand[Head]] = []
        self.settled += 1
        for child in self.children:
            if not child.over:
                going.append(child)
                continue
            self._join(child)
            if child.ended:
                self.joined.append(child)
                for grandchild in child.children:
                    grandchild.taken_at = self.settled
                going += child.children
            else:
                going.append(child)
        self.children = going

    def _join(self, child: "Strand[Head]") -> None:
        child.settle()
        self.covered |= child.covered
        new = [record for record in child.heads if record not in child.taken]
        own = open_ends(self.heads, child.covered)
        self.heads = tuple(dict.fromkeys((*own, *open_ends(new, self.covered))))
        if new:
            child.taken, child.taken_at = child.heads, self.settled

    def unknown_at(self, settled: int) -> "list[Strand[Head]]":
        """The strands that are over but were not fully taken over at that settling."""
        late = takewhile(lambda child: child.taken_at > settled, reversed(self.joined))
        return [
            child
            for child in (*reversed(list(late)), *self.children)
            if child.over and (child.taken_at > settled or child.taken != child.heads)
        ]


def open_ends(heads: Iterable[Head], covered: set[Head]) -> tuple[Head, ...]:
    """Drop duplicates and what something else already follows."""
    return tuple(dict.fromkeys(record for record in heads if record not in covered))


def current_owner() -> object:
    """The current task, else the thread."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        task = None
    return task or threading.current_thread()


class Births:
    """Which tasks existed when a step ended.

    A task that did not exist yet started later, so it may follow the step; one that existed but
    waited only began its first step later.
    """

    def __init__(self) -> None:
        self._seen: weakref.WeakKeyDictionary[_Task, int] = weakref.WeakKeyDictionary()

    def look(self, loop: _Loop | None, now: int) -> None:
        """Note the tasks that exist now."""
        if loop is not None:
            for task in asyncio.all_tasks(loop):
                self._seen.setdefault(task, now)

    def after(self, owner: object, strand: Strand[Any]) -> bool:
        """Whether this task started after the last step of a strand had ended."""
        if not isinstance(owner, asyncio.Task):
            return False
        seen = self._seen.get(cast("_Task", owner))
        return seen is None or seen > strand.last
