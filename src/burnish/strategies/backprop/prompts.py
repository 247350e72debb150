"""What backwarder, aggregator and patcher are shown and may answer."""

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, JsonValue

from burnish.core.cases import Step, ToolCall
from burnish.core.content import Json, canonical
from burnish.core.surfaces import Candidate, Structure, Surface
from burnish.metrics.text_matching import without_middle
from burnish.models.answers import Explanation, PlainText
from burnish.models.chat import ModelClient
from burnish.models.roles import (
    ModelRole,
    RewrittenText,
    RoleMessage,
    RolePrompt,
)
from burnish.strategies.backprop.packets import (
    BadValue,
    Packet,
    Severity,
    shown_value,
    value_from,
    value_schema,
)

BACKWARDER, AGGREGATOR, PATCHER = "backwarder", "aggregator", "patcher"


def _spelled(severity: Any) -> Any:
    """`p1` is P1: a packet should not be lost to a letter."""
    return severity.strip().upper() if isinstance(severity, str) else severity


class ShownSurface(RoleMessage):
    """A surface as a role sees it."""

    id: str
    type: str
    value: JsonValue


class ShownStep(RoleMessage):
    """A step before the one in question."""

    id: str
    node: str
    output: str
    error: str = ""


class Remark(RoleMessage):
    """Something that should be better, and how bad it is."""

    severity: Annotated[Severity, BeforeValidator(_spelled)] = Severity.P2
    gradient: str


class BackwardRequest(RoleMessage):
    """One step of one run, and what those after it say."""

    node: str
    input: str
    output: str
    error: str = ""
    tools: str = ""
    """The tools that were used, with what was asked and what came back."""
    surfaces: tuple[ShownSurface, ...]
    """What may be blamed here."""
    other_surfaces: tuple[ShownSurface, ...] = ()
    """What was in force here too, and may not be blamed."""
    predecessors: tuple[ShownStep, ...] = ()
    incoming: tuple[Remark, ...]
    case: str = ""
    """The case, for roles that are code: the prompt does not show it, a model needs no names."""
    step: str = ""
    """The step's id, for the same."""
    senders: tuple[str, ...] = ()
    """The steps that sent `incoming`, in its order, for the same."""


class SurfaceRemark(Remark):
    """A remark about a surface of the step."""

    surface: str = ""


class Upstream(RoleMessage):
    """What an earlier step is told."""

    predecessor: str = ""
    gradients: list[Remark] = Field(default_factory=list[Remark])


class BackwardAnswer(RoleMessage):
    """What should change here, and what should have been better before."""

    gradients: list[SurfaceRemark] = Field(default_factory=list[SurfaceRemark])
    upstream: list[Upstream] = Field(default_factory=list[Upstream])


class NumberedRemark(Remark):
    """A remark with a number to refer to it by."""

    number: int


class MergeRequest(RoleMessage):
    """All that was said about one surface."""

    surface: ShownSurface
    gradients: tuple[NumberedRemark, ...]


class MergedRemark(Remark):
    """One remark for several that say the same."""

    sources: list[int] = Field(default_factory=list[int])
    """The numbers of the remarks it stands for."""


class MergeAnswer(RoleMessage):
    """The remarks, merged."""

    gradients: list[MergedRemark] = Field(default_factory=list[MergedRemark])


class PatchRequest(RoleMessage):
    """A surface, what should change about it, and what was tried."""

    surface: ShownSurface
    kind: str
    bounds: str
    """What a new value must keep to, in words."""
    gradients: tuple[Remark, ...]
    rejected: str = ""
    """Patches of this surface that were turned down, and why."""
    limits: Surface
    """The same bounds, for whoever checks."""


class PatchAnswer(RoleMessage):
    """A new value, and why."""

    value: Annotated[JsonValue, PlainText()]
    reason: Explanation


