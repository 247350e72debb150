"""Reading and writing files of cases, whatever their format."""

from collections.abc import Sequence
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.datasets.case_files import CaseFile
from burnish.evaluation.datasets.complaints import Complaints
from burnish.evaluation.datasets.format_table import FORMATS, format_of, known_format
from burnish.system.files import write_atomic

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
    return FORMATS[format_of(path) if format is None else known_format(format)].read(path)


def read_some_cases(path: Path) -> tuple[Case, ...]:
    """The cases of a file that must have some."""
    cases = read_cases(path).cases
    if not cases:
        problem = Problem(where=str(path), message="there is no case in it", remedy="add one")
        raise ConfigError([problem])
    return cases


def read_folder(folder: Path) -> dict[Path, CaseFile]:
    """Read every EvalSet of a folder and the folders in it, sorted by path."""
    suffixes = FORMATS["evalset"].suffixes
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
    from burnish.evaluation.datasets.agent_cases_writing import refuse_agent_file
    from burnish.evaluation.datasets.converting import in_format

    wanted = _wanted(path, cases) if format is None else known_format(format)
    file = cases if isinstance(cases, CaseFile) else CaseFile(cases=tuple(cases), format=wanted)
    _refuse_losses(path, file, wanted)
    if wanted == "test_cases":
        refuse_agent_file(path)
    write_atomic(path, FORMATS[wanted].write(in_format(file, wanted), path))


def _wanted(path: Path, cases: CaseFile | Sequence[Case]) -> str:
    by_name = format_of(path)
    had = cases.format if isinstance(cases, CaseFile) else by_name
    return had if had in _HELD_BY_NAME.get(by_name, ()) else by_name


def _refuse_losses(path: Path, file: CaseFile, wanted: str) -> None:
    from burnish.evaluation.datasets.converting import losses_of

    complaints = Complaints(source=path.name)
    for case in file.cases:
        complaints.named(case.name)
    complaints.settle()
    if notes := losses_of(file, wanted):
        problems = [Problem(message=note, where=path.name) for note in notes]
        raise ConfigError(problems, remedy="Convert them first, or write JSONL, which holds all.")
