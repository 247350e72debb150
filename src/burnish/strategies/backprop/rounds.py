"""One round: losses, the walk back, merging, patches, and what came of the candidates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from burnish.core.candidates import Candidate
from burnish.core.case_changes import CaseChanges, case_changes
from burnish.core.comparisons import Pair
from burnish.core.content import Json
from burnish.core.decisions import Decision
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation
from burnish.core.objectives import Objective
from burnish.core.trials import Proposal, SplitResult, Trial, TrialDetails
from burnish.evaluation.failure_classes import FailureClass
from burnish.strategies.backprop.packets import (
    CaseLoss,
    Lost,
    MergedGradient,
    SurfaceGradient,
    TerminalLoss,
)
from burnish.strategies.backprop.patching import Patch, Refused
from burnish.strategies.backprop.troubles import crashed
from burnish.strategies.backprop.values import shown_value

PHASE = "backprop"


@dataclass(frozen=True, kw_only=True)
class Round:
    """What a round found out before a candidate was tried."""

    number: int
    parent: Candidate
    train: Evaluation
    losses: tuple[CaseLoss, ...] = ()
    missing: tuple[str, ...] = ()
    """The train cases that say nothing, because something is missing."""
    classes: Mapping[str, FailureClass] | None = None
    """By failing case, what kind of failure it is."""
    gradients: tuple[SurfaceGradient, ...] = ()
    merged: Mapping[str, Sequence[MergedGradient]] | None = None
    lost: tuple[Lost, ...] = ()
    proposals: tuple[Proposal, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One candidate of a round, and what became of it."""

    round: Round
    candidate: Candidate
    patches: tuple[Patch, ...] = ()
    refused: tuple[Refused, ...] = ()
    lost: tuple[Lost, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    problems: tuple[Problem, ...] = ()
    train: Evaluation | None = None
    holdout: Evaluation | None = None
    before: Evaluation | None = None
    """The incumbent on holdout."""
    decision: Decision | None = None
    first: bool = True
    """Whether the walk back is told with this one: it belongs to all candidates of a round."""

    @property
    def all_proposals(self) -> tuple[Proposal, ...]:
        """What the roles saw and said; the walk back is in the first attempt of a round."""
        return (*self.round.proposals, *self.proposals) if self.first else self.proposals

    @property
    def why(self) -> str:
        """Why it was decided so, or turned away."""
        if self.decision is not None:
            return self.decision.reason
        return "; ".join(map(str, self.problems))

    @property
    def told(self) -> str:
        """The same for whoever proposes the next one, without the names of held out cases."""
        if self.decision is not None and self.decision.code == "guard":
            return "it broke a guard of cases or metrics, or nobody could tell whether it does"
        return self.why

    def changes(self, objective: Objective) -> CaseChanges | None:
        """What changed case by case on holdout."""
        if self.holdout is None or self.before is None:
            return None
        return case_changes(Pair(candidate=self.holdout, incumbent=self.before), objective)

    def trial(self, objective: Objective) -> Trial:
        """The row of the ledger."""
        found = self.round
        return Trial(
            candidate=self.candidate,
            phase=PHASE,
            cycle=found.number,
            touched=tuple(patch.surface for patch in self.patches),
            proposals=self.all_proposals,
            problems=self.problems,
            train=None if self.train is None else SplitResult.of(self.train, objective),
            holdout=None if self.holdout is None else SplitResult.of(self.holdout, objective),
            decision=self.decision,
            details=self._details(objective).to_json(),
        )

    def _details(self, objective: Objective) -> "BackpropDetails":
        train, lost = self.round.train, self.lost
        details = BackpropDetails(
            round=self.round.number,
            train_score=objective.measure(train).score,
            patches={
                patch.surface: PatchNote(value=shown_value(patch.value), reason=patch.reason)
                for patch in self.patches
            },
            changes=self.changes(objective),
        )
        if self.first:
            scores = {case: objective.case_score(train, case) for case in train.cases}
            details = replace(_walked(details, self.round), train_scores=scores)
            lost = (*self.round.lost, *lost)
        return replace(details, lost=lost or None)


@dataclass(frozen=True, kw_only=True)
class PatchNote:
    """What a patch made of a surface, and why."""

    value: Json = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class BackpropDetails(TrialDetails):
    """What a round keeps of each candidate; of the first one, the whole walk back."""

    optional: ClassVar[frozenset[str]] = (TrialDetails.optional - {"train_score"}) | {
        *("train_scores", "losses", "train_missing", "train_failed", "failure_classes"),
        *("gradients", "merged", "lost", "changes"),
    }

    round: int = 0
    patches: Mapping[str, PatchNote] = field(default_factory=dict[str, PatchNote])
    """By surface."""
    train_scores: Mapping[str, float | None] | None = None
    """By case, of the incumbent."""
    losses: tuple[TerminalLoss, ...] | None = None
    train_missing: tuple[str, ...] | None = None
    train_failed: Mapping[str, str] | None = None
    """By case, what the agent raised."""
    failure_classes: Mapping[str, str] | None = None
    """By case, the earliest cause that can be seen."""
    gradients: tuple[SurfaceGradient, ...] | None = None
    merged: Json = None
    """By surface, what was said of it, merged."""
    lost: tuple[Lost, ...] | None = None
    """Questions to roles that brought nothing."""
    changes: CaseChanges | None = None
    """What became of single cases of holdout."""


def _walked(details: BackpropDetails, walk: Round) -> BackpropDetails:
    """The details with the walk back in them."""
    return replace(
        details,
        losses=tuple(loss for case in walk.losses for loss in case.losses),
        train_missing=tuple(walk.missing),
        train_failed=dict(crashed(walk.train)),
        failure_classes={case: each.value for case, each in (walk.classes or {}).items()},
        gradients=tuple(walk.gradients),
        merged={
            name: [_merged(each) for each in remarks]
            for name, remarks in (walk.merged or {}).items()
        },
    )


def _merged(each: MergedGradient) -> Json:
    cases: list[Json] = [*dict.fromkeys(source.case for source in each.sources)]
    return {"severity": each.severity, "gradient": each.text, "cases": cases}
