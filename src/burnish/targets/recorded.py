"""A target that is only remembered: cases that carry what an agent once gave."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import NOTHING, Spend
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Description, Effects, Receipt
from burnish.core.surfaces import Candidate, Origin, Surface


@dataclass(frozen=True, kw_only=True)
class RecordedTarget:
    """Has nothing to edit and nothing to run: its cases are scored as they were recorded."""

    leaf: bool = True

    @property
    def description(self) -> Description:
        """What it is, as data."""
        return Description(kind="recorded")

    @property
    def surfaces(self) -> Sequence[Surface]:
        """None: what was recorded cannot be edited."""
        return ()

    @property
    def baseline(self) -> Candidate:
        """The one candidate there is."""
        return Candidate(values={}, origin=Origin(kind="baseline"))

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        """Nothing can be wrong with nothing."""
        del candidate
        return ()

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        """Refused: this case carries no recording."""
        del candidate, draw, effects
        raise ConfigError(
            [
                Problem(
                    where=case.id,
                    message="this case was not recorded, and there is no agent to run it",
                    remedy="give the recorded conversation, or an agent",
                )
            ]
        )

    def estimate(self, case: Case) -> Spend:
        """Nothing."""
        del case
        return NOTHING

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """There is nothing to adopt."""
        del candidate, home
        return {}
