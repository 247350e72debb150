"""Cases that a client sends: data that cannot make the service act for somebody else.

A file of the operator may name metrics, models, code, files and addresses. A client sends only
inputs and expectations, with attachments as bytes. The allowed fields are listed here; every
other field is rejected by name and place, including fields that a format gains later.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from burnish.core.content import DEEPEST, TOO_DEEP, Json, canonical, from_json, is_deeper
from burnish.core.errors import (
    MOST_PROBLEMS,
    ConfigError,
    MoreProblems,
    NotJournalable,
    Problem,
)
from burnish.datasets.agent_cases import (
    CASES,
    CaseColumns,
    CaseFile,
    Complaints,
    listed,
    mapped,
)
from burnish.datasets.columns import CaseTable, is_table
from burnish.datasets.evalset_shapes import folded
from burnish.datasets.formats import format_of, holds_evalset, read_cases
from burnish.datasets.rows import ALIASES, names_in, raw_header, raw_objects, raw_rows
from burnish.system.config import dotted, nearest, shown
from burnish.system.files import read_text
from burnish.system.variables import variables_in
from burnish.system.yaml import FLATTER, TreePath, read_tree

_MOST_YAML = 500_000
"""Characters, which take about ten seconds; a longer file could block the service."""

Fields: TypeAlias = "Mapping[str, Fields | None]"
"""The allowed keys of a mapping or of the mappings in a list; None allows any data."""
_Spelled: TypeAlias = "Mapping[str, tuple[str, Fields | None]]"
"""The same by compared spelling, with the original name."""


def read_client_cases(
    path: Path,
    *,
    input: str = "",  # noqa: A002
    expected: str = "",
) -> CaseFile:
    """Read a file that a client sent; raises ConfigError for fields it may not have."""
    check_client_cases(path, input=input, expected=expected)
    return read_cases(path, input=input, expected=expected)


def check_client_cases(
    path: Path,
    *,
    input: str = "",  # noqa: A002
    expected: str = "",
) -> None:
    """Reject a file with fields that a client may not use."""
    refusals = _Refusals(source=path.name, named={"input": input, "expected": expected})
    _CHECKS[format_of(path)](path, refusals)
    refusals.settle()


def _fields(names: str = "", *, data: str = "", **inner: Fields) -> Fields:
    """Fields by name: plain values, any JSON (`data`), and mappings."""
    plain: Fields = {name: {} for name in names.split()}
    return {**plain, **dict.fromkeys(data.split()), **inner}


def _any_name(*parts: str) -> str:
    return " ".join(alias for part in parts for alias in ALIASES[part])


_FILE = _fields("type data name description pages sheet range")
_TURN: Fields = {
    **_fields(_any_name("input", "expected", "context") + " metrics"),
    **_fields(
        files=_FILE,
        expected_tools=_fields("name count", data="args"),
        expected_calls=_fields("name error id passages", data="arguments result"),
    ),
}
ROW: Fields = {
    **_fields(_any_name("name", "labels"), data="recorded"),
    **_TURN,
    **_fields(
        turns=_TURN,
        history=_fields(
            "role content answers tool",
            images=_fields("media_type base64"),
            uses=_fields("id name", data="arguments"),
        ),
        rubrics=_fields("id text description kind metric"),
        scenario=_fields("plan stop_signal max_turns"),
        extras=_fields("route"),
    ),
}

_CALL = _fields("name id will_continue", data="args partial_args")
_RESPONSE = _fields("name id will_continue scheduling", data="response")
_PART = _fields(
    "text thought thought_signature",
    function_call=_CALL,
    function_response=_RESPONSE,
    inline_data=_fields("mime_type data display_name"),
)
_MESSAGE = _fields(
    "role content reasoning_content tool_id tool_name",
    parts=_PART,
    content_parts=_fields("type text"),
    tool_calls=_fields("id type", function=_fields("name", data="arguments")),
)
_INVOCATION = _fields(
    "invocation_id creation_timestamp metric_names",
    user_content=_MESSAGE,
    final_response=_MESSAGE,
    context_messages=_MESSAGE,
    intermediate_responses=_MESSAGE,
    tools=_fields("name id", data="arguments result"),
    intermediate_data=_fields(
        tool_uses=_CALL,
        tool_responses=_RESPONSE,
        intermediate_responses=_PART,
        invocation_events=_fields("author", content=_MESSAGE),
    ),
)
EVAL_CASE = _fields(
    "eval_id eval_mode creation_timestamp",
    conversation=_INVOCATION,
    actual_conversation=_INVOCATION,
    context_messages=_MESSAGE,
    conversation_scenario=_fields(
        "starting_prompt conversation_plan stop_signal max_allowed_invocations"
    ),
    session_input=_fields("app_name user_id", data="state"),
    rubrics=_fields("id metric_name description type", content=_fields("text")),
)
EVAL_SET = _fields("eval_set_id eval_cases app_name name description creation_timestamp")


_ATTACH = "attach the file as base64: {type: text, name: notes.txt, data: …}"
_LEAVE = "remove it: the operator sets this in the app's own file"
_MODELS = ("a client cannot name a model, its address or its key", _LEAVE)
_FILES = ("the service does not read its own files for a client", _ATTACH)
_ADDRESSES = ("the service fetches nothing for a client", _ATTACH)
_GRADERS = ("a client cannot set the settings of graders", _LEAVE)
_REASONS: Mapping[str, tuple[str, str]] = {
    "evaluations": ("a client cannot set how a case is measured", _LEAVE),
    "model": _MODELS,
    "judge": _MODELS,
    "judgemodel": _MODELS,
    "grader": ("a client cannot name code that the service runs", _LEAVE),
    "path": _FILES,
    "filepath": _FILES,
    "filedata": _FILES,
    "fileuri": _FILES,
    "testcasesfile": ("cases cannot be read from another file", "send the cases themselves"),
    "url": _ADDRESSES,
    "uri": _ADDRESSES,
    "settings": _GRADERS,
    "turnconfig": _GRADERS,
    "tags": ("sent cases have no tags", "call them 'labels'"),
}
"""Explanations for fields that only other files may have, by folded name."""


@dataclass(kw_only=True)
class _Refusals:
    """The rejected fields of a file."""

    source: str
    named: Mapping[str, str] = field(default_factory=dict[str, str])
    """The columns of the question and the answer, where the client names them."""
    problems: list[Problem] = field(default_factory=list[Problem])

    def add(self, message: str, *, at: TreePath, remedy: str = "") -> None:
        where = dotted(at) or self.source
        self.problems.append(Problem(message=message, where=where, remedy=remedy))

    def check(
        self, raw: Json, fields: Fields, *, at: TreePath, spell: Callable[[str], str] = str
    ) -> None:
        """Reject other fields than these, and variables anywhere."""
        if not self._is_plain(raw, at):
            return
        for place, key, value, allowed in _others(raw, _spelled(fields, spell), at, spell):
            self._refuse(place, key, value, allowed)
        self._refuse_variables(raw, at)
        for place, text, is_key in _texts(raw, at):
            # Readers take arguments and passages out of JSON in texts.
            if is_key or not text.lstrip().startswith(("{", "[")):
                continue
            try:
                value = from_json(text)
            except ValueError:  # just a text, for the readers too
                continue
            if self._is_plain(value, place):
                self._refuse_variables(value, place)

    def _is_plain(self, value: Json, at: TreePath) -> bool:
        """Whether a value is JSON of modest depth; anything else is rejected."""
        if is_deeper(value, DEEPEST):
            self.add(TOO_DEEP, at=at, remedy=FLATTER)
            return False
        try:
            canonical(value)
        except NotJournalable as error:
            self.add(error.message, at=at, remedy=error.remedy)
            return False
        return True

    def _refuse_variables(self, value: Json, at: TreePath) -> None:
        remedy = "write it without braces, or send the text as an attachment, which nothing expands"
        for place, text, _ in _texts(value, at):
            for name in variables_in(text):
                variable = shown(f"${{{name}}}")
                message = f"{variable} refers to a variable of the service"
                self.add(message, at=place, remedy=remedy)

    def settle(self) -> None:
        if self.problems:
            raise ConfigError(self.problems)

    def columns(self, table: CaseTable) -> CaseColumns | None:
        """The columns that will be taken, where their names are not the usual ones."""
        columns = table.columns(**self.named)
        return None if columns.usual else columns

    def _refuse(self, at: TreePath, key: str, value: Json, allowed: Iterable[str]) -> None:
        """Reject a field, or the fields inside it that have their own explanation."""
        if len(self.problems) >= MOST_PROBLEMS:
            # Finding words for a million fields would take a while.
            self.problems.append(MoreProblems.of(1))
            return
        inner = list(_named_inside(value, (*at, key)))
        if inner:
            for place, (message, remedy) in inner:
                self.add(message, at=place, remedy=remedy)
            return
        message, remedy = _REASONS.get(folded(key)) or _unknown(key, allowed)
        self.add(message, at=(*at, key), remedy=remedy)


def _unknown(key: str, allowed: Iterable[str]) -> tuple[str, str]:
    names = list(allowed)
    likely = nearest(key, names)
    listing = f"remove it; known: {', '.join(names)}" if names else "give a text or a number"
    remedy = f"did you mean {likely!r}?" if likely else listing
    return f"sent cases have no field {shown(key)} here", remedy


def _spelled(fields: Fields, spell: Callable[[str], str]) -> _Spelled:
    return {spell(name): (name, inner) for name, inner in fields.items()}


def _others(
    raw: Json,
    fields: _Spelled,
    at: TreePath,
    spell: Callable[[str], str],
) -> Iterator[tuple[TreePath, str, Json, Iterable[str]]]:
    """Every key with a value that is not one of these fields, with the allowed names."""
    if isinstance(raw, list):
        for index, item in enumerate(raw):
            yield from _others(item, fields, (*at, index), spell)
    for key, value in mapped(raw).items():
        if value is None:
            continue
        if spell(key) not in fields:
            yield at, key, value, [name for name, _ in fields.values()]
        elif (inner := fields[spell(key)][1]) is not None:
            yield from _others(value, _spelled(inner, spell), (*at, key), spell)


def _named_inside(value: Json, at: TreePath) -> Iterator[tuple[TreePath, tuple[str, str]]]:
    """The outermost keys inside a value that have their own explanation."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _named_inside(item, (*at, index))
    for key, item in mapped(value).items():
        if (reason := _REASONS.get(folded(key))) is not None:
            yield (*at, key), reason
        else:
            yield from _named_inside(item, (*at, key))


