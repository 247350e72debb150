"""The candidates of a round: patches, what became of them, and what the journal keeps."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from burnish.core.comparisons import CaseChanges, Pair, case_changes
from burnish.core.content import Json
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation, Objective
from burnish.core.protocols import Role
from burnish.core.surfaces import Candidate, Origin, Structure, Value, value_key
from burnish.core.trials import Decision, Proposal, SplitResult, Trial, TrialDetails
from burnish.metrics.text_matching import without_middle
from burnish.runs.roles import Asked
from burnish.runs.run import Run
from burnish.strategies.backprop.backward import ask_each
from burnish.strategies.backprop.packets import (
    BadValue,
    Lost,
    MergedGradient,
    Round,
    Severity,
    SurfaceGradient,
    TerminalLoss,
    bounds_of,
    shown_value,
    value_from,
)
from burnish.strategies.backprop.prompts import (
    PatchAnswer,
    PatchRequest,
    Remark,
    shown_surface,
)

PHASE = "backprop"
_REMEMBERED = 3
"""Rejected patches of a surface that the patcher sees."""


@dataclass(frozen=True, kw_only=True)
class Patch:
    """A new value for a surface, and why."""

    surface: str
    value: Value
    reason: str


@dataclass(frozen=True, kw_only=True)
class Patched:
    """One set of patches, at most one a surface."""

    patches: tuple[Patch, ...] = ()
    refused: tuple["RefusedPatch", ...] = ()
    lost: tuple[Lost, ...] = ()
    proposals: tuple[Proposal, ...] = ()

    def on(self, parent: Candidate) -> Candidate:
        """A candidate with the patches; the parent itself if there are none."""
        values = {patch.surface: patch.value for patch in self.patches}
        origin = Origin(kind="proposal", by="backprop", note=f"patch {', '.join(values)}")
        return parent.child(values, origin=origin) if values else parent


@dataclass(frozen=True, kw_only=True)
class RefusedPatch:
    """A value from a role that cannot be used."""

    surface: str
    offered: Json
    why: str


@dataclass(kw_only=True)
class RejectedPatches:
    """Rejected patches by surface, latest last."""

    entries: dict[str, list[str]] = field(default_factory=lambda: defaultdict[str, list[str]](list))

    def add(self, surface: str, offered: Json, why: str) -> None:
        entry = f"- tried: {without_middle(str(offered), 600)}\n  turned down: {why}"
        if entry not in self.entries[surface]:
            self.entries[surface].append(entry)

    def of(self, surface: str) -> str:
        return "\n".join(self.entries.get(surface, [])[-_REMEMBERED:]) or "(none)"


class Patcher:
    """Asks the patcher for new values, surface by surface."""

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
        """So many sets of patches, each from its own answers."""
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
        return PatchRequest(
            surface=shown_surface(name, candidate, self._structure, self._kinds),
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
        whole = Patched(
            patches=tuple(each for each in results if isinstance(each, Patch)),
            proposals=tuple(reply.proposal for reply in replies),
        )
        return self.without(whole, [each for each in results if isinstance(each, RefusedPatch)])

    def without(self, patched: Patched, refused: Sequence[RefusedPatch]) -> Patched:
        """The set without patches that are refused, which says why."""
        surfaces = {each.surface for each in refused}
        lost = (Lost(role=self._role.name, where=each.surface, why=each.why) for each in refused)
        return replace(
            patched,
            patches=tuple(each for each in patched.patches if each.surface not in surfaces),
            refused=(*patched.refused, *refused),
            lost=(*patched.lost, *lost),
        )

    def _patch(
        self, name: str, reply: Asked[PatchAnswer], candidate: Candidate
    ) -> Patch | RefusedPatch:
        if reply.answer is None:
            return RefusedPatch(surface=name, offered=None, why=reply.proposal.error)
        surface, offered = self._surfaces[name], reply.answer.value
        refused = RefusedPatch(surface=name, offered=offered, why="the patch changes nothing")
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


def why_missing(evaluation: Evaluation) -> str:
    """` (the first: connection refused)`: why something is missing, if known."""
    first = next(iter(evaluation.missing_reasons().values()), "")
    return f" (the first: {_line(first)})" if first else ""


def _crashed(evaluation: Evaluation) -> dict[str, str]:
    """By case, what the agent raised in its first failed repeat."""
    messages: dict[str, str] = {}
    for result in evaluation.results:
        failure = result.outcome.failure
        if result.outcome.failed and failure is not None:
            messages.setdefault(result.case, _line(failure.message))
    return messages


def crash_words(evaluation: Evaluation) -> str:
    """In how many cases the agent itself failed, and how; empty if it never did."""
    failed = _crashed(evaluation)
    if not failed:
        return ""
    count = f"{len(failed)} of {len(evaluation.cases)} cases of {evaluation.split.value}"
    return f"the agent itself failed in {count}, first with: {next(iter(failed.values()))}"


def _line(text: str) -> str:
    return without_middle(" ".join(text.split()), 300)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One candidate of a round, and what became of it."""

    round: Round
    candidate: Candidate
    patches: tuple[Patch, ...] = ()
    refused: tuple[RefusedPatch, ...] = ()
    lost: tuple[Lost, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    problems: tuple[Problem, ...] = ()
    train: Evaluation | None = None
    holdout: Evaluation | None = None
    before: Evaluation | None = None
    """The incumbent on holdout."""
    decision: Decision | None = None
    first: bool = True
    """Whether it is the first of its round, which also records the walk back."""
    alone: bool = False
    """Whether it is one patch of a candidate that was rejected."""
    whole: bool = True
    """Whether all of holdout was run, if any."""

    @property
    def all_proposals(self) -> tuple[Proposal, ...]:
        """What the roles saw and said; the first attempt of a round includes the walk back."""
        return (*self.round.proposals, *self.proposals) if self.first else self.proposals

    @property
    def accepted(self) -> bool:
        return self.decision is not None and self.decision.accepted

    @property
    def why(self) -> str:
        """The reason of the decision, or what is wrong with it."""
        return self.decision.reason if self.decision else "; ".join(map(str, self.problems))

    @property
    def shown_why(self) -> str:
        """The same for the patcher, without the names of held out cases."""
        if self.decision is not None and self.decision.code == "guard":
            return "it broke a guard of cases or metrics, or nobody could tell whether it does"
        return self.why

    def changes(self, objective: Objective) -> CaseChanges | None:
        """What changed case by case on holdout."""
        if self.holdout is None or self.before is None or not self.whole:
            return None
        return case_changes(Pair(candidate=self.holdout, incumbent=self.before), objective)

    def trial(self, objective: Objective) -> Trial:
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
                patch.surface: _PatchNote(value=shown_value(patch.value), reason=patch.reason)
                for patch in self.patches
            },
            changes=self.changes(objective),
            alone=True if self.alone else None,
            whole_holdout=None if self.whole else False,
        )
        if self.first:
            walk, lost = self.round, (*self.round.lost, *lost)
            details = replace(
                details,
                train_scores={case: objective.case_score(train, case) for case in train.cases},
                losses=tuple(loss for case in walk.losses for loss in case.losses),
                train_missing=tuple(walk.missing),
                train_failed=_crashed(train),
                failure_classes={case: each.value for case, each in (walk.classes or {}).items()},
                gradients=tuple(walk.gradients),
                merged={
                    name: [_merged(each) for each in remarks]
                    for name, remarks in (walk.merged or {}).items()
                },
            )
        return replace(details, lost=lost or None)


@dataclass(frozen=True, kw_only=True)
class _PatchNote:
    """The new value of a surface, and why."""

    value: Json = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class BackpropDetails(TrialDetails):
    """What the journal keeps about a candidate; with the first of a round, the walk back."""

    optional: ClassVar[frozenset[str]] = (TrialDetails.optional - {"train_score"}) | {
        *("train_scores", "losses", "train_missing", "train_failed", "failure_classes"),
        *("gradients", "merged", "lost", "changes", "alone"),
    }

    round: int = 0
    patches: Mapping[str, _PatchNote] = field(default_factory=dict[str, _PatchNote])
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
    """Requests to roles without a usable answer."""
    changes: CaseChanges | None = None
    """What became of single cases of holdout."""
    alone: bool | None = None
    """True for one patch of a candidate that was rejected."""


def _merged(each: MergedGradient) -> Json:
    cases: list[Json] = [*dict.fromkeys(source.case for source in each.sources)]
    return {"severity": each.severity, "gradient": each.text, "cases": cases}
