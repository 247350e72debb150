"""Cases as CSV: the columns that their file had, then those that they need."""

import json
from collections.abc import Mapping

from burnish.core.cases import Case
from burnish.core.content import Json
from burnish.evaluation.datasets.case_files import COLUMNS, CaseFile
from burnish.evaluation.datasets.complaints import listed
from burnish.evaluation.datasets.csv_rows import PARTS, case_of_cells, names_in
from burnish.evaluation.datasets.row_names import ALIASES


def write_csv(file: CaseFile) -> str:
    """The file as CSV, with the columns that it had and those that its cases need."""
    columns = _columns_for(file)
    names = names_in(columns)
    rows = [columns, *([_cells(case, names).get(c, "") for c in columns] for case in file.cases)]
    return "".join(",".join(map(_quoted, row)) + "\n" for row in rows)


def csv_again(file: CaseFile) -> tuple[Case, ...]:
    """What the cases are once they were written as CSV and read again."""
    names = names_in(_columns_for(file))
    parts = {column: part for part, column in names.items()}
    rows = (_cells(case, names) for case in file.cases)
    return tuple(
        case_of_cells({key: cell for key, cell in row.items() if cell}, parts) for row in rows
    )


def _columns_for(file: CaseFile) -> list[str]:
    """The columns of the file, then those that its cases need."""
    had = [str(column) for column in listed(file.extras.get(COLUMNS))]
    settings = dict.fromkeys(key for case in file.cases for key in case.turns[0].settings if key)
    # A setting called like a part would be read as that part, unless the part is there too.
    free = {*had} - {*names_in(had).values()}
    clashing = {part for part in PARTS if set(ALIASES[part]) & (settings.keys() - free)}
    names = {**names_in(had), **{part: part for part in clashing}}
    needed = [
        names[part]
        for part in PARTS
        if part in ("input", *clashing) or any(_has(case, part) for case in file.cases)
    ]
    return list(dict.fromkeys([*had, *needed, *settings]))


def _has(case: Case, part: str) -> bool:
    turn = case.turns[0]
    held = {"name": case.name, "expected": turn.expected, "context": turn.context}
    return bool({**held, "labels": case.labels}.get(part))


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
