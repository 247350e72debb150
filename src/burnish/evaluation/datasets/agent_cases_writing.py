"""Agent test cases as YAML: what a person would write, Unicode and long texts left readable."""

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from burnish.core.cases import Case, Turn
from burnish.core.content import Json
from burnish.core.errors import ConfigError, FileTrouble, Problem
from burnish.evaluation.datasets.agent_case_files import CASES, CASES_FILE
from burnish.evaluation.datasets.agent_cases import AS_TURNS, case_of
from burnish.evaluation.datasets.case_files import WRAPPED, CaseFile
from burnish.evaluation.datasets.case_writing import (
    asked,
    files_written,
    present,
    rubrics_written,
    tools_written,
)
from burnish.evaluation.datasets.complaints import Complaints, mapped
from burnish.system.yaml import read_tree

_LOOKS_LIKE_A_VALUE = re.compile(r"(?i)[-+.]?\d.*|y|n|yes|no|on|off|true|false|null|~|\.(inf|nan)")
"""What some YAML readers take for a number, a date or a truth where there are no quotes."""
_ODD = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""Characters that a block of lines would not give back."""


def agent_case_written(case: Case) -> dict[str, Json]:
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
    cases = [_readable(agent_case_written(case)) for case in file.cases]
    yaml = cast("Any", YAML(typ="rt"))
    yaml.width = 2**20
    yaml.allow_unicode = True
    stream = io.StringIO()
    yaml.dump({CASES: cases} if file.extras.get(WRAPPED) else cases, stream)
    return stream.getvalue()


def agent_cases_again(file: CaseFile) -> tuple[Case, ...]:
    """What the cases are once they were written as test cases and read again."""
    complaints = Complaints(source="written as a test case")
    cases = [case_of(agent_case_written(case), complaints, (case.id,)) for case in file.cases]
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
        **asked(expected_tools=tools_written(turn.expected_tools)),
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
