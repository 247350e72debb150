"""The walk back: packets go from where a run ended to what caused it, a step at a time.

Every run is walked by itself. A step is visited once, after all that followed it, with all their
packets together. Many runs are walked side by side: each takes its next step, and the backwarder
is asked about all of these at once.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from burnish.core.candidates import Candidate
from burnish.core.content import Json, canonical
from burnish.core.outcomes import Step, ToolCall, Trace
from burnish.core.protocols import Role
from burnish.core.structures import Structure
from burnish.core.trials import Proposal
from burnish.evaluation.matching.excerpts import without_middle
from burnish.runs.asking import Asked
from burnish.runs.run import Run
from burnish.strategies.backprop.packets import CaseLoss, Lost, Packet, SurfaceGradient
from burnish.strategies.backprop.values import shown_value
from burnish.strategies.backprop.wording import (
    BackwardAnswer,
    BackwardRequest,
    Remark,
    ShownStep,
    ShownSurface,
    sanitised,
)

MOST_CHARS = 4000
"""Of one text of a step."""


@dataclass(frozen=True, kw_only=True)
class Backward:
    """What the walk brought."""

    gradients: tuple[SurfaceGradient, ...]
    lost: tuple[Lost, ...] = ()
    proposals: tuple[Proposal, ...] = ()


@dataclass
class Walk:
    """One run on its way back."""

    loss: CaseLoss
    trace: Trace
    inbox: dict[str, list[Packet]] = field(default_factory=dict[str, list[Packet]])
    left: list[Step] = field(default_factory=list[Step])

    def __post_init__(self) -> None:
        self.left = list(self.trace.steps)
        for loss in self.loss.losses:
            packet = Packet(source=loss.step, severity=loss.severity, text=loss.text)
            self.inbox.setdefault(loss.step, []).append(packet)

    def next(self) -> tuple[Step, list[Packet]] | None:
        """The last step that was not visited and has packets; None when none is left."""
        while self.left:
            step = self.left.pop()
            if packets := self.inbox.pop(step.id, []):
                return step, sorted(packets, key=lambda packet: packet.order)
        return None

    def earlier(self, step: Step) -> list[Step]:
        """The predecessors that came before it, as a trace should have it."""
        known = {each.id: each for each in self.left}
        names = dict.fromkeys(step.predecessors)
        return [known[name] for name in names if name in known]


@dataclass(frozen=True, kw_only=True)
class _Visit:
    """A step about to be asked about."""

    walk: Walk
    step: Step
    request: BackwardRequest


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
        self._targets = frozenset(targets)
        self._structure = structure
        self._kinds = {surface.id: surface.kind for surface in run.target.surfaces}
        self._parallel = parallel

    async def walked(
        self,
        losses: Sequence[CaseLoss],
        traces: Mapping[tuple[str, int], Trace],
        candidate: Candidate,
        *,
        draw: int,
    ) -> Backward:
        """Walk every run back to its beginning."""
        walks = [Walk(loss=loss, trace=traces[loss.case, loss.draw]) for loss in losses]
        gradients: list[SurfaceGradient] = []
        lost: list[Lost] = []
        proposals: list[Proposal] = []
        pending = list(walks)
        while pending:
            batch, pending = pending[: self._parallel], pending[self._parallel :]
            going = batch
            while going:
                visits = [visit for walk in going if (visit := self._visit(walk, candidate, lost))]
                replies = await self._asked(visits, draw, lost)
                proposals += [reply.proposal for _, reply in replies]
                for visit, reply in replies:
                    gradients += self._delivered(visit, reply, lost)
                going = [walk for walk in going if walk.inbox and walk.left]
        ordered = sorted(gradients, key=lambda each: (each.case, each.draw))
        return Backward(gradients=tuple(ordered), lost=tuple(lost), proposals=tuple(proposals))

    def _visit(self, walk: Walk, candidate: Candidate, lost: list[Lost]) -> _Visit | None:
        """The next step worth asking about: one with something to blame, or steps before it."""
        while (found := walk.next()) is not None:
            step, packets = found
            request = self._request(walk, step, packets, candidate)
            if not request.surfaces and not request.predecessors:
                continue
            if (case := self._run.secrets.leaked(self._role.encode(request))) is not None:
                # An agent may say on a train case what a held out case expects: not to be shown.
                why = f"it would show text of case '{case}', which no proposer may see"
                lost.append(Lost(role=self._role.name, where=_place(walk, step), why=why))
                continue
            return _Visit(walk=walk, step=step, request=request)
        return None

    def _request(
        self, walk: Walk, step: Step, packets: Sequence[Packet], candidate: Candidate
    ) -> BackwardRequest:
        applied = [name for name in dict.fromkeys(step.surfaces) if name in candidate.values]
        shown = [self._shown(name, candidate) for name in applied]
        return BackwardRequest(
            node=step.node,
            input=_text(step.input),
            output=_text(step.output),
            error=_text(step.error),
            tools="\n".join(_tool(call) for call in step.tools),
            surfaces=tuple(each for each in shown if each.id in self._targets),
            other_surfaces=tuple(each for each in shown if each.id not in self._targets),
            predecessors=tuple(
                ShownStep(
                    id=each.id,
                    node=each.node,
                    output=_text(each.output),
                    error=_text(each.error),
                )
                for each in walk.earlier(step)
            ),
            incoming=tuple(
                Remark.model_validate({"severity": p.severity, "gradient": p.text})
                for p in packets
                if p.text.strip()
            ),
        )

    def _shown(self, name: str, candidate: Candidate) -> ShownSurface:
        return ShownSurface(
            id=name,
            type=surface_type(name, self._structure, self._kinds),
            value=shown_value(candidate.values[name]),
        )

    async def _asked(
        self, visits: Sequence[_Visit], draw: int, lost: list[Lost]
    ) -> list[tuple[_Visit, Asked[BackwardAnswer]]]:
        requests = [visit.request for visit in visits]
        replies = await self._run.ask_together(self._role, requests, draw=draw)
        pairs = list(zip(visits, replies, strict=True))
        for visit, reply in pairs:
            if reply.answer is None:
                where = _place(visit.walk, visit.step)
                lost.append(Lost(role=self._role.name, where=where, why=reply.proposal.error))
        return pairs

    def _delivered(
        self, visit: _Visit, reply: Asked[BackwardAnswer], lost: list[Lost]
    ) -> list[SurfaceGradient]:
        """Pass on what is meant for earlier steps; what is said of surfaces here."""
        if reply.answer is None:
            return []
        answer, walk, step = sanitised(reply.answer, visit.request), visit.walk, visit.step
        if not answer.gradients and not answer.upstream:
            why = "the answer names nothing that was shown"
            lost.append(Lost(role=self._role.name, where=_place(walk, step), why=why))
        for sent in answer.upstream:
            packets = [
                Packet(source=step.id, severity=said.severity.value, text=said.gradient.strip())
                for said in sent.gradients
            ]
            walk.inbox.setdefault(sent.predecessor, []).extend(packets)
        return [
            SurfaceGradient(
                case=walk.loss.case,
                draw=walk.loss.draw,
                step=step.id,
                node=step.node,
                surface=said.surface,
                severity=said.severity.value,
                text=said.gradient.strip(),
            )
            for said in answer.gradients
        ]


def surface_type(name: str, structure: Structure | None, kinds: Mapping[str, str]) -> str:
    """What a surface is to its node, where the structure says; else its kind."""
    position = structure.of_surface(name) if structure else None
    return position.type.value if position else kinds.get(name, "text")


def _place(walk: Walk, step: Step) -> str:
    return f"{walk.loss.case}, {step.id}"


def _text(value: Json) -> str:
    text = value if isinstance(value, str) else canonical(value).decode()
    return "" if value is None else without_middle(text, MOST_CHARS)


def _tool(call: ToolCall) -> str:
    asked = canonical(dict(call.arguments)).decode()
    back = f"failed: {call.error}" if call.error else _text(call.result)
    return without_middle(f"{call.name}({asked}) → {back}", MOST_CHARS)
