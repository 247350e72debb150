"""The formats of case files: reading, writing, converting, columns, and what one cannot hold."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

from burnish.core.cases import AS_WRITTEN, Case, Turn
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.formatting import listed as joined_names
from burnish.datasets.agent_cases import (
    AS_TURNS,
    CASES,
    COLUMNS,
    NAMES,
    SPELLING,
    WRAPPED,
    CaseFile,
    Complaints,
    agent_cases_again,
    listed,
    mapped,
    read_test_cases,
    refuse_agent_file,
    write_test_cases,
)
from burnish.datasets.evalset_shapes import folded
from burnish.datasets.evalsets import evalset_again, evalset_in, read_evalset, write_evalset
from burnish.datasets.rows import (
    ALIASES,
    case_of_row,
    csv_again,
    layout_of,
    names_used,
    raw_header,
    raw_rows,
    read_csv,
    read_jsonl,
    row_written,
    write_csv,
    write_jsonl,
)
from burnish.system.config import near, nearest, shown
from burnish.system.files import read_text, translated, write_atomic
from burnish.system.yaml import TreePath, YamlTree, parse_json, read_tree

_Remainder = Callable[[Json], Json]


def _of_message(value: Json) -> Json:
    return _without(value, {"role", "content", "parts"}, {"text"})


def _of_messages(value: Json) -> Json:
    """Messages without what a history holds: texts, images, calls and responses."""
    keys = {"role", "content", "parts", "tool_calls", "tool_id", "tool_name"}
    parts = {"text", "function_call", "function_response", "inline_data"}
    return list(filter(None, (_without(message, keys, parts) for message in listed(value))))


def _without(value: Json, keys: set[str], parts: set[str]) -> dict[str, Json]:
    message = mapped(value)
    others = [part for part in listed(message.get("parts")) if not parts & mapped(part).keys()]
    rest = {key: held for key, held in message.items() if key not in keys}
    return {**rest, "parts": others} if others else rest


def _of_intermediate(value: Json) -> Json:
    plain_keys = ("tool_uses", "tool_responses")
    return {key: held for key, held in mapped(value).items() if key not in plain_keys and held}


def _of_turns(value: Json) -> Json:
    """The extras of turns without their texts and calls."""
    remainders: list[Json] = []
    for turn in map(mapped, listed(value)):
        rest = {key: _remainder(_OF_TURNS, key, held) for key, held in turn.items()}
        if any(rest.values()):
            remainders.append({key: held for key, held in rest.items() if held})
    return remainders


_OF_TURNS: Mapping[str, _Remainder] = {
    "user_content": _of_message,
    "final_response": _of_message,
    "intermediate_data": _of_intermediate,
}
_OF_CASES: Mapping[str, _Remainder] = {
    "context_messages": _of_messages,
    "recorded_turns": _of_turns,
}


def _remainder(rules: Mapping[str, _Remainder], key: str, value: Json) -> Json:
    """The part of an extra that has no other place."""
    return rules[key](value) if key in rules else value


_WORDS = {
    "input": "inputs",
    "expected": "expected answers",
    "context": "context",
    "expected_tools": "expected tools",
    "expected_calls": "expected tool calls",
    "attachments": "files",
    "metrics": "the choice of metrics",
    "settings": "settings for graders",
    "labels": "labels",
    "history": "earlier messages",
    "rubrics": "rubrics",
    "scenario": "the simulated user",
    "recorded": "the recorded run",
}
_EXTRA_WORDS = {
    "user_content": "messages that are more than plain text",
    "final_response": "messages that are more than plain text",
    "context_messages": "messages that are more than plain text",
    "intermediate_data": "what happened before a reply",
    "intermediate_responses": "what happened before a reply",
    "recorded_turns": "details of the recorded run",
}
_SPELLINGS = (AS_WRITTEN, AS_TURNS, "tools")
"""Extras that only describe how a file was written."""


def _lost_parts(case: Case, again: Case) -> Iterator[str]:
    if case.name and case.name != again.name:
        yield "names"
    if len(case.turns) != len(again.turns):
        yield "turns after the first"
    yield from _changed(case, again, without=("name", "turns"))
    yield from _lost_extras(case.extras, again.extras, _OF_CASES)
    for turn, other in zip(case.turns, again.turns, strict=False):
        yield from _changed(turn, other)
        yield from _lost_extras(turn.extras, other.extras, _OF_TURNS)


def _loss_notes(pairs: Iterable[tuple[Case, Case]], format: str) -> list[str]:  # noqa: A002
    """A sentence for each lost part, with the cases that lose it."""
    losers: dict[str, list[str]] = {}
    for case, again in pairs:
        for part in () if case is again else dict.fromkeys(_lost_parts(case, again)):
            losers.setdefault(part, []).append(case.id)
    return [
        f"{format} cannot hold {part}: lost in {'case' if len(ids) == 1 else 'cases'} "
        f"{joined_names([repr(each) for each in ids], 3)}"
        for part, ids in losers.items()
    ]


def _dropped_labels(file: CaseFile, format: str) -> list[str]:  # noqa: A002
    """A sentence for what only labels the set, such as its id; no case depends on it."""
    about = ("eval_set_id", "app_name", "name", "description", "creation_timestamp")
    names = [name for name in about if getattr(file, name)]
    return [f"{format} has no place for {joined_names(names)} of the set"] if names else []


def _changed(
    before: Case | Turn, after: Case | Turn, without: tuple[str, ...] = ()
) -> Iterator[str]:
    for name, usual in _usual(type(before)).items():
        held, left = getattr(before, name), getattr(after, name)
        if name not in without and held != left and held != usual:
            yield _WORDS[name] if left == usual else f"all of {_WORDS[name]}"


@cache
def _usual(kind: type[Case | Turn]) -> Mapping[str, object]:
    """The fields of a case or turn, without extras, with their defaults."""
    return {
        part.name: part.default if part.default_factory is MISSING else part.default_factory()
        for part in fields(kind)
        if part.name != "extras"
    }


def _lost_extras(
    before: Mapping[str, Json], after: Mapping[str, Json], rules: Mapping[str, _Remainder]
) -> Iterator[str]:
    for key, value in before.items():
        left = _remainder(rules, key, after.get(key))
        if key not in _SPELLINGS and _remainder(rules, key, value) != left:
            yield _EXTRA_WORDS.get(key, repr(key))


def _read_json(path: Path) -> CaseFile:
    tree = read_tree(path)
    return evalset_in(tree) if holds_evalset(tree) else _rows_in(tree)


def holds_evalset(tree: YamlTree) -> bool:
    """Whether the file has the keys of an EvalSet."""
    return not {"evalcases", "evalsetid"}.isdisjoint(map(folded, mapped(tree.data)))


def _write_json(file: CaseFile) -> str:
    names = mapped(file.extras.get(NAMES))
    rows: list[Json] = [row_written(case, names) for case in file.cases]
    whole: Json = {CASES: rows} if file.extras.get(WRAPPED) else rows
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _rows_in(tree: YamlTree) -> CaseFile:
    complaints = Complaints.about(tree)
    wrapped = isinstance(tree.data, dict) and CASES in tree.data
    held = tree.data[CASES] if isinstance(tree.data, dict) and wrapped else tree.data
    at: TreePath = (CASES,) if wrapped else ()
    if not isinstance(held, list):
        message = "the file is empty" if held is None else f"expected cases, found {shown(held)}"
        remedy = "write an EvalSet with 'eval_cases', or a list of rows with an 'input' each"
        complaints.add(message, at=at, remedy=remedy)
    complaints.is_json(tree.data)
    rows = listed(held)
    cases = [case_of_row(row, complaints, at=(*at, index)) for index, row in enumerate(rows)]
    complaints.settle()
    names = names_used(layout_of(mapped(row)) for row in rows)
    extras: dict[str, Json] = {NAMES: names, **({WRAPPED: True} if wrapped else {})}
    return CaseFile(cases=tuple(case for case in cases if case), format="json", extras=extras)


@dataclass(frozen=True, kw_only=True)
class _Format:
    """A file format for cases."""

    suffixes: tuple[str, ...]
    read: Callable[[Path], CaseFile]
    write: Callable[[CaseFile], str]
    again: Callable[[CaseFile], tuple[Case, ...]] | None = None
    """The cases after writing and reading them; None if that changes nothing."""
    extras: tuple[str, ...] = ()
    """The extras of a file that this format uses."""
    names_sets: bool = False
    """Whether a set can have an id, a name and a description."""


_EVALSET = _Format(
    suffixes=(".evalset.json", ".test.json"),
    read=read_evalset,
    write=write_evalset,
    again=evalset_again,
    extras=(SPELLING,),
    names_sets=True,
)
_FORMATS: Mapping[str, _Format] = {
    "evalset": _EVALSET,
    "promptiter": replace(_EVALSET, extras=()),
    "test_cases": _Format(
        suffixes=(".yaml", ".yml"),
        read=lambda path: read_test_cases(path, _read_by_name),
        write=write_test_cases,
        again=agent_cases_again,
        extras=(WRAPPED,),
    ),
    "jsonl": _Format(
        suffixes=(".jsonl", ".ndjson"), read=read_jsonl, write=write_jsonl, extras=(NAMES,)
    ),
    "json": _Format(
        suffixes=(".json",), read=_read_json, write=_write_json, extras=(NAMES, WRAPPED)
    ),
    "csv": _Format(
        suffixes=(".csv",), read=read_csv, write=write_csv, again=csv_again, extras=(COLUMNS,)
    ),
}


def _read_by_name(path: Path) -> CaseFile:
    return _FORMATS[format_of(path)].read(path)


def format_of(path: Path) -> str:
    """The format for the name of a file."""
    name = path.name.lower()
    matching = next((key for key, held in _FORMATS.items() if name.endswith(held.suffixes)), None)
    if matching is None:
        endings = ", ".join(dict.fromkeys(s for held in _FORMATS.values() for s in held.suffixes))
        message = f"the name {path.name!r} does not tell the format of the cases"
        remedy = f"name a file that ends in {endings}, or a format: {', '.join(_FORMATS)}"
        raise ConfigError([Problem(message=message, remedy=remedy)])
    return matching


def _known_format(format: str) -> str:  # noqa: A002
    if format in _FORMATS:
        return format
    likely = nearest(format, list(_FORMATS))
    remedy = f"did you mean {likely!r}?" if likely else f"known formats: {', '.join(_FORMATS)}"
    raise ConfigError([Problem(message=f"unknown format {format!r}", remedy=remedy)])


def convert(file: CaseFile, format: str) -> tuple[CaseFile, list[str]]:  # noqa: A002
    """The file in another format, and a sentence for everything that its cases lose."""
    target = _FORMATS[_known_format(format)]
    converted = _in_format(file, format)
    if target.again is not None:
        converted = replace(converted, cases=target.again(converted))
    notes = _loss_notes(zip(file.cases, converted.cases, strict=True), format)
    return (file, []) if file.format == format and not notes else (converted, notes)


def label_notes(file: CaseFile, format: str) -> list[str]:  # noqa: A002
    """A sentence for the labels of the set that a format has no place for; nothing else is lost."""
    return [] if _FORMATS[_known_format(format)].names_sets else _dropped_labels(file, format)


def _in_format(file: CaseFile, format: str) -> CaseFile:  # noqa: A002
    """The cases in another format, without the old format's extras."""
    if file.format == format:
        return file
    target = _FORMATS[format]
    extras = {key: value for key, value in file.extras.items() if key in target.extras}
    if target.names_sets:
        return replace(file, format=format, extras=extras)
    return CaseFile(cases=file.cases, format=format, extras=extras)


