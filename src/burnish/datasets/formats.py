"""The formats of case files by name: reading, writing, converting; labelled replies."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.outcomes import Outcome
from burnish.datasets.agent_cases import CASES, Complaints, listed, mapped
from burnish.datasets.case_files import COLUMNS, NAMES, SPELLING, WRAPPED, CaseFile
from burnish.datasets.evalset_shapes import folded
from burnish.datasets.evalsets import evalset_in
from burnish.datasets.losses import loss_notes, set_loss_notes
from burnish.datasets.rows import case_of_row, layout_of, names_used, row_written
from burnish.system.config_errors import nearest, shown
from burnish.system.files import write_atomic
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


# -- The formats of case files, by name -----------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Format:
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
    from burnish.datasets.evalsets import read_evalset

    return read_evalset(path)


def _write_evalset(file: CaseFile, path: Path) -> str:
    from burnish.datasets.evalsets import write_evalset

    return write_evalset(file, path)


def _evalset_again(file: CaseFile) -> tuple[Case, ...]:
    from burnish.datasets.evalsets import evalset_again

    return evalset_again(file)


def _read_test_cases(path: Path) -> CaseFile:
    from burnish.datasets.agent_cases import read_test_cases

    return read_test_cases(path, _read_by_name)


def _write_test_cases(file: CaseFile, _: Path) -> str:
    from burnish.datasets.agent_cases import write_test_cases

    return write_test_cases(file)


def _agent_cases_again(file: CaseFile) -> tuple[Case, ...]:
    from burnish.datasets.agent_cases import agent_cases_again

    return agent_cases_again(file)


def _read_jsonl(path: Path) -> CaseFile:
    from burnish.datasets.rows import read_jsonl

    return read_jsonl(path)


def _write_jsonl(file: CaseFile, _: Path) -> str:
    from burnish.datasets.rows import write_jsonl

    return write_jsonl(file)


def _read_json(path: Path) -> CaseFile:

    return read_json(path)


def _write_json(file: CaseFile, _: Path) -> str:

    return write_json(file)


def _read_csv(path: Path) -> CaseFile:
    from burnish.datasets.csv_files import read_csv

    return read_csv(path)


def _write_csv(file: CaseFile, _: Path) -> str:
    from burnish.datasets.csv_files import write_csv

    return write_csv(file)


def _csv_again(file: CaseFile) -> tuple[Case, ...]:
    from burnish.datasets.csv_files import csv_again

    return csv_again(file)


_FORMATS: Mapping[str, _Format] = {
    "evalset": _Format(
        suffixes=(".evalset.json", ".test.json"),
        read=_read_evalset,
        write=_write_evalset,
        again=_evalset_again,
        extras=(SPELLING,),
        names_sets=True,
    ),
    "promptiter": _Format(
        suffixes=(".evalset.json", ".test.json"),
        read=_read_evalset,
        write=_write_evalset,
        again=_evalset_again,
        names_sets=True,
    ),
    "test_cases": _Format(
        suffixes=(".yaml", ".yml"),
        read=_read_test_cases,
        write=_write_test_cases,
        again=_agent_cases_again,
        extras=(WRAPPED,),
    ),
    "jsonl": _Format(
        suffixes=(".jsonl", ".ndjson"),
        read=_read_jsonl,
        write=_write_jsonl,
        extras=(NAMES,),
    ),
    "json": _Format(
        suffixes=(".json",),
        read=_read_json,
        write=_write_json,
        extras=(NAMES, WRAPPED),
    ),
    "csv": _Format(
        suffixes=(".csv",),
        read=_read_csv,
        write=_write_csv,
        again=_csv_again,
        extras=(COLUMNS,),
    ),
}


def _read_by_name(path: Path) -> CaseFile:
    return _FORMATS[format_of(path)].read(path)


def format_of(path: Path) -> str:
    """The format that the name of a file stands for."""
    name = path.name.lower()
    matching = next((key for key, held in _FORMATS.items() if name.endswith(held.suffixes)), None)
    if matching is None:
        endings = ", ".join(dict.fromkeys(s for held in _FORMATS.values() for s in held.suffixes))
        message = f"no format of cases is known by the name {path.name!r}"
        remedy = f"name a file that ends in {endings}, or a format: {', '.join(_FORMATS)}"
        raise ConfigError([Problem(message=message, remedy=remedy)])
    return matching


def _known_format(format: str) -> str:  # noqa: A002
    """The name of a format, if there is one of that name."""
    if format in _FORMATS:
        return format
    likely = nearest(format, list(_FORMATS))
    remedy = f"did you mean {likely!r}?" if likely else f"known formats: {', '.join(_FORMATS)}"
    raise ConfigError([Problem(message=f"unknown format {format!r}", remedy=remedy)])


# -- Cases from one format to another -------------------------------------------------------------


def convert(file: CaseFile, format: str) -> tuple[CaseFile, list[str]]:  # noqa: A002
    """The file in another format, and a sentence for everything that this loses."""
    converted, again = _in_format(file, _known_format(format)), _FORMATS[format].again
    if again is not None:
        converted = replace(converted, cases=again(converted))
    notes = _losses(file, converted)
    return (file, []) if file.format == format and not notes else (converted, notes)


def losses(cases: Sequence[Case], format: str) -> list[str]:  # noqa: A002
    """What these cases lose in a format: a sentence for each part, with the cases."""
    return _losses_of(CaseFile(cases=tuple(cases), format=_known_format(format)), format)


def _losses_of(file: CaseFile, format: str) -> list[str]:  # noqa: A002
    """What a file loses in a format, which may be the one that it says it has."""
    written, again = _in_format(file, format), _FORMATS[format].again
    return _losses(file, written if again is None else replace(written, cases=again(written)))


def _in_format(file: CaseFile, format: str) -> CaseFile:  # noqa: A002
    """The same cases as a file of another format, without what only the old one knows of."""
    if file.format == format:
        return file
    target = _FORMATS[format]
    extras = {key: value for key, value in file.extras.items() if key in target.extras}
    if target.names_sets:
        return replace(file, format=format, extras=extras)
    return CaseFile(cases=file.cases, format=format, extras=extras)


def _losses(before: CaseFile, after: CaseFile) -> list[str]:
    pairs = zip(before.cases, after.cases, strict=True)
    about_set = [] if _FORMATS[after.format].names_sets else set_loss_notes(before, after.format)
    return loss_notes(pairs, after.format) + about_set


# -- Reading and writing files of cases, whatever their format ------------------------------------


_HELD_BY_NAME = {
    "evalset": ("evalset", "promptiter"),
    "json": ("evalset", "json", "promptiter"),
}
"""The formats that files of such a name may have beside the one that they stand for."""


def read_cases(path: Path, *, format: str | None = None) -> CaseFile:  # noqa: A002
    """Read a file of cases; its name tells the format unless `format` does.

    Everything that is wrong with it is raised at once, as one ConfigError.
    """
    if path.is_dir():
        remedy = "name one of its files"
        raise ConfigError([Problem(message="this is a folder", where=str(path), remedy=remedy)])
    return _FORMATS[format_of(path) if format is None else _known_format(format)].read(path)


def read_some_cases(path: Path) -> tuple[Case, ...]:
    """The cases of a file that must have some."""
    cases = read_cases(path).cases
    if not cases:
        problem = Problem(where=str(path), message="there is no case in it", remedy="add one")
        raise ConfigError([problem])
    return cases


def read_folder(folder: Path) -> dict[Path, CaseFile]:
    """Read every EvalSet of a folder and the folders in it, sorted by path."""
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
        message = f"there is no {' and no '.join(f'*{suffix}' for suffix in suffixes)} in it"
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
    """Write cases, whole or not at all; refused where the format cannot hold what they say.

    A CaseFile keeps its format where the name of the file allows it. `convert` says what another
    format loses, and makes cases without it.
    """
    from burnish.datasets.agent_cases import refuse_agent_file

    target = _wanted(path, cases) if format is None else _known_format(format)
    file = cases if isinstance(cases, CaseFile) else CaseFile(cases=tuple(cases), format=target)
    _refuse_losses(path, file, target)
    if target == "test_cases":
        refuse_agent_file(path)
    write_atomic(path, _FORMATS[target].write(_in_format(file, target), path))


def _wanted(path: Path, cases: CaseFile | Sequence[Case]) -> str:
    by_name = format_of(path)
    had = cases.format if isinstance(cases, CaseFile) else by_name
    return had if had in _HELD_BY_NAME.get(by_name, ()) else by_name


def _refuse_losses(path: Path, file: CaseFile, target: str) -> None:

    complaints = Complaints(source=path.name)
    for case in file.cases:
        complaints.named(case.name)
    complaints.settle()
    if notes := _losses_of(file, target):
        problems = [Problem(message=note, where=path.name) for note in notes]
        raise ConfigError(problems, remedy="Convert them first, or write JSONL, which holds all.")


# -- Labelled replies -----------------------------------------------------------------------------


_WORDS = {
    **dict.fromkeys(("pass", "good", "yes", "true", "valid"), True),
    **dict.fromkeys(("fail", "bad", "no", "false", "invalid"), False),
}


@dataclass(frozen=True, kw_only=True)
class LabelledReply:
    """A case that carries its reply, and the label somebody gave it."""

    case: Case
    label: bool | float


def read_labelled(path: Path) -> tuple[LabelledReply, ...]:
    """Read labelled replies; everything that is wrong is said at once."""
    replies: list[LabelledReply] = []
    problems: list[Problem] = []
    for number, case in enumerate(read_cases(path).cases, start=1):
        try:
            replies.append(_labelled(case))
        except ValueError as error:
            where = f"{path.name} case {case.name or number}"
            problems.append(Problem(where=where, message=str(error)))
    if not replies and not problems:
        problems.append(Problem(where=path.name, message="there are no labelled replies in it"))
    if problems:
        raise ConfigError(problems, remedy="each row has input, reply and label; expected if known")
    return tuple(replies)


def _labelled(case: Case) -> LabelledReply:
    if len(case.turns) != 1:
        raise ValueError("a labelled reply is one turn")
    settings = dict(case.turns[0].settings)
    if "reply" not in settings:
        raise ValueError("there is no reply to judge")
    reply = str(settings.pop("reply"))
    label = _label(case.labels)
    turn = replace(case.turns[0], settings=settings)
    recorded_case = replace(case, turns=(turn,), labels=(), recorded=Outcome(replies=(reply,)))
    return LabelledReply(case=recorded_case, label=label)


def _label(labels: tuple[str, ...]) -> bool | float:
    if len(labels) != 1:
        raise ValueError("there is no label" if not labels else "there are several labels")
    word = labels[0].strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    try:
        value = float(word)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"the label '{labels[0]}' is neither pass nor fail nor a number in [0, 1]")
    return value
