"""Reading names, fields and docstrings out of the source, for the reference pages."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any


def fields_of(kind: type[Any]) -> Iterator[tuple[str, str, str, str]]:
    """Name, type, default and docstring of each annotated field, inherited ones first.

    A field that is declared again keeps its place, as it does in the class itself.
    """
    fields: dict[str, tuple[str, str, str, str]] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] == "burnish":
            fields.update((field[0], field) for field in _own_fields(base))
    yield from fields.values()


def _own_fields(kind: type[Any]) -> Iterator[tuple[str, str, str, str]]:
    body = node_of(kind.__module__, kind.__name__).body
    for place, statement in enumerate(body):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        name, written = statement.target.id, shown(statement.annotation)
        if name.startswith("_") or written.startswith("ClassVar"):
            continue
        default = "" if statement.value is None else _default(statement.value)
        yield name, written, default, _string_after(body, place)


def _default(value: ast.expr) -> str:
    text = ast.unparse(value)
    factory = re.fullmatch(r"(?:field|Field)\(default_factory=(.*)\)", text)
    if factory is None:
        return text
    if factory[1].startswith("lambda: "):
        return factory[1].removeprefix("lambda: ")
    return f"{factory[1].split('[')[0]}()"


def _string_after(body: Sequence[ast.stmt], place: int) -> str:
    after = body[place + 1] if place + 1 < len(body) else None
    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
        return one_line(str(after.value.value))
    return ""


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(module)))


def node_of(module: str, name: str) -> ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return next(n for n in tree_of(module).body if isinstance(n, kinds) and n.name == name)


def doc_of(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return ast.get_docstring(node) or ""


def shown(annotation: ast.expr | None) -> str:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return "" if annotation is None else ast.unparse(annotation)


def one_line(text: str) -> str:
    return " ".join(text.split())


def row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells).rstrip() + " |"
