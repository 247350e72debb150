"""Learning from train: losses, the walk back through each trace, and merging what it says."""

from collections.abc import Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TypeVar

from burnish.core.cases import Step, Trace
from burnish.core.evaluations import Evaluation
from burnish.core.money import Spend, total
from burnish.core.protocols import Role
from burnish.core.surfaces import Candidate, Structure
from burnish.core.trials import Proposal
from burnish.journal.executors import AsyncioExecutor
from burnish.metrics.turns import FailureClass, failure_class
from burnish.runs.roles import Asked
from burnish.runs.run import Run
from burnish.strategies.backprop.packets import (
    BackpropSettings,
    CaseLoss,
    Losses,
    Lost,
    MergedGradient,
    Packet,
    Round,
    SurfaceGradient,
    rank,
    trace_of,
)
from burnish.strategies.backprop.prompts import (
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergeRequest,
    NumberedRemark,
    StepRequests,
    sanitised,
)

_Request = TypeVar("_Request")
_Answer = TypeVar("_Answer")


async def ask_each(
    run: Run, role: Role[_Request, _Answer], requests: Sequence[_Request], *, draw: int, size: int
) -> list[Asked[_Answer]]:
    """The replies, in order; each request has its own draw, however many go at once."""

    async def ask(place: int) -> Asked[_Answer]:
        return await _ask_one(run, role, requests[place], draw=draw + place)

    async with aclosing(AsyncioExecutor(size).map(range(len(requests)), ask)) as replies:
        return [reply async for reply in replies]


async def _ask_one(
    run: Run, role: Role[_Request, _Answer], request: _Request, *, draw: int
) -> Asked[_Answer]:
    (reply,) = await run.ask_together(role, [request], draw=draw)
    return reply


