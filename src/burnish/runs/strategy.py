"""The protocol of a strategy: how candidates are proposed and pursued."""

from collections.abc import Sequence
from typing import Any, Protocol

from burnish.core.errors import Problem
from burnish.core.protocols import Role, Target
from burnish.runs.run import Run


class Strategy(Protocol):
    """Plain async code over a Run.

    It holds no clients, opens no files, and sees budgets only through `run.stop_reason`.
    Once that gives a reason, it records nothing more: a trial is finished or dropped whole.
    Whatever it decides on comes from the run, so that running it again over the same journal
    makes the same decisions. That is all there is to resume.
    """

    @property
    def name(self) -> str:
        """What the command line and run.json call it."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of its settings and version."""
        ...

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """The roles it asks."""
        ...

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """What it needs that the target does not have."""
        ...

    async def search(self, run: Run) -> None:
        """Search until there is a reason to stop."""
        ...
