"""Cases as rows: JSON objects and lines of CSV, with the usual names for their parts."""

import csv
import io
import json
import re
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StrictInt

from burnish.core.cases import Attachment, Case, Message, Outcome, Scenario, ToolCall, Turn
from burnish.core.content import Json, codec
from burnish.core.errors import ConfigError
from burnish.datasets.agent_cases import (
    FILE_OPTIONS,
    CaseFileShape,
    Complaints,
    Rubrics,
    Tools,
    expected_tools,
    listed,
    mapped,
    present,
    present_lists,
    rubrics,
    rubrics_written,
    tools_written,
)
from burnish.system.config import Fault, shown
from burnish.system.files import file_trouble, read_text
from burnish.system.yaml import TreePath, parse_json


def _number_as_text(value: object) -> object:
    """Programs often write ids and answers as numbers."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


_RowText = Annotated[str, BeforeValidator(_number_as_text)]
_Texts = Annotated[
    list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
]


class _RowFileShape(CaseFileShape):
    """An attached file of any type."""

    type: str
    path: str = ""
    url: str = ""
    data: str = ""
    name: str = ""
    description: str = ""
    pages: Json = None
    sheet: Json = None
    range: Json = None
    cache: Json = None
    options: dict[str, Json] | None = None

    def attachment(self) -> Attachment:
        named = self.model_dump(include=set(FILE_OPTIONS), exclude_none=True)
        texts = self.model_dump(include={"path", "url", "data", "name", "description"})
        return Attachment(kind=self.type, **texts, options={**(self.options or {}), **named})


class _CallShape(CaseFileShape):
    """One tool call."""

    name: str
    arguments: dict[str, Json] | None = None
    result: Json = None
    error: str = ""
    id: str = ""
    passages: list[str] | None = None

    def call(self) -> ToolCall:
        return ToolCall(
            name=self.name,
            arguments=self.arguments or {},
            result=self.result,
            error=self.error,
            id=self.id,
            passages=tuple(self.passages or ()),
        )


class _PictureShape(CaseFileShape):
    """An image in a message."""

    media_type: str
    base64: str


class _UseShape(CaseFileShape):
    """A tool call by the model."""

    id: str
    name: str
    arguments: dict[str, Json] = Field(default_factory=dict[str, Json])


class _RowMessageShape(CaseFileShape):
    """A message before the first turn."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    images: list[_PictureShape] = Field(default_factory=list[_PictureShape])
    uses: list[_UseShape] = Field(default_factory=list[_UseShape])
    answers: str = ""
    tool: str = ""
    verbatim: Json = None

    def message(self) -> Message:
        return codec(Message).decode(self.model_dump())


class _PlayedShape(CaseFileShape):
    """A conversation with a simulated user."""

    plan: str
    stop_signal: str = ""
    max_turns: StrictInt | None = None

    def scenario(self) -> Scenario:
        return Scenario(**self.model_dump())


class _RowTurnShape(CaseFileShape):
    """One turn, in a row or under `turns`."""

    input: _RowText
    expected: _RowText | None = None
    context: _Texts | None = None
    expected_tools: Tools | None = None
    files: list[_RowFileShape] | None = None
    expected_calls: list[_CallShape] | None = None
    metrics: _Texts | None = None
    settings: dict[str, Json] | None = None
    extras: dict[str, Json] | None = None


class _RowShape(CaseFileShape):
    """A row, with its turns under `turns`."""

    name: _RowText = ""
    labels: _Texts | None = None
    turns: list[_RowTurnShape] = Field(min_length=1)
    history: list[_RowMessageShape] | None = None
    rubrics: Rubrics | None = None
    scenario: _PlayedShape | None = None
    recorded: Outcome | None = None
    evaluations: list[Json] | None = None
    extras: dict[str, Json] | None = None


ALIASES: Mapping[str, tuple[str, ...]] = {
    "name": ("name", "id"),
    "input": ("input", "question", "prompt", "query"),
    "expected": ("expected", "ground_truth", "answer", "reference", "output", "expected_output"),
    "context": ("context", "retrieval_context"),
    "labels": ("labels", "label"),
    "settings": ("settings", "turn_config"),
}
"""The names of each part; the first one in a row counts."""
_OF_THE_TURN = frozenset(_RowTurnShape.model_fields) - {"extras"}
_PARTS = frozenset(_RowShape.model_fields) | _OF_THE_TURN
_OF_THE_CASE = _PARTS - _OF_THE_TURN
KNOWN = _PARTS.union(*ALIASES.values())
"""All names with a meaning; any other is a column for graders."""


def name_in(row: Mapping[str, Json], name: str) -> str:
    """What a row calls a part, of the names that are read as they are."""
    return next((alias for alias in ALIASES.get(name, ()) if row.get(alias) is not None), name)


def _plainly_named(row: Mapping[str, Json], parts: frozenset[str] = _PARTS) -> dict[str, Json]:
    """The row with its parts under their first names, without empty parts."""
    first = _first_names(tuple(key for key, value in row.items() if value is not None), parts)
    named = ((first.get(key, key), value) for key, value in row.items())
    return {name: value for name, value in named if value is not None or name not in parts}


