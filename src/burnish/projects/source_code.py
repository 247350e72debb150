"""Literals in Python files: where texts and numbers are, and how they are replaced."""

import ast
import inspect
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import Value
from burnish.runs.directory import Header
from burnish.runs.homes import FILES, FileChange, Homes, measured_hashes
from burnish.system import read_bytes
from burnish.system.restoration import digest
from burnish.targets.frameworks.adapters import values_as_json, values_from_json

_PLAIN_WORD = re.compile(r"[A-Za-z0-9]+")
_RECORD = "literals"
_WIDTH = 100
_BOM = b"\xef\xbb\xbf"
_LITERAL = re.compile(r"[rRuU]*('{3}|\"{3}|'|\")")


@dataclass(frozen=True, kw_only=True)
class Literal:
    """A text or number in a Python file."""

    path: str
    """Where it is, by names: `agent/value.keywords.1.value` stays valid if code above it moves."""
    label: str
    """The argument, key or variable that it is the value of."""
    value: str | int | float
    start: int
    end: int
    """The bytes of the file that it takes."""
    docstring: bool = False

    def has(self, name: str, value: Value) -> bool:
        """Whether it is the value of a surface; a number also needs the same name."""
        if isinstance(value, str):
            return self.text == value
        same = not isinstance(value, bool | tuple) and self.value == value
        return same and self.label == name.rpartition(".")[2]

    def says(self, value: Value) -> bool:
        """Whether it has a value; a docstring cannot begin or end with empty lines."""
        if self.docstring and isinstance(value, str):
            return self.text == inspect.cleandoc(value)
        return self.text == value

    @property
    def text(self) -> str | int | float:
        """The value; a docstring without its indentation, as libraries show it to models."""
        if self.docstring and isinstance(self.value, str):
            return inspect.cleandoc(self.value)
        return self.value


def literals(source: bytes) -> dict[str, Literal]:
    """The literals of a file, by their paths."""
    content = source.removeprefix(_BOM)
    shift = len(source) - len(content)
    starts = [shift]
    for line in content.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = (
        Literal(
            path=path,
            label=label,
            value=cast("str | int | float", node.value),
            start=starts[node.lineno - 1] + node.col_offset,
            end=starts[cast("int", node.end_lineno) - 1] + cast("int", node.end_col_offset),
            docstring=path.endswith("__doc__"),
        )
        for path, label, node in _constants(ast.parse(content), "", "")
    )
    return {each.path: each for each in found}


def _constants(node: ast.AST, path: str, label: str) -> Iterator[tuple[str, str, ast.Constant]]:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str | int | float) and not isinstance(node.value, bool):
            yield path, label, node
        return
    if isinstance(node, ast.JoinedStr):  # an f-string has no text of its own
        return
    for step, inner_label, inner in _children(node, label):
        yield from _constants(inner, f"{path}/{step}" if path else step, inner_label)


def _children(node: ast.AST, label: str) -> Iterator[tuple[str, str, ast.AST]]:
    """What is inside a node: the step to it, and the name that it is the value of."""
    if isinstance(node, ast.Dict):
        for number, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            named = key.value if isinstance(key, ast.Constant) else number
            yield f"[{named}]", str(named), value
        return
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(value, list):
            yield from _statements(node, cast("list[ast.stmt]", value))
        elif isinstance(value, list):
            for number, each in enumerate(cast("list[Any]", value)):
                if isinstance(each, ast.keyword):
                    yield f"{each.arg}=", each.arg or label, each.value
                elif isinstance(each, ast.AST):
                    yield f"{name}.{number}", label, each
        elif isinstance(value, ast.AST):
            inner = value.arg if isinstance(value, ast.keyword) else None
            yield name, inner or label, value


def _statements(node: ast.AST, body: Sequence[ast.stmt]) -> Iterator[tuple[str, str, ast.AST]]:
    """Statements by the names that they define, so that others may come and go around them."""
    names: dict[str, int] = {}
    documented = isinstance(
        node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module
    ) and ast.get_docstring(node, clean=False)
    for number, statement in enumerate(body):
        name = _defined(statement) or type(statement).__name__
        names[name] = names.get(name, 0) + 1
        step = name if names[name] == 1 else f"{name}#{names[name]}"
        if number == 0 and documented and isinstance(statement, ast.Expr):
            yield "__doc__", "__doc__", statement.value
        else:
            yield step, _defined(statement), statement


