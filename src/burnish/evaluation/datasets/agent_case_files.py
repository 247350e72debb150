"""Agent test cases read: a YAML list in an agent's file, or in a file of its own."""

from collections.abc import Callable
from pathlib import Path

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.datasets.agent_cases import case_of
from burnish.evaluation.datasets.case_files import WRAPPED, CaseFile
from burnish.evaluation.datasets.complaints import Complaints, mapped
from burnish.system.config_errors import nearest, shown
from burnish.system.yaml import TreePath, YamlTree, read_tree

MOST_CASES = 1000
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
    found, at = _list_in(tree.data, complaints)
    cases = [case_of(raw, complaints, (*at, index)) for index, raw in enumerate(found)]
    if len(found) > MOST_CASES:
        remedy = "split the file; JSONL takes more"
        message = f"expected at most {MOST_CASES} cases, found {len(found)}"
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
