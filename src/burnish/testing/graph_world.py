"""A scripted parcel desk of six agents, in which a rule can be missing at any node."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from pydantic import BaseModel

from burnish.core.surfaces import TextSurface
from burnish.strategies.backprop.prompts import (
    AGGREGATOR,
    BACKWARDER,
    PATCHER,
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergedRemark,
    MergeRequest,
    NumberedRemark,
    PatchAnswer,
    PatchRequest,
    Remark,
    ShownStep,
    ShownSurface,
    SurfaceRemark,
    Upstream,
)
from burnish.testing.doubles import read_role_request

RULES = {
    "topic": "name the place that the customer asks about as `topic: <place>`.",
    "wish": "hand on what the letter must say as `must: <what>`.",
    "fact": "look the topic up and write what the archive says as `fact: <what>`.",
    "greeting": "open the letter with `Dear customer,`.",
    "body": "write what must be said, and nothing else.",
    "verdict": "when the fact is not in the draft say `REVISE: <fact>`, else `APPROVED: <draft>`.",
    "closing": "end the letter with `Regards, the parcel desk.`",
}
"""The rule for each part."""
PARTS: Mapping[str, tuple[str, ...]] = {
    "planner": ("topic", "wish"),
    "retrieve": ("fact",),
    "compose": ("greeting", "body"),
    "reviewer": ("verdict",),
    "rewrite": ("wish",),
    "finalize": ("closing",),
}
"""The parts that each node is responsible for."""
_FACT = re.compile(r"a parcel to \w+ costs \d+ crowns")
_NODE = re.compile(r"You are the (\w+) of the parcel desk\.")
_TOPIC = re.compile(r"topic: (\w+)")
_MUST = re.compile(r"must: (.+)")
_DRAFT = re.compile(r"draft: (.+)")


def rule_line(part: str) -> str:
    """The line of an instruction that states a rule."""
    return f"- {part}: {RULES[part]}"


def price(place: str) -> str:
    """The price in the archive."""
    return f"a parcel to {place} costs {10 + sum(map(ord, place)) % 80} crowns"


def letter(place: str) -> str:
    """The expected letter to a customer."""
    return f"Dear customer, {price(place)}. Regards, the parcel desk."


def _planner(rules: set[str], question: str) -> str:
    place, must = re.search(r"parcel to (\w+)", question), _MUST.search(question)
    lines = [f"topic: {place[1]}"] if place and "topic" in rules else []
    lines += [must[0]] if must and "wish" in rules else []
    return "\n".join(lines) or "think about it"


def _retrieve(rules: set[str], question: str) -> str:
    topic = _TOPIC.search(question)
    return f"fact: {price(topic[1])}" if topic and "fact" in rules else "nothing found"


def _compose(rules: set[str], question: str) -> str:
    must = _MUST.search(question)
    body = must[1] if must and "body" in rules else "we look into it"
    return f"draft: {'Dear customer, ' if 'greeting' in rules else ''}{body}."


def _reviewer(rules: set[str], question: str) -> str:
    draft, fact = _DRAFT.search(question), re.search(rf"fact: ({_FACT.pattern})", question)
    text = draft[1] if draft else ""
    if "verdict" in rules and fact and fact[1] not in text:
        return f"REVISE: {fact[1]}"
    return f"APPROVED: {text}"


def _rewrite(rules: set[str], question: str) -> str:
    revision = re.search(r"REVISE: (.+)", question)
    return f"must: {revision[1]}" if revision and "wish" in rules else "once more, please"


def _finalize(rules: set[str], question: str) -> str:
    approved = re.search(r"APPROVED: (.+)", question)
    text = approved[1] if approved else "We are sorry."
    return f"{text} Regards, the parcel desk." if "closing" in rules else text


_REPLIES: dict[str, Callable[[set[str], str], str]] = {
    "planner": _planner,
    "retrieve": _retrieve,
    "compose": _compose,
    "reviewer": _reviewer,
    "rewrite": _rewrite,
    "finalize": _finalize,
}
_MADE_FROM = {
    "fact": ("topic: ", "topic"),
    "body": ("must: ", "wish"),
    "wish": ("must: |REVISE: ", "wish"),
}
"""By part, its source: a pattern in the input, and the source's own part."""
_WANTED = re.compile(r"^\[(\w+)\]", re.MULTILINE)
_PARTS = re.compile(r"^Your part: (.+)\.$", re.MULTILINE)
_EXPECTED = re.compile(r"^Expected: (.+)$", re.MULTILINE)


class _Cause(NamedTuple):
    """Where a part was lost: here, or at an earlier step."""

    part: str
    step: str = ""

    def __str__(self) -> str:
        return f"[{self.part}] this part is missing or not as it should be"


def _backward(request: BackwardRequest) -> BackwardAnswer:
    remarks = [remark.gradient for remark in request.incoming]
    wants = [
        part for text in remarks for part in (*_parts_named(text), *_lacking(text, request.output))
    ]
    causes = dict.fromkeys(_cause(part, request) for part in dict.fromkeys(wants))
    severity = request.incoming[0].severity
    return BackwardAnswer(
        gradients=[
            SurfaceRemark(
                surface=_responsible(each.part, request), severity=severity, gradient=str(each)
            )
            for each in causes
            if request.surfaces and not each.step
        ],
        upstream=[
            Upstream(
                predecessor=each.step, gradients=[Remark(severity=severity, gradient=str(each))]
            )
            for each in causes
            if each.step
        ],
    )


