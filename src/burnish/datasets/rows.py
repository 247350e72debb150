"""Rows: one case a JSON object, under the names that people give its parts."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StrictInt

from burnish.core.cases import Attachment, Case, Message, Scenario, Turn
from burnish.core.content import Json, codec
from burnish.core.errors import ConfigError
from burnish.core.outcomes import Outcome, ToolCall
from burnish.datasets.agent_cases import Complaints, listed, mapped
from burnish.datasets.case_files import (
    FILE_OPTIONS,
    NAMES,
    CaseFile,
    CaseFileShape,
    Rubrics,
    Tools,
    expected_tools,
    present,
    present_lists,
    rubrics,
    rubrics_written,
    tools_written,
)
from burnish.system.config_errors import Fault, shown
from burnish.system.files import file_trouble
from burnish.system.yaml import TreePath, parse_json


def _number_as_text(value: object) -> object:
    """Numbers are common as ids and answers in rows that programs write."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _one_as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


_RowText = Annotated[str, BeforeValidator(_number_as_text)]
_Texts = Annotated[list[str], BeforeValidator(_one_as_list)]


class RowFileShape(CaseFileShape):
    """A file that goes with what is said, of any kind."""

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
        """The file as a case holds it."""
        named = self.model_dump(include=set(FILE_OPTIONS), exclude_none=True)
        return Attachment(
            kind=self.type,
            path=self.path,
            url=self.url,
            data=self.data,
            name=self.name,
            description=self.description,
            options={**(self.options or {}), **named},
        )


class CallShape(CaseFileShape):
    """One use of a tool."""

    name: str
    arguments: dict[str, Json] | None = None
    result: Json = None
    error: str = ""
    id: str = ""
    passages: list[str] | None = None

    def call(self) -> ToolCall:
        """The call as a case holds it."""
        return ToolCall(
            name=self.name,
            arguments=self.arguments or {},
            result=self.result,
            error=self.error,
            id=self.id,
            passages=tuple(self.passages or ()),
        )


class PictureShape(CaseFileShape):
    """A picture that goes with what was said."""

    media_type: str
    base64: str


class UseShape(CaseFileShape):
    """A model's wish to use a tool."""

    id: str
    name: str
    arguments: dict[str, Json] = Field(default_factory=dict[str, Json])