def read_cases(path: Path, *, format: str | None = None) -> CaseFile:  # noqa: A002
    """Read a file of cases; the format follows from its name unless it is given.

    All problems are raised together, as one ConfigError.
    """
    with translated("read", path):
        folder = path.is_dir()
    if folder:
        remedy = "name one of its files"
        raise ConfigError([Problem(message="this is a folder", where=str(path), remedy=remedy)])
    return _FORMATS[format_of(path) if format is None else _known_format(format)].read(path)


def read_some_cases(path: Path) -> tuple[Case, ...]:
    """Read the cases of a file that must have at least one."""
    cases = read_cases(path).cases
    if not cases:
        problem = Problem(where=str(path), message="the file has no cases", remedy="add one")
        raise ConfigError([problem])
    return cases


def read_folder(folder: Path) -> dict[Path, CaseFile]:
    """Read all EvalSets of a folder and its subfolders, sorted by path."""
    suffixes = _FORMATS["evalset"].suffixes
    paths = sorted(path for path in folder.rglob("*.json") if path.name.endswith(suffixes))
    files: dict[Path, CaseFile] = {}
    problems: list[Problem] = []
    for path in paths:
        try:
            files[path] = read_cases(path)
        except ConfigError as error:
            problems += error.problems
    if not paths:
        message = f"the folder has no {' or '.join(f'*{suffix}' for suffix in suffixes)} files"
        problems.append(Problem(message=message, where=str(folder)))
    if problems:
        raise ConfigError(problems)
    return files


