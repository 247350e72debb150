"""Targets without surfaces, and one that only replays recorded cases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.cases import Case, Outcome
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Description, Effects, Receipt
from burnish.core.surfaces import Candidate, Origin, Surface


@dataclass(frozen=True, kw_only=True)
class FixedTarget:
    """A target with nothing to edit."""

    leaf: bool = True

    @property
    def surfaces(self) -> Sequence[Surface]:
        return ()

    @property
    def baseline(self) -> Candidate:
        return Candidate(values={}, origin=Origin(kind="baseline"))

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        del candidate
        return ()

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        del candidate, home
        return {}


@dataclass(frozen=True, kw_only=True)
class RecordedTarget(FixedTarget):
    """Has nothing to run: its cases are scored as recorded."""

    @property
    def description(self) -> Description:
        return Description(kind="recorded")

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        """Refuse the case, because it has no recording."""
        del candidate, draw, effects
        message = "this case was not recorded, and there is no agent to run it"
        remedy = "give the recorded conversation, or an agent"
        raise ConfigError([Problem(where=case.id, message=message, remedy=remedy)])

    def estimate(self, case: Case) -> Spend:
        del case
        return NOTHING
