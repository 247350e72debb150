"""The strategy `backprop`: losses walked back through the trace, merged, patched.

    measure the baseline on holdout
    for each round:
        evaluate the incumbent on train; every failed metric is a loss where its run ended
        walk each run back: what is to blame here, and what to tell the steps before
        merge what was said of each surface, write one patch a surface
        does the patched candidate beat the incumbent on holdout?

This is PromptIter. What costs a packet there ends the run; here a role that fails costs what it
was asked about. A round without losses or without patches pays for no validation.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias

from burnish.core.candidates import Origin
from burnish.core.cases import Split
from burnish.core.comparisons import unmeasured
from burnish.core.content import Json, short_id
from burnish.core.decisions import MAX_MISSING
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import Evaluation
from burnish.core.money import Spend
from burnish.core.protocols import Role, Target
from burnish.core.structures import Structured
from burnish.core.surfaces import EPSILON
from burnish.core.trials import SplitResult, Trial
from burnish.evaluation.failure_classes import failure_class
from burnish.runs.run import Run
from burnish.runs.standing import BASELINE
from burnish.strategies.backprop.deciding import Judge
from burnish.strategies.backprop.losses import Losses, chosen, failed, trace_of
from burnish.strategies.backprop.merging import Merger
from burnish.strategies.backprop.packets import CaseLoss
from burnish.strategies.backprop.patching import Patched, Patcher, RejectedPatches
from burnish.strategies.backprop.rounds import Attempt, Round
from burnish.strategies.backprop.settings import BackpropSettings
from burnish.strategies.backprop.walking import Backwards
from burnish.strategies.backprop.wording import (
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergeRequest,
    PatchAnswer,
    PatchRequest,
)

VERSION = 1
DRAWS = 10_000
"""Draws set aside for each round."""

Stage: TypeAlias = Literal[
    "structure_snapshot",
    "baseline_validation",
    "round_started",
    "round_train_evaluation",
    "round_losses",
    "round_backward",
    "round_aggregation",
    "round_patch_set",
    "round_output_profile",
    "round_validation",
    "round_completed",
]


class Watcher(Protocol):
    """Someone who is shown each stage as it is over, on a replay too."""

    def __call__(self, stage: Stage, found: "Round | Attempt | Evaluation | None", /) -> None:
        """Look at what a stage found."""
        ...


@dataclass(frozen=True, kw_only=True)
class Backprop:
    """Back-propagation of losses over the steps of runs."""

    backwarder: Role[BackwardRequest, BackwardAnswer]
    aggregator: Role[MergeRequest, MergeAnswer]
    patcher: Role[PatchRequest, PatchAnswer]
    settings: BackpropSettings = field(default_factory=BackpropSettings)
    watch: Watcher | None = field(default=None, compare=False)
    name: str = "backprop"

    @property
    def fingerprint(self) -> str:
        """A hash of the settings that decide; how far and how wide it goes may change."""
        free = ("max_rounds", "max_rounds_without_acceptance", "target_score")
        free += ("backward_parallelism", "aggregation_parallelism", "patch_parallelism")
        settings = {k: v for k, v in asdict(self.settings).items() if k not in free}
        return short_id([VERSION, settings])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """Backwarder, aggregator, patcher."""
        return [self.backwarder, self.aggregator, self.patcher]

    def targets(self, target: Target) -> list[str]:
        """The surfaces that may be patched."""
        names = [surface.id for surface in target.surfaces]
        return [
            name for name in names if name in self.settings.targets or not self.settings.targets
        ]

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """There must be surfaces, those that are named among them."""
        known = [surface.id for surface in target.surfaces]
        problems = [
            Problem(where=name, message="there is no such surface", remedy=_listed(known))
            for name in self.settings.targets
            if name not in known
        ]
        if not known:
            problems.append(Problem(message="there is no surface to patch"))
        nodes = (
            {node.id for node in target.structure.nodes} if isinstance(target, Structured) else None
        )
        problems += [
            Problem(
                where=f"loss target of {metric}",
                message=f"there is no node '{node}'",
                remedy=_listed(sorted(nodes)),
            )
            for metric, node in self.settings.loss_targets.items()
            if nodes is not None and node not in nodes
        ]
        return problems

    async def search(self, run: Run) -> None:
        """Measure the baseline, then make rounds until there is a reason to stop."""
        _require_splits(run)
        rounds = _Rounds(run, self)
        if run.stop_reason(run.estimate(Split.HOLDOUT, repeats=self.settings.repeats)) is not None:
            return
        ended = await rounds.baseline()
        while not ended and run.stop_reason(rounds.need) is None:
            ended = await rounds.next()
        if ended:
            about: dict[str, Json] = {"cycle": rounds.number, "reason": ended}
            run.announce("search_ended", f"round:{rounds.number}:{ended}", about)


class _Rounds:
    """Where the search stands."""

    def __init__(self, run: Run, strategy: Backprop) -> None:
        self._run = run
        self._settings = settings = strategy.settings
        self._watch = strategy.watch
        self._rejected = RejectedPatches()
        self._judge = Judge(run, settings)
        structure = run.target.structure if isinstance(run.target, Structured) else None
        targets = strategy.targets(run.target)
        self._surfaces = [surface.id for surface in run.target.surfaces]
        self._cases = {case.id: case for case in run.dataset.train}
        self._losses = Losses(
            cases=self._cases,
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
            strategy.backwarder,
            targets=targets,
            structure=structure,
            parallel=settings.backward_parallelism,
        )
        self._merger = Merger(
            run,
            strategy.aggregator,
            structure=structure,
            parallel=settings.aggregation_parallelism,
            single=settings.merge_single,
        )
        self._patcher = Patcher(
            run,
            strategy.patcher,
            self._rejected,
            structure=structure,
            parallel=settings.patch_parallelism,
        )
        self.number = 0
        self._without_accept = 0

    @property
    def need(self) -> Spend:
        """What a round may cost in runs of cases."""
        repeats = self._settings.repeats
        train = self._run.estimate(Split.TRAIN, repeats=repeats)
        holdout = self._run.estimate(Split.HOLDOUT, repeats=repeats)
        return train + holdout.times(self._settings.candidates_per_round)

    async def baseline(self) -> str:
        """Measure where the search starts; why it is over already, if it is."""
        run, start = self._run, self._run.target.baseline
        self._show("structure_snapshot", None)
        found = await run.evaluate(start, split=Split.HOLDOUT, repeats=self._settings.repeats)
        result = SplitResult.of(found, run.objective)
        run.record(Trial(candidate=start, phase=BASELINE, holdout=result))
        run.advance(start)
        self._judge.start(start, found)
        self._show("baseline_validation", found)
        if why := unmeasured(found, run.objective, max_missing=MAX_MISSING):
            message = (
                f"the baseline could not be measured: {why}. Nothing can be compared with it, so "
                "nothing was tried. Mend what is missing, then make a new run (--retry-missing)"
            )
            run.announce("warning", "baseline:unmeasured", {"message": message})
            return "baseline_missing"
        return "target_score" if self._good_enough() else ""

    async def next(self) -> str:
        """One round; why the search is over after it, if it is."""
        self.number += 1
        self._show("round_started", None)
        train = await self._run.evaluate(
            self._run.incumbent, split=Split.TRAIN, repeats=self._settings.repeats
        )
        found = Round(number=self.number, parent=self._run.incumbent, train=train)
        self._show("round_train_evaluation", found)
        found = self._with_losses(found)
        self._show("round_losses", found)
        if not found.losses:
            self._show("round_completed", found)
            return "no_losses"
        attempts = await self._attempts(await self._walked(found))
        accepted = await self._decided(attempts)
        self._without_accept = 0 if accepted else self._without_accept + 1
        return self._over()

    def _with_losses(self, found: Round) -> Round:
        losses = self._losses.of(found.train, self._surfaces)
        most = self._settings.cases_per_round
        cases = sorted({loss.case for loss in losses})
        if most is not None and len(cases) > most:
            losses = chosen(losses, self._run.rng("cases", self.number).sample(cases, most))
        return replace(found, losses=tuple(losses), classes=self._classes(found, losses))

    def _classes(self, found: Round, losses: Sequence[CaseLoss]) -> dict[str, Any]:
        runs = {(result.case, result.draw): result for result in found.train.results}
        classes: dict[str, Any] = {}
        for loss in losses:
            result = runs[loss.case, loss.draw]
            scores = [score for score in result.scores if failed(score)]
            classes.setdefault(loss.case, failure_class(self._cases[loss.case], result, scores))
        return classes

    async def _walked(self, found: Round) -> Round:
        """The walk back and the merging."""
        traces = {
            (r.case, r.draw): trace_of(r, self._cases[r.case], self._surfaces)
            for r in found.train.results
        }
        draw = DRAWS * self.number
        back = await self._backwards.walked(found.losses, traces, found.parent, draw=draw)
        found = replace(found, gradients=back.gradients)
        self._show("round_backward", found)
        merged = await self._merger.merged(back.gradients, found.parent, draw=draw)
        found = replace(
            found,
            merged=merged,
            lost=(*back.lost, *self._merger.lost),
            proposals=(*back.proposals, *self._merger.proposals),
        )
        self._show("round_aggregation", found)
        return found

    async def _attempts(self, found: Round) -> list[Attempt]:
        """The candidates that the patches make, each checked before anything is paid."""
        sets = await self._patcher.patched(
            found.merged or {},
            found.parent,
            sets=self._settings.candidates_per_round,
            draw=DRAWS * self.number,
        )
        attempts: list[Attempt] = []
        there: set[str] = set()
        for place, patched in enumerate(sets):
            attempt = await self._attempt(found, patched, first=place == 0)
            if attempt.candidate.id in there and not attempt.problems:
                same = Problem(message="another candidate of this round is the same")
                attempt = replace(attempt, problems=(same,))
            there.add(attempt.candidate.id)
            attempts.append(attempt)
            self._show("round_patch_set", attempt)
        return attempts

    async def _attempt(self, found: Round, patched: Patched, *, first: bool) -> Attempt:
        changed = {patch.surface: patch.value for patch in patched.patches}
        note = f"patch {', '.join(changed)}"
        origin = Origin(kind="proposal", by="backprop", note=note)
        attempt = Attempt(
            round=found,
            candidate=found.parent.child(changed, origin=origin) if changed else found.parent,
            patches=patched.patches,
            lost=patched.lost,
            proposals=patched.proposals,
            first=first,
        )
        if not changed:
            return replace(attempt, problems=(Problem(message="there is no patch to try"),))
        problems = await self._run.check(attempt.candidate, parent=found.parent)
        return replace(attempt, problems=tuple(problems))

    async def _decided(self, attempts: Sequence[Attempt]) -> bool:
        """Measure and decide on each candidate in turn; whether one was accepted."""
        accepted = False
        for attempt in attempts:
            self._show("round_output_profile", attempt)
            done = await self._judge.judged(attempt)
            self._show("round_validation", done)
            self._run.record(done.trial(self._run.objective))
            if done.decision is not None and done.decision.accepted:
                accepted = True
                self._run.advance(done.candidate)
                self._judge.advance(done)
            else:
                self._rejected.add(done.patches, done.why)
            self._show("round_completed", done)
        return accepted

    def _over(self) -> str:
        settings = self._settings
        if self._good_enough():
            return "target_score"
        if self.number >= settings.max_rounds:
            return "max_rounds"
        limit = settings.max_rounds_without_acceptance
        return "max_rounds_without_acceptance" if 0 < limit <= self._without_accept else ""

    def _good_enough(self) -> bool:
        score, wanted = self._judge.score, self._settings.target_score
        return wanted is not None and score is not None and score >= wanted - EPSILON

    def _show(self, stage: Stage, found: "Round | Attempt | Evaluation | None") -> None:
        about: dict[str, Json] = {"stage": stage, "round": self.number}
        slot = "" if not isinstance(found, Attempt) else f":{found.candidate.id}"
        self._run.announce("stage", f"round:{self.number}:{stage}{slot}", about)
        if self._watch is not None:
            self._watch(stage, found)


def _require_splits(run: Run) -> None:
    wanted = {"train": run.dataset.train, "holdout": run.dataset.holdout}
    problems = [
        Problem(where=name, message="back-propagation needs cases here")
        for name, cases in wanted.items()
        if not cases
    ]
    if problems:
        raise ConfigError(problems)


def _listed(names: Sequence[str]) -> str:
    return f"there are: {', '.join(names) or 'none'}"
