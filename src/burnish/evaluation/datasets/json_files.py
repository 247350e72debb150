"""Plain JSON files of cases: an EvalSet, or a list of rows, alone or under `test_cases`."""

import json
from pathlib import Path

from burnish.core.content import Json
from burnish.evaluation.datasets.agent_case_files import CASES
from burnish.evaluation.datasets.case_files import NAMES, WRAPPED, CaseFile
from burnish.evaluation.datasets.complaints import Complaints, listed, mapped
from burnish.evaluation.datasets.evalset_keys import folded
from burnish.evaluation.datasets.evalset_reading import evalset_in
from burnish.evaluation.datasets.row_names import layout_of, names_used
from burnish.evaluation.datasets.rows import case_of_row
from burnish.evaluation.datasets.rows_writing import row_written
from burnish.system.config_errors import shown
from burnish.system.yaml import TreePath, YamlTree, read_tree

_OF_EVALSETS = frozenset({"evalcases", "evalsetid"})


def read_json(path: Path) -> CaseFile:
    """Read a JSON file, as what it turns out to be."""
    tree = read_tree(path)
    return evalset_in(tree) if holds_evalset(tree) else _rows_in(tree)


def holds_evalset(tree: YamlTree) -> bool:
    """Whether the keys are those of an EvalSet."""
    return bool(_OF_EVALSETS.intersection(map(folded, mapped(tree.data))))


def write_json(file: CaseFile) -> str:
    """The file as a JSON list of rows."""
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
        message = "it is empty" if held is None else f"expected cases, found {shown(held)}"
        remedy = "write an EvalSet with 'eval_cases', or a list of rows with an 'input' each"
        complaints.add(message, at=at, remedy=remedy)
    complaints.is_json(tree.data)
    rows = listed(held)
    cases = [case_of_row(row, complaints, at=(*at, index)) for index, row in enumerate(rows)]
    complaints.settle()
    names = names_used(layout_of(mapped(row)) for row in rows)
    extras: dict[str, Json] = {NAMES: names, **({WRAPPED: True} if wrapped else {})}
    return CaseFile(cases=tuple(case for case in cases if case), format="json", extras=extras)
