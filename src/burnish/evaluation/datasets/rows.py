"""Rows: one case a JSON object, which holds what `row_shapes` says."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from burnish.core.cases import Case, Turn
from burnish.core.content import Json
from burnish.core.errors import ConfigError
from burnish.evaluation.datasets.case_files import NAMES, CaseFile
from burnish.evaluation.datasets.case_shapes import expected_tools, rubrics
from burnish.evaluation.datasets.complaints import Complaints
from burnish.evaluation.datasets.row_names import (
    OF_THE_CASE,
    OF_THE_TURN,
    PARTS,
    as_named,
    layout_of,
    name_in,
    names_used,
    plainly_named,
)
from burnish.evaluation.datasets.row_shapes import RowShape, RowTurnShape
from burnish.system.config_errors import shown
from burnish.system.files import file_trouble
from burnish.system.yaml import TreePath, parse_json


def read_jsonl(path: Path) -> CaseFile:
    """Read a file of JSON lines; empty lines are passed over."""
    complaints = Complaints(source=path.name)
    layouts: dict[tuple[str, ...], None] = {}
    cases: list[Case | None] = []
    for line, row in raw_objects(path, complaints):
        layouts[layout_of(row)] = None
        cases.append(case_of_row(row, complaints, line=line))
    if not cases and not complaints.problems:
        complaints.add("it is empty", remedy="write one JSON object a line")
    complaints.settle()
    extras: dict[str, Json] = {NAMES: names_used(layouts)}
    return CaseFile(cases=tuple(case for case in cases if case), format="jsonl", extras=extras)


def case_of_row(
    raw: Json, complaints: Complaints, *, at: TreePath = (), line: int | None = None
) -> Case | None:
    """One row as a case; None where it has problems, which are noted."""
    if not isinstance(raw, dict):
        complaints.add(f"expected a mapping, found {shown(raw)}", at=at, line=line)
        return None
    named = plainly_named(raw)
    if "turns" in named:
        for key in OF_THE_TURN.intersection(named):
            place = (*at, name_in(raw, key))
            message = f"{place[-1]!r} cannot stand beside 'turns'"
            complaints.add(message, at=place, line=line, remedy="move it into a turn")
    shape = complaints.shaped(
        _with_turns(named), RowShape, at=at, line=line, respell=lambda fault: as_named(fault, raw)
    )
    if shape is None:
        return None
    complaints.named(shape.name, at=at, line=line)
    return _case(shape, {key: value for key, value in named.items() if key not in PARTS})


def _with_turns(named: Mapping[str, Json]) -> dict[str, Json]:
    """The parts of a row, with the turn that stands in the row itself as its only one."""
    held = {key: value for key, value in named.items() if key in OF_THE_CASE}
    if "turns" not in held:
        held["turns"] = [{key: value for key, value in named.items() if key in OF_THE_TURN}]
    elif isinstance(turns := held["turns"], list):
        held["turns"] = [
            plainly_named(turn, OF_THE_TURN) if isinstance(turn, dict) else turn for turn in turns
        ]
    return held


def _case(shape: RowShape, columns: Mapping[str, Json]) -> Case:
    evaluations: dict[str, Json] = {}
    if shape.evaluations is not None:
        evaluations["evaluations"] = shape.evaluations
    return Case(
        name=shape.name,
        turns=tuple(_turn(turn, columns) for turn in shape.turns),
        labels=tuple(shape.labels or ()),
        history=tuple(said.message() for said in shape.history or ()),
        rubrics=rubrics(shape.rubrics),
        scenario=shape.scenario.scenario() if shape.scenario else None,
        recorded=shape.recorded,
        extras={**(shape.extras or {}), **evaluations},
    )


def _turn(shape: RowTurnShape, columns: Mapping[str, Json]) -> Turn:
    return Turn(
        input=shape.input,
        expected=shape.expected,
        context=tuple(shape.context or ()),
        expected_tools=expected_tools(shape.expected_tools),
        expected_calls=None
        if shape.expected_calls is None
        else tuple(call.call() for call in shape.expected_calls),
        attachments=tuple(file.attachment() for file in shape.files or ()),
        metrics=tuple(shape.metrics or ()),
        settings={**columns, **(shape.settings or {})},
        extras=shape.extras or {},
    )


def raw_objects(path: Path, complaints: Complaints) -> Iterator[tuple[int, dict[str, Json]]]:
    """The objects of a file with their lines; what is none is complained about."""
    for number, line in _lines(path):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            value = parse_json(text, source=path.name)
        except UnicodeDecodeError as error:
            message = f"not UTF-8 text (at byte {error.start} of the line)"
            complaints.add(message, line=number, remedy="save it as UTF-8")
        except ConfigError as error:
            complaints.add(error.problems[0].message, line=number)
        except RecursionError:
            complaints.add("its values are nested too deeply", line=number)
        else:
            if isinstance(value, dict) and complaints.is_json(value, line=number):
                yield number, value
            elif not isinstance(value, dict):
                complaints.add(f"expected a JSON object, found {shown(value)}", line=number)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip(b"\xef\xbb\xbf \t\r\n"):
                    yield number, line
    except OSError as error:
        raise file_trouble("read", path, error) from error
