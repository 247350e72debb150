"""Learning from train: losses, the walk back, and what it says of each surface."""

from collections.abc import Collection
from dataclasses import replace

from burnish.core.evaluations import Evaluation
from burnish.core.money import Spend
from burnish.core.outcomes import Trace
from burnish.core.protocols import Role
from burnish.core.structures import Structure
from burnish.evaluation.failure_classes import FailureClass, failure_class
from burnish.runs.run import Run
from burnish.strategies.backprop.losses import Losses, chosen, trace_of
from burnish.strategies.backprop.merging import Merger
from burnish.strategies.backprop.rounds import Round
from burnish.strategies.backprop.settings import BackpropSettings
from burnish.strategies.backprop.walking import Backwards
from burnish.strategies.backprop.wording import (
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergeRequest,
)


class Learner:
    """Fills a round with what its evaluation of train teaches."""

    def __init__(
        self,
        run: Run,
        settings: BackpropSettings,
        backwarder: Role[BackwardRequest, BackwardAnswer],
        aggregator: Role[MergeRequest, MergeAnswer],
        *,
        targets: Collection[str],
        structure: Structure | None,
    ) -> None:
        self._run = run
        self._settings = settings
        self._surfaces = [surface.id for surface in run.target.surfaces]
        self._cases = {case.id: case for case in run.dataset.train}
        self._losses = Losses(
            cases=self._cases,
            weighted=run.objective.weights,
            thresholds={
                metric.name: bar
                for metric in run.setup.metrics
                if isinstance(bar := getattr(metric, "threshold", None), float | int)
            },
            hints=settings.loss_hints,
            targets=settings.loss_targets,
        )
        self._backwards = Backwards(
            run,
            backwarder,
            targets=targets,
            structure=structure,
            parallel=settings.backward_parallelism,
        )
        self._merger = Merger(
            run,
            aggregator,
            structure=structure,
            parallel=settings.aggregation_parallelism,
            single=settings.merge_single,
        )

    def with_losses(self, found: Round) -> Round:
        """The round with its losses, or those of a few cases where so many are enough."""
        losses = self._losses.of(found.train, self._surfaces)
        most = self._settings.cases_per_round
        cases = sorted({loss.case for loss in losses})
        if most is not None and len(cases) > most:
            losses = chosen(losses, self._run.rng("cases", found.number).sample(cases, most))
        return replace(
            found,
            losses=tuple(losses),
            missing=_missing(found.train),
            classes=self._classes(found),
            lost=tuple(self._losses.unplaced(found.train, self._surfaces)),
        )

    def need(self, found: Round) -> Spend:
        """What the walk back costs at least."""
        return self._backwards.need(found.losses, self._traces(found), found.parent)

    async def walked(self, found: Round, *, draw: int) -> Round:
        """The round with what the walk back says."""
        back = await self._backwards.walked(
            found.losses, self._traces(found), found.parent, draw=draw
        )
        return replace(
            found,
            gradients=back.gradients,
            lost=(*found.lost, *back.lost),
            proposals=back.proposals,
        )

    async def merged(self, found: Round, *, draw: int) -> Round:
        """The round with what is said of each surface."""
        merged = await self._merger.merged(found.gradients, found.parent, draw=draw)
        return replace(
            found,
            merged=merged.surfaces,
            lost=(*found.lost, *merged.lost),
            proposals=(*found.proposals, *merged.proposals),
        )

    def _classes(self, found: Round) -> dict[str, FailureClass]:
        """By case, the kind of failure; the first repeat that failed speaks for the case."""
        classes: dict[str, FailureClass] = {}
        for result in sorted(found.train.results, key=lambda each: (each.case, each.draw)):
            if scores := self._losses.failures(result):
                kind = failure_class(self._cases[result.case], result, scores)
                classes.setdefault(result.case, kind)
        return classes

    def _traces(self, found: Round) -> dict[tuple[str, int], Trace]:
        return {
            (result.case, result.draw): trace_of(result, self._cases[result.case], self._surfaces)
            for result in found.train.results
        }


def _missing(train: Evaluation) -> tuple[str, ...]:
    """The cases that teach nothing: a score is missing, or there is none at all."""
    gone = set(train.missing_cases(train.metrics))
    gone |= {r.case for r in train.results if not r.scores and not r.outcome.failed}
    return tuple(case for case in train.cases if case in gone)
