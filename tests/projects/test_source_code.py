"""Literals in Python files are found by names and replaced in their own style."""

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.projects.source_code import SourceHomes, literals, replaced

SOURCE = '''\
# é: columns are bytes
NAMES = {"temperature": 0.4}
agent = Agent("ü", instructions='Sell lamps.', size=3)
long = (
    "One "
    "two."
)


def price() -> None:
    """The price.

    In euros.
    """
'''


def _at(path: str, value: str) -> str:
    return replaced(SOURCE.encode(), {path: value}).decode()


def _path(text: object) -> str:
    return next(each.path for each in literals(SOURCE.encode()).values() if each.text == text)


def test_only_the_literal_changes_and_keeps_its_quotes() -> None:
    new = _at(_path("Sell lamps."), "Don't sell.")
    assert new == SOURCE.replace("'Sell lamps.'", r"'Don\'t sell.'")


def test_several_lines_are_a_literal_of_several_lines() -> None:
    assert "'''One\ntwo'''" in _at(_path("Sell lamps."), "One\ntwo")
    words = " ".join(["word"] * 40)
    pieces = _at(_path("One two."), words).splitlines()
    assert all(len(line) <= 100 for line in pieces)


def test_a_docstring_keeps_its_indentation() -> None:
    new = _at(_path("The price.\n\nIn euros."), "The cost.\n\nIn dollars.")
    assert '    """The cost.\n\n    In dollars.\n    """' in new


@given(
    st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(["Sell lamps.", "One two."])
)
def test_any_text_can_be_written(text: str, old: str) -> None:
    path = _path(old)
    new = replaced(SOURCE.encode(), {path: text})
    assert literals(new)[path].text == text
    assert len(ast.parse(new).body) == len(ast.parse(SOURCE).body)


def test_values_that_are_no_single_literal_go_to_a_file(tmp_path: Path) -> None:
    module = tmp_path / "desk.py"
    module.write_text('A = "once"\nB = "twice"\nC = "twice"\nD = {"temperature": 0.4}\n')
    values = {"a": "once", "b": "twice", "model.temperature": 0.4}
    homes = SourceHomes.find(values, [module], tmp_path / "desk.values.json")
    assert set(homes.places) == {"a", "model.temperature"}
    changes = {
        each.path.name: (each.after.decode(), each.adds)
        for each in homes.edited({"a": "new", "b": "other", "model.temperature": 0.5})
    }
    source = 'A = "new"\nB = "twice"\nC = "twice"\nD = {"temperature": 0.5}\n'
    assert changes == {
        "desk.py": (source, False),
        "desk.values.json": ('{\n  "b": "other"\n}\n', True),
    }


@pytest.mark.parametrize("above", ["import os\n", "X = 1\n", "def f(): return 'new'\n"])
def test_code_above_does_not_move_a_literal(above: str) -> None:
    path = _path("Sell lamps.")
    assert literals(f"{above}{SOURCE}".encode())[path].text == "Sell lamps."
