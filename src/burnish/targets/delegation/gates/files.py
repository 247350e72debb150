"""Gates on files: they are there, they are whole, and they parse."""

import ast
import csv
import io
import json
import re
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
from jsonschema.exceptions import SchemaError, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from burnish.core.content import Json
from burnish.evaluation.matching.excerpts import cut
from burnish.targets.delegation.gates.completion import (
    MARKDOWN,
    PROSE,
    Completion,
    Finding,
    suffix,
)

_ASKS_FOR_A_FILE = re.compile(
    r"\b(report|pdf|document|spreadsheet|csv|script|image|chart|slides?|file|essay|article)\b"
    r"|\b[\w-]+\.(md|txt|pdf|csv|json|py|html|docx|xlsx|png|svg|ya?ml)\b",
    re.IGNORECASE,
)
_PNG = b"\x89PNG\r\n\x1a\n"
_ZIPPED = (".docx", ".xlsx", ".pptx", ".zip")


def deliverable_presence(completion: Completion) -> Iterator[Finding]:
    """Every declared deliverable is there and not empty."""
    check = "deliverable_presence"
    for path in completion.declared:
        if path not in completion.files:
            yield Finding(file=path, detail="the file is not there", check=check)
        elif not completion.files[path].strip():
            yield Finding(file=path, detail="the file is empty", check=check)
    if not completion.declared and _ASKS_FOR_A_FILE.search(completion.task):
        detail = "the task asks for a file, and no plan names one under required_outputs"
        yield Finding(file="", detail=detail, check=check)


def file(completion: Completion) -> Iterator[Finding]:
    """Files that are broken: they have a name, and nothing that it promises."""
    for path, content in completion.files.items():
        if detail := _broken(path, content):
            declared = path in completion.delivered
            severity = "error" if declared else "warning"
            yield Finding(file=path, detail=detail, check="file", severity=severity)


def deliverable(completion: Completion) -> Iterator[Finding]:
    """Where a task asks for a document, one that is more than a line is there."""
    if not _ASKS_FOR_A_FILE.search(completion.task) or not completion.delivered:
        return
    least = completion.settings.min_prose_bytes
    sizes = {path: len(content) for path, content in completion.delivered.items()}
    prose = all(suffix(path) in PROSE for path in sizes)
    if prose and max(sizes.values()) < least:
        path = max(sizes, key=lambda each: sizes[each])
        detail = f"no deliverable has {least} bytes; the largest has {sizes[path]}"
        yield Finding(file=path, detail=detail, check="deliverable")


def syntax_compile(completion: Completion) -> Iterator[Finding]:
    """Deliverables parse as what their names say they are."""
    for path, text in completion.delivered_texts.items():
        parse = _PARSERS.get(suffix(path))
        try:
            problem = parse(text) if parse else ""
        except (ValueError, SyntaxError, YAMLError, RecursionError, csv.Error) as error:
            problem = cut(str(error) or type(error).__name__, 200)
        if problem:
            yield Finding(file=path, detail=problem, check="syntax_compile")


def schema(completion: Completion) -> Iterator[Finding]:
    """JSON and YAML deliverables keep the schema that the workflow gives them."""
    for path, wanted in completion.schemas.items():
        text = completion.delivered_texts.get(path)
        if text is None:
            continue
        if problem := _breaks(text, wanted):
            yield Finding(file=path, detail=problem, check="schema")


def _broken(path: str, content: bytes) -> str:
    end = suffix(path)
    if not content:
        return "it has 0 bytes"
    if end == ".png":
        if not content.startswith(_PNG):
            return "it is no PNG image"
        size = (int.from_bytes(content[16:20]), int.from_bytes(content[20:24]))
        return "it is an image of one pixel" if size == (1, 1) else ""
    if end == ".pdf" and not content.startswith(b"%PDF"):
        return "it is no PDF document"
    if end in _ZIPPED and not zipfile.is_zipfile(io.BytesIO(content)):
        return f"it is no {end} file"
    if end == ".csv" and len(content.strip().splitlines()) < 2:
        return "it has a header and no rows"
    return ""


def _python(text: str) -> str:
    ast.parse(text)
    return ""


def _json(text: str) -> str:
    json.loads(text)
    return ""


def _yaml(text: str) -> str:
    _loaded(text)
    return ""


def _loaded(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)  # pyright: ignore[reportUnknownMemberType]


def _toml(text: str) -> str:
    tomllib.loads(text)
    return ""


def _markdown(text: str) -> str:
    fences = len(re.findall(r"^\s*(```|~~~)", text, re.MULTILINE))
    return "a code block is opened and not closed" if fences % 2 else ""


def _csv(text: str) -> str:
    widths = {len(row) for row in csv.reader(io.StringIO(text), strict=True) if row}
    return f"rows have {' or '.join(map(str, sorted(widths)))} fields" if len(widths) > 1 else ""


_PARSERS: dict[str, Callable[[str], str]] = {
    ".py": _python,
    ".json": _json,
    ".yaml": _yaml,
    ".yml": _yaml,
    ".toml": _toml,
    ".csv": _csv,
    **dict.fromkeys(MARKDOWN, _markdown),
}


def _breaks(text: str, wanted: Json) -> str:
    try:
        value = _loaded(text)
        jsonschema.validate(value, wanted)  # pyright: ignore[reportUnknownMemberType, reportArgumentType]
    except (ValidationError, SchemaError) as error:
        return cut(str(error.message), 200)
    except (ValueError, YAMLError) as error:
        return cut(f"it cannot be read: {error}", 200)
    return ""