def _texts(value: Json, at: TreePath) -> Iterator[tuple[TreePath, str, bool]]:
    """Every text with its place, and whether it is a key."""
    if isinstance(value, str):
        yield at, value, False
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*at, index))
    for key, item in mapped(value).items():
        yield (*at, key), key, True
        yield from _texts(item, (*at, key))


def _check_rows(rows: Iterable[Json], refusals: _Refusals) -> None:
    rows = list(rows)
    tables = [row for row in rows if isinstance(row, dict)]
    columns = None
    if is_table(tables) or any(refusals.named.values()):
        columns = refusals.columns(CaseTable.of(refusals.source, tables))
    allowed = ROW if columns is None else _with_columns(ROW, columns)
    for index, row in enumerate(rows):
        refusals.check(row, allowed, at=("cases", index))


def _with_columns(known: Fields, columns: CaseColumns) -> Fields:
    """The allowed fields where these columns are taken: another name of a part is a setting."""
    others = {alias for part in ("input", "expected", "name") for alias in ALIASES[part]}
    rest = {name: inner for name, inner in known.items() if name not in others}
    return {**rest, **{column: {} for column in columns.parts}}


def _check_jsonl(path: Path, refusals: _Refusals) -> None:
    # What is no JSON object is for the reader to complain about.
    _check_rows((row for _, row in raw_objects(path, Complaints(source=path.name))), refusals)


