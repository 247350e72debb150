"""A world for training: reports on the weather, and a team that does what its policy texts say.

Workers state numbers with their units, unless a policy text tells them not to. A critic and a
metric see what is really in the file. Whoever is asked about a policy text looks for what was
complained of in more than one task, and for a line of that text which speaks of the same; it does
not know in which text the fault is. What each role says is a function of what it is asked.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from burnish.testing.delegation_world import (
    COMPLETE,
    DelegationWorld,
    Said,
    Turn,
    delegation,
    plan,
    use,
)

FILE = "report.md"
FAULT = "- State numbers without their unit, so that tables stay narrow."
RULE = "- State numbers with their unit, always."
COMPLAINT = "the numbers have no unit"
GUILTY = "worker_pitfalls"
"""The text that has the fault in it in the example."""
SUBJECTS: Mapping[str, tuple[str, str]] = {
    "heat": ("the heat of the week", "°C"),
    "rain": ("the rain of the month", "mm"),
    "wind": ("the wind of the night", "km/h"),
    "snow": ("the snow of the winter", "cm"),
    "frost": ("the frost of the spring", "°C"),
}
"""By task: what is reported on, and the unit of it. The last one is for nobody to learn from."""
FLOW = """\
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
"""A workflow file whose models this world plays."""
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
    """What is to be done."""
    return f"Write a report on {SUBJECTS[name][0]} to {FILE}."


def suite_text(*tasks: str, holdout: tuple[str, ...] = (), more: str = "") -> str:
    """A suite file."""
    lines = ["name: weather"]
    for key, names in (("tasks", tasks), ("holdout", holdout)):
        lines += [f"{key}:"] if names else []
        lines += [f"  - {{name: {name}, task: {task(name)!r}}}" for name in names]
    return "\n".join([*lines, more]) + "\n"


def suite_world(**given: Any) -> DelegationWorld:
    """The team; what is given plays its role instead."""
    roles: dict[str, Any] = {
        "worker": worker,
        "critic": critic,
        "others": {"textgrad": textgrad},
        "manager": manager,
        **given,
    }
    return DelegationWorld(**roles)


def manager(turn: Turn) -> Said:
    """Plans, delegates, completes."""
    if "Iteration 1." in turn.text:
        return plan(FILE)
    if "(none)" in between(turn.text, "results"):
        return delegation("writer")
    return COMPLETE


def worker(turn: Turn) -> Said:
    """Writes the report as its prompt wants it, and says so."""
    if turn.answers:
        return {"summary": f"wrote {FILE}", "outputs": [FILE], "confidence": 0.8}
    subject, unit = next(s for s in SUBJECTS.values() if s[0] in turn.text)
    told = f" {unit}" if FAULT not in turn.system else ""
    return use("file_write", path=FILE, content=_REPORT.format(subject, told))


def critic(turn: Turn) -> Said:
    """Finds numbers without a unit."""
    bare = re.search(r"was \d+[,. ](?!°C|mm|km/h|cm)", between(turn.text, "files"))
    defect = {
        "category": "incomplete",
        "location": FILE,
        "description": COMPLAINT,
        "severity": "warning",
    }
    return {"score": 0.5 if bare else 0.95, "defects": [defect] if bare else [], "summary": ""}


def textgrad(turn: Turn) -> Said:
    """Changes the line that speaks of what was complained of in more than one task."""
    name = turn.text.partition("The text is: ")[2].split(" ", 1)[0]
    found = re.findall(r"defect \[\w+\] \(\w+\) [^:\n]+: (.+)", between(turn.text, "tasks"))
    text = between(turn.text, "current_text").strip("\n") + "\n"
    for complaint, times in Counter[str](found).items():
        words = [word for word in re.findall(r"\w+", complaint) if len(word) > 3 and word != "have"]
        guilty = [line for line in text.splitlines() if all(word in line for word in words)]
        if times > 1 and guilty:
            return {
                "artifact_name": name,
                "proposed_content": text.replace(guilty[0], RULE),
                "rationale": f"in {times} tasks {complaint}, and this text asks for it",
                "expected_loss_reduction": 0.2,
                "confidence": 0.9,
            }
    return {"artifact_name": None, "rationale": "this text is not to blame"}


def between(text: str, tag: str) -> str:
    """What stands between two tags."""
    return text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
