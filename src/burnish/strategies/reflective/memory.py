"""What a search remembers: how each candidate did on train, what was said, what was turned down."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from burnish.core.cases import Case
from burnish.core.evaluations import CaseResult, Evaluation, mean
from burnish.core.objectives import Objective
from burnish.strategies.reflective.records import Reply, score_of

REMEMBERED = 3
"""Rewrites turned down that the reflector is told of."""


@dataclass(frozen=True, kw_only=True)
class TurnedDown:
    """A rewrite that brought nothing."""

    diagnosis: str
    reason: str


@dataclass
class Memory:
    """Grows as the search goes on; the same again on a replay."""

    objective: Objective
    train: dict[str, dict[str, list[CaseResult]]] = field(
        default_factory=lambda: defaultdict[str, dict[str, list[CaseResult]]](dict)
    )
    """By candidate and case, every run on train."""
    replies: dict[str, list[Reply]] = field(
        default_factory=lambda: defaultdict[str, list[Reply]](list)
    )
    """By case, what was said, the best first."""
    turned_down: dict[tuple[str, str], list[TurnedDown]] = field(
        default_factory=lambda: defaultdict[tuple[str, str], list[TurnedDown]](list)
    )
    """By parent and field."""

    def saw(self, evaluation: Evaluation) -> None:
        """Remember runs on train."""
        known = self.train[evaluation.candidate]
        for result in evaluation.results:
            runs = known.setdefault(result.case, [])
            if any(run.draw == result.draw for run in runs):
                continue
            runs.append(result)
            score = score_of(result, self.objective)
            if score is not None and result.outcome.output:
                replies = self.replies[result.case]
                replies.append(Reply(score=score, text=result.outcome.output))
                replies.sort(key=lambda reply: -reply.score)

    def draws(self, candidate: str, cases: Sequence[Case]) -> int:
        """The first draw that none of these cases has been run under."""
        runs = [run for case in cases for run in self.train[candidate].get(case.id, ())]
        return max((run.draw for run in runs), default=-1) + 1

    def failing(self, candidate: str, *, below: float) -> set[str]:
        """The train cases on which a candidate is known to score less than this."""
        found: set[str] = set()
        for case, runs in self.train[candidate].items():
            scores = [score_of(run, self.objective) for run in runs]
            known = [score for score in scores if score is not None]
            if known and mean(known) < below:
                found.add(case)
        return found

    def best_replies(self, case: str, most: int, *, besides: str = "") -> list[Reply]:
        """The best things said to a case, each once, other than what is said now."""
        each = {reply.text: reply for reply in self.replies[case][::-1] if reply.text != besides}
        return list(each.values())[::-1][:most]

    def rejections(self, parent: str, name: str) -> str:
        """What was turned down lately, one a line."""
        told = self.turned_down[parent, name][-REMEMBERED:]
        return "\n".join(f"- {each.diagnosis} → {each.reason}" for each in told) or "(none)"
