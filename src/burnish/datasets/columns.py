"""Tables of cases, in files and in programs: which column is what, and reading them as cases.

A table whose question has the column `input` is in burnish's own form, and nothing is guessed in
it. In any other table, names and values tell which column holds the question, the answer and the
name of a case. What is chosen by name is taken as it is.
"""

import json
import math
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, time
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from pathlib import Path, PurePath
from statistics import mean
from typing import Any, cast
from uuid import UUID

from burnish.core.cases import AS_JSON, Case, is_quantity
from burnish.core.content import DEEPEST, Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.formatting import listed as joined_names
from burnish.core.formatting import shorten
from burnish.datasets.agent_cases import (
    CASES,
    CaseColumns,
    CaseFile,
    Complaints,
    listed,
    mapped,
)
from burnish.datasets.rows import (
    ALIASES,
    KNOWN,
    case_of_cells,
    case_of_row,
    header_and_records,
    name_in,
    names_in,
    raw_objects,
)
from burnish.metrics.text_matching import spelled
from burnish.system.config import near, shown
from burnish.system.yaml import TreePath, YamlTree

_ANSWERS = (
    "expected_answer", "correct_answer", "gold", "target", "completion", "response", "reply",
    "correct", "solution",
)  # fmt: skip
"""What people call an answer and nothing else."""
_USUAL: Mapping[str, tuple[str, ...]] = {
    "input": (
        "ticket", "message", "text", "body", "request", "utterance", "email", "content", "user",
        "instruction", "comment", "review", "sentence", "task", "description", "title", "subject",
    ),
    "expected": (
        *_ANSWERS, "label", "category", "class", "intent", "result", "sentiment", "topic", "queue",
        "team", "priority", "tag",
    ),
    "name": ("ticket_id", "case_id", "case", "key", "number", "nr", "no"),
}  # fmt: skip
"""What people call the parts, beside the names that are read as they are; the likeliest first."""
_PARTS = ("input", "expected", "name")
_IDS = frozenset(("id", "ids", "no", "nr", "num", "number", "key", "uuid", "guid", "index", "#"))
"""Words that say that a column numbers something."""
_OTHERS = frozenset((
    "account", "agent", "author", "client", "customer", "order", "owner", "parent", "sender",
    "user",
))  # fmt: skip
"""Words for what an id belongs to, if that is not the case."""
_NO_ANSWERS = _IDS | {"at", "by", "count", "date", "seconds", "time"}
"""Words for what is no answer."""
_MOSTLY = 0.9
"""The share of values that makes a column one of ids, numbers or dates."""
_MOST_COLUMNS = 100
_LOOKED_AT = 1000
"""Rows whose values are looked at."""
_PROSE = 3.0
"""Words that a text has on average; labels have fewer."""
_LONGEST_CODE = 80
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}([T ,].*)?|\d{1,2}:\d{2}(:\d{2})?")
_CODE = re.compile(r"[A-Za-z0-9_.:/#@+-]*(?:[0-9@]|://)[A-Za-z0-9_.:/#@+?=&%-]*")
_ID = re.compile(r"#?[A-Za-z0-9]+(?:[_.:/-][A-Za-z0-9]+)*")
_ADDRESS = re.compile(r"\S+@\S+|\w+://\S+")
_SUM = re.compile(r"[+*×÷=^?]| [-/] ")
"""What a calculation has and a number has not, its first sign aside."""
_SAMPLE = 24


def _renamed(row: Mapping[str, Json], columns: CaseColumns) -> dict[str, Json]:
    """A row with the parts under their names; another column called like a part is a setting."""
    parts = columns.parts
    usual = {alias for part in _PARTS for alias in ALIASES[part]} - parts.keys()
    settings = {key: value for key, value in row.items() if key in usual and value is not None}
    named = {
        parts.get(key, key): _as_text(value) if key in parts else value
        for key, value in row.items()
        if key not in settings
    }
    if not settings:
        return named
    return {**named, "settings": {**settings, **mapped(named.get("settings"))}}


def _as_text(value: Json) -> Json:
    return json.dumps(value) if isinstance(value, bool) else value


