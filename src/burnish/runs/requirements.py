"""What a run must have to be worth its name: a measured baseline, and proposers that answer."""

from collections import Counter

from burnish.core.comparisons import unmeasured
from burnish.core.errors import BaselineUnmeasured, ProposerFailed
from burnish.core.evaluations import Evaluation
from burnish.core.objectives import Objective

GIVE_UP_AFTER = 3
"""Failures of a role that never answered, after which nothing more is expected of it."""


def require_baseline(
    *sides: Evaluation | None, objective: Objective, max_missing: float, primary: str = ""
) -> None:
    """Raise BaselineUnmeasured where nothing could be compared with the baseline.

    `sides` are its evaluations, one a split; `primary` is what is compared where that is not
    the loss.
    """
    for side in sides:
        if side is None:
            continue
        why = unmeasured(side, objective, max_missing=max_missing, primary=primary)
        if why:
            raise BaselineUnmeasured(
                f"the baseline could not be measured: {why}",
                remedy="nothing can be compared with it, so nothing was tried. Mend what is "
                "missing, then start a new run that asks for it again: "
                "--fork RUN --retry-missing",
            )


class Answering:
    """How the roles of a run answer, counted as they are asked: a replay counts the same."""

    def __init__(self) -> None:
        self._answers = Counter[str]()
        self._failures = Counter[str]()
        self._last: dict[str, str] = {}

    def count(self, role: str, failure: str = "") -> None:
        """Count what came back from a role: an answer, or why there is none."""
        if failure:
            self._failures[role] += 1
            self._last[role] = failure
        else:
            self._answers[role] += 1

    @property
    def silent(self) -> tuple[str, ...]:
        """The roles that were asked and never gave a usable answer, in the order of asking."""
        return tuple(role for role in self._failures if not self._answers[role])

    def words(self, role: str) -> str:
        """What is wrong with a role that is silent."""
        return f"the {role} never gave a usable answer: {self._last[role]}"

    def require(self, *roles: str, after: int) -> None:
        """Raise ProposerFailed where one of these is silent after so many questions."""
        for role in self.silent:
            if role in roles and self._failures[role] >= after:
                raise self.failed(role)

    def failed(self, role: str) -> ProposerFailed:
        """The error of a run whose proposer is silent."""
        return ProposerFailed(
            self.words(role),
            remedy="mend its model or settings, then start a new run that asks again: "
            "--fork RUN --retry-missing",
        )
