"""The walk back: packets go from where a run ended to what caused it, a step at a time.

Every run is walked by itself, many of them side by side. A step is visited once, after all that
followed it, with all their packets together.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import accumulate

from burnish.core.candidates import Candidate
from burnish.core.money import Spend, total
from burnish.core.outcomes import Step, Trace
from burnish.core.protocols import Role
from burnish.core.structures import Structure
from burnish.core.trials import Proposal
from burnish.effects.executors import AsyncioExecutor
from burnish.runs.asking import Asked
from burnish.runs.run import Run
from burnish.strategies.backprop.batches import ask_one
from burnish.strategies.backprop.packets import CaseLoss, Lost, Packet, SurfaceGradient
from burnish.strategies.backprop.step_requests import StepRequests
from burnish.strategies.backprop.wording import BackwardAnswer, BackwardRequest, sanitised


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
        known = {each.id: each for each in self.left}
        names = dict.fromkeys(step.predecessors)
        return [known[name] for name in names if name in known]


@dataclass(frozen=True, kw_only=True)
class Backward:
    """What the walks brought, run by run."""

    gradients: tuple[SurfaceGradient, ...]
    lost: tuple[Lost, ...] = ()
    proposals: tuple[Proposal, ...] = ()

    @classmethod
    def of(cls, walks: Sequence[Walk]) -> "Backward":
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
    ) -> Backward:
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
            return Backward.of([walk async for walk in done])

    def _visit(self, walk: Walk, candidate: Candidate) -> tuple[Step, BackwardRequest] | None:
        """The next step worth asking about: one with something to blame, or steps before it."""
        while (found := walk.next()) is not None:
            step, packets = found
            before, case = walk.earlier(step), walk.loss.case
            request = self._requests.of(step, packets, before, candidate, case=case)
            if request.surfaces or request.predecessors:
                return step, request
        return None

    async def _step_back(self, walk: Walk, step: Step, request: BackwardRequest) -> None:
        reply = await ask_one(self._run, self._role, request, draw=walk.draw + len(walk.left))
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
            for said in sent.gradients:
                text = self._fit_to_pass(said.gradient, walk, step)
                packet = Packet(source=step.id, severity=said.severity.value, text=text)
                walk.inbox.setdefault(sent.predecessor, []).append(packet)
        for said in answer.gradients:
            if text := self._fit_to_pass(said.gradient, walk, step):
                walk.gradients.append(
                    SurfaceGradient(
                        case=walk.loss.case,
                        draw=walk.loss.draw,
                        step=step.id,
                        node=step.node,
                        surface=said.surface,
                        severity=said.severity.value,
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