def write_cases(
    path: Path,
    cases: CaseFile | Sequence[Case],
    *,
    format: str | None = None,  # noqa: A002
) -> None:
    """Write cases; raises ConfigError if the format cannot hold them.

    A CaseFile keeps its format if the name of the file allows it. Use `convert` to write cases
    without what a format cannot hold.
    """
    target = format_of(path) if format is None else _known_format(format)
    if format is None and isinstance(cases, CaseFile) and target in ("evalset", "json"):
        # The name of such a file also stands for an EvalSet of either framework.
        target = cases.format if cases.format in ("evalset", "promptiter") else target
    file = cases if isinstance(cases, CaseFile) else CaseFile(cases=tuple(cases), format=target)
    complaints = Complaints(source=path.name)
    for case in file.cases:
        complaints.named(case.name)
    complaints.settle()
    if notes := convert(file, target)[1]:
        problems = [Problem(message=note, where=path.name) for note in notes]
        raise ConfigError(
            problems, remedy="Convert them first, or write JSONL, which can hold everything."
        )
    if target == "test_cases":
        refuse_agent_file(path)
    named = replace(file, eval_set_id=file.eval_set_id or path.name.split(".")[0])
    write_atomic(path, _FORMATS[target].write(_in_format(named, target)))


def append_cases(path: Path, cases: Sequence[Case]) -> dict[str, Case]:
    """Add cases at the end of a file in its own format.

    Returns, by their ids in the file, the cases whose extras the format has no room for.

    What is in the file stays as it is written, comments too, wherever a format can be continued.
    Cases have no names where no other case of the file has one.
    """
    file, text = read_cases(path), read_text(path)
    if file.cases and not any(case.name for case in file.cases):
        cases = [replace(case, name="") for case in cases]
    added = tuple(cases)
    holds_extras = not convert(replace(file, cases=added), file.format)[1]
    if not holds_extras:
        added = tuple(replace(case, extras={}) for case in cases)
    longer = replace(file, cases=(*file.cases, *added))
    write = _FORMATS[file.format].write
    before, after = write(file), write(longer)
    line_end = "" if text.endswith("\n") or not text else "\n"
    continued = f"{text}{line_end}{after[len(before) :]}"
    if after.startswith(before) and _reads_as(path, continued, longer):
        write_atomic(path, continued)
    else:
        write_cases(path, longer, format=file.format)
    ids = (case.id for case in added)
    return {} if holds_extras else dict(zip(ids, cases, strict=True))


