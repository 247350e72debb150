"""The strategy `delegate`: do one task once, and record what came of it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from burnish.core.cases import Split
from burnish.core.content import short_id
from burnish.core.errors import Problem
from burnish.core.protocols import Role, Target
from burnish.core.trials import SplitResult, Trial
from burnish.runs.events import SearchEnded
from burnish.runs.run import Run
from burnish.runs.standing import BASELINE
from burnish.targets.delegation.chronicle import Listener
from burnish.targets.delegation.delegating import Delegation, Site, delegate
from burnish.targets.delegation.endings import ending_words
from burnish.targets.delegation.envelope import Stopwatch
from burnish.targets.delegation.outcomes import Account
from burnish.targets.delegation.result import DelegationResult


class Delegate:
    """One trial: the task, delegated in the run's own folder.

    A delegation is a run like any other, so it is journaled, listed, resumed and compared like one.
    """

    name = "delegate"

    def __init__(
        self,
        delegation: Delegation,
        *,
        listen: Listener | None = None,
        stop: Callable[[], str] = lambda: "",
        ended: Callable[[DelegationResult], str] = lambda _: "",
    ) -> None:
        self.delegation = delegation
        self.listen = listen
        """Is told what happens, on a replay too."""
        self._stop = stop
        self._ended = ended
        """Is shown the result once it is on record."""
        self.notice = ""
        """What became of the result then, in words."""
        self.result: DelegationResult | None = None
        """What came of it, once the search is over."""

    @property
    def fingerprint(self) -> str:
        """A hash of its version; what is delegated is the target's and the data's."""
        return short_id([self.name, 1])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """It proposes nothing; the roles of the workflow are its own."""
        return ()

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """It brings its own target."""
        del target
        return ()

    async def search(self, run: Run) -> None:
        """Delegate, and record the loss."""
        directory = run.directory
        self.result = result = await run.perform(
            lambda scope: delegate(
                self.delegation,
                Site(
                    folder=directory.folder,
                    effects=scope,
                    children=directory.children,
                    redactor=directory.redactor,
                    clock=Stopwatch(directory.journal.active_before),
                    billed=lambda: run.billed,
                    listen=self.listen,
                    stop=lambda: self._stop() or run.stop_words(),
                ),
            )
        )
        outcome = Account(result=result, workflow=self.delegation.workflow).outcome()
        (case,) = run.dataset.train
        start = run.target.baseline
        measured = await run.evaluate(
            start, split=Split.TRAIN, cases=(replace(case, recorded=outcome),)
        )
        train = SplitResult.of(measured, run.objective)
        run.record(Trial(candidate=start, phase=BASELINE, train=train))
        run.tell(SearchEnded(reason=_ending(result)), f"delegation:{result.status}")
        self.notice = self._ended(result)


def _ending(result: DelegationResult) -> str:
    if result.reason == result.status:
        return result.status
    return f"{result.status}, {ending_words(result.reason)}"