@lru_cache(maxsize=1024)
def _first_names(keys: tuple[str, ...], parts: frozenset[str]) -> Mapping[str, str]:
    """The parts by the names that they have among these keys."""
    held = {
        name: next((alias for alias in aliases if alias in keys), None)
        for name, aliases in ALIASES.items()
    }
    return {alias: name for name, alias in held.items() if alias and name in parts}


def _as_named(fault: Fault, row: Mapping[str, Json], names: Mapping[str, str]) -> Fault:
    """The fault with its place as the row names it; a single turn is the row itself."""
    turn, path = fault.path[:2], fault.path[2:]
    many = row.get("turns") is not None
    if turn[:1] != ("turns",) or (many and not path):
        turn, path, holder = (), fault.path, row
    elif many:
        holder = mapped(listed(row["turns"])[int(turn[1])])
    else:
        turn, holder = (), row
    spelled = name_in(holder, str(path[0])) if path else ""
    named = (names.get(spelled, spelled), *path[1:]) if path else ()
    return replace(fault, path=(*turn, *named))


def case_of_row(
    raw: Json,
    complaints: Complaints,
    *,
    at: TreePath = (),
    line: int | None = None,
    names: Mapping[str, str] = {},
) -> Case | None:
    """The case of one row; None if it has problems, which are noted.

    `names` are what its file calls the parts, for messages.
    """
    if not isinstance(raw, dict):
        complaints.add(f"expected a mapping, found {shown(raw)}", at=at, line=line)
        return None
    named = _plainly_named(raw)
    if "turns" in named:
        for key in _OF_THE_TURN.intersection(named):
            place = (*at, name_in(raw, key))
            message = f"{place[-1]!r} cannot be used with 'turns'"
            complaints.add(message, at=place, line=line, remedy="move it into a turn")
    shape = complaints.shaped(
        _with_turns(named),
        _RowShape,
        at=at,
        line=line,
        respell=lambda fault: _as_named(fault, raw, names),
    )
    if shape is None:
        return None
    complaints.named(shape.name, at=at, line=line)
    return _case(shape, {key: value for key, value in named.items() if key not in _PARTS})


def _with_turns(named: Mapping[str, Json]) -> dict[str, Json]:
    """The parts of a row, with a turn in the row itself moved to `turns`."""
    held = {key: value for key, value in named.items() if key in _OF_THE_CASE}
    if "turns" not in held:
        held["turns"] = [{key: value for key, value in named.items() if key in _OF_THE_TURN}]
    elif isinstance(turns := held["turns"], list):
        held["turns"] = [
            _plainly_named(turn, _OF_THE_TURN) if isinstance(turn, dict) else turn for turn in turns
        ]
    return held


def _case(shape: _RowShape, columns: Mapping[str, Json]) -> Case:
    return Case(
        name=shape.name,
        turns=tuple(_turn(turn, columns) for turn in shape.turns),
        labels=tuple(shape.labels or ()),
        history=tuple(message.message() for message in shape.history or ()),
        rubrics=rubrics(shape.rubrics),
        scenario=shape.scenario.scenario() if shape.scenario else None,
        recorded=shape.recorded,
        extras={**(shape.extras or {}), **present_lists(evaluations=shape.evaluations)},
    )


def _turn(shape: _RowTurnShape, columns: Mapping[str, Json]) -> Turn:
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
    """The objects of a file with their lines; other lines are noted as problems."""
    for number, line in _lines(path):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            value = parse_json(text, source=path.name)
        except UnicodeDecodeError as error:
            message = f"not UTF-8 text (at byte {error.start} of the line)"
            complaints.add(message, line=number, remedy="save it as UTF-8")
        except ConfigError as error:
            problem = error.problems[0]
            complaints.add(problem.message, line=number, remedy=problem.remedy)
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


def row_written(case: Case) -> dict[str, Json]:
    """One case as a row."""
    first = case.turns[0]
    turns: list[Json] = [_turn_written(turn) for turn in case.turns]
    alone = len(case.turns) == 1 and not first.extras
    return {
        **present(name=case.name or None),
        **(_with_columns(first) if alone else {"turns": turns}),
        **present(
            labels=[*case.labels],
            history=[_message_written(message) for message in case.history],
            rubrics=rubrics_written(case.rubrics),
            scenario=asdict(case.scenario) if case.scenario else None,
            recorded=codec(Outcome).encode(case.recorded) if case.recorded else None,
            extras=dict(case.extras),
        ),
    }


def _with_columns(turn: Turn) -> dict[str, Json]:
    """A turn with its settings as columns, unless the name of a column has a meaning."""
    columns = {key: value for key, value in turn.settings.items() if key not in KNOWN}
    rest = {key: value for key, value in turn.settings.items() if key in KNOWN}
    return {**_turn_written(replace(turn, settings=rest)), **columns}


