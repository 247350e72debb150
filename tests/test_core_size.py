"""`pip install burnish` stays small: few packages, and few megabytes of files."""

import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
MOST_PACKAGES = 30
MOST_MEGABYTES = 50
"""Without bytecode, whose size depends on what was imported before; with it, it is about 79 MB."""


def core() -> dict[str, Distribution]:
    """The packages that burnish brings without an extra, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    members: dict[str, Distribution] = {}
    waiting = list(map(Requirement, project["dependencies"]))
    while waiting:
        requirement = waiting.pop()
        found = distribution(requirement.name)
        if found.name not in members:
            members[found.name] = found
            waiting.extend(_required(found))
    return members


def _required(package: Distribution) -> Iterator[Requirement]:
    for each in map(Requirement, package.requires or ()):
        if each.marker is None or each.marker.evaluate({"extra": ""}):
            yield each


def _megabytes(paths: Iterator[Path]) -> float:
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def _files(package: Distribution) -> Iterator[Path]:
    for each in package.files or ():
        if each.suffix != ".pyc":
            yield Path(str(package.locate_file(each)))


def test_the_core_is_few_packages() -> None:
    names = sorted(core())
    assert len(names) <= MOST_PACKAGES, names


def test_the_core_is_few_megabytes() -> None:
    sizes = {name: _megabytes(_files(package)) for name, package in core().items()}
    own = (ROOT / "src" / "burnish").rglob("*")
    sizes["burnish"] = _megabytes(each for each in own if each.suffix != ".pyc")
    largest = dict(sorted(sizes.items(), key=lambda pair: -pair[1])[:8])
    assert sum(sizes.values()) <= MOST_MEGABYTES, largest
