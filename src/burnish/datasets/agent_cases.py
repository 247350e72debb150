"""Agent test cases in YAML: read, written, with every error of a file at once."""

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from burnish.core.cases import Case, Turn
from burnish.core.content import Json, canonical
from burnish.core.errors import ConfigError, FileTrouble, NotJournalable, Problem
from burnish.datasets.case_files import (
    WRAPPED,
    CaseFile,
    CaseFileShape,
    Files,
    Rubrics,
    Text,
    Tools,
    attachments,
    expected_tools,
    files_written,
    present,
    present_lists,
    rubrics,
    rubrics_written,
    tools_written,
)
from burnish.system.config_errors import Fault, dotted, faults_in, nearest, problems_of, shown
from burnish.system.yaml import TreePath, YamlTree, read_tree

M = TypeVar("M", bound=BaseModel)
_Respell = Callable[[Fault], Fault]

_MOST = 100
DEEPEST = 100
"""Beyond some 200 levels a case can neither be checked nor hashed."""
_LONGEST_WITH_LINES = 500_000
"""Finding lines means parsing again, slowly: a minute for a file of ten megabytes."""


def _as_it_is(fault: Fault) -> Fault:
    return fault


@dataclass(kw_only=True)
class Complaints:
    """The problems of one file, each with its place."""

    source: str
    tree: YamlTree | None = None
    problems: list[Problem] = field(default_factory=list[Problem])
    names: dict[str, tuple[TreePath, int | None]] = field(
        default_factory=dict[str, tuple[TreePath, int | None]]
    )
    """Where each name of a case was first seen."""

    @classmethod
    def about(cls, tree: YamlTree) -> "Complaints":
        """About a YAML or JSON file, with lines unless it is too long or deep to look for them."""
        small = len(tree.text) <= _LONGEST_WITH_LINES and not is_deeper(tree.data, DEEPEST)
        return cls(source=tree.path.name, tree=tree if small else None)

    def shaped(
        self,
        value: Json,
        model: type[M],
        *,
        at: TreePath = (),
        line: int | None = None,
        respell: _Respell = _as_it_is,
    ) -> M | None:
        """The value as a `model`; None, and every problem noted, where it is none.

        `respell` turns places as the model names them into places as the file does.
        """
        try:
            return model.model_validate(value)
        except ValidationError as error:
            faults = [respell(_plainly(fault)) for fault in faults_in(error, value, model)]
        placed = [replace(fault, path=(*at, *fault.path)) for fault in faults]
        source = f"{self.source}:{line}" if line else self.source
        self.problems += problems_of(placed, source=source, tree=self.tree)
        return None

    def add(
        self, message: str, *, at: TreePath = (), line: int | None = None, remedy: str = ""
    ) -> None:
        """Note one problem at a place."""
        where = self._where(at, line)
        self.problems.append(Problem(message=message, where=where, remedy=remedy))

    def is_json(self, value: Json, *, at: TreePath = (), line: int | None = None) -> bool:
        """Whether a value can be kept as JSON: NaN and half a character cannot."""
        if is_deeper(value, DEEPEST):
            self.add("its values are nested too deeply", at=at, line=line)
            return False
        try:
            canonical(value)
        except NotJournalable as error:
            self.add(error.message, at=at, line=line, remedy=error.remedy)
            return False
        return True

    def named(self, name: str, *, at: TreePath = (), line: int | None = None) -> None:
        """Note a name of a case, and complain when it is there twice."""
        if name in self.names:
            first = self._where(*self.names[name])
            message = f"two cases are called {name!r}; the first is at {first}"
            self.add(message, at=at, line=line, remedy="give each case a name of its own")
        elif name:
            self.names[name] = (at, line)

    def settle(self) -> None:
        """Raise what was gathered, if anything was."""
        if not self.problems:
            return
        more = len(self.problems) - _MOST
        last = [Problem(message=f"and {more} more problems", where=self.source)]
        raise ConfigError([*self.problems[:_MOST], *(last if more > 0 else [])])

    def _where(self, at: TreePath, line: int | None) -> str:
        number = line or self._line(at)
        place = f"{self.source}:{number}" if number else self.source
        return f"{place} {dotted(at)}".strip()

    def _line(self, at: TreePath) -> int | None:
        if self.tree is None or not at:
            return None
        return self.tree.line_of(at) or self._line(at[:-1])


