"""The walk back through a trace, and merging what it says of each surface."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeVar

from burnish.core.money import Spend, total
from burnish.core.outcomes import Step, Trace
from burnish.core.protocols import Role
from burnish.core.structures import Structure
from burnish.core.surfaces import Candidate
from burnish.core.trials import Proposal
from burnish.journal.executors import AsyncioExecutor
from burnish.runs.roles import Asked
from burnish.runs.run import Run
from burnish.strategies.backprop.packets import (
    CaseLoss,
    Lost,
    MergedGradient,
    Packet,
    SurfaceGradient,
    rank,
)
from burnish.strategies.backprop.prompts import (
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergeRequest,
    NumberedRemark,
    StepRequests,
    sanitised,
    shown_surface,
)

Request = TypeVar("Request")
Answer = TypeVar("Answer")


async def ask_each(
    run: Run, role: Role[Request, Answer], requests: Sequence[Request], *, draw: int, size: int
) -> list[Asked[Answer]]:
    """The replies, in order; each request has a draw of its own, however many go at once."""

    async def ask(place: int) -> Asked[Answer]:
        return await _ask_one(run, role, requests[place], draw=draw + place)

    async with aclosing(AsyncioExecutor(size).map(range(len(requests)), ask)) as replies:
        return [reply async for reply in replies]


async def _ask_one(
    run: Run, role: Role[Request, Answer], request: Request, *, draw: int
) -> Asked[Answer]:
    """The reply. A request that would show held out text is not sent, and has no answer.

    An agent may say on a train case what a held out case expects, and so may a role.
    """
    if (case := run.secrets.leaked(role.encode(request))) is not None:
        why = f"not asked: it would show text of case '{case}', which no proposer may see"
        return Asked(answer=None, proposal=Proposal(role=role.name, error=why))
    (reply,) = await run.ask_together(role, [request], draw=draw)
    return reply


# -- Merging --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Merged:
    """What should change, by surface, in order of its name."""

    surfaces: Mapping[str, Sequence[MergedGradient]]
    lost: tuple[Lost, ...] = ()
    proposals: tuple[Proposal, ...] = ()


class Merger:
    """Asks the aggregator, surface by surface."""

    def __init__(
        self,
        run: Run,
        role: Role[MergeRequest, MergeAnswer],
        *,
        structure: Structure | None,
        parallel: int,
        single: bool,
    ) -> None:
        self._run = run
        self._role = role
        self._structure = structure
        self._kinds = {surface.id: surface.kind for surface in run.target.surfaces}
        self._parallel = parallel
        self._single = single

    async def merged(
        self, gradients: Sequence[SurfaceGradient], candidate: Candidate, *, draw: int
    ) -> _Merged:
        """What should change about each surface; never less than was said."""
        by_surface: dict[str, list[SurfaceGradient]] = {}
        for gradient in sorted(gradients, key=lambda each: (each.surface, each.order)):
            by_surface.setdefault(gradient.surface, []).append(gradient)
        asking = [name for name, remarks in by_surface.items() if self._single or len(remarks) > 1]
        requests = [self._request(name, by_surface[name], candidate) for name in asking]
        replies = await ask_each(self._run, self._role, requests, draw=draw, size=self._parallel)
        merged = {name: _as_they_are(remarks) for name, remarks in by_surface.items()}
        lost: list[Lost] = []
        for name, reply in zip(asking, replies, strict=True):
            answered = self._answered(name, by_surface[name], reply)
            if isinstance(answered, str):
                lost.append(Lost(role=self._role.name, where=name, why=answered))
            else:
                merged[name] = answered
        proposals = tuple(reply.proposal for reply in replies)
        return _Merged(surfaces=merged, lost=tuple(lost), proposals=proposals)

    def _request(
        self, name: str, gradients: Sequence[SurfaceGradient], candidate: Candidate
    ) -> MergeRequest:
        shown = shown_surface(name, candidate, self._structure, self._kinds)
        numbered = [
            NumberedRemark.model_validate(
                {"number": place, "severity": each.severity, "gradient": each.text}
            )
            for place, each in enumerate(gradients, start=1)
        ]
        return MergeRequest(surface=shown, gradients=tuple(numbered))

    def _answered(
        self, name: str, raw: Sequence[SurfaceGradient], reply: Asked[MergeAnswer]
    ) -> list[MergedGradient] | str:
        """The merged remarks; or why the answer is of no use, so that the raw ones stand."""
        if reply.answer is None:
            return reply.proposal.error
        merged: list[MergedGradient] = []
        for remark in reply.answer.gradients:
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
        return sorted(merged, key=lambda each: rank(each.severity)) or "the answer says nothing"


def _as_they_are(gradients: Sequence[SurfaceGradient]) -> list[MergedGradient]:
    """The remarks unmerged, equal ones once."""
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


# -- The walk back --------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Walk:
    """One run on its way back, and what it said so far."""

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
        """The last step that was not visited and has packets; None when none is left."""
        while self.left:
            step = self.left.pop()
            packets = [packet for packet in self.inbox.pop(step.id, []) if packet.text.strip()]
            if packets:
                return step, sorted(packets, key=lambda packet: packet.order)
        return None

    def earlier(self, step: Step) -> list[Step]:
        """The predecessors that came before it, as a trace should have it."""
        steps = {each.id: each for each in self.left}
        names = dict.fromkeys(step.predecessors)
        return [steps[name] for name in names if name in steps]


@dataclass(frozen=True, kw_only=True)
class _Backward:
    """What the walks brought, run by run."""

    gradients: tuple[SurfaceGradient, ...]
    lost: tuple[Lost, ...] = ()
    proposals: tuple[Proposal, ...] = ()

    @classmethod
    def of(cls, walks: Sequence[Walk]) -> "_Backward":
        """All of them together; the order is that of the runs, whoever was done first."""
        return cls(
            gradients=tuple(each for walk in walks for each in walk.gradients),
            lost=tuple(each for walk in walks for each in walk.lost),
            proposals=tuple(each for walk in walks for each in walk.proposals),
        )


class Backwards:
    """Walks runs back and collects what they say about surfaces."""

    def __init__(
        self,
        run: Run,
        role: Role[BackwardRequest, BackwardAnswer],
        *,
        targets: Collection[str],
        structure: Structure | None,
        parallel: int,
    ) -> None:
        self._run = run
        self._role = role
        kinds = {surface.id: surface.kind for surface in run.target.surfaces}
        self._requests = StepRequests(targets=frozenset(targets), kinds=kinds, structure=structure)
        self._parallel = parallel

    def need(
        self,
        losses: Sequence[CaseLoss],
        traces: Mapping[tuple[str, int], Trace],
        candidate: Candidate,
    ) -> Spend:
        """What the walk costs at least: one question a run."""
        walks = [Walk(loss=loss, trace=traces[loss.case, loss.draw]) for loss in losses]
        visits = [self._visit(walk, candidate) for walk in walks]
        return total(self._role.estimate(visit[1]) for visit in visits if visit is not None)

    async def walked(
        self,
        losses: Sequence[CaseLoss],
        traces: Mapping[tuple[str, int], Trace],
        candidate: Candidate,
        *,
        draw: int,
    ) -> _Backward:
        """Walk every run back to its beginning."""
        sizes = [len(traces[loss.case, loss.draw].steps) for loss in losses]
        starts = accumulate(sizes, initial=draw)
        walks = [
            Walk(loss=loss, trace=traces[loss.case, loss.draw], draw=first)
            for loss, first in zip(losses, starts, strict=False)
        ]

        async def walk_back(walk: Walk) -> Walk:
            while (visit := self._visit(walk, candidate)) is not None:
                await self._step_back(walk, *visit)
            return walk

        async with aclosing(AsyncioExecutor(self._parallel).map(walks, walk_back)) as done:
            return _Backward.of([walk async for walk in done])

    def _visit(self, walk: Walk, candidate: Candidate) -> tuple[Step, BackwardRequest] | None:
        """The next step worth asking about: one with something to blame, or steps before it."""
        while (visit := walk.next()) is not None:
            step, packets = visit
            before, case = walk.earlier(step), walk.loss.case
            request = self._requests.of(step, packets, before, candidate, case=case)
            if request.surfaces or request.predecessors:
                return step, request
        return None

    async def _step_back(self, walk: Walk, step: Step, request: BackwardRequest) -> None:
        reply = await _ask_one(self._run, self._role, request, draw=walk.draw + len(walk.left))
        walk.proposals.append(reply.proposal)
        why = self._delivered(walk, step, request, reply)
        if why:
            self._lose(walk, step, why)

    def _delivered(
        self, walk: Walk, step: Step, request: BackwardRequest, reply: Asked[BackwardAnswer]
    ) -> str:
        """Keep what is said of surfaces, pass on the rest; why nothing came of it, if so."""
        if reply.answer is None:
            return reply.proposal.error
        answer = sanitised(reply.answer, request)
        if not answer.gradients and not answer.upstream:
            return "the answer names nothing that was shown"
        for sent in answer.upstream:
            for remark in sent.gradients:
                text = self._fit_to_pass(remark.gradient, walk, step)
                packet = Packet(source=step.id, severity=remark.severity.value, text=text)
                walk.inbox.setdefault(sent.predecessor, []).append(packet)
        for remark in answer.gradients:
            if text := self._fit_to_pass(remark.gradient, walk, step):
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
        return ""

    def _fit_to_pass(self, text: str, walk: Walk, step: Step) -> str:
        """The text; nothing where it holds what the next role may not see."""
        if (case := self._run.secrets.leaked(text)) is None:
            return text.strip()
        self._lose(walk, step, f"a remark holds text of case '{case}', which nobody may be shown")
        return ""

    def _lose(self, walk: Walk, step: Step, why: str) -> None:
        where = f"{walk.loss.case}, {step.id}"
        walk.lost.append(Lost(role=self._role.name, where=where, why=why))
