"""The glossary explains the words that burnish prints, and no others."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.docs.docs_console import run_in_shell
from tests.docs.docs_examples import copy_of
from tests.docs.docs_pages import ROOT

PAGE = ROOT / "docs" / "glossary.md"
ROW = re.compile(r"^\| (?P<words>[^|]+) \| [A-Z`].+ \|$", re.MULTILINE)
PLAIN = {
    *(
        "what",
        "decision",
        "metric",
        "status",
        "exit reason",
        "time",
        "tries",
        "kept",
        "reflections",
    ),
    *("calls", "stopped", "#", "project", "strategy", "result", "folder", "trials", "holdout loss"),
    *("best", "share of cases that pass", "equality", "reflection"),
}
"""Labels that say what they mean, and the names of a metric and a proposer."""


def _explained() -> list[str]:
    rows = ROW.finditer(PAGE.read_text(encoding="utf-8"))
    return [word for row in rows for word in row["words"].split(", ")]


@cache
def _printed() -> str:
    """Every text in the code but its docstrings."""
    modules = (ROOT / "src" / "burnish").rglob("*.py")
    return "\n".join(text for module in modules for text in _texts(module))


def _texts(module: Path) -> Iterator[str]:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    docstrings = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    constants = (each for each in ast.walk(tree) if isinstance(each, ast.Constant))
    yield from (
        each.value
        for each in constants
        if isinstance(each.value, str) and id(each) not in docstrings
    )


@pytest.mark.parametrize("word", _explained())
def test_a_word_of_the_glossary_is_printed(word: str) -> None:
    assert re.search(rf"\b{re.escape(word)}\b", _printed()), f"'{word}' is printed nowhere"


def test_each_word_is_explained_once_and_briefly() -> None:
    words = _explained()
    assert len(words) == len(set(words))
    assert len(words) >= 30
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= 70


def test_what_a_run_and_its_report_are_labelled_with_is_explained(tmp_path: Path) -> None:
    copy_of("killed", tmp_path)
    home = {"BURNISH_HOME": str(tmp_path / ".home")}
    run_in_shell("python examples/killed/desk.py", tmp_path, home)
    _, listed = run_in_shell("burnish runs list", tmp_path, home)
    _, shown = run_in_shell("burnish runs show killed", tmp_path, home)
    report = (tmp_path / "results" / "killed" / "report.md").read_text(encoding="utf-8")
    labels = {
        *listed.splitlines()[0].split(),
        *re.findall(r"^([a-z]+) {2,}\S", shown, re.MULTILINE),
    }
    heads = re.findall(r"^\|(.+)\|\n\|---", report, re.MULTILINE)
    labels |= {cell.strip() for head in heads for cell in head.split("|") if cell.strip()}
    labels |= set(re.findall(r"^\| ([a-z ]+) \|.+\|$", report, re.MULTILINE))
    assert {"spent", "accepted", "baseline", "minibatch", "holdout", "gain"} <= labels
    unknown = labels - set(_explained()) - PLAIN
    assert not unknown, f"docs/glossary.md explains no {sorted(unknown)}"
