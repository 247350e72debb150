"""The formats of case files: reading, writing, converting, and what one cannot hold."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from burnish.core.cases import AS_WRITTEN, Case, Turn
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem, in_shell
from burnish.core.formatting import listed as joined_names
from burnish.datasets.agent_cases import (
    AS_TURNS,
    CASES,
    COLUMNS,
    NAMES,
    SPELLING,
    WRAPPED,
    CaseFile,
    Complaints,
    agent_cases_again,
    listed,
    mapped,
    read_test_cases,
    refuse_agent_file,
    write_test_cases,
)
from burnish.datasets.columns import read_csv, read_jsonl, read_rows
from burnish.datasets.evalset_shapes import folded
from burnish.datasets.evalsets import evalset_again, evalset_in, read_evalset, write_evalset
from burnish.datasets.rows import (
    csv_again,
    row_written,
    write_csv,
    write_jsonl,
)
from burnish.system.config import nearest, shown
from burnish.system.files import read_text, translated, write_atomic
from burnish.system.yaml import YamlTree, read_tree

_Remainder = Callable[[Json], Json]


def _of_message(value: Json) -> Json:
    return _without(value, {"role", "content", "parts"}, {"text"})


def _of_messages(value: Json) -> Json:
    """Messages without what a history holds: texts, images, calls and responses."""
    keys = {"role", "content", "parts", "tool_calls", "tool_id", "tool_name"}
    parts = {"text", "function_call", "function_response", "inline_data"}
    return list(filter(None, (_without(message, keys, parts) for message in listed(value))))


def _without(value: Json, keys: set[str], parts: set[str]) -> dict[str, Json]:
    message = mapped(value)
    others = [part for part in listed(message.get("parts")) if not parts & mapped(part).keys()]
    rest = {key: held for key, held in message.items() if key not in keys}
    return {**rest, "parts": others} if others else rest


def _of_intermediate(value: Json) -> Json:
    plain_keys = ("tool_uses", "tool_responses")
    return {key: held for key, held in mapped(value).items() if key not in plain_keys and held}


def _of_turns(value: Json) -> Json:
    """The extras of turns without their texts and calls."""
    remainders: list[Json] = []
    for turn in map(mapped, listed(value)):
        rest = {key: _remainder(_OF_TURNS, key, held) for key, held in turn.items()}
        if any(rest.values()):
            remainders.append({key: held for key, held in rest.items() if held})
    return remainders


_OF_TURNS: Mapping[str, _Remainder] = {
    "user_content": _of_message,
    "final_response": _of_message,
    "intermediate_data": _of_intermediate,
}
_OF_CASES: Mapping[str, _Remainder] = {
    "context_messages": _of_messages,
    "recorded_turns": _of_turns,
}


def _remainder(rules: Mapping[str, _Remainder], key: str, value: Json) -> Json:
    """The part of an extra that has no other place."""
    return rules[key](value) if key in rules else value


_WORDS = {
    "input": "inputs",
    "expected": "expected answers",
    "context": "context",
    "expected_tools": "expected tools",
    "expected_calls": "expected tool calls",
    "attachments": "files",
    "metrics": "the choice of metrics",
    "settings": "settings for graders",
    "labels": "labels",
    "history": "earlier messages",
    "rubrics": "rubrics",
    "scenario": "the simulated user",
    "recorded": "the recorded run",
}
_EXTRA_WORDS = {
    "user_content": "messages that are more than plain text",
    "final_response": "messages that are more than plain text",
    "context_messages": "messages that are more than plain text",
    "intermediate_data": "what happened before a reply",
    "intermediate_responses": "what happened before a reply",
    "recorded_turns": "details of the recorded run",
}
_SPELLINGS = (AS_WRITTEN, AS_TURNS, "tools")
"""Extras that only describe how a file was written."""


def _lost_parts(case: Case, again: Case) -> Iterator[str]:
    if case.name and case.name != again.name:
        yield "names"
    if len(case.turns) != len(again.turns):
        yield "turns after the first"
    yield from _changed(case, again, without=("name", "turns"))
    yield from _lost_extras(case.extras, again.extras, _OF_CASES)
    for turn, other in zip(case.turns, again.turns, strict=False):
        yield from _changed(turn, other)
        yield from _lost_extras(turn.extras, other.extras, _OF_TURNS)


def _loss_notes(pairs: Iterable[tuple[Case, Case]], format: str) -> list[str]:  # noqa: A002
    """A sentence for each lost part, with the cases that lose it."""
    losers: dict[str, list[str]] = {}
    for case, again in pairs:
        for part in () if case is again else dict.fromkeys(_lost_parts(case, again)):
            losers.setdefault(part, []).append(case.id)
    return [
        f"{format} cannot hold {part}: lost in {'case' if len(ids) == 1 else 'cases'} "
        f"{joined_names([repr(each) for each in ids], 3)}"
        for part, ids in losers.items()
    ]


def _dropped_labels(file: CaseFile, format: str) -> list[str]:  # noqa: A002
    """A sentence for what only labels the set, such as its id; no case depends on it."""
    about = ("eval_set_id", "app_name", "name", "description", "creation_timestamp")
    names = [name for name in about if getattr(file, name)]
    return [f"{format} has no place for {joined_names(names)} of the set"] if names else []


def _changed(
    before: Case | Turn, after: Case | Turn, without: tuple[str, ...] = ()
) -> Iterator[str]:
    for name, usual in _usual(type(before)).items():
        held, left = getattr(before, name), getattr(after, name)
        if name not in without and held != left and held != usual:
            yield _WORDS[name] if left == usual else f"all of {_WORDS[name]}"


@cache
def _usual(kind: type[Case | Turn]) -> Mapping[str, object]:
    """The fields of a case or turn, without extras, with their defaults."""
    return {
        part.name: part.default if part.default_factory is MISSING else part.default_factory()
        for part in fields(kind)
        if part.name != "extras"
    }


def _lost_extras(
    before: Mapping[str, Json], after: Mapping[str, Json], rules: Mapping[str, _Remainder]
) -> Iterator[str]:
    for key, value in before.items():
        left = _remainder(rules, key, after.get(key))
        if key not in _SPELLINGS and _remainder(rules, key, value) != left:
            yield _EXTRA_WORDS.get(key, repr(key))


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


def _write_json(file: CaseFile) -> str:
    names = mapped(file.extras.get(NAMES))
    rows: list[Json] = [row_written(case, names) for case in file.cases]
    whole: Json = {CASES: rows} if file.extras.get(WRAPPED) else rows
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True, kw_only=True)
class _Format:
    """A file format for cases."""

    suffixes: tuple[str, ...]
    read: Callable[[Path, str, str], CaseFile]
    """From a path, and the columns of the question and the answer if they are named."""
    write: Callable[[CaseFile], str]
    again: Callable[[CaseFile], tuple[Case, ...]] | None = None
    """The cases after writing and reading them; None if that changes nothing."""
    extras: tuple[str, ...] = ()
    """The extras of a file that this format uses."""
    names_sets: bool = False
    """Whether a set can have an id, a name and a description."""


_EVALSET = _Format(
    suffixes=(".evalset.json", ".test.json"),
    read=_without_columns(read_evalset),
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
        read=_without_columns(lambda path: read_test_cases(path, read_cases)),
        write=write_test_cases,
        again=agent_cases_again,
        extras=(WRAPPED,),
    ),
    "jsonl": _Format(
        suffixes=(".jsonl", ".ndjson"),
        read=read_jsonl,
        write=write_jsonl,
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
        read=read_csv,
        write=write_csv,
        again=csv_again,
        extras=(COLUMNS,),
    ),
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


def convert(file: CaseFile, format: str) -> tuple[CaseFile, list[str]]:  # noqa: A002
    """The file in another format, and a sentence for everything that its cases lose."""
    target = _FORMATS[_known_format(format)]
    converted = _in_format(file, format)
    if target.again is not None:
        converted = replace(converted, cases=target.again(converted))
    notes = _loss_notes(zip(file.cases, converted.cases, strict=True), format)
    return (file, []) if file.format == format and not notes else (converted, notes)


def label_notes(file: CaseFile, format: str) -> list[str]:  # noqa: A002
    """A sentence for the labels of the set that a format has no place for; nothing else is lost."""
    return [] if _FORMATS[_known_format(format)].names_sets else _dropped_labels(file, format)


def _in_format(file: CaseFile, format: str) -> CaseFile:  # noqa: A002
    """The cases in another format, without the old format's extras."""
    if file.format == format:
        return file
    target = _FORMATS[format]
    extras = {key: value for key, value in file.extras.items() if key in target.extras}
    if target.names_sets:
        return replace(file, format=format, extras=extras)
    return CaseFile(cases=file.cases, format=format, extras=extras)


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
    if file.columns is not None and not file.columns.usual:
        message = f"its columns have names of their own ({file.columns}), so nothing can be added"
        remedy = f"convert it first: `burnish data convert {in_shell(path)} FILE`"
        raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])
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
