"""The formats of case files, by name: how each is read and written, and what it can hold."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.datasets.agent_case_files import WRAPPED, read_test_cases
from burnish.evaluation.datasets.agent_cases_writing import agent_cases_again, write_test_cases
from burnish.evaluation.datasets.case_files import CaseFile
from burnish.evaluation.datasets.csv_rows import COLUMNS, read_csv
from burnish.evaluation.datasets.csv_writing import csv_again, write_csv
from burnish.evaluation.datasets.evalset_reading import SPELLING, read_evalset
from burnish.evaluation.datasets.evalsets import evalset_again, write_evalset
from burnish.evaluation.datasets.json_files import read_json, write_json
from burnish.evaluation.datasets.rows import NAMES, read_jsonl
from burnish.evaluation.datasets.rows_writing import write_jsonl
from burnish.system.config_words import nearest


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


FORMATS: Mapping[str, Format] = {
    "evalset": Format(
        suffixes=(".evalset.json", ".test.json"),
        read=read_evalset,
        write=write_evalset,
        again=evalset_again,
        extras=(SPELLING,),
        names_sets=True,
    ),
    "promptiter": Format(
        suffixes=(".evalset.json", ".test.json"),
        read=read_evalset,
        write=write_evalset,
        again=evalset_again,
        names_sets=True,
    ),
    "test_cases": Format(
        suffixes=(".yaml", ".yml"),
        read=lambda path: read_test_cases(path, _read_by_name),
        write=lambda file, _: write_test_cases(file),
        again=agent_cases_again,
        extras=(WRAPPED,),
    ),
    "jsonl": Format(
        suffixes=(".jsonl", ".ndjson"),
        read=read_jsonl,
        write=lambda file, _: write_jsonl(file),
        extras=(NAMES,),
    ),
    "json": Format(
        suffixes=(".json",),
        read=read_json,
        write=lambda file, _: write_json(file),
        extras=(NAMES, WRAPPED),
    ),
    "csv": Format(
        suffixes=(".csv",),
        read=read_csv,
        write=lambda file, _: write_csv(file),
        again=csv_again,
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
