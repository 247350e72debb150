"""An attempt: one candidate on its way from a parent to a verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from burnish.core.candidates import Candidate, Origin
from burnish.core.cases import Case
from burnish.core.decisions import Decision, Verdict
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation
from burnish.core.objectives import Objective
from burnish.core.trials import Proposal, SplitResult, Trial, TrialDetails
from burnish.strategies.reflective.heats import Heat

REFLECTIVE, MERGE = "reflective", "merge"
"""Kinds of attempts, which are the phases of their trials."""
NOBODY = Origin(kind="parent", by=REFLECTIVE)
"""Of the candidate in a row in which nothing was proposed: its parent, as it was."""
PERFECT = "subsample perfect"
NOTHING_TO_SHOW = "nothing to show"
OUTDONE = "outdone"
"""The code of what did better than its parent, beside something that did better still."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What is known so far; each stage gives the next one, with more in it."""

    kind: str
    round: int
    parents: tuple[Candidate, ...]
    fields: tuple[str, ...] = ()
    minibatch: tuple[Case, ...] = ()
    before: Evaluation | None = None
    """The parent on the minibatch."""
    left_out: int = 0
    """Failed cases that could not be shown."""
    diagnosis: Mapping[str, str] = field(default_factory=dict[str, str])
    proposals: tuple[Proposal, ...] = ()
    candidate: Candidate | None = None
    skipped: str = ""
    """Why there is no candidate, though nothing is wrong."""
    problems: tuple[Problem, ...] = ()
    after: Evaluation | None = None
    """The candidate on the minibatch."""
    heat: Heat | None = None
    """The candidate on holdout."""
    decision: Decision | None = None
    """What turned it down, or let it lead."""

    @property
    def over(self) -> bool:
        """Whether there is nothing more to find out."""
        turned_down = self.decision is not None and not self.decision.accepted
        return bool(self.skipped or self.problems) or turned_down

    @property
    def kept(self) -> bool:
        """Whether it is built on, though it does not lead."""
        return self.decision is not None and self.decision.verdict is Verdict.KEEP

    @property
    def outdone(self) -> bool:
        """Whether it was good, and another proposal of its round better."""
        return self.decision is not None and self.decision.code == OUTDONE

    @property
    def unknown(self) -> bool:
        """Whether too much is missing to tell what it is worth."""
        return self.decision is not None and self.decision.verdict is Verdict.CANNOT_TELL

    @property
    def why(self) -> str:
        """Why it was turned down, or not."""
        told = self.decision.reason if self.decision else ""
        return self.skipped or "; ".join(map(str, self.problems)) or told

    @property
    def parent(self) -> Candidate:
        """What it was made from; of two, the better."""
        return self.parents[0]

    def trial(self, objective: Objective) -> Trial:
        """The row of the ledger."""
        why = (Problem(message=self.skipped),) if self.skipped else self.problems
        return Trial(
            candidate=self.candidate or replace(self.parent, origin=NOBODY),
            phase=self.kind,
            cycle=self.round,
            touched=self.fields,
            proposals=self.proposals,
            problems=why,
            train=None if self.after is None else SplitResult.of(self.after, objective),
            holdout=None if self.heat is None else SplitResult.of(self.heat.evaluation, objective),
            decision=None if why else self.decision,
            details=self._details(objective).to_json(),
        )

    def _details(self, objective: Objective) -> "ReflectiveDetails":
        return ReflectiveDetails(
            parents=tuple(each.id for each in self.parents),
            minibatch=tuple(case.id for case in self.minibatch),
            parent_score=_score(self.before, objective),
            candidate_score=_score(self.after, objective),
            diagnosis=dict(self.diagnosis),
            failed_cases_left_out=self.left_out,
            skipped=self.skipped or None,
            whole_holdout=self.heat is not None and self.heat.whole,
        )


@dataclass(frozen=True, kw_only=True)
class ReflectiveDetails(TrialDetails):
    """What a round keeps of each of its trials."""

    optional: ClassVar[frozenset[str]] = TrialDetails.optional - {
        *("parent_score", "skipped", "whole_holdout"),
    }

    parents: tuple[str, ...] = ()
    """The ids of the candidates that this one was made of."""
    minibatch: tuple[str, ...] = ()
    """The few cases of train that were reflected on."""
    candidate_score: float | None = None
    """On the minibatch."""
    diagnosis: Mapping[str, str] = field(default_factory=dict[str, str])
    """By text, what the reflector said is wrong with it."""
    failed_cases_left_out: int = 0
    """Failing cases that the reflector was not shown."""

    @property
    def holdout_is_whole(self) -> bool:
        """Whether all of holdout was run; a trial that does not tell, such as the start, did."""
        return self.whole_holdout is not False


def _score(evaluation: Evaluation | None, objective: Objective) -> float | None:
    return None if evaluation is None else objective.measure(evaluation).score
