"""Writes docs/reference/ and the published schemas from the code, so that they say what it says.

`make docs` runs it. `pages()` gives the pages without writing them, for the test that checks
whether they are current.
"""

import ast
import enum
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import typer
from file_pages import dialects, file_pages
from settings_pages import project_file, settings
from source_reading import doc_of, fields_of, node_of, one_line, row, shown, tree_of
from stop_reasons_page import stop_reasons
from typer.testing import CliRunner

import burnish
import burnish.testing
from burnish.cli.program import app
from burnish.core import errors, protocols
from burnish.projects.file_structure import PROGRESS, schema_file, schema_text

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "docs" / "reference"
SCHEMAS = ROOT / "src" / "burnish" / "schemas"
WIDTH = 80
MADE = "<!-- Made by scripts/reference.py from the code: run `make docs`, do not edit. -->"
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def pages() -> dict[str, str]:
    """Every page by its file name."""
    made = {
        "cli.md": cli(),
        "python.md": python(),
        "project-file.md": project_file(),
        "settings.md": settings(),
        "errors.md": error_tree(),
        "stop-reasons.md": stop_reasons(),
        **file_pages(),
    }
    return {name: f"{MADE}\n\n{body.rstrip()}\n" for name, body in made.items()}


# -- the command line ----------------------------------------------------------------------


def cli() -> str:
    """The help text of every command."""
    parts = ["# The command line", "", "What `--help` says, at a width of 80."]
    for path in _commands(typer.main.get_command(app), ()):
        name = " ".join(("burnish", *path))
        parts += ["", f"## {name}", "", "```text", _help(path), "```"]
    return "\n".join(parts)


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from _commands(below, (*path, name))


def _help(path: Sequence[str]) -> str:
    wide = {"COLUMNS": str(WIDTH), "TERMINAL_WIDTH": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
    before = dict(os.environ)
    os.environ.update(wide)
    try:
        shown = CliRunner().invoke(app, [*path, "--help"], prog_name="burnish")
    finally:
        os.environ.clear()
        os.environ.update(before)
    lines = _COLOURS.sub("", shown.output).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip("\n")


# -- Python --------------------------------------------------------------------------------


def python() -> str:
    """The public names, the protocols to implement, and the doubles."""
    parts = [
        "# Python",
        "",
        "Every name that `burnish` offers, the protocols that extensions implement among them,",
        "then `burnish.testing`. Data classes are frozen and take their fields by keyword only.",
    ]
    for name in burnish.__all__:
        parts += _described(name, getattr(burnish, name))
    parts += ["", "# Executors", "", "What runs cases elsewhere than on this machine's loop."]
    parts += _described("Executor", protocols.Executor)
    parts += ["", "# burnish.testing", "", "Doubles and contract tests."]
    for name in burnish.testing.__all__:
        parts += _described(name, getattr(burnish.testing, name))
    return "\n".join(parts)


def _described(name: str, thing: Any) -> list[str]:
    parts = ["", f"## {name}", "", f"`{thing.__module__}.{name}`", ""]
    node = node_of(thing.__module__, name)
    if isinstance(node, ast.ClassDef):
        return parts + _class(node, thing)
    lines = textwrap.wrap(
        _signature(_with_arguments(node, thing.__module__)), 100, subsequent_indent="    "
    )
    return [*parts, "```text", *lines, "```", "", _with_list(doc_of(node))]


def _with_arguments(node: _Function, module: str) -> _Function:
    """A function that waits for an asynchronous one has the arguments of that one."""
    if not (node.args.vararg and node.args.kwarg):
        return node
    waited_for = node_of(module, f"a{node.name}")
    assert isinstance(waited_for, ast.AsyncFunctionDef)
    node.args, node.returns = waited_for.args, waited_for.returns
    return node


def _with_list(doc: str) -> str:
    """A docstring whose arguments are a list in Markdown."""
    before, _, arguments = doc.partition("\nArgs:\n")
    items = re.sub(r"^(\w[\w, ]*): ", r"- `\1`: ", textwrap.dedent(arguments), flags=re.MULTILINE)
    return f"{before}\n{items}" if items else doc


def _class(node: ast.ClassDef, kind: type[Any]) -> list[str]:
    parts = [doc_of(node)]
    if issubclass(kind, enum.Enum):
        return [*parts, "", "Values: " + ", ".join(f"`{member.value}`" for member in kind) + "."]
    fields = list(fields_of(kind))
    if fields:
        parts += ["", "| field | type | default | |", "|---|---|---|---|"]
        parts += [row(f"`{n}`", f"`{t}`", f"`{d}`" if d else "—", doc) for n, t, d, doc in fields]
    below = [m for m in node.body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)]
    shown = [m for m in below if not m.name.startswith("_")]
    listed = [f"- `{_member(method)}`: {one_line(doc_of(method))}" for method in shown]
    return [*parts, "", *listed] if listed else parts


def _member(method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    decorators = {ast.unparse(found) for found in method.decorator_list}
    if decorators & {"property", "cached_property", "computed_once"}:
        return f"{method.name} -> {shown(method.returns)}"
    return _signature(method).removesuffix(":").removesuffix(": ...")


def _signature(node: ast.AST) -> str:
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    asynchronous = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    returns = f" -> {shown(node.returns)}" if node.returns else ""
    whole = f"{asynchronous}{node.name}({ast.unparse(node.args)}){returns}"
    return re.sub(r"\((self|cls)(, /)?(, |(?=\)))", "(", whole, count=1)


# -- errors --------------------------------------------------------------------------------


def error_tree() -> str:
    """The error tree, and what each error means for a program."""
    tree = (inspect.getdoc(errors) or "").split("\n\n", 1)[1]
    parts = [
        "# Errors",
        "",
        "Every error that burnish raises on purpose. Each says what was wrong and, in `remedy`,",
        "what to do next. At the command line it is one message and an exit code.",
        "",
        "```text",
        tree,
        "```",
        "",
        "| error | exit code | |",
        "|---|---|---|",
    ]
    for node in tree_of(errors.__name__).body:
        kind = getattr(errors, node.name) if isinstance(node, ast.ClassDef) else None
        if isinstance(node, ast.ClassDef) and kind is not None and issubclass(kind, Exception):
            code: int = getattr(kind, "exit_code", 1)
            parts.append(row(f"`{node.name}`", str(code), one_line(doc_of(node))))
    return "\n".join(parts)


# -- schemas -------------------------------------------------------------------------------


def schemas() -> dict[str, str]:
    """The schemas that are published with the package, by file name."""
    kinds = [*(each.kind for each in dialects()), PROGRESS]
    return {schema_file(kind): schema_text(kind) for kind in kinds}


def main() -> None:
    """Write the pages and schemas that differ."""
    for home, made in ((HOME, pages()), (SCHEMAS, schemas())):
        home.mkdir(parents=True, exist_ok=True)
        for name, text in made.items():
            path = home / name
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
                print(f"wrote {path.relative_to(ROOT)}")
        for extra in sorted({path.name for path in home.iterdir()} - set(made)):
            sys.exit(f"{home / extra} is not made by this script: remove it")


if __name__ == "__main__":
    main()
