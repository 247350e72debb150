"""The conversation of a case with a graph: each turn goes through it once."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from burnish.core.cases import Attachment, Case
from burnish.core.errors import RoleFailed
from burnish.core.messages import Message
from burnish.core.outcomes import Failure, FailureKind, Outcome, Trace, Usage
from burnish.core.protocols import Role
from burnish.evaluation.simulation import NextRemark, TalkSoFar, converse
from burnish.targets.graph.flow import Flow
from burnish.targets.graph.graphs import Graph
from burnish.targets.graph.turns import Asking, TurnRun, Visit
from burnish.targets.graph.working import Work


class TurnFailed(Exception):
    """A turn gave no reply; nobody outside of this file sees it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(kw_only=True)
class GraphTalk:
    """A conversation under way, and what is known of it so far."""

    graph: Graph
    flow: Flow
    work: Work
    case: Case
    draw: int
    surfaces: Mapping[str, tuple[str, ...]]
    visits: list[Visit] = field(default_factory=list[Visit])
    replies: list[str] = field(default_factory=list[str])
    history: list[Message] = field(default_factory=list[Message])
    _last: tuple[Visit, ...] = ()
    """What the latest reply was made of."""

    async def say(self, text: str, attachments: Sequence[Attachment] = ()) -> str:
        """One turn: what the graph replies."""
        turn = TurnRun(
            graph=self.graph,
            flow=self.flow,
            work=self.work,
            surfaces=self.surfaces,
            asking=Asking(
                question=text,
                case=self.case.id,
                draw=self.draw,
                number=len(self.replies),
                attachments=tuple(attachments),
                history=(*self.case.history, *self.history),
                before=tuple(visit.step.id for visit in self._last),
            ),
        )
        try:
            await turn.run()
        finally:
            self.visits += turn.visits
        self._last = _ends(self.graph, turn.visits)
        self.replies.append("\n\n".join(visit.given.text for visit in self._last))
        self.history += [
            Message(role="user", content=text),
            Message(role="assistant", content=self.replies[-1]),
        ]
        return self.replies[-1]

    def outcome(self, *, failure: Failure | None = None, asked: Sequence[str] = ()) -> Outcome:
        """What came of it; all that the nodes used adds up."""
        outcomes = [visit.outcome for visit in self.visits]
        costs = [outcome.nano_usd for outcome in outcomes]
        data = self._last[0].outcome.data if len(self._last) == 1 else None
        return Outcome(
            replies=tuple(self.replies) if failure is None else (),
            asked=tuple(asked),
            data=data if failure is None else None,
            trace=Trace(steps=tuple(visit.step for visit in self.visits)),
            usage=sum((outcome.usage for outcome in outcomes), Usage()),
            nano_usd=None if None in costs else sum(cost or 0 for cost in costs),
            seconds=math.fsum(outcome.seconds for outcome in outcomes),
            failure=failure,
        )


async def run_talk(talk: GraphTalk, user: Role[TalkSoFar, NextRemark] | None) -> Outcome:
    """The conversation of the case. What goes wrong in it is an outcome, not an exception."""
    asked: tuple[str, ...] = ()
    try:
        if talk.case.scenario is not None:
            asked = await _play(talk, user)
        else:
            for turn in talk.case.turns:
                await talk.say(turn.input, turn.attachments)
    except RoleFailed as error:
        away = Failure(kind=FailureKind.INFRASTRUCTURE, message=error.message, error="RoleFailed")
        return talk.outcome(failure=away)
    except TurnFailed as error:
        return talk.outcome(failure=error.failure)
    return talk.outcome(asked=asked)


async def _play(talk: GraphTalk, user: Role[TalkSoFar, NextRemark] | None) -> tuple[str, ...]:
    assert user is not None, "a scenario was let through without a user to play it"
    files = list(talk.case.turns[0].attachments)

    async def say(remark: str) -> str:
        opening, files[:] = list(files), []
        return await talk.say(remark, opening)

    had = await converse(talk.case, say, user=user, draw=talk.draw, effects=talk.work.effects)
    return had.asked


def _ends(graph: Graph, visits: Sequence[Visit]) -> tuple[Visit, ...]:
    """The visits whose outputs are the reply. Raises TurnFailed where there is none."""
    failures = [visit.failure for visit in visits if visit.failure]
    # What the agent broke stays broken, whoever was away beside it.
    own = [failure for failure in failures if failure.kind is FailureKind.AGENT]
    if failures:
        raise TurnFailed((own or failures)[0])
    latest = {visit.node: visit for visit in visits}
    if not graph.output:
        return tuple(latest[node] for node in graph.nodes if _ended(latest.get(node)))
    if graph.output in latest:
        return (latest[graph.output],)
    there = ", ".join(node for node in graph.nodes if _ended(latest.get(node)))
    message = f"the turn ended at {there}: '{graph.output}', whose output is the reply, never ran"
    raise TurnFailed(Failure(kind=FailureKind.AGENT, message=message, error="NoReply"))


def _ended(visit: Visit | None) -> bool:
    return visit is not None and not visit.taken
