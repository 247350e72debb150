"""A scripted team that does what its policy texts say, also where they are wrong."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from burnish.core.cases import ToolUse, Usage
from burnish.models.chat import ChatReply, ChatRequest
from burnish.testing.doubles import read_role_request

Response: TypeAlias = Mapping[str, Any] | ChatReply | str
"""A JSON object, a whole reply, or its text."""
FILE = "report.md"


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


def defect(description: str, severity: str = "warning") -> dict[str, str]:
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


FAULT = "- State numbers without their unit, so that tables stay narrow."
RULE = "- State numbers with their unit, always."
COMPLAINT = "the numbers have no unit"
SUBJECTS: Mapping[str, tuple[str, str]] = {
    "heat": ("the heat of the week", "°C"),
    "rain": ("the rain of the month", "mm"),
    "wind": ("the wind of the night", "km/h"),
    "snow": ("the snow of the winter", "cm"),
    "frost": ("the frost of the spring", "°C"),
    "hail": ("the hail of the summer", "mm"),
    "fog": ("the fog of the autumn", "km/h"),
}
"""By task: the subject and its unit. The last three are never trained on."""
_REPORT = """\
# Report on {0}

On Monday the reading was 31{1}, on Tuesday it was 34{1}, and on Wednesday it was 36{1}. No reading
is missing, and none was corrected afterwards. The highest value of a day counts for that day, and
the station did not move in all the time that is reported on here, so that the days can be compared.

## What follows

Whoever plans for the next year should take {0} into account, since nothing says that it will be
any milder then. The readings above can be checked against the log of the station at any time.
"""


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
    subject, unit = next(s for s in SUBJECTS.values() if s[0] in turn.text)
    suffix = f" {unit}" if FAULT not in turn.system else ""
    return use("file_write", path=FILE, content=_REPORT.format(subject, suffix))


def suite_critic(turn: RoleTurn) -> Response:
    """Finds numbers without a unit."""
    bare = re.search(r"was \d+[,. ](?!°C|mm|km/h|cm)", _between(turn.text, "files"))
    defects = [defect(COMPLAINT)] if bare else []
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
