"""Agent test cases: the YAML list that stands in an agent's file, or in a file of its own."""

from pathlib import Path

from pydantic import Field

from burnish.core.cases import Case, Turn
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.datasets.case_files import CaseFile
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
from burnish.system.config_words import nearest, shown
from burnish.system.plain_data import TreePath
from burnish.system.yaml_tree import YamlTree, read_tree

MOST_CASES = 1000
CASES, CASES_FILE = "test_cases", "test_cases_file"
WRAPPED = "wrapped"
"""The extra of a file whose list stands under `test_cases`."""
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


def read_test_cases(path: Path) -> CaseFile:
    """Read a list of test cases, `{test_cases: […]}`, or those that an agent's file names."""
    tree = read_tree(path)
    if isinstance(tree.data, dict) and CASES_FILE in tree.data:
        return _read_named_file(tree)
    complaints = Complaints.about(tree)
    found, at = _list_in(tree.data, complaints)
    cases = [case_of(raw, complaints, (*at, index)) for index, raw in enumerate(found)]
    if len(found) > MOST_CASES:
        remedy = "split the file; JSONL takes more"
        message = f"expected at most {MOST_CASES} cases, found {len(found)}"
        complaints.add(message, at=at, remedy=remedy)
    complaints.settle()
    extras: dict[str, Json] = {WRAPPED: True} if at else {}
    return CaseFile(cases=tuple(case for case in cases if case), format="test_cases", extras=extras)


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


def _list_in(data: Json, complaints: Complaints) -> tuple[list[Json], TreePath]:
    """The list of cases in a file, and where it stands."""
    at: TreePath = (CASES,) if isinstance(data, dict) and CASES in data else ()
    held = data[CASES] if isinstance(data, dict) and CASES in data else data
    if isinstance(held, list):
        return held, at
    if isinstance(held, dict) and not at:
        likely = next((key for key in held if nearest(key, [CASES])), None)
        remedy = f"did you mean it by {likely!r}?" if likely else "add it"
        complaints.add(f"there is no {CASES!r}", remedy=remedy)
    elif held is None:
        complaints.add("it is empty" if not at else "there are no cases", at=at)
    else:
        complaints.add(f"expected a list of cases, found {shown(held)}", at=at)
    return [], at


def _read_named_file(tree: YamlTree) -> CaseFile:
    """The cases of the file that an agent's file points to."""
    data = mapped(tree.data)
    complaints = Complaints.about(tree)
    named = data[CASES_FILE]
    if CASES in data:
        message = f"{CASES!r} and {CASES_FILE!r} are both given"
        complaints.add(message, at=(CASES_FILE,), remedy="keep one of them")
    if not isinstance(named, str):
        complaints.add(f"expected a path, found {shown(named)}", at=(CASES_FILE,))
    complaints.settle()
    path = tree.path.parent / str(named)
    held = read_tree(path)
    if CASES_FILE in mapped(held.data):
        message = f"{path.name} names another file of cases"
        where = f"{tree.path.name} {CASES_FILE}"
        remedy = "name the file that holds the cases"
        raise ConfigError([Problem(message=message, where=where, remedy=remedy)])
    return read_test_cases(path)
