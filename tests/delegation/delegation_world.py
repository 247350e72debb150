"""Worlds for delegations, refinements and training: scripted teams without a network."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from burnish.journal.outages import RetryPolicy
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.factory import Models
from burnish.testing.delegation_world import (
    COMPLETE,
    FILE,
    SUBJECTS,
    Response,
    RoleTurn,
    defect,
    delegation,
    plan,
    suite_critic,
    suite_manager,
    suite_worker,
    textgrad,
    use,
)
from burnish.testing.doubles import CallCounter, ScriptedBackend

REPORT = "# Heat\n\n" + "The heat of the day was measured at noon, in the shade. " * 12 + "\n"
"""A document that passes every gate."""
FLOW = """\
workflow: {name: heat_report}
orchestration:
  delegation_loop:
    models: {manager: openai:boss, worker: openai:hand, critic: openai:eye}
sandbox: none
"""
"""A workflow file for this world."""
GOOD: Mapping[str, Any] = {"score": 0.9, "defects": [], "summary": "sound"}


def flawed(score: float = 0.4, severity: str = "warning", text: str = "no unit") -> dict[str, Any]:
    """A critique with one defect."""
    return {"score": score, "defects": [defect(text, severity)], "summary": "flawed"}


def writer(path: str = "report.md", content: str = REPORT) -> Callable[[RoleTurn], Response]:
    """A worker that writes one file and reports it."""

    def respond(turn: RoleTurn) -> Response:
        if not turn.answers:
            return use("file_write", path=path, content=content)
        return {"summary": f"wrote {path}", "outputs": [path], "confidence": 0.8}

    return respond


def in_order(*decisions: Response) -> Callable[[RoleTurn], Response]:
    """A manager with one decision per iteration; the last one repeats."""
    return lambda turn: decisions[min(turn.draw, len(decisions)) - 1]


@dataclass(frozen=True, kw_only=True)
class DelegationWorld:
    """Plays every role; by default they write a sound report."""

    manager: Callable[[RoleTurn], Response] = field(
        default_factory=lambda: in_order(plan("report.md"), delegation("writer"), COMPLETE)
    )
    worker: Callable[[RoleTurn], Response] = field(default_factory=writer)
    critic: Callable[[RoleTurn], Response] = lambda _: GOOD
    judge: Callable[[RoleTurn], Response] = lambda _: {"score": 0.9, "reason": ""}
    others: Mapping[str, Callable[[RoleTurn], Response]] = field(
        default_factory=dict[str, Callable[[RoleTurn], Response]]
    )
    """Further roles, such as those that propose texts."""
    turns: list[tuple[str, RoleTurn]] = field(default_factory=list[tuple[str, RoleTurn]])
    """Every request that was made, with its role."""
    counter: CallCounter | None = None
    """Counts the requests in a file that outlives the process."""

    def models(self) -> Models:
        """Models that this world answers for."""
        backend = ScriptedBackend(respond=self._respond)
        return Models(backends={"openai": backend}, retries=RetryPolicy(attempts=1))

    def turns_of(self, role: str) -> list[RoleTurn]:
        return [turn for name, turn in self.turns if name == role]

    def _respond(self, request: ChatRequest, draw: int) -> str | ChatReply:
        turn, role = RoleTurn(request=request, draw=draw), request.schema_name
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
        answer = playing[role](turn)
        return answer if isinstance(answer, str | ChatReply) else json.dumps(answer)


TASK = f"Write a report on the heat of the week to {FILE}."
FLAWS: Mapping[str, tuple[str, str]] = {
    "the temperatures have no unit": (
        "between 31 and 36 in the shade",
        "between 31 and 36 °C in the shade",
    ),
    "the source of the data is not named": (
        "The data are sound.",
        "The data are those of the station at the airport.",
    ),
    "the conclusion is missing": (
        "More is to be said.",
        "Heat of this kind calls for shade at every bus stop.",
    ),
}
"""By complaint of the critic: the flawed sentence, and the sound one."""
_PARTS = (
    "# The heat of the week",
    "It was hot in the whole of the week, and hotter in the town than around it. At noon it was "
    "{0}, on every day from Monday to Sunday, with a light wind from the south that brought no "
    "relief at all.",
    "## How it was measured",
    "{1} Readings were taken each hour, and the highest of a day counts as the heat of that day. "
    "Nights were warm as well: on five of them it never became cool enough to sleep well.",
    "## What follows",
    "{2} Old people and small children suffer first, and most of them have no cool place at home "
    "in which they could wait for the evening.",
)
REFINE_FLOW = """\
workflow: {name: heat_report}
orchestration:
  delegation_loop:
    models: {manager: openai:boss, worker: openai:hand, critic: openai:eye}
    budget: {max_loops: 12, max_total_workers: 8, max_total_tokens: 100000, max_tool_calls: 40,
             max_wall_time: 3600, max_depth: 2}
    critique: {min_score_to_complete: 0.1}
