"""The strategy `epochs`: measure the suite, change one text, keep the change if it is better."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from burnish.core.content import short_id
from burnish.core.errors import Problem
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import TextSurface
from burnish.core.trials import Trial
from burnish.runs.events import SearchEnded
from burnish.runs.requirements import require_baseline
from burnish.runs.run import Run
from burnish.runs.standing import BASELINE
from burnish.strategies.epochs.measuring import Measured, Measuring, runs_of
from burnish.strategies.epochs.proposing import EpochDetails
from burnish.strategies.epochs.settings import EpochSettings
from burnish.strategies.epochs.training import Training
from burnish.strategies.epochs.wording import TextGrad, TextGradRequest

VERSION = 1
AGAIN = "epoch"
"""The phase of the same texts measured once more."""


@dataclass(frozen=True, kw_only=True)
class Epochs:
    """Training of texts: an epoch a trial, one text an epoch.

    The first epoch measures the texts as they are. Each later one tries the most promising change
    on the whole suite. It stays when its gain clears the noise, against the best mean so far; else
    it is rolled back, and after a regression the next step is half as large. Without the role
    nothing is proposed, and the suite is measured again and again.
    """

    settings: EpochSettings = field(default_factory=EpochSettings)
    proposer: Role[TextGradRequest, TextGrad] | None = None
    name: str = "epochs"

    @property
    def fingerprint(self) -> str:
        """A hash of the settings that decide. How many epochs there may be is a budget."""
        settings = {k: v for k, v in self.settings.model_dump().items() if k != "epochs"}
        return short_id([VERSION, settings])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """Whoever proposes, if anybody does."""
        return [] if self.proposer is None else [self.proposer]

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """There must be texts to train."""
        if any(isinstance(surface, TextSurface) for surface in target.surfaces):
            return ()
        return [Problem(message="there is no text to train")]

    async def search(self, run: Run) -> None:
        """Epoch after epoch, until there is a reason to stop."""
        measuring = Measuring(run=run, settings=self.settings)
        if run.stop_reason(measuring.need) is not None:
            return
        start = await measuring.whole(run.target.baseline)
        _record_start(run, measuring, start, self.settings)
        most = self.settings.max_errored_fraction
        require_baseline(start.train, start.holdout, objective=run.objective, max_missing=most)
        if self.proposer is None:
            await self._measure_again(run, measuring)
            return
        training = Training(run, self.settings, measuring, self.proposer, start)
        epoch, reason = await training.go()
        if reason:
            _tell_end(run, epoch, reason)

    async def _measure_again(self, run: Run, measuring: Measuring) -> None:
        """The same texts under other draws: what is left is noise."""
        candidate, repeats = run.target.baseline, self.settings.repeats
        for epoch in range(2, self.settings.epochs + 1):
            if run.stop_reason(measuring.need) is not None:
                return
            found = await measuring.whole(candidate, draw=(epoch - 1) * repeats)
            run.record(
                Trial(
                    candidate=candidate,
                    phase=AGAIN,
                    cycle=epoch,
                    train=measuring.result(found.train),
                    holdout=measuring.result(found.holdout),
                    details=EpochDetails(
                        epoch=epoch, runs=runs_of(found.train, found.holdout)
                    ).to_json(),
                )
            )
        _tell_end(run, self.settings.epochs, "max_epochs")


def _record_start(run: Run, measuring: Measuring, start: Measured, settings: EpochSettings) -> None:
    details = EpochDetails(
        epoch=1,
        learning_rate=settings.learning_rate,
        runs=runs_of(start.train, start.holdout),
    )
    run.record(
        Trial(
            candidate=start.candidate,
            phase=BASELINE,
            cycle=1,
            train=measuring.result(start.train),
            holdout=measuring.result(start.holdout),
            details=details.to_json(),
        )
    )
    run.advance(start.candidate)


def _tell_end(run: Run, epoch: int, reason: str) -> None:
    """Say why the training ended by itself; with more epochs allowed it may end again."""
    run.tell(SearchEnded(cycle=epoch, reason=reason), f"epoch:{epoch}:{reason}")