def _reads_as(path: Path, text: str, file: CaseFile) -> bool:
    """Whether a text in a file of this name would have exactly these cases."""
    with TemporaryDirectory() as elsewhere:
        trial = Path(elsewhere) / path.name
        write_atomic(trial, text)
        try:
            again = read_cases(trial, format=file.format)
        except ConfigError:
            return False
    return [case.content_id for case in again.cases] == [case.content_id for case in file.cases]


_ROWS = ("csv", "jsonl", "json")
"""The formats that have columns."""
_USUAL: Mapping[str, tuple[str, ...]] = {
    "input": (
        "ticket", "message", "text", "body", "request", "utterance", "email", "content", "user",
        "instruction", "comment", "review", "sentence", "task", "description", "title", "subject",
    ),
    "expected": (
        "expected_answer", "gold", "target", "label", "category", "class", "intent", "response",
        "reply", "completion", "correct", "result", "solution", "sentiment", "priority", "topic",
        "queue", "team", "tag",
    ),
    "name": ("ticket_id", "case", "case_id", "key", "number", "nr", "no"),
}  # fmt: skip
"""What people call the parts, beside the names that are read as they are; the likeliest first."""


@dataclass(frozen=True, kw_only=True)
class CaseColumns:
    """The columns that hold the parts of a case; the others are settings for graders."""

    input: str
    expected: str = ""
    name: str = ""

    @property
    def parts(self) -> dict[str, str]:
        """The part that each column holds."""
        values = ((str(getattr(self, field.name)), field.name) for field in fields(self))
        return {column: part for column, part in values if column}

    def __str__(self) -> str:
        return ", ".join(f"{part} = {column}" for column, part in self.parts.items())


