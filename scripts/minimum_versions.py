"""Writes constraints-minimum.txt: the lowest version that is promised of every direct dependency.

That is the lower bound in pyproject.toml, and where it names none, the version pinned in
constraints.txt. `--check` writes nothing and fails where the file is not current. CI installs
burnish with these versions and runs the tests.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "constraints-minimum.txt"
HEAD = "# Made by scripts/minimum_versions.py from pyproject.toml and constraints.txt.\n"
TOOLS = ("dev", "docs")
"""The extras of our own tools: nobody else installs them."""


def minimum() -> str:
    """The content of the file."""
    pins = dict(_pins())
    lines = {_line(requirement, pins) for requirement in _direct()}
    return HEAD + "".join(f"{line}\n" for line in sorted(lines))


def _direct() -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    yield from project["dependencies"]
    for extra, requirements in project["optional-dependencies"].items():
        if extra not in TOOLS:
            yield from (each for each in requirements if _name(each) != project["name"])


def _line(requirement: str, pins: dict[str, str]) -> str:
    name = _name(requirement)
    bound = re.search(r">=\s*([\w.]+)", requirement) or re.search(r">=\s*([\w.]+)", _bounds(name))
    version = bound[1] if bound else pins.get(name)
    if version is None:
        sys.exit(f"{name} has neither a lower bound in pyproject.toml nor a pin in constraints.txt")
    return f"{name}=={version}"


def _bounds(name: str) -> str:
    """How another requirement of the same name bounds it: an extra need not say it again."""
    return next((each for each in _direct() if _name(each) == name and ">=" in each), "")


def _pins() -> Iterator[tuple[str, str]]:
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if "==" in line:
            name, _, version = line.partition("==")
            yield _name(name), version.split()[0]


def _name(requirement: str) -> str:
    """As package indexes compare names, without extras and versions."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def main() -> None:
    """Write the file, or compare it."""
    if sys.argv[1:] == ["--check"]:
        current = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
        sys.exit(current != minimum() and f"{FILE.name} is old: python scripts/minimum_versions.py")
    FILE.write_text(minimum(), encoding="utf-8")


if __name__ == "__main__":
    main()
