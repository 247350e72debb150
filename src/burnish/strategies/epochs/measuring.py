"""One epoch: the whole suite run under one candidate, and what the ledger keeps of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from burnish.core.candidates import Candidate
from burnish.core.cases import Split
from burnish.core.content import Json
from burnish.core.evaluations import CaseResult, Evaluation
from burnish.core.money import Spend
from burnish.core.trials import SplitResult
from burnish.runs.run import Run
from burnish.strategies.epochs.settings import EpochSettings


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A candidate with what is known of it."""

    candidate: Candidate
    train: Evaluation
    holdout: Evaluation | None = None
    loss: float | None = None
    """The mean over train."""


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """Runs the suite."""

    run: Run
    settings: EpochSettings

    @property
    def need(self) -> Spend:
        """What an epoch may cost."""
        repeats = self.settings.repeats
        splits = (Split.TRAIN, Split.HOLDOUT)
        train, holdout = (self.run.estimate(split, repeats=repeats) for split in splits)
        return train + holdout

    async def split(self, candidate: Candidate, split: Split, *, draw: int = 0) -> Evaluation:
        """The suite, or its holdout, as often as it is repeated."""
        repeats = self.settings.repeats
        return await self.run.evaluate(candidate, split=split, repeats=repeats, draw=draw)

    async def whole(self, candidate: Candidate, *, draw: int = 0) -> Measured:
        """Both splits."""
        train = await self.split(candidate, Split.TRAIN, draw=draw)
        held = None
        if self.run.dataset.holdout:
            held = await self.split(candidate, Split.HOLDOUT, draw=draw)
        loss = self.run.objective.measure(train).loss
        return Measured(candidate=candidate, train=train, holdout=held, loss=loss)

    def result(self, evaluation: Evaluation | None) -> SplitResult | None:
        """For the ledger."""
        return None if evaluation is None else SplitResult.of(evaluation, self.run.objective)


def runs_of(*evaluations: Evaluation | None) -> tuple[Mapping[str, Json], ...]:
    """What the ledger keeps of each run of a task."""
    return tuple(
        _run(result, evaluation.split)
        for evaluation in evaluations
        if evaluation is not None
        for result in evaluation.results
    )


def _run(result: CaseResult, split: Split) -> dict[str, Json]:
    told = result.outcome.data if isinstance(result.outcome.data, dict) else {}
    score = next((each for each in result.scores), None)
    loss = None if score is None or score.value is None else round(1 - score.value, 6)
    return {
        "run_id": told.get("run_id"),
        "task": result.case,
        "draw": result.draw,
        "split": split.value,
        "loss": loss,
        "status": told.get("status") or ("missing" if result.outcome.missing else "failed"),
        "parts": {} if score is None else dict(score.details),
    }