def _defined(statement: ast.stmt) -> str:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return statement.name
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    named = (each for each in targets if isinstance(each, ast.Name | ast.Attribute))
    return next((ast.unparse(each) for each in named), "")


def replaced(source: bytes, values: Mapping[str, Value]) -> bytes:
    """A file with other values at these paths; everything else stays as it is."""
    before, result = literals(source), source
    for literal in sorted((before[path] for path in values), key=lambda each: -each.start):
        value = values[literal.path]
        new = _written(source, literal, value)
        result = result[: literal.start] + new.encode() + result[literal.end :]
    try:
        after = literals(result)
        same = all(after[path].says(value) for path, value in values.items())
        same = same and set(after) == set(before)
    except (SyntaxError, KeyError):
        same = False
    if not same:
        message = "with the new values, the file would not be the program that was measured"
        raise ConfigError([Problem(message=message, remedy="edit it yourself")])
    return result


def _written(source: bytes, literal: Literal, value: Value) -> str:
    """A value as a literal in the style of the one that it replaces."""
    if not isinstance(value, str):
        return repr(value)
    old = source[literal.start : literal.end].decode()
    line = source[: literal.start].rpartition(b"\n")[2].decode()
    if literal.docstring:
        margin = line if line.isspace() else ""
        value = re.sub(r"\n(?=.)", f"\n{margin}", value)
        value += f"\n{margin}" if "\n" in value else ""
    for text in _spellings(value, old, len(line)):
        try:
            same = ast.literal_eval(f"({text})") == value
        except (SyntaxError, ValueError):
            continue
        if same:
            return text.replace("\n", "\r\n") if b"\r\n" in source else text
    return repr(value)


def _spellings(text: str, old: str, column: int) -> Iterator[str]:
    """Ways to write a text, the one that is most like the old literal first."""
    match = _LITERAL.match(old)
    quote = match[1] if match else '"'
    escaped = text.replace("\\", "\\\\")
    several = "\n" in old and len(quote) == 1
    if several:  # pieces side by side, which only brackets allow
        yield f"\n{' ' * column}".join(
            _quoted(piece, quote)
            for line in text.splitlines(keepends=True)
            for piece in _pieces(line, max(20, _WIDTH - column - 4))
        )
    if len(quote) == 3 or ("\n" in text[:-1] and not several):
        first = "\\\n" if old.startswith(f"{quote}\\\n") else ""
        for each in (quote[0] * 3, "'''", '"""'):
            yield f"{each}{first}{escaped}{each}"
            yield f"{each}{first}{escaped.replace(each[0], chr(92) + each[0])}{each}"
    yield _quoted(text, quote[0])


def _pieces(line: str, width: int) -> list[str]:
    """A line cut between words; the pieces together are the line."""
    words = re.findall(r"\s*\S+\s*$|\s*\S+", line) or [line]
    pieces = [""]
    for word in words:
        if pieces[-1] and len(pieces[-1] + word) > width:
            pieces.append("")
        pieces[-1] += word
    return pieces


def _quoted(text: str, mark: str) -> str:
    escaped = text.replace("\\", "\\\\").replace(mark, f"\\{mark}")
    escaped = "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in escaped
    )
    return f"{mark}{escaped}{mark}"


# -- Homes -----------------------------------------------------------------------------------------


def _cue(name: str, value: Value) -> bytes:
    """What a file has in it that holds the value: its longest plain word, or a number's name."""
    if not isinstance(value, str):
        return name.rpartition(".")[2].encode()
    return max(_PLAIN_WORD.findall(value), key=len, default="").encode()


