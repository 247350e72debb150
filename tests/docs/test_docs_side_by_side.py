"""The same task in three libraries: the counts on the page are those of its programs."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.served_echo import hosted
from tests.docs.docs_console import run_in_shell
from tests.docs.docs_pages import ROOT, Block, blocks

from burnish.testing.servers import HttpRequest, ScriptedServer

PAGE = ROOT / "docs" / "coming-from.md"
ROWS = {"gepa": "`gepa.optimize_anything`", "dspy": "`dspy.GEPA`", "burnish": "burnish"}
COLUMNS = {"ticket", "label"}
STANDARD = {"csv", "random"}
RULES = "Answer with one word: invoice, parcel or login."
SHOP = """\
def ask(ticket: str, instructions: str) -> str:
    label = next(each for each in ("invoice", "parcel", "login") if each in ticket)
    return label if "one word" in instructions else f"This is about your {label}."
"""


def _program(library: str) -> Block:
    """The program of the section that uses this library."""
    imports = re.compile(rf"^(import|from) {library}\b(?!\.compat)", re.MULTILINE)
    side = [block for block in blocks(PAGE) if block.not_run and imports.search(block.text)]
    assert len(side) == 1
    return side[0]


def _lines(program: str) -> int:
    lines = (line.strip() for line in program.splitlines())
    return sum(1 for line in lines if line and not line.startswith("#"))


def _names(program: str, library: str) -> set[str]:
    """What a reader has to know of the library."""
    tree = ast.parse(program)
    return {name for node in ast.walk(tree) for name in _of_node(node, tree, library)} - COLUMNS


def _of_node(node: ast.AST, tree: ast.Module, library: str) -> Iterator[str]:
    match node:
        case ast.ImportFrom(module=str(module)) if module.split(".")[0] == library:
            yield from (each.name for each in node.names)
        case ast.Attribute(value=ast.Name(id=name)) if name in STANDARD:
            pass
        case ast.Attribute(attr=name):
            yield name
        case ast.keyword(arg=str(name)):
            yield name
        case ast.FunctionDef(name=name) if name in _passed(tree):
            yield from (each.arg for each in node.args.args)
        case _:
            pass


def _passed(tree: ast.Module) -> set[str]:
    """Names that are passed to something, not called."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {node.id for node in names if id(node) not in called}


def _counts(library: str) -> tuple[int, int]:
    program = _program(library).text
    return _lines(program), len(_names(program, library))


@pytest.mark.parametrize("library", ROWS)
def test_the_counts_are_those_of_the_program(library: str) -> None:
    lines, names = _counts(library)
    row = f"| {ROWS[library]} | {lines} | {names} |"
    assert row in PAGE.read_text(encoding="utf-8"), row


def test_burnish_has_the_fewest_of_both() -> None:
    lines, names = _counts("burnish")
    for other in ("gepa", "dspy"):
        other_lines, other_names = _counts(other)
        assert lines < other_lines
        assert names < other_names


def test_what_counts_as_a_name() -> None:
    program = """\
import csv
import lib
from lib.parts import Part

def metric(gold, extra=None):
    return lib.Score(value=gold.label)

def own(row):
    return row

print(lib.run(Part, metric=metric), csv.reader(), own(1))
"""
    found = _names(program, "lib")
    assert found == {"Part", "Score", "extra", "gold", "metric", "run", "value"}
    assert _lines(program) == 8


def _answer(request: HttpRequest) -> str:
    return json.dumps({"diagnosis": "one word is expected", "new_text": RULES})


def test_the_program_of_burnish_runs(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    (tmp_path / "program.py").write_text(_program("burnish").text, encoding="utf-8")
    labels = ("invoice", "parcel", "login")
    rows = [f"Where is my {labels[n % 3]} {n}?,{labels[n % 3]}" for n in range(40)]
    table = "\n".join(["ticket,label", *rows])
    (tmp_path / "tickets.csv").write_text(table, encoding="utf-8")
    with hosted(ScriptedServer(answers=_answer)) as url:
        home = {"BURNISH_HOME": str(tmp_path / "home")}
        key = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none-is-needed-offline"}
        code, told = run_in_shell("python program.py", tmp_path, home | key)
    assert code == 0, told
    assert told.startswith("sealed test, looked at once: score 0.000 → 1.000")
    assert f"+ instructions: {RULES}" in told
