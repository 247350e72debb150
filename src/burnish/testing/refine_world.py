"""A world for refinement: a report with planted flaws, and a team that mends one flaw a run.

The first run writes the report with every flaw. A run that is told of flaws, and finds the report
under input/, mends the first of them and leaves the rest. Critic and metrics see what is really
in the file, so the loss falls by itself, without anybody who knows how it is computed. What each
role says is a function of what it is asked: sessions can be killed and resumed.
"""

from collections.abc import Mapping
from typing import Any

from burnish.testing.delegation_world import COMPLETE, DelegationWorld, Said, Turn, plan, use

FILE = "report.md"
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
"""By what a critic says of it: the flawed sentence, and the sound one."""
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
FLOW = """\
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
      - {name: unit, kind: deterministic_assertion, params: {path: report.md, contains: "°C"}}
      - {name: there, kind: deterministic_assertion, params: {path: report.md, contains: heat}}
deliverables: [report.md]
sandbox: none
"""
"""A workflow file whose models this world plays."""


def report(*mended: str) -> str:
    """The report, with these flaws mended and all others in it."""
    said = [sound if flaw in mended else flawed for flaw, (flawed, sound) in FLAWS.items()]
    return "\n\n".join(part.format(*said) for part in _PARTS) + "\n"


def flaws_in(text: str) -> list[str]:
    """What is still wrong with a text."""
    return [flaw for flaw, (_, sound) in FLAWS.items() if sound not in text]


def refine_world(**given: Any) -> DelegationWorld:
    """The team; what is given plays its role instead."""
    roles: dict[str, Any] = {"manager": manager, "worker": worker, "critic": critic, **given}
    return DelegationWorld(**roles)


def manager(turn: Turn) -> Said:
    """Plans what it is told to mend, delegates it, completes."""
    if turn.draw == 1:
        told = [flaw for flaw in FLAWS if flaw in turn.text]
        wanted = f"mend: {told[0]}" if told else "write it"
        return plan(FILE, criteria=(wanted,))
    if turn.draw == 2:
        job = {"worker_id": "writer", "subtask_id": "t1", "instructions": f"{FILE}: see criteria"}
        return {"decision": "delegate", "delegations": [job]}
    return COMPLETE


def worker(turn: Turn) -> Said:
    """Reads what there is, writes the report with one flaw less, says so."""
    if "mend: " not in turn.text:
        content = report()
    elif not turn.answers:
        return use("file_read", path=f"input/{FILE}")
    else:
        content = _mended(turn.answers[0], turn.text)
    if len(turn.answers) < (2 if "mend: " in turn.text else 1):
        return use("file_write", path=FILE, content=content)
    return {"summary": f"wrote {FILE}", "outputs": [FILE], "confidence": 0.8}


def critic(turn: Turn) -> Said:
    """Finds the flaws that are in the file."""
    defects = [
        {"category": "incomplete", "location": FILE, "description": flaw, "severity": "warning"}
        for flaw in flaws_in(turn.text.partition("<files>")[2])
    ]
    return {"score": 1 - 0.25 * len(defects), "defects": defects, "summary": str(len(defects))}


def _mended(text: str, wanted: str) -> str:
    for flaw, (flawed, sound) in FLAWS.items():
        if f"mend: {flaw}" in wanted:
            return text.replace(flawed, sound)
    return text
