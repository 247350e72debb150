"""Cases in CSV files, one per row."""

import csv
import io
import json
import re
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from burnish.core.cases import Case, Turn
from burnish.core.content import Json
from burnish.datasets.agent_cases import Complaints, listed
from burnish.datasets.case_files import COLUMNS, CaseFile
from burnish.datasets.rows import ALIASES
from burnish.system.files import read_text

_PARTS = ("name", "input", "expected", "context", "labels")


def read_csv(path: Path) -> CaseFile:
    """Read a CSV file: UTF-8, with a header; semicolons or tabs may stand for commas."""
    complaints = Complaints(source=path.name)
    header, records = _header_and_records(path, complaints)
    parts = _parts_of(header, complaints)
    cases = [_case_in(cells, header, parts, complaints, line) for line, cells in records]
    complaints.settle()
    extras: dict[str, Json] = {COLUMNS: [*header]}
    return CaseFile(cases=tuple(case for case in cases if case), format="csv", extras=extras)


def raw_header(path: Path) -> list[str]:
    """The columns of a file."""
    return _header_and_records(path, Complaints(source=path.name))[0]


def raw_rows(path: Path) -> Iterator[dict[str, Json]]:
    """The non-empty cells of each row, by column."""
    header, records = _header_and_records(path, Complaints(source=path.name))
    for _, cells in records:
        yield {column: cell for column, cell in zip(header, cells, strict=False) if cell}


def _header_and_records(
    path: Path, complaints: Complaints
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
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


def _parts_of(header: Sequence[str], complaints: Complaints) -> dict[str, str]:
    parts = {column: part for part, column in names_in(header).items() if column in header}
    if not header:
        complaints.add("the file is empty", remedy="write a header with a column 'input'")
    elif "input" not in parts.values():
        names = f"name one of the columns {' or '.join(ALIASES['input'])}"
        remedy = f"{names}, or let `burnish init --cases {complaints.source}` do it"
        complaints.add("there is no column 'input'", line=1, remedy=remedy)
    for column in (column for column, times in Counter(header).items() if times > 1):
        complaints.add(f"two columns have the name {column!r}", line=1, remedy="rename one")
    if header and "" in header:
        complaints.add(f"column {[*header].index('') + 1} has no name", line=1, remedy="name it")
    return parts


def _case_in(
    cells: Sequence[str],
    header: Sequence[str],
    parts: Mapping[str, str],
    complaints: Complaints,
    line: int,
) -> Case | None:
    if len(cells) != len(header):
        message = f"expected {len(header)} cells, found {len(cells)}"
        complaints.add(message, line=line, remedy="put a cell with a comma in quotes")
        return None
    row = {column: cell for column, cell in zip(header, cells, strict=True) if cell}
    if "input" in parts.values() and not any(parts.get(column) == "input" for column in row):
        complaints.add("the input is missing", line=line)
    case = _case_of_cells(row, parts)
    complaints.named(case.name, line=line)
    return case


def _case_of_cells(row: Mapping[str, str], parts: Mapping[str, str]) -> Case:
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
        part: next((alias for alias in ALIASES[part] if alias in columns), part) for part in _PARTS
    }


def write_csv(file: CaseFile) -> str:
    """The file as CSV, with its own columns and those that its cases need."""
    columns = _columns_for(file)
    names = names_in(columns)
    rows = [columns, *([_cells(case, names).get(c, "") for c in columns] for case in file.cases)]
    return "".join(",".join(map(_quoted, row)) + "\n" for row in rows)


def csv_again(file: CaseFile) -> tuple[Case, ...]:
    """The cases after writing and reading them as CSV."""
    names = names_in(_columns_for(file))
    parts = {column: part for part, column in names.items()}
    rows = (_cells(case, names) for case in file.cases)
    return tuple(
        _case_of_cells({key: cell for key, cell in row.items() if cell}, parts) for row in rows
    )


def _columns_for(file: CaseFile) -> list[str]:
    had = [str(column) for column in listed(file.extras.get(COLUMNS))]
    settings = dict.fromkeys(key for case in file.cases for key in case.turns[0].settings if key)
    # A setting called like a part would be read as that part, unless the part is there too.
    free = {*had} - {*names_in(had).values()}
    clashing = {part for part in _PARTS if set(ALIASES[part]) & (settings.keys() - free)}
    names = {**names_in(had), **{part: part for part in clashing}}
    plain = {part: part for part in _PARTS}
    filled = {part for case in file.cases for part in _PARTS if _cells(case, plain)[part]}
    needed = [names[part] for part in _PARTS if part in {"input", *clashing, *filled}]
    return list(dict.fromkeys([*had, *needed, *settings]))


def _cells(case: Case, names: Mapping[str, str]) -> dict[str, str]:
    turn = case.turns[0]
    return {
        **{key: _cell(value) for key, value in turn.settings.items() if key},
        names["name"]: case.name,
        names["input"]: turn.input,
        names["expected"]: turn.expected or "",
        names["context"]: _cell([*turn.context]) if turn.context else "",
        names["labels"]: ";".join(case.labels),
    }


def _cell(value: Json) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _quoted(cell: str) -> str:
    if not any(mark in cell for mark in ',"\r\n'):
        return cell
    return '"' + cell.replace('"', '""') + '"'
