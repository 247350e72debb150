"""Decisions of a round in PromptIter's words, and what burnish adds to them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from burnish.compat.promptiter.requests import RunRequest
from burnish.compat.promptiter.results import AcceptanceDecision, StopDecision
from burnish.core.case_changes import CaseChanges
from burnish.core.codec import codec
from burnish.core.comparisons import Pair, compare
from burnish.core.content import Json
from burnish.core.objectives import Objective
from burnish.core.surfaces import EPSILON
from burnish.strategies.backprop.packets import Lost, MergedGradient
from burnish.strategies.backprop.rounds import Attempt, Round

ACCEPTED = "candidate score gain satisfies acceptance policy"
REJECTED = "candidate score gain does not satisfy acceptance policy"
LAST_ROUND = "max rounds reached"
PATIENCE = "max rounds without acceptance reached"
GOOD_ENOUGH = "target score reached"
GO_ON = "continue optimization"
NO_LOSSES = "no losses to optimize"
NO_BLAME = "no surface can be blamed for the losses"


def acceptance(attempt: Attempt, objective: Objective) -> AcceptanceDecision:
    """Whether an attempt was accepted; what no gain decided on is told in burnish's words."""
    decision = attempt.decision
    if decision is None:
        return AcceptanceDecision(reason=attempt.why)
    by_gain = decision.accepted or decision.code in {"below", "tie"}
    told = ACCEPTED if decision.accepted else REJECTED
    return AcceptanceDecision(
        accepted=decision.accepted,
        score_delta=_gain(attempt, objective),
        reason=told if by_gain else decision.reason,
    )


def _gain(attempt: Attempt, objective: Objective) -> float:
    """The gain on validation, over the cases that both sides have."""
    if attempt.holdout is None or attempt.before is None:
        return 0.0
    pair = Pair(candidate=attempt.holdout, incumbent=attempt.before)
    return compare(pair, objective, max_missing=1.0).gain


@dataclass(kw_only=True)
class Patience:
    """Counts rounds without an accept, and says when to stop, in PromptIter's order."""

    request: RunRequest
    without_accept: int = 0

    def after(self, number: int, attempts: Sequence[Attempt], score: float | None) -> StopDecision:
        """Whether the run ends after this round; `score` is what leads on validation."""
        accepted = any(each.decision and each.decision.accepted for each in attempts)
        self.without_accept = 0 if accepted else self.without_accept + 1
        policy, wanted = self.request.stop_policy, self.request.stop_policy.target_score
        limit = policy.max_rounds_without_acceptance
        reasons = {
            LAST_ROUND: number >= self.request.max_rounds,
            PATIENCE: 0 < limit <= self.without_accept,
            GOOD_ENOUGH: wanted is not None and score is not None and score >= wanted - EPSILON,
            NO_BLAME: not any(attempt.all_proposals for attempt in attempts),
        }
        why = next((reason for reason, holds in reasons.items() if holds), "")
        return StopDecision(should_stop=bool(why), reason=why or GO_ON)


def chosen(tried: Sequence[Attempt]) -> Attempt:
    """The candidate that a round is about: the last that was accepted, else the first."""
    accepted = [each for each in tried if each.decision is not None and each.decision.accepted]
    return accepted[-1] if accepted else tried[0]


def additions(
    found: Round,
    attempts: Sequence[Attempt],
    objective: Objective,
    named: Callable[[str], str],
) -> dict[str, Json]:
    """What burnish knows of a round and PromptIter has no place for.

    `named` gives the SurfaceID of a surface of the target.
    """
    told: dict[str, Json] = {
        "FailureClasses": {case: each.value for case, each in (found.classes or {}).items()},
        "Missing": [*found.missing],
        "Sources": {
            named(surface): _sources(said) for surface, said in (found.merged or {}).items()
        },
        "Lost": [codec(Lost).encode(each) for each in _lost(found, attempts)],
        "Candidates": [_candidate(attempt, objective, named) for attempt in attempts],
    }
    return {key: value for key, value in told.items() if value}


def _sources(said: Sequence[MergedGradient]) -> Json:
    """By merged remark, the cases that it comes from."""
    return [[*dict.fromkeys(source.case for source in each.sources)] for each in said]


def _lost(found: Round, attempts: Sequence[Attempt]) -> list[Lost]:
    return [*found.lost, *(each for attempt in attempts for each in attempt.lost)]


def _candidate(attempt: Attempt, objective: Objective, named: Callable[[str], str]) -> Json:
    decision, changes = attempt.decision, attempt.changes(objective)
    score = None if attempt.holdout is None else objective.measure(attempt.holdout).score
    return {
        "Candidate": attempt.candidate.id,
        "Surfaces": [named(patch.surface) for patch in attempt.patches],
        "Problems": [str(problem) for problem in attempt.problems],
        "Verdict": decision.verdict.value if decision else "",
        "Code": decision.code if decision else "",
        "Reason": attempt.why,
        "Numbers": dict(decision.numbers) if decision else {},
        "Score": score,
        "Changes": None if changes is None else codec(CaseChanges).encode(changes),
    }
