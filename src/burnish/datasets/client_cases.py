"""Cases that a client sends: data that cannot make the service act for somebody else.

A file of the operator may name metrics, code, files and addresses. A client sends only inputs and
expectations, with attachments as bytes. What was read is checked, whatever format it came in.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from burnish.core.cases import Attachment, Case, Turn
from burnish.core.content import DEEPEST, TOO_DEEP, Json, canonical, codec, is_deeper
from burnish.core.errors import (
    MOST_PROBLEMS,
    ConfigError,
    MoreProblems,
    NotJournalable,
    Problem,
)
from burnish.datasets.agent_cases import CASES_FILE, CaseFile, listed, mapped
from burnish.datasets.evalset_shapes import folded
from burnish.datasets.formats import format_of, read_cases
from burnish.system.config import dotted, shown
from burnish.system.files import read_text
from burnish.system.variables import variables_in
from burnish.system.yaml import FLATTER, TreePath, read_tree

_MOST_YAML = 500_000
"""Characters, which take about ten seconds; a longer file could block the service."""
_EXTRAS = frozenset({"route", "session_input"})
"""What a case may have besides its parts."""
_FILE_OPTIONS = frozenset({"pages", "sheet", "range"})

_ATTACH = "attach the file as base64: {type: text, name: notes.txt, data: …}"
_LEAVE = "remove it: the operator sets this in the app's own file"
_MODELS = ("a client cannot name a model, its address or its key", _LEAVE)
_FILES = ("the service does not read its own files for a client", _ATTACH)
_ADDRESSES = ("the service fetches nothing for a client", _ATTACH)
_REASONS: Mapping[str, tuple[str, str]] = {
    "evaluations": ("a client cannot set how a case is measured", _LEAVE),
    "model": _MODELS,
    "judge": _MODELS,
    "judgemodel": _MODELS,
    "grader": ("a client cannot name code that the service runs", _LEAVE),
    "path": _FILES,
    "filepath": _FILES,
    "url": _ADDRESSES,
    "uri": _ADDRESSES,
    "tags": ("sent cases have no tags", "call them 'labels'"),
}
"""Explanations for fields that only other files may have, by folded name."""


def read_client_cases(
    path: Path,
    *,
    input: str = "",  # noqa: A002
    expected: str = "",
) -> CaseFile:
    """Read a file that a client sent; raises ConfigError for what it may not have."""
    if format_of(path) == "test_cases":
        _refuse_yaml(path)
    file = read_cases(path, input=input, expected=expected)
    found = _problems(file.cases)
    if problems := [*islice(found, MOST_PROBLEMS)]:
        more = sum(1 for _ in found)
        raise ConfigError([*problems, *([MoreProblems.of(more)] if more else [])])
    return file


def _refuse_yaml(path: Path) -> None:
    """Refuse a file that takes too long to read, or whose cases lie in another file."""
    if len(read_text(path)) > _MOST_YAML:
        message = f"YAML of more than {_MOST_YAML:,} characters is read too slowly"
        raise ConfigError.of(path.name, message, "send it as JSONL")
    if CASES_FILE in mapped(read_tree(path).data):
        message = "cases cannot be read from another file"
        raise ConfigError.of(CASES_FILE, message, "send the cases themselves")


def _problems(cases: Iterable[Case]) -> Iterator[Problem]:
    for number, case in enumerate(cases):
        at: TreePath = ("cases", number)
        value = codec(Case).encode(case)
        if (problem := _no_data(value, at)) is not None:
            yield problem
            continue
        yield from _refused(case, at)
        for place, part in _parts(mapped(value), at):
            yield from _variables(part, place)


def _no_data(value: Json, at: TreePath) -> Problem | None:
    """Why a value is no JSON of modest depth."""
    if is_deeper(value, DEEPEST):
        return Problem(message=TOO_DEEP, where=dotted(at), remedy=FLATTER)
    try:
        canonical(value)
    except NotJournalable as error:
        return Problem(message=error.message, where=dotted(at), remedy=error.remedy)
    return None


def _parts(value: Mapping[str, Json], at: TreePath) -> Iterator[tuple[TreePath, Json]]:
    """A case without its turns, and each of them, about as the client wrote them."""
    yield at, _flat({key: part for key, part in value.items() if key != "turns"})
    turns = listed(value["turns"])
    for number, turn in enumerate(map(mapped, turns)):
        named = {"files" if key == "attachments" else key: part for key, part in turn.items()}
        yield at if len(turns) == 1 else (*at, "turns", number), _flat(named)


def _flat(value: Mapping[str, Json]) -> dict[str, Json]:
    """A case or turn with its extras beside its parts."""
    return {k: v for k, v in value.items() if k != "extras"} | {**mapped(value.get("extras"))}


def _refused(case: Case, at: TreePath) -> Iterator[Problem]:
    """What only a file of the operator may say."""
    for key in sorted(case.extras.keys() - _EXTRAS):
        yield from _refusals(key, case.extras[key], at)
    for number, message in enumerate(case.history):
        if message.verbatim is not None:
            yield from _refusals("verbatim", None, (*at, "history", number))
    for number, turn in enumerate(case.turns):
        yield from _refused_of(turn, at if len(case.turns) == 1 else (*at, "turns", number))


def _refused_of(turn: Turn, at: TreePath) -> Iterator[Problem]:
    for key, value in (*turn.settings.items(), *turn.extras.items()):
        yield from _refusals(key, value, at)
    for number, attachment in enumerate(turn.attachments):
        for key in _refused_parts(attachment):
            yield from _refusals(key, None, (*at, "files", number))


def _refused_parts(attachment: Attachment) -> Iterator[str]:
    yield from ("path",) if attachment.path else ()
    yield from ("url",) if attachment.url else ()
    yield from sorted(attachment.options.keys() - _FILE_OPTIONS)


def _refusals(key: str, value: Json, at: TreePath) -> Iterator[Problem]:
    """The problem of a field, or those of the fields inside it that have reasons of their own."""
    own = ((*at, key), _REASONS.get(folded(key)) or _unknown(key))
    for place, (message, remedy) in [*_named_inside(value, (*at, key))] or [own]:
        yield Problem(message=message, where=dotted(place), remedy=remedy)


def _unknown(key: str) -> tuple[str, str]:
    remedy = "remove it, or name a part of a case, such as input, expected, context, labels"
    return f"sent cases have no field {shown(key)} here", remedy


def _named_inside(value: Json, at: TreePath) -> Iterator[tuple[TreePath, tuple[str, str]]]:
    """The outermost keys inside a value that have their own explanation."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _named_inside(item, (*at, index))
    for key, item in mapped(value).items():
        if (reason := _REASONS.get(folded(key))) is not None:
            yield (*at, key), reason
        else:
            yield from _named_inside(item, (*at, key))


def _variables(value: Json, at: TreePath) -> Iterator[Problem]:
    """References to variables of the service, anywhere."""
    remedy = "write it without braces, or send the text as an attachment, which nothing expands"
    for place, text in _texts(value, at):
        for name in variables_in(text):
            message = f"{shown(f'${{{name}}}')} refers to a variable of the service"
            yield Problem(message=message, where=dotted(place), remedy=remedy)


def _texts(value: Json, at: TreePath) -> Iterator[tuple[TreePath, str]]:
    """Every text and every key with its place."""
    if isinstance(value, str):
        yield at, value
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*at, index))
    for key, item in mapped(value).items():
        yield (*at, key), key
        yield from _texts(item, (*at, key))
