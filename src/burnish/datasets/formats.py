"""The formats of case files: reading, writing, converting."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from burnish.core.cases import Case
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.datasets.agent_cases import (
    CASES,
    Complaints,
    agent_cases_again,
    listed,
    mapped,
    read_test_cases,
    refuse_agent_file,
    write_test_cases,
)
from burnish.datasets.case_files import COLUMNS, NAMES, SPELLING, WRAPPED, CaseFile
from burnish.datasets.csv_files import csv_again, read_csv, write_csv
from burnish.datasets.evalset_shapes import folded
from burnish.datasets.evalsets import evalset_again, evalset_in, read_evalset, write_evalset
from burnish.datasets.losses import dropped_labels, loss_notes
from burnish.datasets.rows import (
    case_of_row,
    layout_of,
    names_used,
    read_jsonl,
    row_written,
    write_jsonl,
)
from burnish.system.config import nearest, shown
from burnish.system.files import read_text, translated, write_atomic
from burnish.system.yaml import TreePath, YamlTree, read_tree


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
    notes = loss_notes(zip(file.cases, converted.cases, strict=True), format)
    return (file, []) if file.format == format and not notes else (converted, notes)


def label_notes(file: CaseFile, format: str) -> list[str]:  # noqa: A002
    """A sentence for the labels of the set that a format has no place for; nothing else is lost."""
    return [] if _FORMATS[_known_format(format)].names_sets else dropped_labels(file, format)


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
