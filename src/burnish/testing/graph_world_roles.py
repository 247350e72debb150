"""Backwarder, aggregator and patcher of the parcel desk.

They know how letters are made, not where the fault is. The backwarder reads what went into a step,
what came out, what its instruction says it answers for, and what those after it want; from these
alone it tells whether the cause is here or earlier.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from burnish.strategies.backprop.wording import (
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergedRemark,
    MergeRequest,
    PatchAnswer,
    PatchRequest,
    Remark,
    ShownStep,
    SurfaceRemark,
    Upstream,
)
from burnish.testing.graph_world_nodes import FACT, RULES, rule_line

_MADE_FROM = {
    "fact": ("topic: ", "topic"),
    "body": ("must: ", "wish"),
    "wish": ("must: |REVISE: ", "wish"),
}
"""By part, what it is made from: how that looks in an input, and which part it is."""
_WANTED = re.compile(r"^\[(\w+)\]", re.MULTILINE)
_PARTS = re.compile(r"^Your part: (.+)\.$", re.MULTILINE)
_EXPECTED = re.compile(r"^Expected: (.+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class _Cause:
    """Where a part got lost: here, or with a step before."""

    part: str
    step: str = ""


def backward(request: BackwardRequest) -> BackwardAnswer:
    """What is to blame here, and what to tell the steps before."""
    told = [remark.gradient for remark in request.incoming]
    wants = [part for text in told for part in (*_said(text), *_lacking(text, request.output))]
    causes = dict.fromkeys(_cause(part, request) for part in dict.fromkeys(wants))
    severity = request.incoming[0].severity
    here = [each for each in causes if not each.step]
    return BackwardAnswer(
        gradients=[
            SurfaceRemark(
                surface=_answering(each.part, request), severity=severity, gradient=_words(each)
            )
            for each in here
            if request.surfaces
        ],
        upstream=[
            Upstream(
                predecessor=each.step,
                gradients=[Remark(severity=severity, gradient=_words(each))],
            )
            for each in causes
            if each.step
        ],
    )


def merge(request: MergeRequest) -> MergeAnswer:
    """Remarks about the same part become one."""
    by_part: dict[str, list[int]] = {}
    for remark in request.gradients:
        for part in _said(remark.gradient):
            by_part.setdefault(part, []).append(remark.number)
    severity = request.gradients[0].severity
    return MergeAnswer(
        gradients=[
            MergedRemark(severity=severity, gradient=_words(_Cause(part=part)), sources=numbers)
            for part, numbers in by_part.items()
        ]
    )


def patch(request: PatchRequest) -> PatchAnswer:
    """The instruction with the right rule for each part that the remarks speak of."""
    text = str(request.surface.value)
    lines = text.splitlines()
    parts = [part for remark in request.gradients for part in _said(remark.gradient)]
    for part in parts:
        lines = [line for line in lines if not line.startswith(f"- {part}:")]
        lines.append(rule_line(part))
    reason = f"the instruction did not say how to do: {', '.join(parts)}"
    end = "\n" if text.endswith("\n") else ""
    return PatchAnswer(value="\n".join(lines) + end, reason=reason)


def _said(text: str) -> list[str]:
    return [part for part in _WANTED.findall(text) if part in RULES]


def _lacking(loss: str, output: str) -> Iterator[str]:
    """What the expected letter has and the one that was sent has not."""
    found = _EXPECTED.search(loss)
    if found is None:
        return
    looks = {"greeting": "Dear customer", "body": FACT.pattern, "closing": "Regards"}
    for part, look in looks.items():
        there = re.search(look, found[1])
        if there and there[0] not in output:
            yield part


def _cause(part: str, request: BackwardRequest) -> _Cause:
    own = _own(request)
    if part in own:
        look, source = _MADE_FROM.get(part, ("", ""))
        if not look or re.search(look, request.input) or not request.predecessors:
            return _Cause(part=part)
        return _Cause(part=source, step=request.predecessors[-1].id)
    if "verdict" in own:
        return _of_review(part, request)
    if request.predecessors:
        # A draft that was sent back is no letter: what it lacks is what it was sent back for.
        sent_back = "REVISE: " in request.input
        return _Cause(part="body" if sent_back else part, step=request.predecessors[-1].id)
    return _Cause(part=part)


def _of_review(part: str, request: BackwardRequest) -> _Cause:
    """A review answers for what it let pass; for the rest, those whose work it looked at do."""
    drafts = [step for step in request.predecessors if step.output.startswith("draft: ")]
    others = [step for step in request.predecessors if step not in drafts]
    if part != "body":
        return _Cause(part=part, step=_last(drafts, request))
    if "fact: " not in request.input:
        return _Cause(part="fact", step=_last(others, request))
    if request.output.startswith("APPROVED"):
        return _Cause(part="verdict")
    return _Cause(part="body", step=_last(drafts, request))


def _last(steps: list[ShownStep], request: BackwardRequest) -> str:
    return (steps or list(request.predecessors))[-1].id


def _own(request: BackwardRequest) -> list[str]:
    shown = (*request.surfaces, *request.other_surfaces)
    found = [_PARTS.search(str(surface.value)) for surface in shown]
    return [part for each in found if each for part in each[1].split(", ")]


def _answering(part: str, request: BackwardRequest) -> str:
    """The surface that speaks of the part; else the first one."""
    for surface in request.surfaces:
        found = _PARTS.search(str(surface.value))
        if found and part in found[1].split(", "):
            return surface.id
    return request.surfaces[0].id


def _words(cause: _Cause) -> str:
    return f"[{cause.part}] this part is missing or not as it should be"
