"""Attempts of reflective search: a rewrite or a merge on its way to a verdict, and the settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from burnish.core.cases import Case, Dataset
from burnish.core.content import AtLeastOne, Json, NoneOrMore
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation, Objective
from burnish.core.surfaces import Candidate, Origin
from burnish.core.trials import Decision, Proposal, SplitResult, Trial, TrialDetails, Verdict
from burnish.strategies.race import Heat
from burnish.strategies.settings import PruningSettings
from burnish.system.settings import Door

ParentSelection: TypeAlias = Literal[
    "trail", "pareto", "current_best", "epsilon_greedy", "top_k_pareto"
]
"""`trail` builds on the last candidate that beat its parent on a minibatch, and uses holdout
only now and then; the others build on candidates that were run over holdout."""
FieldSelection: TypeAlias = Literal["round_robin", "all", "random"]
FrontierType: TypeAlias = Literal["instance", "objective", "hybrid", "cartesian"]
LEAST_HOLDOUT = 8
"""The fewest cases of holdout that a search decides on, if there are so many."""
ROUNDS_AHEAD = 14
"""Rounds that the limits should leave room for beside the decisions on holdout."""
DECISIONS_AHEAD = 3
"""Runs over holdout that they should leave room for: the baseline, and a winner twice."""


class ReflectiveSettings(PruningSettings):
    """How the search works."""

    fields: Annotated[tuple[str, ...], Door(file=False)] = ()
    """The text surfaces to rewrite; all of the target's if none is named."""
    parent_selection: ParentSelection = "trail"
    """Which candidate a round builds on."""
    field_selection: FieldSelection = "round_robin"
    """Which texts a round rewrites."""
    frontier: FrontierType = "instance"
    """What candidates are compared by when parents are chosen."""
    minibatch: AtLeastOne = 3
    """Train cases that a round reflects on."""
    history_top_k: Annotated[int, Field(ge=0, le=5)] = 2
    """Earlier replies to each case, best first, that the reflector sees."""
    perfect_score: float = 1.0
    """The score at which there is nothing to learn from a case."""
    skip_perfect: bool = True
    """Leave out cases with `perfect_score`, and rounds in which all cases have it."""
    merge: bool = False
    """Now and then merge two candidates that are good at different cases."""
    max_merges: NoneOrMore = 5
    """The most merges in a run."""
    merge_overlap: AtLeastOne = 5
    """Holdout cases that both sides of a merge must have in common."""
    reuse: bool = True
    """Reuse measurements of a candidate; otherwise each evaluation is a new draw."""
    racing: bool = True
    """Stop evaluating when the verdict is clear; run a provisional winner again."""
    proposals_per_round: AtLeastOne = 1
    """Rewrites that are proposed side by side."""

    @property
    def may_use_part_of_holdout(self) -> bool:
        """Whether small limits make it decide on a part of holdout; pruning needs all of it."""
        return self.racing and self.parent_selection == "trail" and not self.prune


def deciding_cases(whole: int, fits: Callable[[int], bool]) -> int:
    """On how many cases of holdout to decide: as many as fit, but not fewer than the least."""
    counts = range(whole, LEAST_HOLDOUT, -1)
    return next((count for count in counts if fits(count)), min(whole, LEAST_HOLDOUT))


def budget_floor(
    dataset: Dataset, settings: ReflectiveSettings, *, test_repeats: int, confirm: bool = False
) -> int:
    """The metric calls for the baseline, one round and what is measured after the search."""
    held = len(dataset.holdout)
    held = min(held, LEAST_HOLDOUT) if settings.may_use_part_of_holdout else held
    looks = 2 * min(settings.minibatch, len(dataset.train)) * settings.proposals_per_round
    raced = 1 if settings.parent_selection == "trail" else settings.proposals_per_round
    runs = raced * (2 if settings.racing else 1)
    round_and_baseline = settings.repeats * (held * (1 + runs) + looks)
    last = dataset.test or (dataset.holdout if confirm else ())
    return round_and_baseline + 2 * len(last) * test_repeats


REFLECTIVE, MERGE = "reflective", "merge"
"""Kinds of attempts, which are the phases of their trials; a person's own is another."""
OUTDONE = "outdone"
"""The code of an attempt that beat its parent while another of its round did better still."""


@dataclass(frozen=True, kw_only=True)
class ReflectiveAttempt:
    """What is known so far; each stage returns a copy with more in it."""

    kind: str
    round: int
    parents: tuple[Candidate, ...]
    """What it was made from; of two, the better first."""
    fields: tuple[str, ...] = ()
    minibatch: tuple[Case, ...] = ()
    before: Evaluation | None = None
    """The parent on the minibatch."""
    left_out: int = 0
    """Failed cases that could not be shown."""
    diagnosis: Mapping[str, str] = field(default_factory=dict[str, str])
    proposals: tuple[Proposal, ...] = ()
    source: Mapping[str, Json] | None = None
    """Who sent it, if a person did."""
    candidate: Candidate | None = None
    skipped: str = ""
    """Why there is no candidate although nothing is wrong."""
    problems: tuple[Problem, ...] = ()
    after: Evaluation | None = None
    """The candidate on the minibatch."""
    heat: Heat | None = None
    """The candidate on holdout."""
    decision: Decision | None = None

    @property
    def parent(self) -> Candidate:
        return self.parents[0]

    @property
    def verdict(self) -> Verdict | None:
        return self.decision.verdict if self.decision else None

    @property
    def over(self) -> bool:
        """Whether there is nothing more to find out."""
        rejected = self.verdict not in (None, Verdict.ACCEPT)
        return rejected or bool(self.skipped or self.problems)

    def trial(self, objective: Objective) -> Trial:
        why = (Problem(message=self.skipped),) if self.skipped else self.problems
        details = ReflectiveDetails(
            proposal_source=self.source,
            parents=tuple(each.id for each in self.parents),
            minibatch=tuple(case.id for case in self.minibatch),
            parent_score=None if self.before is None else objective.measure(self.before).score,
            candidate_score=None if self.after is None else objective.measure(self.after).score,
            diagnosis=dict(self.diagnosis),
            failed_cases_left_out=self.left_out,
            skipped=self.skipped or None,
            whole_holdout=self.heat is not None and self.heat.whole,
        )
        unchanged = replace(self.parent, origin=Origin(kind="parent", by=REFLECTIVE))
        return Trial(
            candidate=self.candidate or unchanged,
            phase=self.kind,
            cycle=self.round,
            touched=self.fields,
            proposals=self.proposals,
            problems=why,
            train=None if self.after is None else SplitResult.of(self.after, objective),
            holdout=None if self.heat is None else SplitResult.of(self.heat.evaluation, objective),
            decision=None if why else self.decision,
            details=details.to_json(),
        )


@dataclass(frozen=True, kw_only=True)
class ReflectiveDetails(TrialDetails):
    """What the journal keeps about an attempt beyond what every trial has."""

    optional: ClassVar[frozenset[str]] = TrialDetails.optional - {
        *("parent_score", "skipped", "whole_holdout"),
    }

    parents: tuple[str, ...] = ()
    minibatch: tuple[str, ...] = ()
    """The train cases that the reflector was shown."""
    candidate_score: float | None = None
    diagnosis: Mapping[str, str] = field(default_factory=dict[str, str])
    """By text, what the reflector says is wrong with it."""
    failed_cases_left_out: int = 0
    """Failing cases that the reflector was not shown."""

    @property
    def holdout_is_whole(self) -> bool:
        """Whether all of holdout was run; true for trials that do not say, such as the baseline."""
        return self.whole_holdout is not False
