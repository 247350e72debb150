"""A target around another one: all that is not said otherwise is the other's."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from burnish.core.candidates import Candidate
from burnish.core.cases import Case
from burnish.core.effects import Receipt, Scope
from burnish.core.errors import Problem
from burnish.core.money import Spend
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Description, Target, held
from burnish.core.surfaces import Surface


@dataclass(frozen=True, kw_only=True)
class AroundTarget:
    """Another target, as it is."""

    target: Target

    @property
    def description(self) -> Description:
        """The other's."""
        return self.target.description

    @property
    def surfaces(self) -> Sequence[Surface]:
        """The other's."""
        return self.target.surfaces

    @property
    def baseline(self) -> Candidate:
        """The other's."""
        return self.target.baseline

    @property
    def leaf(self) -> bool:
        """The other's."""
        return self.target.leaf

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        """The other's."""
        return self.target.check(candidate)

    def estimate(self, case: Case) -> Spend:
        """The other's."""
        return self.target.estimate(case)

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """The other's."""
        return self.target.export(candidate, home)

    def held(self, candidate: Candidate) -> AbstractAsyncContextManager[object]:
        """The candidate's turn, where the other takes turns."""
        return held(self.target, candidate)

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Scope
    ) -> Receipt[Outcome]:
        """The other's."""
        return await self.target.run(candidate, case, draw=draw, effects=effects)
