"""The formats of case files: all of them are read, and JSONL is written."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.errors import ConfigError, Problem
from burnish.datasets.agent_cases import (
    CaseFile,
    Complaints,
    mapped,
    read_test_cases,
)
from burnish.datasets.columns import read_csv, read_jsonl, read_rows
from burnish.datasets.evalset_shapes import folded
from burnish.datasets.evalsets import evalset_in, read_evalset
from burnish.datasets.rows import (
    row_written,
)
from burnish.system.config import nearest, shown
from burnish.system.files import translated, write_atomic
from burnish.system.yaml import YamlTree, read_tree


def _read_json(path: Path, input: str, expected: str) -> CaseFile:  # noqa: A002
    tree = read_tree(path)
    if holds_evalset(tree):
        _refuse_columns(path, input, expected)
        return evalset_in(tree)
    return read_rows(tree, input, expected)


def _without_columns(read: Callable[[Path], CaseFile]) -> Callable[[Path, str, str], CaseFile]:
    """The reader of a format that has no columns to name."""

    def reader(path: Path, input: str, expected: str) -> CaseFile:  # noqa: A002
        _refuse_columns(path, input, expected)
        return read(path)

    return reader


def _refuse_columns(path: Path, *columns: str) -> None:
    """Raise ConfigError if columns are named for a file that has none."""
    if named := next(filter(None, columns), ""):
        message = f"there is no column {shown(named)}: only CSV, JSONL and lists in JSON have any"
        raise ConfigError([Problem(where=path.name, message=message, remedy="leave it out")])


def holds_evalset(tree: YamlTree) -> bool:
    """Whether the file has the keys of an EvalSet."""
    return not {"evalcases", "evalsetid"}.isdisjoint(map(folded, mapped(tree.data)))


@dataclass(frozen=True, kw_only=True)
class _Format:
    """A file format for cases."""

    suffixes: tuple[str, ...]
    read: Callable[[Path, str, str], CaseFile]
    """From a path, and the columns of the question and the answer if they are named."""


_FORMATS: Mapping[str, _Format] = {
    "evalset": _Format(
        suffixes=(".evalset.json", ".test.json"), read=_without_columns(read_evalset)
    ),
    "test_cases": _Format(
        suffixes=(".yaml", ".yml"),
        read=_without_columns(lambda path: read_test_cases(path, read_cases)),
    ),
    "jsonl": _Format(suffixes=(".jsonl", ".ndjson"), read=read_jsonl),
    "json": _Format(suffixes=(".json",), read=_read_json),
    "csv": _Format(suffixes=(".csv",), read=read_csv),
}


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


def read_cases(
    path: Path,
    *,
    format: str | None = None,  # noqa: A002
    input: str = "",  # noqa: A002
    expected: str = "",
) -> CaseFile:
    """Read a file of cases; the format follows from its name unless it is given.

    `input` and `expected` name the columns of a table where its own names and values would not
    tell; which were taken is in `columns`. All problems are raised together, as one ConfigError.
    """
    with translated("read", path):
        folder = path.is_dir()
    if folder:
        remedy = "name one of its files"
        raise ConfigError([Problem(message="this is a folder", where=str(path), remedy=remedy)])
    kind = format_of(path) if format is None else _known_format(format)
    return _FORMATS[kind].read(path, input, expected)


def read_some_cases(
    path: Path,
    *,
    input: str = "",  # noqa: A002
    expected: str = "",
) -> CaseFile:
    """Read a file that must have at least one case."""
    file = read_cases(path, input=input, expected=expected)
    if not file.cases:
        problem = Problem(where=str(path), message="the file has no cases", remedy="add one")
        raise ConfigError([problem])
    return file


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


def jsonl_of(cases: Sequence[Case]) -> str:
    """Cases as lines of JSON, which hold everything; names must be different."""
    complaints = Complaints(source="cases")
    for case in cases:
        complaints.named(case.name)
    complaints.settle()
    return "".join(f"{json.dumps(row_written(case), ensure_ascii=False)}\n" for case in cases)


def write_cases(path: Path, cases: Sequence[Case]) -> None:
    """Write a file of JSON lines; raises ConfigError if its name says something else."""
    if not path.name.lower().endswith(_FORMATS["jsonl"].suffixes):
        problem = Problem(message="cases are written as JSON lines", where=str(path))
        raise ConfigError([problem], remedy="name a file that ends in .jsonl")
    write_atomic(path, jsonl_of(cases))
