"""The formats of case files, by name: how each is read and written, and what it can hold.

A format loads when a file of it is read or written.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.datasets.case_files import COLUMNS, NAMES, SPELLING, WRAPPED, CaseFile
from burnish.system.config_errors import nearest


@dataclass(frozen=True, kw_only=True)
class Format:
    """A way to keep cases in a file."""

    suffixes: tuple[str, ...]
    read: Callable[[Path], CaseFile]
    write: Callable[[CaseFile, Path], str]
    again: Callable[[CaseFile], tuple[Case, ...]] | None = None
    """What its cases are once they were written and read; None where that changes nothing."""
    extras: tuple[str, ...] = ()
    """The extras of a file that mean something in this format."""
    names_sets: bool = False
    """Whether the set as a whole can have an id, a name and a description."""


def _read_evalset(path: Path) -> CaseFile:
    from burnish.evaluation.datasets.evalset_reading import read_evalset

    return read_evalset(path)


def _write_evalset(file: CaseFile, path: Path) -> str:
    from burnish.evaluation.datasets.evalsets import write_evalset

    return write_evalset(file, path)


def _evalset_again(file: CaseFile) -> tuple[Case, ...]:
    from burnish.evaluation.datasets.evalsets import evalset_again

    return evalset_again(file)


def _read_test_cases(path: Path) -> CaseFile:
    from burnish.evaluation.datasets.agent_case_files import read_test_cases

    return read_test_cases(path, _read_by_name)


def _write_test_cases(file: CaseFile, _: Path) -> str:
    from burnish.evaluation.datasets.agent_cases_writing import write_test_cases

    return write_test_cases(file)


def _agent_cases_again(file: CaseFile) -> tuple[Case, ...]:
    from burnish.evaluation.datasets.agent_cases_writing import agent_cases_again

    return agent_cases_again(file)


def _read_jsonl(path: Path) -> CaseFile:
    from burnish.evaluation.datasets.rows import read_jsonl

    return read_jsonl(path)


def _write_jsonl(file: CaseFile, _: Path) -> str:
    from burnish.evaluation.datasets.rows_writing import write_jsonl

    return write_jsonl(file)


def _read_json(path: Path) -> CaseFile:
    from burnish.evaluation.datasets.json_files import read_json

    return read_json(path)


def _write_json(file: CaseFile, _: Path) -> str:
    from burnish.evaluation.datasets.json_files import write_json

    return write_json(file)


def _read_csv(path: Path) -> CaseFile:
    from burnish.evaluation.datasets.csv_rows import read_csv

    return read_csv(path)


def _write_csv(file: CaseFile, _: Path) -> str:
    from burnish.evaluation.datasets.csv_writing import write_csv

    return write_csv(file)


def _csv_again(file: CaseFile) -> tuple[Case, ...]:
    from burnish.evaluation.datasets.csv_writing import csv_again

    return csv_again(file)


FORMATS: Mapping[str, Format] = {
    "evalset": Format(
        suffixes=(".evalset.json", ".test.json"),
        read=_read_evalset,
        write=_write_evalset,
        again=_evalset_again,
        extras=(SPELLING,),
        names_sets=True,
    ),
    "promptiter": Format(
        suffixes=(".evalset.json", ".test.json"),
        read=_read_evalset,
        write=_write_evalset,
        again=_evalset_again,
        names_sets=True,
    ),
    "test_cases": Format(
        suffixes=(".yaml", ".yml"),
        read=_read_test_cases,
        write=_write_test_cases,
        again=_agent_cases_again,
        extras=(WRAPPED,),
    ),
    "jsonl": Format(
        suffixes=(".jsonl", ".ndjson"),
        read=_read_jsonl,
        write=_write_jsonl,
        extras=(NAMES,),
    ),
    "json": Format(
        suffixes=(".json",),
        read=_read_json,
        write=_write_json,
        extras=(NAMES, WRAPPED),
    ),
    "csv": Format(
        suffixes=(".csv",),
        read=_read_csv,
        write=_write_csv,
        again=_csv_again,
        extras=(COLUMNS,),
    ),
}


def _read_by_name(path: Path) -> CaseFile:
    return FORMATS[format_of(path)].read(path)


def format_of(path: Path) -> str:
    """The format that the name of a file stands for."""
    name = path.name.lower()
    found = next((key for key, held in FORMATS.items() if name.endswith(held.suffixes)), None)
    if found is None:
        endings = ", ".join(dict.fromkeys(s for held in FORMATS.values() for s in held.suffixes))
        message = f"no format of cases is known by the name {path.name!r}"
        remedy = f"name a file that ends in {endings}, or a format: {', '.join(FORMATS)}"
        raise ConfigError([Problem(message=message, remedy=remedy)])
    return found


def known_format(format: str) -> str:  # noqa: A002
    """The name of a format, if there is one of that name."""
    if format in FORMATS:
        return format
    likely = nearest(format, list(FORMATS))
    remedy = f"did you mean {likely!r}?" if likely else f"known formats: {', '.join(FORMATS)}"
    raise ConfigError([Problem(message=f"unknown format {format!r}", remedy=remedy)])