def _plainly(fault: Fault) -> Fault:
    """The fault as a model would have it, where it was found in a dataclass."""
    error, missing = fault.errors[0].copy(), fault.errors[0]["loc"][-1:]
    if error["type"] == "missing" and fault.path[-1:] != missing:
        return replace(fault, path=(*fault.path, *missing))
    if error["type"] == "unexpected_keyword_argument":
        error["type"] = "extra_forbidden"
        return replace(fault, errors=(error,), known_keys=())
    return fault


def is_deeper(value: Json, levels: int) -> bool:
    """Whether values stand in one another more than so many levels deep."""
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(is_deeper(one, levels - 1) for one in inner)


def listed(value: Json) -> list[Json]:
    """The value where it is a list, else nothing."""
    return value if isinstance(value, list) else []


def mapped(value: Json) -> Mapping[str, Json]:
    """The value where it is a mapping, else nothing."""
    return value if isinstance(value, dict) else {}


# -- Agent test cases -----------------------------------------------------------------------------


AS_TURNS = "turns"
"""The extra of a case of one turn that is written as a list of turns all the same."""
_OF_A_TURN = ("input", "ground_truth", "expected_tools", "files", "retrieval_context")


class TurnShape(CaseFileShape):
    """One turn of a conversation."""

    input: Text
    ground_truth: Text | None = None
    expected_tools: Tools | None = None
    files: Files | None = None
    retrieval_context: list[Text] | None = None
    evaluations: list[dict[str, Json]] | None = None
    turn_config: dict[str, Json] | None = None


class CaseShape(CaseFileShape):
    """A test case of one turn, or of several under `turns`."""

    name: Text | None = None
    input: Text | None = None
    ground_truth: Text | None = None
    expected_tools: Tools | None = None
    files: Files | None = None
    retrieval_context: list[Text] | None = None
    evaluations: list[dict[str, Json]] | None = None
    turns: list[TurnShape] | None = Field(default=None, min_length=1)
    labels: list[Text] | None = None
    rubrics: Rubrics | None = None


def _case_of(raw: Json, complaints: Complaints, at: TreePath = ()) -> Case | None:
    """One test case; None where it has problems, which are noted."""
    many = _about_turns(raw, complaints, at)
    shape = complaints.shaped(raw, CaseShape, at=at)
    if shape is None:
        return None
    complaints.named(shape.name or "", at=at)
    extras: dict[str, Json] = {}
    if shape.evaluations is not None:
        extras["evaluations"] = [*shape.evaluations]
    if many and len(shape.turns or ()) == 1:
        extras[AS_TURNS] = True
    return Case(
        name=shape.name or "",
        turns=tuple(map(_turn, shape.turns)) if shape.turns else (_only_turn(shape),),
        labels=tuple(shape.labels or ()),
        rubrics=rubrics(shape.rubrics),
        extras=extras,
    )


def _about_turns(raw: Json, complaints: Complaints, at: TreePath) -> bool:
    """Whether a case has turns; complains when it has both kinds of input, or none."""
    case = mapped(raw)
    if "turns" not in case:
        if case.get("input") is None and isinstance(raw, dict):
            complaints.add("there is neither 'input' nor 'turns'", at=at, remedy="add one")
        return False
    for key in _OF_A_TURN:
        if key in case:
            complaints.add(
                f"{key!r} cannot stand beside 'turns'", at=(*at, key), remedy="move it into a turn"
            )
    if case["turns"] is None:
        complaints.add("expected a list, found nothing", at=(*at, "turns"))
    return True


def _turn(shape: TurnShape) -> Turn:
    extras: dict[str, Json] = {}
    if shape.evaluations is not None:
        extras["evaluations"] = [*shape.evaluations]
    return Turn(
        input=shape.input,
        expected=shape.ground_truth,
        context=tuple(shape.retrieval_context or ()),
        expected_tools=expected_tools(shape.expected_tools),
        attachments=attachments(shape.files),
        settings=shape.turn_config or {},
        extras=extras,
    )


