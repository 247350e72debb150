"""Agent test cases: one turn, or several under `turns`, each with what is expected."""

from pydantic import Field

from burnish.core.cases import Case, Turn
from burnish.core.content import Json
from burnish.evaluation.datasets.case_shapes import (
    Files,
    Rubrics,
    Shape,
    Text,
    Tools,
    attachments,
    expected_tools,
    rubrics,
)
from burnish.evaluation.datasets.complaints import Complaints, mapped
from burnish.system.yaml import TreePath

AS_TURNS = "turns"
"""The extra of a case of one turn that is written as a list of turns all the same."""
_OF_A_TURN = ("input", "ground_truth", "expected_tools", "files", "retrieval_context")


class TurnShape(Shape):
    """One turn of a conversation."""

    input: Text
    ground_truth: Text | None = None
    expected_tools: Tools | None = None
    files: Files | None = None
    retrieval_context: list[Text] | None = None
    evaluations: list[dict[str, Json]] | None = None
    turn_config: dict[str, Json] | None = None


class CaseShape(Shape):
    """A test case of one turn, or of several under `turns`."""

    name: Text | None = None
    input: Text | None = None
    ground_truth: Text | None = None
    expected_tools: Tools | None = None
    files: Files | None = None
    retrieval_context: list[Text] | None = None
    evaluations: list[dict[str, Json]] | None = None
    turns: list[TurnShape] | None = Field(default=None, min_length=1)
    labels: list[Text] | None = None
    rubrics: Rubrics | None = None


def case_of(raw: Json, complaints: Complaints, at: TreePath = ()) -> Case | None:
    """One test case; None where it has problems, which are noted."""
    many = _about_turns(raw, complaints, at)
    shape = complaints.shaped(raw, CaseShape, at=at)
    if shape is None:
        return None
    complaints.named(shape.name or "", at=at)
    extras: dict[str, Json] = {}
    if shape.evaluations is not None:
        extras["evaluations"] = [*shape.evaluations]
    if many and len(shape.turns or ()) == 1:
        extras[AS_TURNS] = True
    return Case(
        name=shape.name or "",
        turns=tuple(map(_turn, shape.turns)) if shape.turns else (_only_turn(shape),),
        labels=tuple(shape.labels or ()),
        rubrics=rubrics(shape.rubrics),
        extras=extras,
    )


def _about_turns(raw: Json, complaints: Complaints, at: TreePath) -> bool:
    """Whether a case has turns; complains when it has both kinds of input, or none."""
    case = mapped(raw)
    if "turns" not in case:
        if case.get("input") is None and isinstance(raw, dict):
            complaints.add("there is neither 'input' nor 'turns'", at=at, remedy="add one")
        return False
    for key in _OF_A_TURN:
        if key in case:
            complaints.add(
                f"{key!r} cannot stand beside 'turns'", at=(*at, key), remedy="move it into a turn"
            )
    if case["turns"] is None:
        complaints.add("expected a list, found nothing", at=(*at, "turns"))
    return True


def _turn(shape: TurnShape) -> Turn:
    kept: dict[str, Json] = {}
    if shape.evaluations is not None:
        kept["evaluations"] = [*shape.evaluations]
    return Turn(
        input=shape.input,
        expected=shape.ground_truth,
        context=tuple(shape.retrieval_context or ()),
        expected_tools=expected_tools(shape.expected_tools),
        attachments=attachments(shape.files),
        settings=shape.turn_config or {},
        extras=kept,
    )


def _only_turn(shape: CaseShape) -> Turn:
    return Turn(
        input=shape.input or "",
        expected=shape.ground_truth,
        context=tuple(shape.retrieval_context or ()),
        expected_tools=expected_tools(shape.expected_tools),
        attachments=attachments(shape.files),
    )