def _merge(request: MergeRequest) -> MergeAnswer:
    by_part: dict[str, list[int]] = {}
    for remark in request.gradients:
        for part in _parts_named(remark.gradient):
            by_part.setdefault(part, []).append(remark.number)
    severity = request.gradients[0].severity
    return MergeAnswer(
        gradients=[
            MergedRemark(severity=severity, gradient=str(_Cause(part)), sources=numbers)
            for part, numbers in by_part.items()
        ]
    )


def _patch(request: PatchRequest) -> PatchAnswer:
    text = str(request.surface.value)
    lines = text.splitlines()
    parts = [part for remark in request.gradients for part in _parts_named(remark.gradient)]
    for part in parts:
        lines = [line for line in lines if not line.startswith(f"- {part}:")]
        lines.append(rule_line(part))
    reason = f"the instruction did not say how to do: {', '.join(parts)}"
    end = "\n" if text.endswith("\n") else ""
    return PatchAnswer(value="\n".join(lines) + end, reason=reason)


def _parts_named(text: str) -> list[str]:
    return [part for part in _WANTED.findall(text) if part in RULES]


def _lacking(loss: str, output: str) -> Iterator[str]:
    """The parts that the expected letter has and the actual one lacks."""
    match = _EXPECTED.search(loss)
    if match is None:
        return
    looks = {"greeting": "Dear customer", "body": _FACT.pattern, "closing": "Regards"}
    for part, look in looks.items():
        there = re.search(look, match[1])
        if there and there[0] not in output:
            yield part


def _cause(part: str, request: BackwardRequest) -> _Cause:
    own = [p for s in (*request.surfaces, *request.other_surfaces) for p in _parts_of(s)]
    if part in own:
        look, source = _MADE_FROM.get(part, ("", ""))
        if not look or re.search(look, request.input) or not request.predecessors:
            return _Cause(part)
        return _Cause(source, request.predecessors[-1].id)
    if "verdict" in own:
        return _of_review(part, request)
    if request.predecessors:
        # A draft that was sent back is no letter: what it lacks is what it was sent back for.
        sent_back = "REVISE: " in request.input
        return _Cause("body" if sent_back else part, request.predecessors[-1].id)
    return _Cause(part)


def _of_review(part: str, request: BackwardRequest) -> _Cause:
    """A review is to blame for what it approved; earlier steps are for the rest."""
    steps = list(request.predecessors)
    drafts = [step for step in steps if step.output.startswith("draft: ")]
    others = [step for step in steps if step not in drafts]
    if part != "body":
        return _Cause(part, (drafts or steps)[-1].id)
    if "fact: " not in request.input:
        return _Cause("fact", (others or steps)[-1].id)
    if request.output.startswith("APPROVED"):
        return _Cause("verdict")
    return _Cause("body", (drafts or steps)[-1].id)


def _parts_of(surface: ShownSurface) -> list[str]:
    match = _PARTS.search(str(surface.value))
    return match[1].split(", ") if match else []


def _responsible(part: str, request: BackwardRequest) -> str:
    owners = [surface for surface in request.surfaces if part in _parts_of(surface)]
    return (owners or list(request.surfaces))[0].id


_Shown = TypeVar("_Shown", bound=BaseModel)


def play(system: str, question: str) -> str:
    """The answer of a model to a system prompt and a question."""
    if node := _NODE.search(system):
        rules = {part for part in PARTS[node[1]] if rule_line(part) in system}
        return _REPLIES[node[1]](rules, question)
    if (step := read_role_request(BACKWARDER, question)) is not None:
        backward = BackwardRequest(
            node=step["node"],
            input=step["input"],
            output=step["output"],
            surfaces=_many(step["surfaces"], ShownSurface),
            other_surfaces=_many(step["other_surfaces"], ShownSurface),
            predecessors=_many(step["predecessors"], ShownStep),
            incoming=_many(step["incoming"], Remark),
        )
        return _backward(backward).model_dump_json()
    if (remarks := read_role_request(PATCHER, question)) is not None:
        surface = ShownSurface.model_validate_json(remarks["surface"])
        patch = PatchRequest(
            surface=surface,
            kind="text",
            bounds="",
            gradients=_many(remarks["gradients"], Remark),
            limits=TextSurface(id=surface.id),
        )
        return _patch(patch).model_dump_json()
    if (remarks := read_role_request(AGGREGATOR, question)) is not None:
        surface = ShownSurface.model_validate_json(remarks["surface"])
        merge = MergeRequest(surface=surface, gradients=_many(remarks["gradients"], NumberedRemark))
        return _merge(merge).model_dump_json()
    return "I only know the parcel desk."


def _many(text: str, kind: type[_Shown]) -> tuple[_Shown, ...]:
    return tuple(kind.model_validate(each) for each in json.loads(text or "[]"))