def backwarder(
    client: ModelClient, prompt: RolePrompt
) -> ModelRole[BackwardRequest, BackwardAnswer]:
    """The role that says, step by step, what is to blame and what to pass on."""
    return ModelRole(
        name=BACKWARDER,
        request_type=BackwardRequest,
        answer_type=BackwardAnswer,
        prompt=prompt,
        client=client,
        check=why_useless,
        narrowed=backward_schema,
    )


def aggregator(client: ModelClient, prompt: RolePrompt) -> ModelRole[MergeRequest, MergeAnswer]:
    """The role that merges what was said about one surface."""
    return ModelRole(
        name=AGGREGATOR,
        request_type=MergeRequest,
        answer_type=MergeAnswer,
        prompt=prompt,
        client=client,
        check=nothing_left,
        narrowed=merge_schema,
    )


def patcher(client: ModelClient, prompt: RolePrompt) -> ModelRole[PatchRequest, PatchAnswer]:
    """The role that writes a new value."""
    return ModelRole(
        name=PATCHER,
        request_type=PatchRequest,
        answer_type=PatchAnswer,
        prompt=prompt,
        client=client,
        check=unfit,
        narrowed=patch_schema,
        rewrite=RewrittenText(part="value", current=lambda request: request.surface.value),
    )


def sanitised(answer: BackwardAnswer, request: BackwardRequest) -> BackwardAnswer:
    """The answer without blanks and without names that were made up.

    A name left out is filled in where there is only one it can be; several remarks to one step
    become one list.
    """
    surfaces = [surface.id for surface in request.surfaces]
    steps = [step.id for step in request.predecessors]
    gradients = [
        remark.model_copy(update={"surface": name})
        for remark in answer.gradients
        if remark.gradient.strip() and (name := _meant(remark.surface, surfaces))
    ]
    upstream: dict[str, list[Remark]] = {}
    for sent in answer.upstream:
        remarks = [remark for remark in sent.gradients if remark.gradient.strip()]
        if remarks and (name := _meant(sent.predecessor, steps)):
            upstream.setdefault(name, []).extend(remarks)
    return BackwardAnswer(
        gradients=gradients,
        upstream=[
            Upstream(predecessor=name, gradients=remarks) for name, remarks in upstream.items()
        ],
    )


def _meant(name: str, names: Sequence[str]) -> str:
    name = name.strip()
    if name in names:
        return name
    return names[0] if not name and len(names) == 1 else ""


def why_useless(request: BackwardRequest, answer: BackwardAnswer) -> str:
    """Why an answer is useless: it names nothing that was shown."""
    usable = sanitised(answer, request)
    if usable.gradients or usable.upstream:
        return ""
    surfaces = ", ".join(surface.id for surface in request.surfaces) or "none"
    steps = ", ".join(step.id for step in request.predecessors) or "none"
    return (
        "it names neither a surface nor a predecessor; the surfaces are: "
        f"{surfaces}; the predecessors are: {steps}"
    )


def nothing_left(request: MergeRequest, answer: MergeAnswer) -> str:
    """Why a merged answer is useless: no remark is left."""
    left = any(remark.gradient.strip() for remark in answer.gradients)
    return "" if left else f"it is empty, and {len(request.gradients)} remarks were given"


def unfit(request: PatchRequest, answer: PatchAnswer) -> str:
    """Why a new value cannot be taken."""
    if not answer.reason.strip():
        return "the reason is empty"
    try:
        value = value_from(answer.value, request.limits)
    except BadValue as error:
        return str(error)
    if shown_value(value) == request.surface.value:
        return "the value is what it was: nothing is changed"
    return "; ".join(map(str, request.limits.problems(value)))