@dataclass(frozen=True, kw_only=True)
class SourceHomes(Homes):
    """The values of an agent: literals in its source files, and a file of values for the rest."""

    places: Mapping[str, tuple[Path, str]]
    """By surface, the file and the path of its literal."""
    values_file: Path
    """Has the values that are no literals, once one is adopted."""
    start: Mapping[str, Value] = field(default_factory=dict[str, Value])
    """The values at the start of those that are no literals."""
    hashes: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @classmethod
    def find(
        cls, values: Mapping[str, Value], files: Sequence[Path], values_file: Path
    ) -> "SourceHomes":
        """Look for values in files; one that is there several times counts as not found."""
        cues = [_cue(name, value) for name, value in values.items()]
        # Parsing takes a hundred times as long as reading, and few files have a word of them.
        read = {path: read_bytes(path) for path in files} if cues else {}
        sources = {
            path: literals(content)
            for path, content in read.items()
            if any(cue in content for cue in cues)
        }
        places: dict[str, tuple[Path, str]] = {}
        for name, value in values.items():
            hits = [
                (path, each.path)
                for path, found in sources.items()
                for each in found.values()
                if each.has(name, value)
            ]
            if len(hits) == 1 and hits[0] not in places.values():
                places[name] = hits[0]
        rest = {name: value for name, value in values.items() if name not in places}
        return cls(places=places, values_file=values_file, start=rest)

    @classmethod
    def of(cls, header: Header) -> "SourceHomes | None":
        stored = header.project.config.get(_RECORD)
        if not isinstance(stored, dict):
            return None
        data = cast("dict[str, Any]", stored)
        values_file = Path(str(data["values_file"]))
        return cls(
            places={name: (Path(at[0]), at[1]) for name, at in data["places"].items()},
            values_file=values_file,
            start=values_from_json(str(data["start"]), values_file),
            hashes=measured_hashes(header) or {},
        )

    def record(self) -> dict[str, Json]:
        """What run.json stores."""
        places: dict[str, Json] = {
            name: [str(path), place] for name, (path, place) in self.places.items()
        }
        hashes: dict[str, Json] = {str(path): digest(read_bytes(path)) for path in self.files}
        stored: dict[str, Json] = {
            "places": places,
            "values_file": str(self.values_file),
            "start": values_as_json(self.start),
        }
        return {_RECORD: stored, FILES: hashes}

    @property
    def files(self) -> Sequence[Path]:
        return list(dict.fromkeys(path for path, _ in self.places.values()))

    def changed(self) -> list[str]:
        now = {str(path): digest(read_bytes(path)) for path in self.files}
        return [name for name, value in now.items() if self.hashes.get(name) != value]

    def value(self, surface: str) -> Value:
        if surface in self.places:
            path, place = self.places[surface]
            literal = _read(path).get(place)
            if literal is None:
                message = f"it is no longer where it was in {path.name}"
                remedy = "take its text from the run's folder and put it there yourself"
                raise ConfigError([Problem(where=surface, message=message, remedy=remedy)])
            return literal.text
        adopted = self._adopted()
        if surface in adopted or surface in self.start:
            return adopted.get(surface, self.start[surface])
        message = "the run did not have it"
        raise ConfigError([Problem(where=surface, message=message)])

    def edited(self, values: Mapping[str, Value]) -> tuple[FileChange, ...]:
        by_path: dict[Path, dict[str, Value]] = {}
        for name in (each for each in values if each in self.places):
            path, place = self.places[name]
            by_path.setdefault(path, {})[place] = values[name]
        changes: list[FileChange] = []
        for path, new in by_path.items():
            home = Path(os.path.realpath(path))
            before = read_bytes(home)
            changes.append(FileChange(path=home, before=before, after=replaced(before, new)))
        rest = {name: values[name] for name in values if name not in self.places}
        return (*changes, *self._values_change(rest))

    def _values_change(self, values: Mapping[str, Value]) -> Iterator[FileChange]:
        if not values:
            return
        adds = not self.values_file.exists()
        before = b"" if adds else read_bytes(self.values_file)
        after = values_as_json({**self._adopted(), **values}).encode()
        yield FileChange(path=self.values_file, before=before, after=after, adds=adds)

    def _adopted(self) -> dict[str, Value]:
        if not self.values_file.exists():
            return {}
        return values_from_json(read_bytes(self.values_file).decode(), self.values_file)


def _read(path: Path) -> dict[str, Literal]:
    try:
        return literals(read_bytes(path))
    except SyntaxError as error:
        message = f"it is not valid Python: {error.msg}"
        where = f"{path}:{error.lineno}"
        raise ConfigError([Problem(where=where, message=message, remedy="fix it first")]) from None
