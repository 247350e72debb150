"""Merges: when one is due, which, and whether it holds its own on a few telling cases."""

from dataclasses import replace

from burnish.core.candidates import Candidate, diff
from burnish.core.cases import Split
from burnish.runs.run import Run
from burnish.strategies.reflective.attempts import MERGE, Attempt
from burnish.strategies.reflective.heats import Heat
from burnish.strategies.reflective.merging import as_good_as, mergeable, merged, telling_cases
from burnish.strategies.reflective.pool import Lineage, Pool
from burnish.strategies.reflective.racing import Stopped
from burnish.strategies.reflective.settings import ReflectiveSettings


class Merges:
    """Makes one candidate of two, as often as is allowed."""

    def __init__(self, run: Run, settings: ReflectiveSettings, pool: Pool) -> None:
        self._run = run
        self._settings = settings
        self._pool = pool
        self._made: set[str] = set()
        self.due = False
        """Whether someone came into the pool since it was last looked at."""

    def next(self, number: int) -> tuple[Lineage, Candidate] | None:
        """A merge, if one is due and two candidates have something to give to each other."""
        allowed = self._settings.merge and len(self._made) < self._settings.max_merges
        if not (allowed and self.due):
            return None
        self.due = False
        rng = self._run.rng("merge", number)
        found = mergeable(self._pool, overlap=self._settings.merge_overlap)
        rng.shuffle(found)
        for lineage in found:
            candidate = merged(lineage, rng)
            if candidate.id not in self._made and not self._pool.holds(candidate):
                self._made.add(candidate.id)
                return lineage, candidate
        return None

    def attempt(self, number: int, lineage: Lineage, candidate: Candidate) -> Attempt:
        """The merge as an attempt; of its two parents, the better is the first."""
        better = lineage.better
        other = next(each for each in lineage.pair if each is not better)
        return Attempt(
            kind=MERGE,
            round=number,
            parents=(better.candidate, other.candidate),
            candidate=candidate,
            fields=tuple(change.surface for change in diff(better.candidate, candidate)),
        )

    async def held_its_own(self, attempt: Attempt, lineage: Lineage) -> Attempt:
        """In the classic loop, a merge must be no worse than either side on a few cases."""
        if attempt.over or attempt.candidate is None or self._settings.racing:
            return attempt
        run, repeats = self._run, self._settings.repeats
        rng = run.rng("merge cases", attempt.round)
        few = telling_cases(lineage, run.dataset.holdout, run.objective, rng)
        if run.stop_reason(run.estimate(Split.HOLDOUT, cases=few, repeats=repeats)) is not None:
            raise Stopped
        found = await run.evaluate(
            attempt.candidate, split=Split.HOLDOUT, cases=few, repeats=repeats
        )
        sides = [each.holdout.only({case.id for case in few}) for each in lineage.pair]
        held = as_good_as(found, sides, run.objective)
        return replace(attempt, heat=Heat(evaluation=found, whole=False), decision=held)
