"""A parcel desk of six agents with a loop, in which a rule can be missing at any node."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from burnish.core.cases import Case, Dataset
from burnish.core.evaluations import Objective
from burnish.core.surfaces import TextSurface
from burnish.models.chat import ChatRequest
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.models.roles import in_force
from burnish.runs.setup import Setup
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
    aggregator,
    backwarder,
    patcher,
)
from burnish.strategies.backprop.settings import BackpropSettings
from burnish.strategies.backprop.strategy import Backprop
from burnish.targets.graph import Graph, GraphTarget, all_surfaces, graph
from burnish.testing.doubles import ExpectedText, ScriptedBackend

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


def node_of(system: str) -> str:
    """Which node is told this; empty for none of them."""
    match = _NODE.search(system)
    return match[1] if match else ""


def node_reply(system: str, question: str) -> str:
    """What the model of a node says, by the rules it is told and nothing else."""
    node = node_of(system)
    rules = {part for part in PARTS[node] if rule_line(part) in system}
    return _NODES[node](rules, question)


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
    draft, fact = _DRAFT.search(question), re.search(rf"fact: ({FACT.pattern})", question)
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


_NODES: dict[str, Callable[[set[str], str], str]] = {
    "planner": _planner,
    "retrieve": _retrieve,
    "compose": _compose,
    "reviewer": _reviewer,
    "rewrite": _rewrite,
    "finalize": _finalize,
}


# -- Backwarder, aggregator and patcher of the parcel desk ----------------------------------------


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
    remarks = [remark.gradient for remark in request.incoming]
    wants = [
        part for text in remarks for part in (*_parts_named(text), *_lacking(text, request.output))
    ]
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
        for part in _parts_named(remark.gradient):
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
    """What the expected letter has and the one that was sent has not."""
    match = _EXPECTED.search(loss)
    if match is None:
        return
    looks = {"greeting": "Dear customer", "body": FACT.pattern, "closing": "Regards"}
    for part, look in looks.items():
        there = re.search(look, match[1])
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
    matches = [_PARTS.search(str(surface.value)) for surface in shown]
    return [part for each in matches if each for part in each[1].split(", ")]


def _answering(part: str, request: BackwardRequest) -> str:
    """The surface that speaks of the part; else the first one."""
    for surface in request.surfaces:
        match = _PARTS.search(str(surface.value))
        if match and part in match[1].split(", "):
            return surface.id
    return request.surfaces[0].id


def _words(cause: _Cause) -> str:
    return f"[{cause.part}] this part is missing or not as it should be"


# -- A model that plays every part at the parcel desk ---------------------------------------------


Shown = TypeVar("Shown", bound=BaseModel)

_STEP = re.compile(r"^The step is a run of: (.+)$", re.MULTILINE)


def play(system: str, question: str) -> str:
    """The answer to what a model is told (the system's words) and asked (the user's)."""
    if node_of(system):
        return node_reply(system, question)
    if _STEP.search(question):
        return backward(_backward_request(question)).model_dump_json()
    if "<turned_down>" in question:
        return patch(_patch_request(question)).model_dump_json()
    if "<remarks>" in question:
        return merge(_merge_request(question)).model_dump_json()
    return "I only know the parcel desk."


def _backward_request(question: str) -> BackwardRequest:
    step = _STEP.search(question)
    return BackwardRequest(
        node=step[1] if step else "",
        input=_between(question, "input"),
        output=_between(question, "output"),
        surfaces=tuple(_many(question, "surfaces_that_may_be_blamed", ShownSurface)),
        other_surfaces=tuple(_many(question, "other_surfaces_in_force", ShownSurface)),
        predecessors=tuple(_many(question, "predecessors", ShownStep)),
        incoming=tuple(_many(question, "what_should_have_been_better", Remark)),
    )


def _merge_request(question: str) -> MergeRequest:
    return MergeRequest(
        surface=ShownSurface.model_validate_json(_between(question, "surface")),
        gradients=tuple(_many(question, "remarks", NumberedRemark)),
    )


def _patch_request(question: str) -> PatchRequest:
    surface = ShownSurface.model_validate_json(_between(question, "surface"))
    return PatchRequest(
        surface=surface,
        kind="text",
        bounds="",
        gradients=tuple(_many(question, "remarks", Remark)),
        limits=TextSurface(id=surface.id),
    )


def _between(text: str, tag: str) -> str:
    """What stands in a tag, from its first opening to its last end."""
    return text.split(f"<{tag}>\n", 1)[1].rsplit(f"\n</{tag}>", 1)[0]


def _many(text: str, tag: str, kind: type[Shown]) -> list[Shown]:
    return [kind.model_validate(each) for each in json.loads(_between(text, tag))]


# -- Graph world ----------------------------------------------------------------------------------


MODEL = "openai:desk"
DESK = "desk"
# fmt: off
_PLACES = (
    "Oslo", "Rome", "Lima", "Cairo", "Delhi", "Quito", "Accra", "Tunis", "Paris", "Tokyo",
    "Hanoi", "Seoul", "Dakar", "Minsk", "Sofia", "Praia", "Doha", "Riga", "Bern", "Kyiv",
    "Suva", "Apia", "Male", "Lome", "Nuuk", "Baku", "Bonn", "Cork", "Graz", "Lyon",
    "Metz", "Nice", "Pisa", "Turin", "Basel", "Ghent", "Malmo", "Turku", "Porto", "Varna",
)
# fmt: on


def planted(node: str) -> str:
    """The surface that a fault at this node stands in."""
    return f"{DESK}/{node}#instruction"


def desk(faulty: str = "", *, wrong: bool = False) -> Graph:
    """The desk; at the faulty node the rule for its first part is missing, or says nonsense."""
    made = graph(DESK, output="finalize", max_visits=2)
    for node in NODES:
        part = PARTS[node][0] if node == faulty else ""
        text = instruction(node, wrong=part) if wrong else instruction(node, without=part)
        # The desk writes once more, not for ever.
        visits = 1 if node == "rewrite" else None
        made.agent(node, model=MODEL, instructions=text, max_visits=visits)
    made.edge("planner", ["retrieve", "compose"])
    made.edge("retrieve", "reviewer").edge("compose", "reviewer")
    made.edge("reviewer", "rewrite", when="REVISE").edge("reviewer", "finalize")
    return made.edge("rewrite", "planner")


def cases(first: int, count: int) -> tuple[Case, ...]:
    """Customers who ask what a parcel costs."""
    return tuple(
        Case.single(f"What does a parcel to {place} cost?", letter(place), name=place.lower())
        for place in _PLACES[first : first + count]
    )


def setup(
    faulty: str = "",
    *,
    wrong: bool = False,
    train: int = 20,
    holdout: int = 10,
    settings: BackpropSettings | None = None,
) -> Setup:
    """A run of `backprop` over the desk, by its real roles and prompts."""

    def respond(request: ChatRequest, draw: int) -> str:
        del draw
        system, *_, question = (message.content for message in request.messages)
        return play(system, question)

    models = Models(backends={"openai": ScriptedBackend(respond=respond)})
    made, ref = desk(faulty, wrong=wrong), ModelRef.parse(MODEL)
    nowhere = Path("/nonexistent")
    texts = [s for s in all_surfaces(made) if s.id.endswith("#instruction")]
    return Setup(
        target=GraphTarget(made, models, surfaces=texts),
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(train=cases(0, train), holdout=cases(train, holdout)),
        strategy=Backprop(
            backwarder=backwarder(models.client(ref), in_force(BACKWARDER, nowhere)),
            aggregator=aggregator(models.client(ref), in_force(AGGREGATOR, nowhere)),
            patcher=patcher(models.client(ref), in_force(PATCHER, nowhere)),
            settings=settings or BackpropSettings(max_rounds=3),
        ),
    )