@dataclass(frozen=True, kw_only=True)
class CaseTable:
    """The rows of a file or of a program, of which one column or another holds the question."""

    source: str
    header: tuple[str, ...]
    rows: Sequence[Mapping[str, Json]]

    @classmethod
    def of(cls, source: str, rows: Sequence[Mapping[str, Json]]) -> "CaseTable":
        """The table of rows that name their columns themselves."""
        header = tuple(dict.fromkeys(key for row in rows for key in row))
        return cls(source=source, header=header, rows=rows)

    def columns(self, *, input: str = "", expected: str = "") -> CaseColumns:  # noqa: A002
        """The columns of the parts: those that are named here, otherwise the likeliest.

        Raises ConfigError if there are no such columns, or if none can be the question.
        """
        chosen = self._chosen({"input": input, "expected": expected})
        usual = {part: self._first(ALIASES[part]) for part in _PARTS}
        if usual["input"] and not chosen:
            answer = usual["expected"] or self._answer_to(usual["input"])
            return _columns_of(usual["input"], answer, usual["name"])
        question = chosen.get("input") or usual["input"]
        answer = chosen.get("expected") or self._named_answer({question})
        question = question or self._question({answer})
        answer = answer or self._answer({question})
        return _columns_of(question, answer, self._name({question, answer}))

    def _chosen(self, named: Mapping[str, str]) -> dict[str, str]:
        """The columns that the user names; ConfigError if there are no such ones."""
        chosen = {part: column for part, column in named.items() if column}
        problems = [
            Problem(
                where=part,
                message=f"{self.source} has no column {shown(column)}",
                remedy=near(column, self._likely),
            )
            for part, column in chosen.items()
            if column not in self.header
        ]
        if len(chosen) > len({*chosen.values()}):
            message = f"the column {shown(named['input'])} cannot be the question and the answer"
            problems.append(Problem(where="expected", message=message, remedy="name another one"))
        if problems:
            raise ConfigError(problems)
        return chosen

    def _first(self, names: Iterable[str]) -> str:
        return next((name for name in names if name in self.header), "")

    def _question(self, taken: set[str]) -> str:
        """The likeliest column by name and values: never one of ids, numbers or dates."""
        free = [column for column in self._likely if column not in taken and column not in KNOWN]
        texts = [column for column in free if self._values[column].are_words]
        texts = [column for column in texts if self._values[column].fill_all] or texts
        if not texts:
            raise self._without_question()
        rank = {column: self._rank(column) for column in texts}
        highest = max(rank.values())
        likeliest = [column for column in texts if rank[column] == highest]
        others = [column for column in free if not self._values[column].are_codes]
        if len(likeliest) == 2 == len(others) and not taken - {""}:
            return likeliest[0]  # a question and its answer, which is often the longer one
        return max(likeliest, key=lambda column: self._values[column].length)

    def _rank(self, column: str) -> tuple[bool, ...]:
        values, usual = self._values[column], _USUAL["input"]
        is_answer = _has_word(column, (*ALIASES["expected"], *_USUAL["expected"]))
        is_question = _has_word(column, (*ALIASES["input"], *usual))
        whole = _folded(column) in (*ALIASES["input"], *usual)
        return (
            whole or is_question or not is_answer,
            values.words >= _PROSE,
            not values.recur,
            whole,
            is_question and not is_answer,
        )

    def _without_question(self) -> ConfigError:
        shown_columns = [
            f"{shown(column)} ({shorten(self._values[column].sample, _SAMPLE)})"
            for column in self._likely
        ]
        there = joined_names(shown_columns, 8) or "none"
        problem = Problem(
            where=self.source,
            message="no column is plainly the question: ids, numbers and dates are none",
            remedy=f'name it: --input COLUMN, or input="COLUMN" in Python; there are: {there}',
        )
        return ConfigError([problem])

    def _named_answer(self, taken: set[str]) -> str:
        """The answer by its name, whole or as one of its words."""
        usual = self._first(ALIASES["expected"])
        if usual in self._likely and usual not in taken and self._values[usual].are_texts:
            return usual
        others = (column for column in self._likely if column not in taken)
        free = [column for column in others if self._may_answer(column)]
        names = (*ALIASES["expected"], *_USUAL["expected"])
        whole = (column for name in names for column in free if _folded(column) == name)
        word = (column for name in names for column in free if _has_word(column, (name,)))
        return next(whole, "") or next(word, "")

    def _answer(self, taken: set[str]) -> str:
        """The answer by its values: the first that come again, or those of the only column."""
        free = self._free(taken)
        filled = [column for column in free if self._values[column].fill_all]
        recurring = (column for column in filled if self._values[column].recur)
        return next(recurring, "") or (filled[0] if self._is_alone(free) else "")

    def _answer_to(self, question: str) -> str:
        """The answer where the question has its usual name: by its own name, or the only one.

        Beside the column `input`, all others are what their names say.
        """
        if question == "input":
            return ""
        free = self._free({question})
        named = (column for name in _ANSWERS for column in free if _folded(column) == name)
        alone = len(self.header) == 2 and self._is_alone(free)
        return next(named, "") or (free[0] if alone else "")

    def _free(self, taken: set[str]) -> list[str]:
        """The columns whose values may be answers, whatever they are called."""
        others = [column for column in self._likely if column not in taken and column not in KNOWN]
        others = [column for column in others if _OTHERS.isdisjoint(_words(column))]
        return [column for column in others if self._may_answer(column)]

    def _is_alone(self, columns: Sequence[str]) -> bool:
        if len(columns) != 1:
            return False
        values = self._values[columns[0]]
        return values.fill_all and values.vary

    def _may_answer(self, column: str) -> bool:
        values = self._values[column]
        is_id = values.distinct and (values.are_running or values.are_ids)
        is_other = not _NO_ANSWERS.isdisjoint(_words(column))
        return values.are_texts and not (is_id or is_other or values.are_dates_or_addresses)

    def _name(self, taken: set[str]) -> str:
        """The column with the id of each case: no two are the same, and none is missing."""
        free = [column for column in self._likely if column not in taken]
        free = [column for column in free if self._values[column].distinct]
        usual = (*ALIASES["name"], *_USUAL["name"])
        whole = (column for name in usual for column in free if _folded(column) == name)
        own = [column for column in free if _OTHERS.isdisjoint(_words(column))]
        numbered = (c for c in own if self._is_numbering(c) and not _IDS.isdisjoint(_words(c)))
        by_value = (column for column in own if self._is_numbering(column))
        return next(whole, "") or next(numbered, "") or next(by_value, "")

    def _is_numbering(self, column: str) -> bool:
        """Whether each value is an id: a code, a running number, or a number of a ticket."""
        values = self._values[column]
        is_of_case = not _IDS.isdisjoint(_words(column)) or _has_word(column, _USUAL["input"])
        return values.are_ids or values.are_running or (values.are_numbers and is_of_case)

    @cached_property
    def _likely(self) -> tuple[str, ...]:
        """The columns that are looked at: of rows that all differ, there can be a million."""
        return self.header[:_MOST_COLUMNS]

    @cached_property
    def _values(self) -> dict[str, "_Values"]:
        return {
            column: _Values(values=tuple(row.get(column) for row in self.rows))
            for column in self._likely
        }


