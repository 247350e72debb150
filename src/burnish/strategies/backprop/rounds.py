"""One round: losses, the walk back, patches, and what came of the candidates."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from burnish.core.cases import LeakWatch
from burnish.core.comparisons import CaseChanges, Pair, case_changes
from burnish.core.content import Json
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation, Objective
from burnish.core.money import Spend
from burnish.core.outcomes import Trace
from burnish.core.protocols import Role
from burnish.core.structures import Structure
from burnish.core.surfaces import Candidate, Value, value_key
from burnish.core.trials import Decision, Proposal, SplitResult, Trial, TrialDetails
from burnish.metrics.text_matching import without_middle
from burnish.metrics.turns import FailureClass, failure_class
from burnish.runs.roles import Asked
from burnish.runs.run import Run
from burnish.strategies.backprop.backward import Backwards, Merger, ask_each
from burnish.strategies.backprop.losses import Losses, chosen, trace_of
from burnish.strategies.backprop.packets import (
    BadValue,
    CaseLoss,
    Lost,
    MergedGradient,
    Severity,
    SurfaceGradient,
    TerminalLoss,
    bounds_of,
    shown_value,
    value_from,
)
from burnish.strategies.backprop.prompts import (
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergeRequest,
    PatchAnswer,
    PatchRequest,
    Remark,
    shown_surface,
)
from burnish.strategies.backprop.settings import BackpropSettings

_REMEMBERED = 3
"""Rejected patches of a surface that the patcher is shown."""
_SHOWN = 600


@dataclass(frozen=True, kw_only=True)
class Patch:
    """A new value for a surface, and why."""

    surface: str
    value: Value
    reason: str


@dataclass(frozen=True, kw_only=True)
class Patched:
    """One set of patches: at most one a surface."""

    patches: tuple[Patch, ...] = ()
    refused: tuple["_Refused", ...] = ()
    lost: tuple[Lost, ...] = ()
    proposals: tuple[Proposal, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Refused:
    """Something that a role offered as a value and that cannot be one."""

    surface: str
    offered: Json
    why: str


@dataclass(kw_only=True)
class RejectedPatches:
    """What was tried and turned down, by surface, the latest last."""

    secrets: LeakWatch
    entries: dict[str, list[str]] = field(default_factory=lambda: defaultdict[str, list[str]](list))

    def add(self, surface: str, offered: Json, why: str) -> None:
        """Remember a patch that brought nothing."""
        value = without_middle(str(offered), _SHOWN)
        entry = f"- tried: {value}\n  turned down: {why}"
        # What holds text of a held out case is not to be shown, even as a bad example.
        if self.secrets.leaked([str(offered), why]) is None and entry not in self.entries[surface]:
            self.entries[surface].append(entry)

    def of(self, surface: str) -> str:
        """The last few of a surface, in words."""
        return "\n".join(self.entries.get(surface, [])[-_REMEMBERED:]) or "(none)"


class Patcher:
    """Asks the patcher, surface by surface."""

    def __init__(
        self,
        run: Run,
        role: Role[PatchRequest, PatchAnswer],
        rejected: RejectedPatches,
        *,
        structure: Structure | None,
        parallel: int,
    ) -> None:
        self._run = run
        self._role = role
        self._rejected = rejected
        self._structure = structure
        self._surfaces = {surface.id: surface for surface in run.target.surfaces}
        self._kinds = {surface.id: surface.kind for surface in run.target.surfaces}
        self._parallel = parallel

    async def patched(
        self,
        merged: Mapping[str, Sequence[MergedGradient]],
        candidate: Candidate,
        *,
        sets: int,
        draw: int,
    ) -> list[Patched]:
        """So many sets of patches, each from answers of its own."""
        names = list(merged)
        requests = [self._request(name, merged[name], candidate) for name in names]
        replies = await ask_each(
            self._run, self._role, requests * sets, draw=draw, size=self._parallel
        )
        size = len(names)
        return [
            self._set(names, replies[place * size : (place + 1) * size], candidate)
            for place in range(sets)
        ]

    def _request(
        self, name: str, gradients: Sequence[MergedGradient], candidate: Candidate
    ) -> PatchRequest:
        surface = self._surfaces[name]
        shown = shown_surface(name, candidate, self._structure, self._kinds)
        return PatchRequest(
            surface=shown,
            kind=surface.kind,
            bounds=bounds_of(surface),
            gradients=tuple(
                Remark(severity=Severity(each.severity), gradient=each.text) for each in gradients
            ),
            rejected=self._rejected.of(name),
            limits=surface,
        )

    def _set(
        self, names: Sequence[str], replies: Sequence[Asked[PatchAnswer]], candidate: Candidate
    ) -> Patched:
        results = [
            self._patch(name, reply, candidate) for name, reply in zip(names, replies, strict=True)
        ]
        refused = [each for each in results if isinstance(each, _Refused)]
        lost = [Lost(role=self._role.name, where=each.surface, why=each.why) for each in refused]
        return Patched(
            patches=tuple(each for each in results if isinstance(each, Patch)),
            refused=tuple(refused),
            lost=tuple(lost),
            proposals=tuple(reply.proposal for reply in replies),
        )

    def _patch(
        self, name: str, reply: Asked[PatchAnswer], candidate: Candidate
    ) -> Patch | _Refused:
        """The patch, or why there is none."""
        if reply.answer is None:
            return _Refused(surface=name, offered=None, why=reply.proposal.error)
        surface, offered = self._surfaces[name], reply.answer.value
        refused = _Refused(surface=name, offered=offered, why="the patch changes nothing")
        try:
            value = value_from(offered, surface)
        except BadValue as error:
            return replace(refused, why=str(error))
        if self._run.secrets.leaked(offered) is not None:
            return replace(refused, why="the value holds text of a held out case")
        if problems := surface.problems(value):
            return replace(refused, why="; ".join(map(str, problems)))
        if value_key(value) == value_key(candidate.values[name]):
            return refused
        return Patch(surface=name, value=value, reason=reply.answer.reason.strip())


# -- What went wrong with runs of cases, in a few words for whoever watches -----------------------


_ERRORS_SHOWN = 300


def why_missing(evaluation: Evaluation) -> str:
    """` (the first: connection refused)`: why something is missing; empty where nobody said."""
    first = next(iter(evaluation.missing_reasons().values()), "")
    return f" (the first: {_line(first)})" if first else ""


def _crashed(evaluation: Evaluation) -> dict[str, str]:
    """By case, what its agent raised; the first repeat that failed speaks for the case."""
    messages: dict[str, str] = {}
    for result in evaluation.results:
        failure = result.outcome.failure
        if result.outcome.failed and failure is not None:
            messages.setdefault(result.case, _line(failure.message))
    return messages


def crash_words(evaluation: Evaluation) -> str:
    """In how many cases the agent itself failed, and how; empty where it did in none."""
    failed = _crashed(evaluation)
    if not failed:
        return ""
    count = f"{len(failed)} of {len(evaluation.cases)} cases of {evaluation.split.value}"
    return f"the agent itself failed in {count}, first with: {next(iter(failed.values()))}"


def _line(text: str) -> str:
    return without_middle(" ".join(text.split()), _ERRORS_SHOWN)


# -- One round ------------------------------------------------------------------------------------


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
    refused: tuple[_Refused, ...] = ()
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
    def shown_why(self) -> str:
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
        return Trial(
            candidate=self.candidate,
            phase=PHASE,
            cycle=self.round.number,
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
        train_failed=dict(_crashed(walk.train)),
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


# -- Learning from train --------------------------------------------------------------------------


class Learner:
    """Fills a round with what its evaluation of train teaches."""

    def __init__(
        self,
        run: Run,
        settings: BackpropSettings,
        backwarder: Role[BackwardRequest, BackwardAnswer],
        aggregator: Role[MergeRequest, MergeAnswer],
        *,
        targets: Collection[str],
        structure: Structure | None,
    ) -> None:
        self._run = run
        self._settings = settings
        self._surfaces = [surface.id for surface in run.target.surfaces]
        self._cases = {case.id: case for case in run.dataset.train}
        self._losses = Losses(
            cases=self._cases,
            weighted=run.objective.weights,
            thresholds={
                metric.name: bar
                for metric in run.setup.metrics
                if isinstance(bar := getattr(metric, "threshold", None), float | int)
            },
            hints=settings.loss_hints,
            targets=settings.loss_targets,
        )
        self._backwards = Backwards(
            run,
            backwarder,
            targets=targets,
            structure=structure,
            parallel=settings.backward_parallelism,
        )
        self._merger = Merger(
            run,
            aggregator,
            structure=structure,
            parallel=settings.aggregation_parallelism,
            single=settings.merge_single,
        )

    def with_losses(self, current: Round) -> Round:
        """The round with its losses, or those of a few cases where so many are enough."""
        losses = self._losses.of(current.train, self._surfaces)
        most = self._settings.cases_per_round
        cases = sorted({loss.case for loss in losses})
        if most is not None and len(cases) > most:
            losses = chosen(losses, self._run.rng("cases", current.number).sample(cases, most))
        return replace(
            current,
            losses=tuple(losses),
            missing=_missing(current.train),
            classes=self._classes(current),
            lost=tuple(self._losses.unplaced(current.train, self._surfaces)),
        )

    def need(self, current: Round) -> Spend:
        """What the walk back costs at least."""
        return self._backwards.need(current.losses, self._traces(current), current.parent)

    async def walked(self, current: Round, *, draw: int) -> Round:
        """The round with what the walk back says."""
        back = await self._backwards.walked(
            current.losses, self._traces(current), current.parent, draw=draw
        )
        return replace(
            current,
            gradients=back.gradients,
            lost=(*current.lost, *back.lost),
            proposals=back.proposals,
        )

    async def merged(self, current: Round, *, draw: int) -> Round:
        """The round with what is said of each surface."""
        merged = await self._merger.merged(current.gradients, current.parent, draw=draw)
        return replace(
            current,
            merged=merged.surfaces,
            lost=(*current.lost, *merged.lost),
            proposals=(*current.proposals, *merged.proposals),
        )

    def _classes(self, current: Round) -> dict[str, FailureClass]:
        """By case, the kind of failure; the first repeat that failed speaks for the case."""
        classes: dict[str, FailureClass] = {}
        for result in sorted(current.train.results, key=lambda each: (each.case, each.draw)):
            if scores := self._losses.failures(result):
                kind = failure_class(self._cases[result.case], result, scores)
                classes.setdefault(result.case, kind)
        return classes

    def _traces(self, current: Round) -> dict[tuple[str, int], Trace]:
        return {
            (result.case, result.draw): trace_of(result, self._cases[result.case], self._surfaces)
            for result in current.train.results
        }


def _missing(train: Evaluation) -> tuple[str, ...]:
    """The cases that teach nothing: a score is missing, or there is none at all."""
    gone = set(train.missing_cases(train.metrics))
    gone |= {r.case for r in train.results if not r.scores and not r.outcome.failed}
    return tuple(case for case in train.cases if case in gone)
