"""The walks of docs/architecture.md go through files and names that are there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECTION = (
    (ROOT / "docs" / "architecture.md").read_text().split("## Four walks")[1].split("\n## ")[0]
)
WALKS = {
    title: re.findall(r"^\d+\. `([a-z_/]+\.py)`: `(\w+)`", steps, re.MULTILINE)
    for title, steps in re.findall(r"\*\*(.+?)\*\*\n\n((?:\d+\. .+\n)+)", SECTION)
}


def test_there_are_four_walks() -> None:
    assert len(WALKS) == 4


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_is_short_and_its_steps_are_there(title: str) -> None:
    assert 5 < len(WALKS[title]) <= 12
    for file, name in WALKS[title]:
        tree = ast.parse((ROOT / "src" / "burnish" / file).read_text())
        names = {
            node.name
            for node in tree.body
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in names, f"{file} has no {name}"
