"""The strategy `measure`: evaluate what is there, propose nothing."""

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

from burnish.core.cases import Split
from burnish.core.content import short_id
from burnish.core.errors import Problem
from burnish.core.evaluations import CaseResult, Evaluation
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import Candidate, Origin, Value, out_of_bounds
from burnish.core.trials import SplitResult, Trial
from burnish.runs.run import Run


class Measure:
    """One trial: the baseline over all cases, as often as asked.

    A measurement is a run like any other, so it is journaled, limited and resumed like one.
    """

    name = "measure"
    searches = False

    def __init__(
        self,
        *,
        repeats: int = 1,
        noise: bool = False,
        subject: str = "",
        values: Mapping[str, Value] | None = None,
    ) -> None:
        self.repeats = repeats
        self.noise = noise
        """Whether the repeats are read as one agent measured against itself."""
        self.subject = subject
        """What reports call the measured agent."""
        self.values = values or {}
        """Values of surfaces in place of those that the target has."""
        self.evaluation: Evaluation | None = None
        """What was measured, once the search is over."""

    @property
    def fingerprint(self) -> str:
        if not self.values:
            return short_id(["measure", 1, self.repeats])
        return short_id(["measure", 1, self.repeats, Candidate(values=self.values).id])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        return ()

    def mismatch(self, target: Target) -> Sequence[Problem]:
        return out_of_bounds(self.values, {each.id: each for each in target.surfaces})

    def candidate(self, target: Target) -> Candidate:
        """What is measured."""
        start = target.baseline
        return start.child(self.values, origin=Origin(kind="named")) if self.values else start

    async def search(self, run: Run) -> None:
        run.incumbent = self.candidate(run.target)  # nobody else's answers stand in for its own
        if run.stop_reason(run.estimate(Split.TRAIN, repeats=self.repeats)) is not None:
            return
        results = await self._results(run)
        if results is None:
            return
        start = run.incumbent
        evaluation = Evaluation(candidate=start.id, split=Split.TRAIN, results=results)
        self.evaluation = evaluation
        measured = SplitResult.of(evaluation, run.objective)
        run.record(Trial(candidate=start, phase="baseline", train=measured))

    async def _results(self, run: Run) -> tuple[CaseResult, ...] | None:
        """All of them; None when there was a reason to stop before the end."""
        whole = self.repeats * len(run.dataset.train)
        results: list[CaseResult] = []
        blocks = run.blocks(
            run.incumbent,
            split=Split.TRAIN,
            repeats=self.repeats,
            block_size=16,  # between two looks at limits and signals
            look_ahead=15,  # so that nobody waits at the end of a block
        )
        async with aclosing(blocks) as parts:
            async for part in parts:
                results += part.results
                if len(results) < whole and run.stop_reason() is not None:
                    return None
        return tuple(results)
