"""A target that starts from another candidate than its own values."""

from dataclasses import dataclass

from burnish.compat.around import AroundTarget
from burnish.compat.promptiter.anatomy import Anatomy
from burnish.core.candidates import Candidate
from burnish.core.structures import Structure


@dataclass(frozen=True, kw_only=True)
class StartingFrom(AroundTarget):
    """Another target, whose baseline is what the initial profile says."""

    anatomy: Anatomy
    start: Candidate

    @property
    def baseline(self) -> Candidate:
        """What the profile says."""
        return self.start

    @property
    def structure(self) -> Structure:
        """The other's, or one node where it has none."""
        return self.anatomy.structure