observability:
  evaluation:
    thresholds: {accept: 0.9, retry: 0.1, fail: 0.05}
    metrics:
      - {name: unit, kind: deterministic_assertion, threshold: 0.9,
         params: {path: report.md, contains: "°C"}}
      - {name: there, kind: deterministic_assertion, params: {path: report.md, contains: heat}}
deliverables: [report.md]
sandbox: none
"""
"""A workflow file for this world."""


def report(*mended: str) -> str:
    """The report with these flaws fixed and all others in it."""
    sentences = [pair[flaw in mended] for flaw, pair in FLAWS.items()]
    return "\n\n".join(part.format(*sentences) for part in _PARTS) + "\n"


def flaws_in(text: str) -> list[str]:
    """The flaws that a text still has."""
    return [flaw for flaw, (_, sound) in FLAWS.items() if sound not in text]


def refine_world(**players: Any) -> DelegationWorld:
    """The team, with `players` in place of its own roles."""
    roles: dict[str, Any] = {"manager": manager, "worker": worker, "critic": critic}
    return DelegationWorld(**{**roles, **players})


def manager(turn: RoleTurn) -> Response:
    """Plans to fix one flaw, delegates, completes."""
    if turn.draw == 1:
        flaws = [flaw for flaw in FLAWS if flaw in turn.text]
        criterion = f"mend: {flaws[0]}" if flaws else "write it"
        return plan(FILE, criteria=(criterion,))
    if turn.draw == 2:
        return delegation("writer", instructions=f"{FILE}: see criteria")
    return COMPLETE


def worker(turn: RoleTurn) -> Response:
    """Reads the report and writes it with one flaw less."""
    if "mend: " not in turn.text:
        content = report()
    elif not turn.answers:
        return use("file_read", path=f"input/{FILE}")
    else:
        content = turn.answers[0]
        for flaw, (flawed_sentence, sound) in FLAWS.items():
            if f"mend: {flaw}" in turn.text:
                content = content.replace(flawed_sentence, sound)
    if len(turn.answers) < (2 if "mend: " in turn.text else 1):
        return use("file_write", path=FILE, content=content)
    return {"summary": f"wrote {FILE}", "outputs": [FILE], "confidence": 0.8}


def critic(turn: RoleTurn) -> Response:
    """Finds the flaws that are in the file."""
    defects = [defect(flaw) for flaw in flaws_in(turn.text.partition("<files>")[2])]
    return {"score": 1 - 0.25 * len(defects), "defects": defects, "summary": str(len(defects))}


GUILTY = "worker_pitfalls"
"""The text that contains the fault in the example."""
SUITE_FLOW = """\
workflow: {name: weather}
orchestration:
  delegation_loop:
    models: {manager: openai:boss, worker: openai:hand, critic: openai:eye}
    budget: {max_loops: 10, max_total_workers: 6, max_total_tokens: 200000, max_tool_calls: 40}
    critique: {min_score_to_complete: 0.1}
observability:
  evaluation:
    thresholds: {accept: 0.9, retry: 0.1, fail: 0.05}
    metrics:
      - {name: units, kind: deterministic_assertion,
         params: {path: report.md, matches: "[0-9] (°C|mm|km/h|cm)"}}
      - {name: there, kind: deterministic_assertion, params: {path: report.md, contains: Report}}
deliverables: [report.md]
sandbox: none
"""
"""A workflow file for this world."""


def task(name: str) -> str:
    """The text of a task."""
    return f"Write a report on {SUBJECTS[name][0]} to {FILE}."


def suite_text(
    *tasks: str, holdout: tuple[str, ...] = (), test: tuple[str, ...] = (), more: str = ""
) -> str:
    """A suite file."""
    lines = ["name: weather"]
    for key, names in (("tasks", tasks), ("holdout", holdout), ("test", test)):
        lines += [f"{key}:"] if names else []
        lines += [f"  - {{name: {name}, task: {task(name)!r}}}" for name in names]
    return "\n".join([*lines, more]) + "\n"


def suite_world(**players: Any) -> DelegationWorld:
    """The team, with `players` in place of its own roles."""
    roles: dict[str, Any] = {
        "manager": suite_manager,
        "worker": suite_worker,
        "critic": suite_critic,
        "others": {"textgrad": textgrad},
    }
    return DelegationWorld(**{**roles, **players})