def backward_schema(request: BackwardRequest) -> dict[str, Json]:
    """The schema of an answer to this request: only names that it shows."""
    surfaces = [surface.id for surface in request.surfaces]
    steps = [step.id for step in request.predecessors]
    schema = _schema(BackwardAnswer)
    definitions = schema["$defs"]
    _only(definitions["SurfaceRemark"], "surface", surfaces)
    _only(definitions["Upstream"], "predecessor", steps)
    definitions["Upstream"]["properties"]["gradients"]["minItems"] = 1
    for key, names in (("gradients", surfaces), ("upstream", steps)):
        if not names:
            schema["properties"][key]["maxItems"] = 0
    if steps and not surfaces:
        schema["properties"]["upstream"]["minItems"] = 1
    return schema


def merge_schema(request: MergeRequest) -> dict[str, Json]:
    """The schema of remarks merged from these: not empty, citing only their numbers."""
    schema = _schema(MergeAnswer)
    schema["properties"]["gradients"]["minItems"] = 1
    cited = schema["$defs"]["MergedRemark"]["properties"]["sources"]
    cited["items"] = {"type": "integer", "minimum": 1, "maximum": len(request.gradients)}
    return schema


def patch_schema(request: PatchRequest) -> dict[str, Json]:
    """The schema of a new value for this surface."""
    schema = _schema(PatchAnswer)
    schema["properties"]["value"] = value_schema(request.limits)
    return schema


def _schema(answer: type[BaseModel]) -> dict[str, Any]:
    return copy.deepcopy(answer.model_json_schema())


def _only(definition: dict[str, Any], key: str, names: Sequence[str]) -> None:
    field = definition["properties"][key]
    field.pop("default", None)
    if names:
        field["enum"] = list(names)
    required = definition.setdefault("required", [])
    if key not in required:
        required.append(key)


_MOST_CHARS = 4000


@dataclass(frozen=True, kw_only=True)
class StepRequests:
    """Shows the backwarder a step, with the surfaces that it may blame."""

    targets: Collection[str]
    kinds: Mapping[str, str]
    structure: Structure | None

    def of(
        self,
        step: Step,
        packets: Sequence[Packet],
        earlier: Sequence[Step],
        candidate: Candidate,
        *,
        case: str,
    ) -> BackwardRequest:
        """The request about one step of a run of a case."""
        applied = [name for name in dict.fromkeys(step.surfaces) if name in candidate.values]
        shown = [self.surface(name, candidate) for name in applied]
        return BackwardRequest(
            node=step.node,
            input=_text(step.input),
            output=_text(step.output),
            error=_text(step.error),
            tools="\n".join(_tool(call) for call in step.tools),
            surfaces=tuple(each for each in shown if each.id in self.targets),
            other_surfaces=tuple(each for each in shown if each.id not in self.targets),
            predecessors=tuple(
                ShownStep(
                    id=each.id,
                    node=each.node,
                    output=_text(each.output),
                    error=_text(each.error),
                )
                for each in earlier
            ),
            incoming=tuple(
                Remark.model_validate({"severity": p.severity, "gradient": p.text}) for p in packets
            ),
            case=case,
            step=step.id,
            senders=tuple(packet.source for packet in packets),
        )

    def surface(self, name: str, candidate: Candidate) -> ShownSurface:
        """A surface with its value."""
        return shown_surface(name, candidate, self.structure, self.kinds)


def shown_surface(
    name: str, candidate: Candidate, structure: Structure | None, kinds: Mapping[str, str]
) -> ShownSurface:
    """A surface with its value; its type is its role in its node, if the structure has it."""
    position = structure.of_surface(name) if structure else None
    return ShownSurface(
        id=name,
        type=position.type.value if position else kinds.get(name, "text"),
        value=shown_value(candidate.values[name]),
    )


def _text(value: Json) -> str:
    text = value if isinstance(value, str) else canonical(value).decode()
    return "" if value is None else without_middle(text, _MOST_CHARS)


def _tool(call: ToolCall) -> str:
    arguments = canonical(dict(call.arguments)).decode()
    back = f"failed: {call.error}" if call.error else _text(call.result)
    return without_middle(f"{call.name}({arguments}) → {back}", _MOST_CHARS)
