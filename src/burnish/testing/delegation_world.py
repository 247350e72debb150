"""Worlds for delegations, refinements and training: scripted teams without a network."""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from burnish.core.cases import ToolUse, Usage
from burnish.journal.outages import RetryPolicy
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.factory import Models
from burnish.testing.doubles import CallCounter, ScriptedBackend, read_role_request

Response: TypeAlias = Mapping[str, Any] | ChatReply | str
"""A JSON object, a whole reply, or its text."""

FILE = "report.md"
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


def use(name: str, **arguments: Any) -> ChatReply:
    """A reply that uses one tool."""
    return uses((name, arguments))


def uses(*invocations: tuple[str, Mapping[str, Any]]) -> ChatReply:
    """A reply that uses tools."""
    calls = tuple(
        ToolUse(id=f"call-{number}", name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(invocations)
    )
    usage = Usage(requests=1, input_tokens=20, output_tokens=10)
    return ChatReply(text="", uses=calls, finish="tool_call", usage=usage)


def plan(*paths: str, criteria: Sequence[str] = ("it is complete",)) -> dict[str, Any]:
    """A plan with one subtask per file."""
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
    """A delegation to workers with these names."""
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
    return {"score": score, "defects": [_defect(text, severity)], "summary": "flawed"}


def _defect(description: str, severity: str = "warning") -> dict[str, str]:
    return {
        "category": "incomplete",
        "location": FILE,
        "description": description,
        "severity": severity,
    }


@dataclass(frozen=True, kw_only=True)
class RoleTurn:
    """One request to one of the roles."""

    request: ChatRequest
    draw: int

    @property
    def text(self) -> str:
        return "\n".join(m.content for m in self.request.messages if m.role == "user")

    @property
    def fields(self) -> dict[str, str]:
        """The fields of the request, as the shipped prompt of the role words them."""
        message = self.request.messages[1].content
        fields = read_role_request(self.request.schema_name, message)
        assert fields is not None, f"this is no request to {self.request.schema_name}: {message}"
        return fields

    @property
    def system(self) -> str:
        return self.request.messages[0].content

    @property
    def answers(self) -> list[str]:
        return [m.content for m in self.request.messages if m.role == "tool"]

    @property
    def attempt(self) -> int:
        """The number of the repair of a worker or critic; 0 at first."""
        return self.draw % 100


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
    defects = [_defect(flaw) for flaw in flaws_in(turn.text.partition("<files>")[2])]
    return {"score": 1 - 0.25 * len(defects), "defects": defects, "summary": str(len(defects))}


FAULT = "- State numbers without their unit, so that tables stay narrow."
RULE = "- State numbers with their unit, always."
COMPLAINT = "the numbers have no unit"
GUILTY = "worker_pitfalls"
"""The text that contains the fault in the example."""
_SUBJECTS: Mapping[str, tuple[str, str]] = {
    "heat": ("the heat of the week", "°C"),
    "rain": ("the rain of the month", "mm"),
    "wind": ("the wind of the night", "km/h"),
    "snow": ("the snow of the winter", "cm"),
    "frost": ("the frost of the spring", "°C"),
    "hail": ("the hail of the summer", "mm"),
    "fog": ("the fog of the autumn", "km/h"),
}
"""By task: the subject and its unit. The last three are never trained on."""
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
_REPORT = """\
# Report on {0}

On Monday the reading was 31{1}, on Tuesday it was 34{1}, and on Wednesday it was 36{1}. No reading
is missing, and none was corrected afterwards. The highest value of a day counts for that day, and
the station did not move in all the time that is reported on here, so that the days can be compared.

## What follows

Whoever plans for the next year should take {0} into account, since nothing says that it will be
any milder then. The readings above can be checked against the log of the station at any time.
"""


def task(name: str) -> str:
    """The text of a task."""
    return f"Write a report on {_SUBJECTS[name][0]} to {FILE}."


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


def suite_manager(turn: RoleTurn) -> Response:
    """Plans, delegates, completes."""
    if "Iteration 1." in turn.text:
        return plan(FILE)
    if "What workers reported:" not in turn.text:
        return delegation("writer")
    return COMPLETE


def suite_worker(turn: RoleTurn) -> Response:
    """Writes the report as its prompt says."""
    if turn.answers:
        return {"summary": f"wrote {FILE}", "outputs": [FILE], "confidence": 0.8}
    subject, unit = next(s for s in _SUBJECTS.values() if s[0] in turn.text)
    suffix = f" {unit}" if FAULT not in turn.system else ""
    return use("file_write", path=FILE, content=_REPORT.format(subject, suffix))


def suite_critic(turn: RoleTurn) -> Response:
    """Finds numbers without a unit."""
    bare = re.search(r"was \d+[,. ](?!°C|mm|km/h|cm)", _between(turn.text, "files"))
    defects = [_defect(COMPLAINT)] if bare else []
    return {"score": 0.5 if bare else 0.95, "defects": defects, "summary": ""}


def textgrad(turn: RoleTurn) -> Response:
    """Changes the line about a complaint that occurs in more than one task."""
    fields = turn.fields
    complaints = re.findall(r"defect \[\w+\] \(\w+\) [^:\n]+: (.+)", fields["runs"])
    text = fields["current_text"].strip("\n") + "\n"
    for complaint, times in Counter[str](complaints).items():
        words = [word for word in re.findall(r"\w+", complaint) if len(word) > 3 and word != "have"]
        guilty = [line for line in text.splitlines() if all(word in line for word in words)]
        if times > 1 and guilty:
            return {
                "artifact_name": fields["artifact_name"],
                "proposed_content": text.replace(guilty[0], RULE),
                "rationale": f"in {times} tasks {complaint}, and this text asks for it",
                "expected_loss_reduction": 0.2,
                "confidence": 0.9,
            }
    return {"artifact_name": None, "rationale": "this text is not to blame"}


def _between(text: str, tag: str) -> str:
    return text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