def _only_turn(shape: CaseShape) -> Turn:
    return Turn(
        input=shape.input or "",
        expected=shape.ground_truth,
        context=tuple(shape.retrieval_context or ()),
        expected_tools=expected_tools(shape.expected_tools),
        attachments=attachments(shape.files),
    )


# -- Agent test cases read ------------------------------------------------------------------------


_MOST_CASES = 1000
CASES, CASES_FILE = "test_cases", "test_cases_file"
_LISTS = (".yaml", ".yml", ".json")
"""The endings of files that may hold a list of test cases."""


def read_test_cases(path: Path, read_named: Callable[[Path], CaseFile]) -> CaseFile:
    """Read a list of test cases, `{test_cases: […]}`, or those that an agent's file names.

    `read_named` reads the file that is named, by its ending, unless it is a list of test cases
    too: that is read here, whether it is YAML or JSON.
    """
    return cases_in(read_tree(path), read_named)


def cases_in(tree: YamlTree, read_named: Callable[[Path], CaseFile]) -> CaseFile:
    """The same of a file that was read."""
    if isinstance(tree.data, dict) and CASES_FILE in tree.data:
        named = _path_named_in(tree)
        if named.suffix.lower() not in _LISTS:
            return read_named(named)
        held = read_tree(named)
        if not _may_be_list(held):
            return read_named(named)
        _refuse_another(tree, held)
        tree = held
    complaints = Complaints.about(tree)
    entries, at = _list_in(tree.data, complaints)
    cases = [_case_of(raw, complaints, (*at, index)) for index, raw in enumerate(entries)]
    if len(entries) > _MOST_CASES:
        remedy = "split the file; JSONL takes more"
        message = f"expected at most {_MOST_CASES} cases, found {len(entries)}"
        complaints.add(message, at=at, remedy=remedy)
    complaints.settle()
    extras: dict[str, Json] = {WRAPPED: True} if at else {}
    return CaseFile(cases=tuple(case for case in cases if case), format="test_cases", extras=extras)


def _list_in(data: Json, complaints: Complaints) -> tuple[list[Json], TreePath]:
    """The list of cases in a file, and where it stands."""
    at: TreePath = (CASES,) if isinstance(data, dict) and CASES in data else ()
    held = data[CASES] if isinstance(data, dict) and CASES in data else data
    if isinstance(held, list):
        return held, at
    if isinstance(held, dict) and not at:
        likely = next((key for key in held if nearest(key, [CASES])), None)
        remedy = f"did you mean it by {likely!r}?" if likely else "add it"
        complaints.add(f"there is no {CASES!r}", remedy=remedy)
    elif held is None:
        complaints.add("it is empty" if not at else "there are no cases", at=at)
    else:
        complaints.add(f"expected a list of cases, found {shown(held)}", at=at)
    return [], at


def _path_named_in(tree: YamlTree) -> Path:
    """The file of cases that an agent's file names."""
    data = mapped(tree.data)
    complaints = Complaints.about(tree)
    named = data[CASES_FILE]
    if CASES in data:
        message = f"{CASES!r} and {CASES_FILE!r} are both given"
        complaints.add(message, at=(CASES_FILE,), remedy="keep one of them")
    if not isinstance(named, str):
        complaints.add(f"expected a path, found {shown(named)}", at=(CASES_FILE,))
    complaints.settle()
    return tree.path.parent / str(named)


def _may_be_list(tree: YamlTree) -> bool:
    """Whether it is read as test cases: JSON may hold an EvalSet as well."""
    if tree.path.suffix.lower() != ".json" or not isinstance(tree.data, dict):
        return True
    return CASES in tree.data or CASES_FILE in tree.data


def _refuse_another(tree: YamlTree, held: YamlTree) -> None:
    if CASES_FILE in mapped(held.data):
        message = f"{held.path.name} names another file of cases"
        where = f"{tree.path.name} {CASES_FILE}"
        remedy = "name the file that holds the cases"
        raise ConfigError([Problem(message=message, where=where, remedy=remedy)])