def _check_csv(path: Path, refusals: _Refusals) -> None:
    header = raw_header(path)
    # Any other column would be a setting of its case, a second name for a part included.
    columns = _fields(" ".join(names_in(header).values()))
    rows = list(raw_rows(path))
    taken = refusals.columns(CaseTable(source=path.name, header=tuple(header), rows=rows))
    columns = columns if taken is None else _with_columns(columns, taken)
    filled: set[str] = set()
    for index, row in enumerate(rows):
        filled |= row.keys()
        refusals.check(row, columns, at=("cases", index))
    empty: dict[str, Json] = {column: "" for column in header if column not in filled}
    refusals.check(empty, columns, at=("columns",))


def _check_list(path: Path, refusals: _Refusals) -> None:
    data = read_tree(path).data
    if isinstance(data, dict):
        around: dict[str, Json] = {key: item for key, item in data.items() if key != CASES}
        refusals.check(around, _fields(CASES), at=())
    _check_rows(listed(data[CASES] if isinstance(data, dict) and CASES in data else data), refusals)


def _check_yaml(path: Path, refusals: _Refusals) -> None:
    text = read_text(path)
    if len(text) > _MOST_YAML:
        message = f"YAML of more than {_MOST_YAML:,} characters is read too slowly"
        refusals.add(message, at=(), remedy="send it as JSONL")
    else:
        _check_list(path, refusals)


def _check_evalset(path: Path, refusals: _Refusals) -> None:
    data = mapped(read_tree(path).data)
    around: dict[str, Json] = {k: v for k, v in data.items() if folded(k) != "evalcases"}
    refusals.check(around, EVAL_SET, at=(), spell=folded)
    cases = [case for key in data if folded(key) == "evalcases" for case in listed(data[key])]
    for index, case in enumerate(cases):
        refusals.check(case, EVAL_CASE, at=("cases", index), spell=folded)


def _check_json(path: Path, refusals: _Refusals) -> None:
    (_check_evalset if holds_evalset(read_tree(path)) else _check_list)(path, refusals)


_CHECKS: Mapping[str, Callable[[Path, _Refusals], None]] = {
    "evalset": _check_evalset,
    "test_cases": _check_yaml,
    "jsonl": _check_jsonl,
    "json": _check_json,
    "csv": _check_csv,
}
