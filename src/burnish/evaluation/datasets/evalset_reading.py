"""EvalSets read: Python's and Go's, in every spelling, as cases that lose nothing."""

from dataclasses import replace
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.content import Json
from burnish.evaluation.datasets.case_files import AS_WRITTEN, SPELLING, CaseFile
from burnish.evaluation.datasets.complaints import Complaints, listed
from burnish.evaluation.datasets.evalset_cases import case_in
from burnish.evaluation.datasets.evalset_keys import (
    as_python,
    as_spelled,
    folded,
    spelled_twice,
)
from burnish.evaluation.datasets.evalset_messages import (
    EVALSET,
    PROMPTITER,
)
from burnish.evaluation.datasets.evalset_rules import broken_rules, is_go_case
from burnish.evaluation.datasets.evalset_shapes import (
    EvalCaseShape,
    EvalSetShape,
)
from burnish.evaluation.datasets.evalset_writing import case_written, header_written
from burnish.system.config_errors import shown
from burnish.system.yaml import TreePath, YamlTree, read_tree


def read_evalset(path: Path) -> CaseFile:
    """Read an EvalSet of either framework."""
    return evalset_in(read_tree(path))


def evalset_in(tree: YamlTree) -> CaseFile:
    """The EvalSet in a file that was read."""
    complaints = Complaints.about(tree)
    raw = tree.data if isinstance(tree.data, dict) else {}
    key = next((key for key in raw if folded(key) == "evalcases"), "eval_cases")
    found = listed(raw.get(key))
    shape = _set_shape(tree.data, complaints)
    shapes = [case_shape(one, complaints, (key, index)) for index, one in enumerate(found)]
    complaints.settle()
    assert shape is not None
    whole = [one for one in shapes if one is not None]
    format = PROMPTITER if any(map(is_go_case, whole)) else EVALSET  # noqa: A001
    spelling = "snake" if key == "eval_cases" else "camel"
    file = CaseFile(
        cases=tuple(
            _as_written(raw_case, case_in(one), format, spelling)
            for raw_case, one in zip(found, whole, strict=True)
        ),
        format=format,
        eval_set_id=shape.eval_set_id,
        app_name=shape.app_name,
        name=shape.name,
        description=shape.description,
        creation_timestamp=shape.creation_timestamp,
        extras={SPELLING: spelling},
    )
    header: dict[str, Json] = {**raw, key: []}
    same = header_written(file, spelling) == header
    return file if same else replace(file, extras={**file.extras, AS_WRITTEN: header})


def case_shape(raw: Json, complaints: Complaints, at: TreePath = ()) -> EvalCaseShape | None:
    """One case, looked into; None where it has problems, which are noted."""
    if not complaints.is_json(raw, at=at):
        return None
    for path, key in spelled_twice(raw, EvalCaseShape):
        message = f"{key!r} is there twice, in two spellings"
        complaints.add(message, at=(*at, *path, key), remedy="remove one")
    shape = complaints.shaped(
        as_python(raw, EvalCaseShape),
        EvalCaseShape,
        at=at,
        respell=lambda fault: as_spelled(fault, raw),
    )
    if shape is not None:
        complaints.named(shape.eval_id, at=at)
        for message, remedy in broken_rules(shape):
            complaints.add(message, at=at, remedy=remedy)
    return shape


def _as_written(raw: Json, case: Case, format: str, spelling: str) -> Case:  # noqa: A002
    """The case, with its spelling kept where plain writing would spell it otherwise."""
    if case_written(case, format, spelling) == raw:
        return case
    kept: dict[str, Json] = {"format": format, "case": raw}
    return replace(case, extras={**case.extras, AS_WRITTEN: kept})


def _set_shape(raw: Json, complaints: Complaints) -> EvalSetShape | None:
    if raw is None:
        complaints.add("it is empty", remedy="write an EvalSet: eval_set_id and eval_cases")
        return None
    if not isinstance(raw, dict):
        complaints.add(f"expected an EvalSet with 'eval_cases', found {shown(raw)}")
        return None
    complaints.is_json({key: value for key, value in raw.items() if folded(key) != "evalcases"})
    for _, key in spelled_twice(raw, EvalSetShape):
        message = f"{key!r} is there twice, in two spellings"
        complaints.add(message, at=(key,), remedy="remove one")
    return complaints.shaped(
        as_python(raw, EvalSetShape), EvalSetShape, respell=lambda fault: as_spelled(fault, raw)
    )
