"""Whether the roles answer at all: a search whose proposers are dumb fails, and says so."""

from collections import Counter
from collections.abc import Iterable

from burnish.core.errors import ProposerFailed
from burnish.core.trials import Proposal

GIVE_UP_AFTER = 3
"""Failures of a role that never answered, after which the run fails."""


class Answering:
    """Counts answers and failures of the roles without which nothing can be proposed."""

    def __init__(self, *roles: str) -> None:
        self._roles = roles
        self._answers = Counter[str]()
        self._failures = Counter[str]()
        self._last: dict[str, str] = {}

    def hear(self, proposals: Iterable[Proposal]) -> None:
        """Count what came back; what was never sent does not count."""
        for proposal in proposals:
            if proposal.request is None:
                continue
            if proposal.error:
                self._failures[proposal.role] += 1
                self._last[proposal.role] = proposal.error
            else:
                self._answers[proposal.role] += 1

    def require_answers(self) -> None:
        """Raise when a role that is needed has never given an answer."""
        for role in self._roles:
            if not self._answers[role] and self._failures[role] >= GIVE_UP_AFTER:
                raise ProposerFailed(
                    f"the {role} never gave a usable answer: {self._last[role]}",
                    remedy="mend its model or settings, then start a new run that asks again: "
                    "--fork RUN --retry-missing",
                )