def _columns_of(question: str, answer: str, name: str) -> CaseColumns:
    named = {"input": question, "expected": answer, "name": name}
    usual = all(column in ALIASES[part] for part, column in named.items() if column)
    return CaseColumns(**named, usual=usual)


@dataclass(frozen=True, kw_only=True)
class _Values:
    """The values of one column."""

    values: tuple[Json, ...]

    @cached_property
    def are_texts(self) -> bool:
        """Whether they are texts or numbers, no lists or mappings, and some are there."""
        kinds = (str, int, float, type(None))
        return bool(self._texts) and all(isinstance(value, kinds) for value in self.values)

    @cached_property
    def are_codes(self) -> bool:
        """Whether they are ids, numbers or dates."""
        return self._mostly(_is_code)

    @cached_property
    def are_dates_or_addresses(self) -> bool:
        return self._mostly(lambda text: bool(_DATE.fullmatch(text) or _ADDRESS.fullmatch(text)))

    @property
    def are_words(self) -> bool:
        """Whether they can be questions."""
        are_switches = any(isinstance(value, bool) for value in self.values)
        return self.are_texts and not are_switches and not self.are_codes

    @cached_property
    def are_numbers(self) -> bool:
        return bool(self._texts) and all(re.fullmatch(r"\d{1,18}", text) for text in self._texts)

    @cached_property
    def are_running(self) -> bool:
        """Whether they are three whole numbers or more, one after the other."""
        numbers = [int(text) for text in self._texts] if self.are_numbers else []
        steps = {after - before for before, after in pairwise(numbers)}
        return len(numbers) > 2 and steps == {1}

    @cached_property
    def are_ids(self) -> bool:
        """Whether they are codes of letters and digits."""
        texts = [] if self.are_dates_or_addresses else self._texts
        has_both = (any(map(str.isdigit, t)) and any(map(str.isalpha, t)) for t in texts)
        return bool(texts) and all(map(_ID.fullmatch, texts)) and all(has_both)

    @cached_property
    def fill_all(self) -> bool:
        return all(value not in (None, "") for value in self.values) and bool(self.values)

    @cached_property
    def distinct(self) -> bool:
        """Whether every row has one of its own."""
        return self.fill_all and self.are_texts and self._count == len(self.values)

    @property
    def recur(self) -> bool:
        """Whether they are a few that come again."""
        return 1 < self._count <= len(self.values) / 2

    @property
    def vary(self) -> bool:
        return self._count > 1

    @cached_property
    def words(self) -> float:
        """How many words they have on average; some scripts have no spaces."""
        sizes = [max(len(t.split()), sum(ord(c) > 0x2E80 for c in t) // 2) for t in self._texts]
        return mean(sizes) if sizes else 0.0

    @cached_property
    def length(self) -> float:
        return mean(map(len, self._texts)) if self._texts else 0.0

    @property
    def sample(self) -> str:
        held = next((value for value in self.values if value not in (None, "")), "")
        return held if isinstance(held, str) else shown(held)

    @cached_property
    def _texts(self) -> list[str]:
        held = (v for v in self.values[:_LOOKED_AT] if isinstance(v, str | int | float))
        texts = (value.strip() if isinstance(value, str) else json.dumps(value) for value in held)
        return [text for text in texts if text]

    @cached_property
    def _count(self) -> int:
        return len({str(value) for value in self.values})

    def _mostly(self, is_one: Callable[[str], bool]) -> bool:
        return bool(self._texts) and sum(map(is_one, self._texts)) >= _MOSTLY * len(self._texts)


def _is_code(text: str) -> bool:
    """Whether a text is an id, a number, an amount, a date or an address, or has no words."""
    if len(text) > _LONGEST_CODE:
        return bool(re.fullmatch(r"\w+://\S+", text))
    if _DATE.fullmatch(text) or not any(map(str.isalnum, text)):
        return True
    if _SUM.search(text[1:]) and "://" not in text:
        return False
    return bool(_CODE.fullmatch(text)) or is_quantity(text)


def _folded(column: str) -> str:
    return re.sub(r"[\s_-]+", "_", column.strip().lower())


def _words(column: str) -> list[str]:
    """The words of a name, `#` and those in camelCase too."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column)
    return re.findall(r"[^\W\d_]+|#", apart.lower())


def _has_word(column: str, names: Iterable[str]) -> bool:
    words = "_".join(_words(column))
    return any(f"_{name}_" in f"_{words}_" for name in names)


def columns_words(file: CaseFile, name: str) -> str:
    """Which columns were taken, with a sample of each; empty if their names alone tell."""
    if file.columns is None or file.columns.usual:
        return ""
    return f"columns of {name}:\n{textwrap.indent(file.columns.sampled(file.cases), '  ')}"


def read_csv(path: Path, input: str = "", expected: str = "") -> CaseFile:  # noqa: A002
    """Read a CSV file: UTF-8, with a header; semicolons or tabs may stand for commas."""
    complaints = Complaints(source=path.name)
    header, records = header_and_records(path, complaints)
    lines = [*records]
    _check_header(header, complaints)
    cells = ({c: cell for c, cell in zip(header, each, strict=False) if cell} for _, each in lines)
    table = CaseTable(source=path.name, header=tuple(header), rows=[*cells])
    columns = _columns(table, complaints, input, expected) if header else None
    parts = {column: part for part, column in names_in(header).items() if column in header}
    if columns is not None:
        parts = {c: part for c, part in parts.items() if part not in _PARTS} | columns.parts
    cases = [case_of_cells(each, header, parts, complaints, line) for line, each in lines]
    complaints.settle()
    return CaseFile(cases=tuple(case for case in cases if case), columns=columns)


def _check_header(header: Sequence[str], complaints: Complaints) -> None:
    if not header:
        complaints.add("the file is empty", remedy="write a header with a column 'input'")
    for column in (column for column, times in Counter(header).items() if times > 1):
        complaints.add(f"two columns have the name {column!r}", line=1, remedy="rename one")
    if header and "" in header:
        complaints.add(f"column {[*header].index('') + 1} has no name", line=1, remedy="name it")


def read_jsonl(path: Path, input: str = "", expected: str = "") -> CaseFile:  # noqa: A002
    """Read a file of JSON lines, skipping empty lines."""
    complaints = Complaints(source=path.name)
    lines = [*raw_objects(path, complaints)]
    if not lines and not complaints.problems:
        complaints.add("the file is empty", remedy="write one JSON object per line")
    rows = [_Row(values=row, line=line) for line, row in lines]
    return _read_rows(rows, complaints, input, expected)


def _line(problem: Problem) -> float:
    place = re.search(r":(\d+)\b", problem.where)
    return int(place[1]) if place else math.inf


def read_rows(tree: YamlTree, input: str = "", expected: str = "") -> CaseFile:  # noqa: A002
    """The cases of a JSON file with a list of rows, or with one under `test_cases`."""
    complaints = Complaints.about(tree)
    wrapped = isinstance(tree.data, dict) and CASES in tree.data
    held = tree.data[CASES] if isinstance(tree.data, dict) and wrapped else tree.data
    at: TreePath = (CASES,) if wrapped else ()
    if not isinstance(held, list):
        message = "the file is empty" if held is None else f"expected cases, found {shown(held)}"
        remedy = "write an EvalSet with 'eval_cases', or a list of rows with an 'input' each"
        complaints.add(message, at=at, remedy=remedy)
    complaints.is_json(tree.data)
    rows = [_Row(values=row, at=(*at, index)) for index, row in enumerate(listed(held))]
    return _read_rows(rows, complaints, input, expected)


def cases_of_rows(
    rows: Iterable[object],
    *,
    source: str = "cases",
    input: str = "",  # noqa: A002
    expected: str = "",
) -> CaseFile:
    """The cases of a program, and the columns that were taken.

    The rows are mappings as in a file, pairs of an input and its expected answer, or Cases; what
    holds them is a list, a frame of pandas or polars, a dataset of Hugging Face, or any iterable.
    Raises ConfigError with all problems.
    """
    complaints = Complaints(source=source)
    held = [
        _Row(
            values=each if isinstance(each, Case) else _row(each, source, number),
            at=(number,),
            is_typed=True,
        )
        for number, each in enumerate(_rows_of(rows, source))
    ]
    held = [row for row in held if not isinstance(row.values, dict) or row.is_json(complaints)]
    return _read_rows(held, complaints, input, expected)


def _rows_of(given: Iterable[object], source: str) -> Iterable[object]:
    """The rows of what holds them."""
    frame = cast("Any", given)
    if isinstance(given, Mapping):
        names = ", ".join(repr(str(key)) for key in list(cast("Mapping[str, Any]", given))[:5])
        remedy = f"pass a list of rows, or one of {names}" if names else "pass a list of rows"
        raise ConfigError([Problem(where=source, message="this is one mapping", remedy=remedy)])
    if hasattr(frame, "to_dicts"):  # polars
        return cast("list[object]", frame.to_dicts())
    if hasattr(frame, "to_dict") and hasattr(frame, "columns"):  # pandas
        return cast("list[object]", frame.to_dict("records"))
    return given


def _row(value: Any, source: str, number: int) -> Json:
    """A row of a program as a file has it; a pair is an input with its answer."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, list | tuple) and len(pair := cast("Sequence[object]", value)) == 2:
        value = dict(zip(("input", "expected"), pair, strict=True))
    if not isinstance(value, Mapping):
        remedy = 'such as {"input": "2 + 2", "expected": "4"}, or ("2 + 2", "4")'
        kind = type(cast("object", value)).__name__
        found = shown(value) if value is None or isinstance(value, str | int | float) else kind
        message = f"expected a row or a pair, found {found}"
        raise ConfigError.of(f"{source}[{number}]", message, remedy)
    cells = cast("Mapping[object, object]", value)
    row = {str(key): _plain(item) for key, item in cells.items()}
    for column, item in row.items():
        if (foreign := _foreign(item)) is not None:
            remedy = "pass text, numbers, True, False, or lists and dicts of them"
            message = f"{foreign.__name__} is neither text nor JSON"
            raise ConfigError.of(f"{source}[{number}][{column!r}]", message, remedy)
    return row


def _foreign(value: object, depth: int = 0) -> type | None:
    """The type of a value, or of one inside of it, that has no form in JSON; None if all have."""
    if value is None or isinstance(value, str | int | float) or depth > DEEPEST:
        return None
    if isinstance(value, Mapping):
        inner: Iterable[object] = cast("Mapping[object, object]", value).values()
    elif isinstance(value, list):
        inner = cast("list[object]", value)
    else:
        return type(value)
    return next((kind for each in inner if (kind := _foreign(each, depth + 1))), None)


def _plain(value: Any, depth: int = 0) -> Json:
    """A value of a program as JSON has it; what is missing in a frame is None."""
    if value is None or isinstance(value, bool) or depth > DEEPEST:
        return value
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(key): _plain(item, depth + 1) for key, item in items}
    if isinstance(value, list | tuple):
        return [_plain(part, depth + 1) for part in cast("Sequence[object]", value)]
    if hasattr(value, "tolist"):  # NumPy's, be it one number or many
        return _plain(value.tolist(), depth + 1)
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> Json:
    if type(value).__name__ in ("NAType", "NaTType") or value != value:
        return None
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value) if isinstance(value, str | Decimal | UUID | PurePath) else value


