"""An attempt: one edit on its way to keep, discard or crash."""

from dataclasses import dataclass
from typing import ClassVar

from burnish.core.candidates import Candidate, Origin, diff
from burnish.core.content import Json
from burnish.core.decisions import Decision
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation
from burnish.core.objectives import Objective
from burnish.core.trials import Proposal, SplitResult, Trial, TrialDetails
from burnish.strategies.edits.changes import Changes, FileChange
from burnish.strategies.edits.judging import disagreements

PHASE = "edit"
KEEP, DISCARD, CRASH = "keep", "discard", "crash"
HOLDOUT = "holdout_"
"""Begins the code of a decision that holdout made."""


@dataclass(frozen=True, kw_only=True)
class Incumbent:
    """The files that are ahead, with everything that was measured of them."""

    candidate: Candidate
    train: Evaluation
    holdout: Evaluation | None = None
    trial: int = 0


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What is known so far; each stage gives the next one, with more in it."""

    iteration: int
    parent: Candidate
    proposal: Proposal | None = None
    rationale: str = ""
    candidate: Candidate | None = None
    problems: tuple[Problem, ...] = ()
    train: Evaluation | None = None
    holdout: Evaluation | None = None
    decision: Decision | None = None

    @property
    def word(self) -> str:
        """What became of it: keep, discard or crash."""
        if self.decision is not None and self.decision.accepted:
            return KEEP
        crashed = self.decision is not None and self.decision.code in (CRASH, HOLDOUT + CRASH)
        return CRASH if crashed else DISCARD

    @property
    def why(self) -> str:
        """Why it was kept or not."""
        told = self.decision.reason if self.decision else ""
        return "; ".join(map(str, self.problems)) or told

    @property
    def origin(self) -> Origin:
        """Where the candidate comes from, with the idea as its note."""
        note = self.rationale.strip().split("\n")[0][:60] or "an edit"
        return Origin(kind="proposal", by="edits", note=note)

    def trial(self, objective: Objective, primary: str) -> Trial:
        """The row of the ledger."""
        candidate = self.candidate or self.parent.child({}, origin=self.origin)
        changes = Changes.between(self.parent, candidate)
        return Trial(
            candidate=candidate,
            phase=PHASE,
            cycle=self.iteration,
            touched=tuple(change.surface for change in diff(self.parent, candidate)),
            proposals=() if self.proposal is None else (self.proposal,),
            problems=self.problems,
            train=None if self.train is None else SplitResult.of(self.train, objective),
            holdout=None if self.holdout is None else SplitResult.of(self.holdout, objective),
            decision=None if self.problems else self.decision,
            details=EditDetails(
                decision=self.word,
                rationale=self.rationale,
                changes=changes.files,
                primary=told_primary(primary, objective, self.train, self.holdout),
                disagreement=None if self.train is None else disagreements(self.train),
            ).to_json(),
        )


@dataclass(frozen=True, kw_only=True)
class EditDetails(TrialDetails):
    """What the loop keeps of each edit; of the start, only its number and the judges."""

    optional: ClassVar[frozenset[str]] = TrialDetails.optional | {
        *("decision", "rationale", "changes", "disagreement"),
    }

    decision: str | None = None
    """`keep`, `discard` or `crash`."""
    rationale: str | None = None
    """What the editor said of it."""
    changes: tuple[FileChange, ...] | None = None
    disagreement: tuple[str, ...] | None = None
    """Where the judges of a score did not agree."""


def told_primary(
    name: str, objective: Objective, train: Evaluation | None, holdout: Evaluation | None
) -> Json:
    """The primary number in its own unit, for the ledger and for progress."""
    sides = {"train": train, "holdout": holdout}
    values: dict[str, Json] = {
        side: objective.measure(found).values.get(name)
        for side, found in sides.items()
        if found is not None
    }
    return {"name": name, **values}
