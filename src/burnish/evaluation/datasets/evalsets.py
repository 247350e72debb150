"""EvalSets as files: written in the spelling they were read in, while they still say the same."""

import json
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from burnish.core.cases import Case
from burnish.core.content import Json
from burnish.core.errors import ConfigError
from burnish.evaluation.datasets.case_files import AS_WRITTEN, SPELLING, CaseFile
from burnish.evaluation.datasets.complaints import Complaints, mapped
from burnish.evaluation.datasets.evalset_cases import case_in
from burnish.evaluation.datasets.evalset_keys import as_python, folded
from burnish.evaluation.datasets.evalset_reading import case_shape
from burnish.evaluation.datasets.evalset_shapes import EvalCaseShape, EvalSetShape
from burnish.evaluation.datasets.evalset_writing import case_written, header_written


def write_evalset(file: CaseFile, path: Path) -> str:
    """The file as JSON text; a set without an id is called after its file."""
    named = replace(file, eval_set_id=file.eval_set_id or path.name.split(".")[0])
    spelling = _spelling(file)
    cases: list[Json] = [_case(case, file.format, spelling) for case in file.cases]
    header = _header(named, spelling)
    whole = {key: cases if folded(key) == "evalcases" else held for key, held in header.items()}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def evalset_again(file: CaseFile) -> tuple[Case, ...]:
    """What the cases are once they were written in an EvalSet and read again."""
    complaints = Complaints(source=f"written as {file.format}")
    shapes = [
        case_shape(_case(case, file.format, "snake"), complaints, (case.id,)) for case in file.cases
    ]
    complaints.settle()
    return tuple(case_in(shape) for shape in shapes if shape)


def _spelling(file: CaseFile) -> str:
    usual = "camel" if file.format == "promptiter" else "snake"
    return str(file.extras.get(SPELLING, usual))


def _case(case: Case, format: str, spelling: str) -> dict[str, Json]:  # noqa: A002
    """The case as it was written, unless it says something else by now."""
    kept = mapped(case.extras.get(AS_WRITTEN))
    raw = kept.get("case")
    if kept.get("format") != format or not isinstance(raw, dict):
        return case_written(case, format, spelling)
    extras = {key: value for key, value in case.extras.items() if key != AS_WRITTEN}
    same = _read(raw) == replace(case, labels=(), extras=extras)
    return dict(raw) if same else case_written(case, format, spelling)


def _read(raw: Json) -> Case | None:
    try:
        return case_in(EvalCaseShape.model_validate(as_python(raw, EvalCaseShape)))
    except (ValidationError, ConfigError):
        return None


def _header(file: CaseFile, spelling: str) -> dict[str, Json]:
    raw = file.extras.get(AS_WRITTEN)
    plain = header_written(file, spelling)
    if not isinstance(raw, dict):
        return plain
    try:
        shape = EvalSetShape.model_validate(as_python(raw, EvalSetShape))
    except ValidationError:
        return plain
    said = (shape.eval_set_id, shape.app_name, shape.name, shape.description)
    same = said == (file.eval_set_id, file.app_name, file.name, file.description)
    return dict(raw) if same and shape.creation_timestamp == file.creation_timestamp else plain
