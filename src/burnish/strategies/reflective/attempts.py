"""Attempts: a rewrite or a merge on its way to a verdict, which a race over holdout decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from burnish.core.cases import Case, Split
from burnish.core.content import Json
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation, Objective, Penalties
from burnish.core.money import Spend
from burnish.core.surfaces import Candidate, Origin
from burnish.core.trials import Decision, Proposal, SplitResult, Trial, TrialDetails, Verdict
from burnish.runs.run import Run
from burnish.strategies.race import BLOCK, Course, Heat, may_end_early, race
from burnish.strategies.reflective.settings import ReflectiveSettings

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


class Holdout:
    """Runs candidates over holdout, all of them in one order."""

    def __init__(self, run: Run, settings: ReflectiveSettings) -> None:
        self._run = run
        self._settings = settings
        order = list(run.dataset.holdout)
        if settings.racing:
            run.rng("race order").shuffle(order)
        self._order = tuple(order)
        self._early = settings.racing and run.objective.penalties == Penalties()

    @property
    def first_need(self) -> Spend:
        first = self._order[:BLOCK] if self._early else self._order
        return self._run.estimate(Split.HOLDOUT, cases=first, repeats=self._settings.repeats)

    @property
    def least(self) -> Spend:
        """The least it costs to make a candidate lead: little more than one run if the target is
        deterministic."""
        once = self._run.estimate(Split.HOLDOUT, repeats=self._settings.repeats)
        return once + self.first_need if self._settings.racing else once

    @property
    def need(self) -> Spend:
        """The most it costs to make a candidate lead."""
        runs = 2 if self._settings.racing else 1
        return self._run.estimate(Split.HOLDOUT, repeats=runs * self._settings.repeats)

    async def heats(
        self,
        candidates: Sequence[Candidate],
        incumbent: Evaluation,
        *,
        draw: int = 0,
        earlier: Evaluation | None = None,
    ) -> list[Heat]:
        """Race candidates against the incumbent's results, side by side."""
        early = self._settings.racing and may_end_early(incumbent, self._run.objective)
        course = Course(
            order=self._order,
            incumbent=incumbent,
            repeats=self._settings.repeats,
            block=BLOCK if early else len(self._order),
            early=early,
            draw=draw,
            earlier=earlier,
        )
        return await race(self._run, candidates, course)

    async def again(self, candidate: Candidate, first: Evaluation, incumbent: Evaluation) -> Heat:
        """Run a provisional winner a second time: half of what looked like a gain is often luck."""
        if not self._settings.racing:
            return Heat(evaluation=first, whole=True)
        draw = self._settings.repeats
        return (await self.heats([candidate], incumbent, draw=draw, earlier=first))[0]