@dataclass(frozen=True, kw_only=True)
class _Row:
    """One row, and its place."""

    values: Json | Case
    at: TreePath = ()
    line: int | None = None
    is_typed: bool = False
    """Whether it comes from a program: what is no text reaches functions as what it is."""

    def is_json(self, complaints: Complaints) -> bool:
        return complaints.is_json(cast("Json", self.values), at=self.at, line=self.line)

    def case(self, complaints: Complaints, columns: CaseColumns | None) -> Case | None:
        """The case; None if there are problems, which are noted."""
        if isinstance(self.values, Case):
            return self.values
        if self.is_typed and isinstance(self.values, dict):
            return self._spelled(self.values, complaints, columns)
        if columns is None or columns.usual or not isinstance(self.values, dict):
            return case_of_row(self.values, complaints, at=self.at, line=self.line)
        if self.values.get(columns.input) in (None, ""):
            message = f"there is nothing in the column {columns.input!r}"
            remedy = "fill it in, or remove the row"
            complaints.add(message, at=self.at, line=self.line, remedy=remedy)
            return None
        names = {part: column for column, part in columns.parts.items()}
        named = _renamed(self.values, columns)
        return case_of_row(named, complaints, at=self.at, line=self.line, names=names)

    def _spelled(
        self, row: dict[str, Json], complaints: Complaints, columns: CaseColumns | None
    ) -> Case | None:
        """The case of a row whose input and answer may be any JSON, which is spelled as text."""
        held = {part: name_in(row, part) for part in ("input", "expected")}
        if columns is not None and not columns.usual:
            held = {"input": columns.input, "expected": columns.expected}
        parts: list[Json] = [
            part for part, name in held.items() if not isinstance(row.get(name), str | None)
        ]
        texts = {held[str(part)]: spelled(row[held[str(part)]]) for part in parts}
        text_row = replace(self, values={**row, **texts}, is_typed=False)
        case = text_row.case(complaints, columns)
        if case is None or not parts:
            return case
        turn = case.turns[0]
        typed = replace(turn, extras={**turn.extras, AS_JSON: parts})
        return replace(case, turns=(typed, *case.turns[1:]))


def _read_rows(
    rows: Sequence[_Row],
    complaints: Complaints,
    input: str,  # noqa: A002
    expected: str,
) -> CaseFile:
    tables = [row.values for row in rows if isinstance(row.values, dict)]
    columns = None
    if input or expected or is_table(tables):
        table = CaseTable.of(complaints.source, tables)
        columns = _columns(table, complaints, input, expected)
    cases = [row.case(complaints, columns) for row in rows]
    if any(row.line for row in rows):
        complaints.problems.sort(key=_line)  # lines that are no JSON were found first
    complaints.settle()
    return CaseFile(cases=tuple(case for case in cases if case), columns=columns)


def is_table(rows: Sequence[Mapping[str, Json]]) -> bool:
    """Whether rows have columns to choose from, and are no conversations."""
    return bool(rows) and not any("turns" in row for row in rows)


def _columns(
    table: CaseTable,
    complaints: Complaints,
    input: str,  # noqa: A002
    expected: str,
) -> CaseColumns:
    try:
        return table.columns(input=input, expected=expected)
    except ConfigError:
        complaints.settle()  # rows that cannot be read come first
        raise