class RowMessageShape(CaseFileShape):
    """One thing said before the first turn."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    images: list[PictureShape] = Field(default_factory=list[PictureShape])
    uses: list[UseShape] = Field(default_factory=list[UseShape])
    answers: str = ""
    tool: str = ""
    verbatim: Json = None

    def message(self) -> Message:
        """It as a case holds it."""
        return codec(Message).decode(self.model_dump())


class PlayedShape(CaseFileShape):
    """A conversation whose user is played."""

    plan: str
    stop_signal: str = ""
    max_turns: StrictInt | None = None

    def scenario(self) -> Scenario:
        """It as a case holds it."""
        return Scenario(plan=self.plan, stop_signal=self.stop_signal, max_turns=self.max_turns)


class RowTurnShape(CaseFileShape):
    """One turn, in a row or in its `turns`."""

    input: _RowText
    expected: _RowText | None = None
    context: _Texts | None = None
    expected_tools: Tools | None = None
    files: list[RowFileShape] | None = None
    expected_calls: list[CallShape] | None = None
    metrics: _Texts | None = None
    settings: dict[str, Json] | None = None
    extras: dict[str, Json] | None = None


class RowShape(CaseFileShape):
    """What a row says of its case, beside the one turn that it may hold itself."""

    name: _RowText = ""
    labels: _Texts | None = None
    turns: list[RowTurnShape] = Field(min_length=1)
    history: list[RowMessageShape] | None = None
    rubrics: Rubrics | None = None
    scenario: PlayedShape | None = None
    recorded: Outcome | None = None
    evaluations: list[Json] | None = None
    extras: dict[str, Json] | None = None


# -- The names that the parts of a row go by ------------------------------------------------------


ALIASES: Mapping[str, tuple[str, ...]] = {
    "name": ("name", "id"),
    "input": ("input", "question", "prompt", "query"),
    "expected": (
        "expected",
        "ground_truth",
        "answer",
        "reference",
        "output",
        "expected_output",
    ),
    "context": ("context", "retrieval_context"),
    "labels": ("labels", "label"),
    "settings": ("settings", "turn_config"),
}
"""The names of a part of a row; the first that a row has is the one that counts."""

_OF_THE_TURN = frozenset(RowTurnShape.model_fields) - {"extras"}
_PARTS = frozenset(RowShape.model_fields) | _OF_THE_TURN
_OF_THE_CASE = _PARTS - _OF_THE_TURN
KNOWN = _PARTS.union(*ALIASES.values())
"""Every name that means something in a row; any other is a column for graders."""


def _name_in(row: Mapping[str, Json], name: str) -> str:
    """The name that a part has in this row: its first name where it is not there."""
    return next((alias for alias in ALIASES.get(name, ()) if row.get(alias) is not None), name)


def _plainly_named(row: Mapping[str, Json], parts: frozenset[str] = _PARTS) -> dict[str, Json]:
    """The row with its parts under their first names, without those that are nothing."""
    first = _first_names(tuple(key for key, value in row.items() if value is not None), parts)
    named = ((first.get(key, key), value) for key, value in row.items())
    return {name: value for name, value in named if value is not None or name not in parts}


def names_used(layouts: Iterable[tuple[str, ...]]) -> dict[str, Json]:
    """The other names that all rows have for a part, where they agree on one.

    A layout holds the columns of a row in which something stands.
    """
    used: dict[str, set[str]] = {}
    for layout in layouts:
        for alias, name in _first_names(layout, _PARTS).items():
            used.setdefault(name, set()).add(alias)
    return {name: alias for name, (alias, *others) in used.items() if not others and alias != name}


def layout_of(row: Mapping[str, Json]) -> tuple[str, ...]:
    """The columns of a row in which something stands."""
    return tuple(key for key, value in row.items() if value not in (None, "", [], {}))


@lru_cache(maxsize=1024)
def _first_names(keys: tuple[str, ...], parts: frozenset[str]) -> Mapping[str, str]:
    """The parts by the names they have among these keys; most rows of a file have the same."""
    held = {
        name: next((alias for alias in aliases if alias in keys), None)
        for name, aliases in ALIASES.items()
    }
    return {alias: name for name, alias in held.items() if alias and name in parts}


def _as_named(fault: Fault, row: Mapping[str, Json]) -> Fault:
    """The fault at the place as the row names it; a lone turn stands in the row itself."""
    turn, path = fault.path[:2], fault.path[2:]
    many = row.get("turns") is not None
    if turn[:1] != ("turns",) or (many and not path):
        turn, path, holder = (), fault.path, row
    elif many:
        holder = mapped(listed(row["turns"])[int(turn[1])])
    else:
        turn, holder = (), row
    named = (_name_in(holder, str(path[0])), *path[1:]) if path else ()
    return replace(fault, path=(*turn, *named))


# -- Rows -----------------------------------------------------------------------------------------


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
    named = _plainly_named(raw)
    if "turns" in named:
        for key in _OF_THE_TURN.intersection(named):
            place = (*at, _name_in(raw, key))
            message = f"{place[-1]!r} cannot stand beside 'turns'"
            complaints.add(message, at=place, line=line, remedy="move it into a turn")
    shape = complaints.shaped(
        _with_turns(named), RowShape, at=at, line=line, respell=lambda fault: _as_named(fault, raw)
    )
    if shape is None:
        return None
    complaints.named(shape.name, at=at, line=line)
    return _case(shape, {key: value for key, value in named.items() if key not in _PARTS})


def _with_turns(named: Mapping[str, Json]) -> dict[str, Json]:
    """The parts of a row, with the turn that stands in the row itself as its only one."""
    held = {key: value for key, value in named.items() if key in _OF_THE_CASE}
    if "turns" not in held:
        held["turns"] = [{key: value for key, value in named.items() if key in _OF_THE_TURN}]
    elif isinstance(turns := held["turns"], list):
        held["turns"] = [
            _plainly_named(turn, _OF_THE_TURN) if isinstance(turn, dict) else turn for turn in turns
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
        history=tuple(message.message() for message in shape.history or ()),
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


# -- Cases as rows, under the column names that their file had ------------------------------------


def write_jsonl(file: CaseFile) -> str:
    """The file as lines of JSON."""
    rows = (row_written(case, mapped(file.extras.get(NAMES))) for case in file.cases)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def row_written(case: Case, names: Mapping[str, Json]) -> dict[str, Json]:
    """One case as a row, its parts under the names that its file has for them."""
    first = case.turns[0]
    turns: list[Json] = [_turn_written(turn) for turn in case.turns]
    alone = len(case.turns) == 1 and not first.extras
    row = {
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
    return {str(names.get(key, key)): value for key, value in row.items()}


def _with_columns(turn: Turn) -> dict[str, Json]:
    """A turn whose settings are columns of their own, unless a column of that name means more."""
    written = _turn_written(turn)
    written.pop("settings", None)
    columns = {key: value for key, value in turn.settings.items() if key not in KNOWN}
    rest = {key: value for key, value in turn.settings.items() if key in KNOWN}
    return {**written, **present(settings=rest), **columns}


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