# -- Agent test cases as YAML ---------------------------------------------------------------------


_LOOKS_LIKE_A_VALUE = re.compile(r"(?i)[-+.]?\d.*|y|n|yes|no|on|off|true|false|null|~|\.(inf|nan)")
"""What some YAML readers take for a number, a date or a truth where there are no quotes."""
_ODD = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""Characters that a block of lines would not give back."""


def _agent_case_written(case: Case) -> dict[str, Json]:
    """One case as plain data: one turn stands in the case itself, several under `turns`."""
    first = case.turns[0]
    alone = len(case.turns) == 1 and not first.settings and "evaluations" not in first.extras
    turns: list[Json] = [_turn_written(turn) for turn in case.turns]
    body = _turn_written(first) if alone and AS_TURNS not in case.extras else {"turns": turns}
    return {
        **present(name=case.name or None),
        **body,
        **_evaluations(case.extras),
        **present(
            labels=[*case.labels],
            rubrics=rubrics_written(case.rubrics),
        ),
    }


def write_test_cases(file: CaseFile) -> str:
    """The file as YAML text."""
    cases = [_readable(_agent_case_written(case)) for case in file.cases]
    yaml = cast("Any", YAML(typ="rt"))
    yaml.width = 2**20
    yaml.allow_unicode = True
    stream = io.StringIO()
    yaml.dump({CASES: cases} if file.extras.get(WRAPPED) else cases, stream)
    return stream.getvalue()


def agent_cases_again(file: CaseFile) -> tuple[Case, ...]:
    """What the cases are once they were written as test cases and read again."""
    complaints = Complaints(source="written as a test case")
    cases = [_case_of(_agent_case_written(case), complaints, (case.id,)) for case in file.cases]
    complaints.settle()
    return tuple(case for case in cases if case)


def refuse_agent_file(path: Path) -> None:
    """Refuse to write cases over an agent's own file, which says more than its cases."""
    try:
        held = mapped(read_tree(path).data if path.is_file() else None)
    except (ConfigError, FileTrouble):
        return
    if set(held) - {CASES} and (CASES in held or CASES_FILE in held or "instructions" in held):
        message = "this is an agent's file: writing cases here would drop the rest of it"
        remedy = f"write to a file of its own, and name it there as {CASES_FILE!r}"
        raise ConfigError([Problem(message=message, where=path.name, remedy=remedy)])


def _turn_written(turn: Turn) -> dict[str, Json]:
    return {
        "input": turn.input,
        **({} if turn.expected is None else {"ground_truth": turn.expected}),
        **present_lists(expected_tools=tools_written(turn.expected_tools)),
        **present(
            files=files_written(turn.attachments),
            retrieval_context=[*turn.context],
            turn_config=dict(turn.settings),
        ),
        **_evaluations(turn.extras),
    }


def _evaluations(extras: Mapping[str, Json]) -> dict[str, Json]:
    """An empty list says that nothing is measured here, so it stays."""
    return {key: value for key, value in extras.items() if key == "evaluations"}


def _readable(value: Json) -> object:
    """The value with texts marked for blocks where they have lines, for quotes where in doubt."""
    if isinstance(value, Mapping):
        return {_quoted(key): _readable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if isinstance(value, str) and "\n" in value and _is_plain(value):
        return LiteralScalarString(value)
    return _quoted(value) if isinstance(value, str) else value


def _quoted(text: str) -> str:
    doubtful = "\n" in text or _ODD.search(text) or _LOOKS_LIKE_A_VALUE.fullmatch(text)
    return DoubleQuotedScalarString(text) if doubtful else text


def _is_plain(text: str) -> bool:
    """Whether a block of lines says exactly this text: no odd characters, no loose spaces."""
    lines = text.removesuffix("\n").split("\n")
    firm = all(line == line.rstrip() for line in lines) and lines[0] == lines[0].lstrip()
    return firm and bool(lines[0]) and bool(lines[-1]) and not _ODD.search(text)
