"""What the backwarder is shown of a step."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from burnish.core.candidates import Candidate
from burnish.core.content import Json, canonical
from burnish.core.outcomes import Step, ToolCall
from burnish.core.structures import Structure
from burnish.evaluation.matching.excerpts import without_middle
from burnish.strategies.backprop.packets import Packet
from burnish.strategies.backprop.values import shown_value
from burnish.strategies.backprop.wording import BackwardRequest, Remark, ShownStep, ShownSurface

MOST_CHARS = 4000
"""Of one text of a step."""


@dataclass(frozen=True, kw_only=True)
class StepRequests:
    """Knows what may be blamed, and how to show it."""

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
        shown = [shown_surface(name, candidate, self.structure, self.kinds) for name in applied]
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
        )


def shown_surface(
    name: str, candidate: Candidate, structure: Structure | None, kinds: Mapping[str, str]
) -> ShownSurface:
    """A surface with its value; its type is what it is to its node, where the structure says."""
    position = structure.of_surface(name) if structure else None
    return ShownSurface(
        id=name,
        type=position.type.value if position else kinds.get(name, "text"),
        value=shown_value(candidate.values[name]),
    )


def _text(value: Json) -> str:
    text = value if isinstance(value, str) else canonical(value).decode()
    return "" if value is None else without_middle(text, MOST_CHARS)


def _tool(call: ToolCall) -> str:
    asked = canonical(dict(call.arguments)).decode()
    back = f"failed: {call.error}" if call.error else _text(call.result)
    return without_middle(f"{call.name}({asked}) → {back}", MOST_CHARS)
