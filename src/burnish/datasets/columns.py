"""Which columns of a file are the parts of a case: a proposal, and reading by it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import mean

from burnish.core.cases import Case
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.datasets.agent_cases import Complaints, listed, mapped
from burnish.datasets.case_files import CaseFile
from burnish.datasets.csv_files import raw_header, raw_rows
from burnish.datasets.formats import format_of, read_cases
from burnish.datasets.rows import ALIASES, case_of_row
from burnish.system.config import near
from burnish.system.files import read_text
from burnish.system.yaml import parse_json, read_tree

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
