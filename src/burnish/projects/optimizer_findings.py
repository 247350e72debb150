"""Everything that is to be said of an optimizer block before the start: errors and notes."""

from dataclasses import dataclass, field

from burnish.core.errors import Problem
from burnish.projects.gathering import Gathering, Keys
from burnish.projects.optimizer_block import AT
from burnish.projects.overrides import flag_of


@dataclass(kw_only=True)
class Findings(Gathering):
    """What is wrong with a block, each with its line, and what its user should know."""

    notes: list[str] = field(default_factory=list[str])

    def wrong(self, at: Keys, message: str, remedy: str = "", *, flag: str = "") -> None:
        """Keep a problem of the block; of a flag, where a flag has said it."""
        where = flag_of(flag) if flag else self.place((*AT, *at))
        self.problems.append(Problem(where=where, message=message, remedy=remedy))

    def note(self, message: str) -> None:
        """Keep what the user should know before the start."""
        self.notes.append(message)