def _turn_written(turn: Turn) -> dict[str, Json]:
    return {
        "input": turn.input,
        **({} if turn.expected is None else {"expected": turn.expected}),
        **present(context=[*turn.context]),
        **present_lists(
            expected_tools=tools_written(turn.expected_tools),
            expected_calls=None
            if turn.expected_calls is None
            else [_call_written(call) for call in turn.expected_calls],
        ),
        **present(
            files=[_file_written(file) for file in turn.attachments],
            metrics=[*turn.metrics],
            settings=dict(turn.settings),
            extras=dict(turn.extras),
        ),
    }


def _message_written(message: Message) -> dict[str, Json]:
    plain = mapped(codec(Message).encode(Message(role=message.role, content=message.content)))
    whole = mapped(codec(Message).encode(message))
    always = ("role", "content")
    return {key: value for key, value in whole.items() if key in always or value != plain[key]}


def _call_written(call: ToolCall) -> dict[str, Json]:
    return {
        "name": call.name,
        **present(arguments=dict(call.arguments)),
        **({} if call.result is None else {"result": call.result}),
        **present(error=call.error or None, id=call.id or None, passages=[*call.passages]),
    }


def _file_written(file: Attachment) -> dict[str, Json]:
    named = {key: file.options[key] for key in FILE_OPTIONS if file.options.get(key) is not None}
    rest = {key: value for key, value in file.options.items() if key not in named}
    return {
        "type": file.kind,
        **present(path=file.path or None, url=file.url or None),
        **present(data=file.data or None, name=file.name or None),
        **present(description=file.description or None, options=rest),
        **named,
    }


# -- CSV files -------------------------------------------------------------------------------------

_CELLS = ("name", "input", "expected", "context", "labels")


def raw_rows(path: Path) -> Iterator[dict[str, Json]]:
    """The non-empty cells of each row, by column."""
    header, records = header_and_records(path, Complaints(source=path.name))
    for _, cells in records:
        yield {column: cell for column, cell in zip(header, cells, strict=False) if cell}


def header_and_records(
    path: Path, complaints: Complaints
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The columns of a file, and its rows with their first lines."""
    records = _records(read_text(path).removeprefix("\ufeff"), complaints)
    return next((cells for _, cells in records), list[str]()), records


def _records(text: str, complaints: Complaints) -> Iterator[tuple[int, list[str]]]:
    """The rows with their first lines; rows after broken quotes are lost."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    with _long_cells():
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                complaints.add(f"not valid CSV: {error}", line=line, remedy="check its quotes")
                return
            if cells:
                yield line, cells


def _delimiter(text: str) -> str:
    """A comma, unless the header has none but the semicolons or tabs of a spreadsheet."""
    header = re.sub('"[^"]*"', "", text.lstrip("\r\n").partition("\n")[0])
    return next((sign for sign in (",", ";", "\t") if sign in header), ",")


@contextmanager
def _long_cells() -> Generator[None]:
    """Raise the reader's global limit on cells, and restore it."""
    limit = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def case_of_cells(
    cells: Sequence[str],
    header: Sequence[str],
    parts: Mapping[str, str],
    complaints: Complaints,
    line: int,
) -> Case | None:
    """The case of one row of CSV, whose columns hold these parts; None if it has other cells."""
    if len(cells) != len(header):
        message = f"expected {len(header)} cells, found {len(cells)}"
        complaints.add(message, line=line, remedy="put a cell with a comma in quotes")
        return None
    row = {column: cell for column, cell in zip(header, cells, strict=True) if cell}
    if "input" in parts.values() and not any(parts.get(column) == "input" for column in row):
        column = next(column for column, part in parts.items() if part == "input")
        if column in ALIASES["input"]:
            complaints.add("the input is missing", line=line)
        else:
            message = f"there is nothing in the column {column!r}"
            complaints.add(message, line=line, remedy="fill it in, or remove the row")
    case = _case_with(row, parts)
    complaints.named(case.name, line=line)
    return case


def _case_with(row: Mapping[str, str], parts: Mapping[str, str]) -> Case:
    held = {parts[column]: cell for column, cell in row.items() if column in parts}
    labels = (label.strip() for label in held.get("labels", "").split(";"))
    turn = Turn(
        input=held.get("input", ""),
        expected=held.get("expected"),
        context=_passages(held.get("context", "")),
        settings={column: cell for column, cell in row.items() if column not in parts},
    )
    return Case(name=held.get("name", ""), turns=(turn,), labels=tuple(filter(None, labels)))


def _passages(cell: str) -> tuple[str, ...]:
    if not cell.startswith("["):
        return (cell,) if cell else ()
    try:
        held = listed(json.loads(cell))
    except (ValueError, RecursionError):
        return (cell,)
    texts = [text for text in held if isinstance(text, str)]
    return tuple(texts) if len(texts) == len(held) else (cell,)


def names_in(columns: Sequence[str]) -> dict[str, str]:
    """The name of each part among these columns."""
    return {
        part: next((alias for alias in ALIASES[part] if alias in columns), part) for part in _CELLS
    }
