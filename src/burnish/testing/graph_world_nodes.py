"""The parcel desk's six nodes: each does its part where its instruction has the right rule for it.

A customer asks what a parcel costs. The planner names the place, the archive is looked up, a letter
is drafted at the same time; the reviewer sends the draft back when the fact is not in it; once more
through planner and draft, then the last hand signs it.
"""

import re
from collections.abc import Callable, Mapping

RULES = {
    "topic": "name the place that the customer asks about as `topic: <place>`.",
    "wish": "hand on what the letter must say as `must: <what>`.",
    "fact": "look the topic up and write what the archive says as `fact: <what>`.",
    "greeting": "open the letter with `Dear customer,`.",
    "body": "write what must be said, and nothing else.",
    "verdict": "when the fact is not in the draft say `REVISE: <fact>`, else `APPROVED: <draft>`.",
    "closing": "end the letter with `Regards, the parcel desk.`",
}
"""How each part is done well."""
PARTS: Mapping[str, tuple[str, ...]] = {
    "planner": ("topic", "wish"),
    "retrieve": ("fact",),
    "compose": ("greeting", "body"),
    "reviewer": ("verdict",),
    "rewrite": ("wish",),
    "finalize": ("closing",),
}
"""What each node answers for."""
NODES = tuple(PARTS)
FACT = re.compile(r"a parcel to \w+ costs \d+ crowns")
_NODE = re.compile(r"You are the (\w+) of the parcel desk\.")
_TOPIC = re.compile(r"topic: (\w+)")
_MUST = re.compile(r"must: (.+)")
_DRAFT = re.compile(r"draft: (.+)")


def instruction(node: str, *, without: str = "", wrong: str = "") -> str:
    """The instruction of a node; a rule may be left out, or say something else."""
    rules = [
        rule_line(part) if part != wrong else f"- {part}: leave it to the others."
        for part in PARTS[node]
        if part != without
    ]
    head = f"You are the {node} of the parcel desk.\nYour part: {', '.join(PARTS[node])}."
    return "\n".join([head, "Rules:", *rules])


def rule_line(part: str) -> str:
    """The rule as it stands in an instruction."""
    return f"- {part}: {RULES[part]}"


def price(place: str) -> str:
    """What the archive says."""
    return f"a parcel to {place} costs {10 + sum(map(ord, place)) % 80} crowns"


def letter(place: str) -> str:
    """What a customer should be sent."""
    return f"Dear customer, {price(place)}. Regards, the parcel desk."


def node_of(told: str) -> str:
    """Which node is told this; empty for none of them."""
    found = _NODE.search(told)
    return found[1] if found else ""


def said_by(told: str, asked: str) -> str:
    """What the model of a node says, by the rules it is told and nothing else."""
    node = node_of(told)
    rules = {part for part in PARTS[node] if rule_line(part) in told}
    return _NODES[node](rules, asked)


def _planner(rules: set[str], asked: str) -> str:
    place, must = re.search(r"parcel to (\w+)", asked), _MUST.search(asked)
    lines = [f"topic: {place[1]}"] if place and "topic" in rules else []
    lines += [must[0]] if must and "wish" in rules else []
    return "\n".join(lines) or "think about it"


def _retrieve(rules: set[str], asked: str) -> str:
    topic = _TOPIC.search(asked)
    return f"fact: {price(topic[1])}" if topic and "fact" in rules else "nothing found"


def _compose(rules: set[str], asked: str) -> str:
    must = _MUST.search(asked)
    body = must[1] if must and "body" in rules else "we look into it"
    return f"draft: {'Dear customer, ' if 'greeting' in rules else ''}{body}."


def _reviewer(rules: set[str], asked: str) -> str:
    draft, fact = _DRAFT.search(asked), re.search(rf"fact: ({FACT.pattern})", asked)
    text = draft[1] if draft else ""
    if "verdict" in rules and fact and fact[1] not in text:
        return f"REVISE: {fact[1]}"
    return f"APPROVED: {text}"


def _rewrite(rules: set[str], asked: str) -> str:
    wanted = re.search(r"REVISE: (.+)", asked)
    return f"must: {wanted[1]}" if wanted and "wish" in rules else "once more, please"


def _finalize(rules: set[str], asked: str) -> str:
    approved = re.search(r"APPROVED: (.+)", asked)
    text = approved[1] if approved else "We are sorry."
    return f"{text} Regards, the parcel desk." if "closing" in rules else text


_NODES: dict[str, Callable[[set[str], str], str]] = {
    "planner": _planner,
    "retrieve": _retrieve,
    "compose": _compose,
    "reviewer": _reviewer,
    "rewrite": _rewrite,
    "finalize": _finalize,
}