@dataclass(frozen=True, kw_only=True)
class CaseTable:
    """A file of cases as rows."""

    path: Path
    header: tuple[str, ...]
    rows: tuple[Mapping[str, Json], ...]

    @classmethod
    def read(cls, path: Path) -> "CaseTable | None":
        """The rows of a file; None if its format has none, such as an EvalSet."""
        if not path.is_file():
            message = "there is no such file"
            remedy = "check the path, or leave --cases out to start with examples"
            raise ConfigError([Problem(where=str(path), message=message, remedy=remedy)])
        kind = format_of(path)
        if kind not in _ROWS:
            return None
        if kind == "csv":
            rows, header = list(raw_rows(path)), raw_header(path)
        else:
            rows = [mapped(row) for row in _json_rows(path, kind)]
            header = list(dict.fromkeys(key for row in rows for key in row))
        if not header or not all(rows):
            return None  # An EvalSet, or nothing that has columns: its own reader says more.
        return cls(path=path, header=tuple(header), rows=tuple(rows))

    def proposed(self, **chosen: str) -> CaseColumns:
        """The likely columns; those that are chosen by name are taken as they are."""
        for part, column in chosen.items():
            if column and column not in self.header:
                where, message = f"--{part}", f"{self.path.name} has no column {column!r}"
                remedy = near(column, self.header)
                raise ConfigError([Problem(where=where, message=message, remedy=remedy)])
        taken = {column for column in chosen.values() if column}
        texts = [column for column in self.header if self._is_text(column)]
        picked = {
            part: chosen.get(part) or self._named(part, taken)
            for part in ("input", "expected", "name")
        }
        if not picked["input"]:
            free = [column for column in texts if column not in {*taken, *picked.values()}]
            picked["input"] = max(free or self.header, key=self._length)
        if not picked["expected"]:
            picked["expected"] = self._answers({*picked.values()})
        if picked["name"] and not chosen.get("name") and not self._distinct(picked["name"]):
            picked["name"] = ""
        return CaseColumns(**picked)

    def _named(self, part: str, taken: set[str]) -> str:
        """The column with a usual name of a part, whole or as one of its words."""
        free = [column for column in self.header if column not in taken]
        for usual in (*ALIASES[part], *_USUAL[part]):
            for column in free:
                if column.strip().lower().replace(" ", "_") == usual:
                    return column
        return "" if part == "name" else self._with_word(part, free)

    def _with_word(self, part: str, free: Sequence[str]) -> str:
        for usual in (*ALIASES[part], *_USUAL[part]):
            for column in free:
                if usual in _words(column) and not _is_id(column):
                    return column
        return ""

    def _answers(self, taken: set[str]) -> str:
        """A column with an answer in every row: one whose values recur, or the only one."""
        free = [column for column in self.header if column not in taken and not _is_id(column)]
        filled = [column for column in free if all(row.get(column) for row in self.rows)]
        for column in filled:
            if 1 < self._values(column) <= len(self.rows) / 2:
                return column
        alone = len(free) == len(filled) == 1 and self._values(filled[0]) > 1
        return filled[0] if alone else ""

    def _values(self, column: str) -> int:
        return len({str(row.get(column, "")) for row in self.rows})

    def _is_text(self, column: str) -> bool:
        return all(isinstance(row.get(column, ""), str | int | float) for row in self.rows)

    def _length(self, column: str) -> float:
        return mean(len(str(row.get(column, ""))) for row in self.rows) if self.rows else 0.0

    def _distinct(self, column: str) -> bool:
        return all(row.get(column) for row in self.rows) and self._values(column) == len(self.rows)

    def cases(self, columns: CaseColumns) -> tuple[Case, ...]:
        """The rows as cases; all problems are raised together."""
        complaints = Complaints(source=self.path.name)
        # Ids that occur twice are no names, but a grader may still want them.
        others = {column: f"{column}_column" for column in ALIASES["name"]}
        parts = {**others, **columns.parts}
        cases: list[Case] = []
        for number, row in enumerate(self.rows, start=1):
            named = {parts.get(column, column): value for column, value in row.items()}
            if not named.get("input"):
                message = f"row {number} has nothing in the column {columns.input!r}"
                complaints.add(message, remedy="fill it in, or remove the row")
            elif case := case_of_row(named, complaints):
                cases.append(case)
        complaints.settle()
        return tuple(cases)


def _words(column: str) -> list[str]:
    return re.split(r"[^a-z]+", column.lower())


def _is_id(column: str) -> bool:
    return "id" in _words(column)


def read_with_columns(path: Path, **chosen: str) -> tuple[CaseFile, CaseColumns | None]:
    """The cases of any file, and the columns that were taken where it has columns."""
    table = CaseTable.read(path)
    if table is None or not table.rows or "turns" in table.header:
        return read_cases(path), None
    columns = table.proposed(**chosen)
    if all(column in ALIASES[part] for column, part in columns.parts.items()):
        return read_cases(path), columns
    return CaseFile(cases=table.cases(columns), format=format_of(path)), columns


def _json_rows(path: Path, kind: str) -> Iterator[Json]:
    if kind == "jsonl":
        lines = (line for line in read_text(path).splitlines() if line.strip())
        yield from (parse_json(line, source=path.name) for line in lines)
        return
    data = read_tree(path).data
    held = mapped(data).get("cases", data)
    yield from listed(held) if isinstance(held, list) else ()