@dataclass(kw_only=True)
class Walk:
    """One run on its way back, and what it has said so far."""

    loss: CaseLoss
    trace: Trace
    draw: int = 0
    """The draw of its first step; each step has the next one."""
    inbox: dict[str, list[Packet]] = field(default_factory=dict[str, list[Packet]])
    left: list[Step] = field(default_factory=list[Step])
    gradients: list[SurfaceGradient] = field(default_factory=list[SurfaceGradient])
    lost: list[Lost] = field(default_factory=list[Lost])
    proposals: list[Proposal] = field(default_factory=list[Proposal])

    def __post_init__(self) -> None:
        self.left = list(self.trace.steps)
        for loss in self.loss.losses:
            packet = Packet(source=loss.step, severity=loss.severity, text=loss.text)
            self.inbox.setdefault(loss.step, []).append(packet)

    def next(self) -> tuple[Step, list[Packet]] | None:
        """The last unvisited step that has packets; None when there is none left."""
        while self.left:
            step = self.left.pop()
            packets = [packet for packet in self.inbox.pop(step.id, []) if packet.text.strip()]
            if packets:
                return step, sorted(packets, key=lambda packet: packet.order)
        return None

    def earlier(self, step: Step) -> list[Step]:
        steps = {each.id: each for each in self.left}
        names = dict.fromkeys(step.predecessors)
        return [steps[name] for name in names if name in steps]


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
        self._backwarder = backwarder
        self._aggregator = aggregator
        self._surfaces = [surface.id for surface in run.target.surfaces]
        self._cases = {case.id: case for case in run.dataset.train}
        kinds = {surface.id: surface.kind for surface in run.target.surfaces}
        self._requests = StepRequests(targets=frozenset(targets), kinds=kinds, structure=structure)
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

    def with_losses(self, current: Round) -> Round:
        """The round with its losses, or those of as many cases as the settings allow."""
        losses = self._losses.of(current.train, self._surfaces)
        most = self._settings.cases_per_round
        cases = sorted({loss.case for loss in losses})
        if most is not None and len(cases) > most:
            chosen = set(self._run.rng("cases", current.number).sample(cases, most))
            losses = [loss for loss in losses if loss.case in chosen]
        return replace(
            current,
            losses=tuple(losses),
            missing=_missing(current.train),
            classes=self._classes(current),
            lost=tuple(self._losses.unplaced(current.train, self._surfaces)),
        )

    def _classes(self, current: Round) -> dict[str, FailureClass]:
        """By case, the kind of failure of its first failed repeat."""
        classes: dict[str, FailureClass] = {}
        for result in sorted(current.train.results, key=lambda each: (each.case, each.draw)):
            if scores := self._losses.failures(result):
                kind = failure_class(self._cases[result.case], result, scores)
                classes.setdefault(result.case, kind)
        return classes

    # -- the walk back ---------------------------------------------------------------------

    def need(self, current: Round) -> Spend:
        """What the walk back costs at least: one request a run."""
        visits = [self._visit(walk, current.parent) for walk in self._walks(current)]
        return total(self._backwarder.estimate(visit[1]) for visit in visits if visit is not None)

    async def walked(self, current: Round, *, draw: int) -> Round:
        """The round with what the walk back says, in the order of the runs."""
        walks = self._walks(current)
        starts = accumulate((len(walk.trace.steps) for walk in walks), initial=draw)
        for walk, first in zip(walks, starts, strict=False):
            walk.draw = first

        async def walk_back(walk: Walk) -> None:
            while (visit := self._visit(walk, current.parent)) is not None:
                await self._step_back(walk, *visit)

        executor = AsyncioExecutor(self._settings.backward_parallelism)
        async with aclosing(executor.map(walks, walk_back)) as done:
            async for _ in done:
                pass
        return replace(
            current,
            gradients=tuple(each for walk in walks for each in walk.gradients),
            lost=(*current.lost, *(each for walk in walks for each in walk.lost)),
            proposals=tuple(each for walk in walks for each in walk.proposals),
        )

    def _walks(self, current: Round) -> list[Walk]:
        traces = {
            (result.case, result.draw): trace_of(result, self._cases[result.case], self._surfaces)
            for result in current.train.results
        }
        return [Walk(loss=loss, trace=traces[loss.case, loss.draw]) for loss in current.losses]

    def _visit(self, walk: Walk, candidate: Candidate) -> tuple[Step, BackwardRequest] | None:
        """The next step with something to blame or with steps before it."""
        while (visit := walk.next()) is not None:
            step, packets = visit
            before, case = walk.earlier(step), walk.loss.case
            request = self._requests.of(step, packets, before, candidate, case=case)
            if request.surfaces or request.predecessors:
                return step, request
        return None

    async def _step_back(self, walk: Walk, step: Step, request: BackwardRequest) -> None:
        draw = walk.draw + len(walk.left)
        reply = await _ask_one(self._run, self._backwarder, request, draw=draw)
        walk.proposals.append(reply.proposal)
        if reply.answer is None:
            self._lose(walk, step, reply.proposal.error)
            return
        answer = sanitised(reply.answer, request)
        if not answer.gradients and not answer.upstream:
            self._lose(walk, step, "the answer names nothing that was shown")
        for sent in answer.upstream:
            for remark in sent.gradients:
                text = self._without_secrets(remark.gradient, walk, step)
                packet = Packet(source=step.id, severity=remark.severity.value, text=text)
                walk.inbox.setdefault(sent.predecessor, []).append(packet)
        for remark in answer.gradients:
            if text := self._without_secrets(remark.gradient, walk, step):
                walk.gradients.append(
                    SurfaceGradient(
                        case=walk.loss.case,
                        draw=walk.loss.draw,
                        step=step.id,
                        node=step.node,
                        surface=remark.surface,
                        severity=remark.severity.value,
                        text=text,
                    )
                )

    def _without_secrets(self, text: str, walk: Walk, step: Step) -> str:
        if (case := self._run.secrets.leaked(text)) is None:
            return text.strip()
        self._lose(walk, step, f"a remark holds text of case '{case}', which nobody may be shown")
        return ""

    def _lose(self, walk: Walk, step: Step, why: str) -> None:
        where = f"{walk.loss.case}, {step.id}"
        walk.lost.append(Lost(role=self._backwarder.name, where=where, why=why))

    # -- merging ---------------------------------------------------------------------------

    async def merged(self, current: Round, *, draw: int) -> Round:
        """The round with what should change about each surface; never less than was said."""
        by_surface: dict[str, list[SurfaceGradient]] = {}
        for gradient in sorted(current.gradients, key=lambda each: (each.surface, each.order)):
            by_surface.setdefault(gradient.surface, []).append(gradient)
        single, size = self._settings.merge_single, self._settings.aggregation_parallelism
        names = [name for name, remarks in by_surface.items() if single or len(remarks) > 1]
        requests = [self._merge_request(name, by_surface[name], current.parent) for name in names]
        replies = await ask_each(self._run, self._aggregator, requests, draw=draw, size=size)
        merged = {name: _unmerged(remarks) for name, remarks in by_surface.items()}
        lost: list[Lost] = []
        for name, reply in zip(names, replies, strict=True):
            remarks = self._remarks(name, by_surface[name], reply.answer)
            if remarks:
                merged[name] = remarks
            else:
                why = reply.proposal.error if reply.answer is None else "the answer says nothing"
                lost.append(Lost(role=self._aggregator.name, where=name, why=why))
        return replace(
            current,
            merged=merged,
            lost=(*current.lost, *lost),
            proposals=(*current.proposals, *(reply.proposal for reply in replies)),
        )

    def _merge_request(
        self, name: str, gradients: Sequence[SurfaceGradient], candidate: Candidate
    ) -> MergeRequest:
        numbered = [
            NumberedRemark.model_validate(
                {"number": place, "severity": each.severity, "gradient": each.text}
            )
            for place, each in enumerate(gradients, start=1)
        ]
        surface = self._requests.surface(name, candidate)
        return MergeRequest(surface=surface, gradients=tuple(numbered))

    def _remarks(
        self, name: str, raw: Sequence[SurfaceGradient], answer: MergeAnswer | None
    ) -> list[MergedGradient]:
        """The usable remarks of a merged answer, worst first."""
        merged: list[MergedGradient] = []
        for remark in answer.gradients if answer else ():
            text = remark.gradient.strip()
            if text and self._run.secrets.leaked(text) is None:
                cited = [raw[n - 1] for n in dict.fromkeys(remark.sources) if 0 < n <= len(raw)]
                merged.append(
                    MergedGradient(
                        surface=name,
                        severity=remark.severity.value,
                        text=text,
                        sources=tuple(cited or raw),
                    )
                )
        return sorted(merged, key=lambda each: rank(each.severity))


def _unmerged(gradients: Sequence[SurfaceGradient]) -> list[MergedGradient]:
    """The remarks as they are, equal ones once."""
    by_text: dict[str, list[SurfaceGradient]] = {}
    for gradient in gradients:
        by_text.setdefault(gradient.text, []).append(gradient)
    return [
        MergedGradient(
            surface=same[0].surface,
            severity=min((each.severity for each in same), key=rank),
            text=text,
            sources=tuple(same),
        )
        for text, same in by_text.items()
    ]


def _missing(train: Evaluation) -> tuple[str, ...]:
    """The cases that teach nothing because a score, or every score, is missing."""
    missing = set(train.missing_cases(train.metrics))
    missing |= {r.case for r in train.results if not r.scores and not r.outcome.failed}
    return tuple(case for case in train.cases if case in missing)
