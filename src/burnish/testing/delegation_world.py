"""A world for delegations: scripted managers, workers, critics and judges, without a network.

What each says is a function of what it is asked, so that a run can be killed and resumed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from burnish.core.messages import ToolUse
from burnish.core.outcomes import Usage
from burnish.effects.retries import RetryPolicy
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.factory import Models
from burnish.testing.backends import ScriptedBackend
from burnish.testing.doubles import CallCounter

Said: TypeAlias = Mapping[str, Any] | ChatReply | str
"""A JSON object, a whole reply, or the text of one."""

REPORT = "# Heat\n\n" + "The heat of the day was measured at noon, in the shade. " * 12 + "\n"
"""A document that every gate lets pass."""
FLOW = """\
workflow: {name: heat_report}
orchestration:
  delegation_loop:
    models: {manager: openai:boss, worker: openai:hand, critic: openai:eye}
sandbox: none
"""
"""A workflow file whose models this world plays."""


def use(name: str, **arguments: Any) -> ChatReply:
    """A reply that uses one tool."""
    return uses((name, arguments))


def uses(*wanted: tuple[str, Mapping[str, Any]]) -> ChatReply:
    """A reply that uses tools."""
    calls = tuple(
        ToolUse(id=f"call-{number}", name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(wanted)
    )
    usage = Usage(requests=1, input_tokens=20, output_tokens=10)
    return ChatReply(text="", uses=calls, finish="tool_call", usage=usage)


def plan(*paths: str, criteria: Sequence[str] = ("it is complete",)) -> dict[str, Any]:
    """A plan with one subtask a file."""
    tasks = [
        {
            "id": f"t{number}",
            "description": f"write {path}",
            "required_outputs": [path],
            "success_criteria": list(criteria),
        }
        for number, path in enumerate(paths, start=1)
    ]
    return {"decision": "plan", "subtasks": tasks}


def delegation(*workers: str, **more: Any) -> dict[str, Any]:
    """A delegation to workers of these names."""
    jobs = [
        {"worker_id": name, "subtask_id": "t1", "instructions": f"{name}: write it", **more}
        for name in workers
    ]
    return {"decision": "delegate", "delegations": jobs}


COMPLETE: Mapping[str, Any] = {
    "decision": "complete",
    "final_result": "The report is written.",
    "confidence": 0.9,
}
GOOD: Mapping[str, Any] = {"score": 0.9, "defects": [], "summary": "sound"}


def flawed(score: float = 0.4, severity: str = "warning", text: str = "no unit") -> dict[str, Any]:
    """A critique with one defect."""
    defect = {
        "category": "incomplete",
        "location": "report.md",
        "description": text,
        "severity": severity,
    }
    return {"score": score, "defects": [defect], "summary": "flawed"}


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One question to one of the roles."""

    request: ChatRequest
    draw: int

    @property
    def text(self) -> str:
        """What the user's messages say."""
        return "\n".join(m.content for m in self.request.messages if m.role == "user")

    @property
    def system(self) -> str:
        """The role's prompt."""
        return self.request.messages[0].content

    @property
    def answers(self) -> list[str]:
        """What tools said in this conversation."""
        return [m.content for m in self.request.messages if m.role == "tool"]

    @property
    def attempt(self) -> int:
        """Of a worker or critic: 0, or the number of the repair."""
        return self.draw % 100


def writer(path: str = "report.md", content: str = REPORT) -> Callable[[Turn], Said]:
    """A worker that writes one file and says so."""

    def said(turn: Turn) -> Said:
        if not turn.answers:
            return use("file_write", path=path, content=content)
        return {"summary": f"wrote {path}", "outputs": [path], "confidence": 0.8}

    return said


def in_order(*decisions: Said) -> Callable[[Turn], Said]:
    """A manager that decides by the number of the iteration; the last decision stays."""
    return lambda turn: decisions[min(turn.draw, len(decisions)) - 1]


@dataclass(frozen=True, kw_only=True)
class DelegationWorld:
    """Plays every role; what is not given writes a sound report."""

    manager: Callable[[Turn], Said] = field(
        default_factory=lambda: in_order(plan("report.md"), delegation("writer"), COMPLETE)
    )
    worker: Callable[[Turn], Said] = field(default_factory=writer)
    critic: Callable[[Turn], Said] = lambda _: GOOD
    judge: Callable[[Turn], Said] = lambda _: {"score": 0.9, "reason": ""}
    others: Mapping[str, Callable[[Turn], Said]] = field(
        default_factory=dict[str, Callable[[Turn], Said]]
    )
    """Roles beside the delegation, such as those that propose texts."""
    turns: list[tuple[str, Turn]] = field(default_factory=list[tuple[str, Turn]])
    """Every question that was really asked, with the role that it went to."""
    counter: CallCounter | None = None
    """Counts the same in a file, which outlives the process."""

    def models(self) -> Models:
        """Models that are all of this world."""
        backend = ScriptedBackend(respond=self._respond)
        return Models(backends={"openai": backend}, retries=RetryPolicy(attempts=1))

    def asked(self, role: str) -> list[Turn]:
        """What one role was asked, in order."""
        return [turn for name, turn in self.turns if name == role]

    def _respond(self, request: ChatRequest, draw: int) -> str | ChatReply:
        turn, role = Turn(request=request, draw=draw), request.schema_name
        self.turns.append((role, turn))
        if self.counter is not None:
            self.counter.count(f"{role} {draw} {len(request.messages)}")
        playing = {
            "manager": self.manager,
            "worker": self.worker,
            "delegation_critic": self.critic,
            "delegation_judge": self.judge,
            **self.others,
        }
        said = playing[role](turn)
        return said if isinstance(said, str | ChatReply) else json.dumps(said)
