"""Looks at train: which cases a parent is shown at its worst, and how a candidate does on them."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from burnish.core.candidates import Candidate
from burnish.core.cases import Case, Split
from burnish.core.evaluations import Evaluation
from burnish.core.money import Spend
from burnish.core.surfaces import EPSILON
from burnish.effects.executors import together
from burnish.runs.run import Run
from burnish.strategies.reflective.memory import Memory
from burnish.strategies.reflective.minibatches import minibatch
from burnish.strategies.reflective.settings import ReflectiveSettings

Minibatch: TypeAlias = tuple[Case, ...]


class Train:
    """Looks at candidates on a few cases of train, several side by side.

    Each proposal of a round has a slot. What one slot sees and chooses may not depend on which
    of them is faster: all choose before any looks, and results are taken in the slots' order.
    """

    def __init__(self, run: Run, settings: ReflectiveSettings, memory: Memory) -> None:
        self._run = run
        self._settings = settings
        self._memory = memory
        self._cases = run.dataset.train
        self._looked: dict[int, int] = {}
        """By slot, how many minibatches were taken."""

    @property
    def in_a_pass(self) -> int:
        """Minibatches in which every case is looked at."""
        return -(-len(self._cases) // self._settings.minibatch)

    @property
    def need(self) -> Spend:
        """What one look costs."""
        batch = self._cases[: self._settings.minibatch]
        return self._run.estimate(Split.TRAIN, cases=batch, repeats=self._settings.repeats)

    async def instructive(
        self, parents: Sequence[Candidate], number: int, *, room: Callable[[int], None]
    ) -> list[tuple[Minibatch, Evaluation]]:
        """The next minibatches; where results are used again, the next that teach something.

        `number` is the round; `room` is called before so many look once more.
        """
        found: dict[int, tuple[Minibatch, Evaluation]] = {}
        for looks in range(self.in_a_pass):
            slots = [n for n in range(len(parents)) if n not in found or self._dull(found[n][1])]
            if not slots:
                break
            if looks:
                room(len(slots))
            batches = [self._batch(parents[slot], number, slot) for slot in slots]
            ours = [parents[slot] for slot in slots]
            seen = await self.look(list(zip(ours, batches, strict=True)))
            found |= dict(zip(slots, zip(batches, seen, strict=True), strict=True))
        return [found[slot] for slot in range(len(parents))]

    async def look(self, looks: Sequence[tuple[Candidate, Minibatch]]) -> list[Evaluation]:
        """How candidates do; a new draw each time, unless what was seen is used again."""
        found = await together(
            self._run.evaluate(
                candidate,
                split=Split.TRAIN,
                cases=batch,
                repeats=self._settings.repeats,
                draw=0 if self._settings.reuse else self._memory.draws(candidate.id, batch),
            )
            for candidate, batch in looks
        )
        for each in found:
            self._memory.saw(each)
        return found

    def perfect(self, evaluation: Evaluation) -> bool:
        """Whether every case is as good as it has to be; what is missing is not."""
        bar = self._settings.perfect_score - EPSILON
        scores = [self._run.objective.case_score(evaluation, case) for case in evaluation.cases]
        return all(score is not None and score >= bar for score in scores)

    def teaches_nothing(self, parent: Candidate) -> bool:
        """Whether every case was looked at, none is known to fail, and no look would be new."""
        if not (self._settings.reuse and self._settings.skip_perfect):
            return False
        seen = self._memory.train[parent.id]
        return all(case.id in seen for case in self._cases) and not self._failing(parent)

    def _failing(self, parent: Candidate) -> set[str]:
        return self._memory.failing(parent.id, below=self._settings.perfect_score - EPSILON)

    def _dull(self, before: Evaluation) -> bool:
        """Whether to look at another minibatch: a look that was had before costs nothing."""
        return self._settings.reuse and self._settings.skip_perfect and self.perfect(before)

    def _batch(self, parent: Candidate, number: int, slot: int) -> Minibatch:
        return self._known_failures(parent, number, slot) or self._next(slot)

    def _known_failures(self, parent: Candidate, number: int, slot: int) -> Minibatch:
        """Every other time, where results are used again, only cases that are known to fail."""
        rng = self._run.rng("failures", number, slot)
        if not self._settings.reuse or rng.random() < 0.5:
            return ()
        failing = self._failing(parent)
        known = [case for case in self._cases if case.id in failing]
        size = self._settings.minibatch
        return tuple(rng.sample(known, size)) if len(known) >= size else ()

    def _next(self, slot: int) -> Minibatch:
        # Each slot has minibatches of its own: which comes first may not depend on who is faster.
        looked = self._looked.get(slot, 0)
        self._looked[slot] = looked + 1
        return minibatch(
            self._cases,
            self._settings.minibatch,
            looked * self._settings.proposals_per_round + slot,
            lambda number: self._run.rng("minibatches", number),
        )
