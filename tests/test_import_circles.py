"""No module imports itself in a circle, whenever and for whatever its imports happen."""

import ast
from collections.abc import Iterator, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import burnish

PACKAGE = Path(burnish.__file__).parent


def test_no_module_imports_itself_in_a_circle() -> None:
    assert circle_in(import_graph(PACKAGE)) == []


@pytest.mark.parametrize(
    "importing",
    [
        "from shop.b import basket",
        "import shop.b",
        "from shop import b",
        "from . import b",
        "from .b import basket",
        "def late():\n    from shop.b import basket",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from shop.b import basket",
    ],
)
def test_an_import_of_any_kind_closes_a_circle(tmp_path: Path, importing: str) -> None:
    shop = a_package(tmp_path, a=importing, b="import shop.a")
    assert circle_in(import_graph(shop)) == ["shop.a", "shop.b", "shop.a"]


def test_a_package_and_its_members_close_a_circle(tmp_path: Path) -> None:
    shop = a_package(tmp_path, __init__="from shop.a import basket", a="from shop import basket")
    assert circle_in(import_graph(shop)) == ["shop", "shop.a", "shop"]


def test_imports_in_one_direction_are_no_circle(tmp_path: Path) -> None:
    shop = a_package(tmp_path, a="from shop import b, c", b="import shop.c", c="import os")
    assert circle_in(import_graph(shop)) == []


def a_package(folder: Path, **modules: str) -> Path:
    shop = folder / "shop"
    shop.mkdir()
    for name, source in {"__init__": "", **modules}.items():
        (shop / f"{name}.py").write_text(source)
    return shop


def import_graph(package: Path) -> dict[str, set[str]]:
    """Each module of a package, and the modules of it that it imports anywhere in its source."""
    files = {module_name(package, file): file for file in package.rglob("*.py")}
    return {
        name: {module for module in imported_by(name, file, files.keys()) if module != name}
        for name, file in files.items()
    }


def module_name(package: Path, file: Path) -> str:
    parts = (package.name, *file.relative_to(package).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(name: str, file: Path, modules: Set[str]) -> Iterator[str]:
    """The modules that a source names: a submodule where there is one, else its package."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            origin = absolute(node, package)
            for alias in node.names:
                submodule = f"{origin}.{alias.name}"
                yield from {submodule if submodule in modules else origin} & modules


def absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    base = parts[: len(parts) - node.level + 1]
    return ".".join([*base, node.module] if node.module else base)


def circle_in(graph: Mapping[str, Set[str]]) -> list[str]:
    """The modules of one circle, beginning and ending with the same; none where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1][:-1]
        first = circle.index(min(circle))
        # graphlib goes from what is imported to who imports it.
        forward = [*circle[first:], *circle[:first]]
        return [*(forward[:1] + forward[:0:-1]), forward[0]]
    return []
