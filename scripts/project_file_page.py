"""The page of the project file: its keys with type, bounds, default and meaning."""

import inspect
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel
from source_reading import doc_of, fields_of, node_of, row
from stop_reasons_page import REASONS

from burnish.projects.settings import (
    DEFAULT_CONCURRENCY,
    DEFAULT_SEED,
    BudgetSettings,
    ProjectFile,
)
from burnish.system.settings import Settings
from burnish.testing.toy_project import ClimbSettings, ToyFile, WorldSettings
from burnish.testing.toy_strategy import Climb
from burnish.testing.toy_world import World


def project_file() -> str:
    """The keys of a project file."""
    parts = [
        "# The project file",
        "",
        "YAML or JSON. Unknown keys are refused, with the nearest known key named. A limit on",
        "the command line comes before the file, the file before the environment",
        "(`BURNISH_MAX_TRIALS` and so on), the environment before the default.",
        "",
        "## Every project file",
        "",
        doc_of(node_of(ProjectFile.__module__, "ProjectFile")),
        *_keys(ProjectFile),
        "",
        f"Where nobody says otherwise, `seed` is {DEFAULT_SEED} and `concurrency`, the cases run",
        f"at once, is {DEFAULT_CONCURRENCY}.",
        "",
        "## budget",
        "",
        doc_of(node_of(BudgetSettings.__module__, "BudgetSettings")),
        *_keys(BudgetSettings, {code: when for code, when, _ in REASONS}),
        "",
        "## kind: toy",
        "",
        "The scripted world of `make demo`: every call is a function of its key, so it costs",
        "nothing and needs no network. It adds two blocks.",
    ]
    blocks = (("world", WorldSettings, World), ("strategy", ClimbSettings, Climb))
    for name, model, behind in blocks:
        assert any(key.partition(".")[0] == name for key in ToyFile.keys)
        doc = doc_of(node_of(model.__module__, model.__name__))
        parts += ["", f"### {name}", "", doc, *_keys(model, _field_docs(behind))]
    return "\n".join(parts)


def _keys(model: type[Settings], known: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """The keys of a block; what it does not say of a field itself is `known` from elsewhere."""
    rows = ["", "| key | value | default | |", "|---|---|---|---|"]
    for name, written, _, doc in fields_of(model):
        info = model.model_fields[name]
        kind = _kind(info.annotation, written)
        bounds = _bounds(info.metadata) or _bounds_inside(info.annotation)
        shown = "required" if info.is_required() else _value(info.get_default())
        if info.default_factory is not None:
            shown = "—"
        words = " ".join(part for part in (kind, bounds) if part)
        rows.append(row(f"`{name}`", words, shown, doc or known.get(name, "")))
    return rows


def _field_docs(kind: type[Any]) -> dict[str, str]:
    return {name: doc for name, _, _, doc in fields_of(kind)}


def _kind(annotation: Any, written: str) -> str:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return "a block, see below"
    names = {"int": "whole number", "float": "number", "str": "text", "bool": "true or false"}
    if written.startswith("tuple"):
        return "list of texts"
    if written.startswith("Literal"):
        return written.removeprefix("Literal[").removesuffix("]").replace("'", "`")
    plain = str(annotation)
    return next((words for name, words in names.items() if re.search(rf"\b{name}\b", plain)), plain)


def _bounds(metadata: Sequence[Any]) -> str:
    signs = (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))
    found = [
        f"{sign} {getattr(constraint, name):g}"
        for part in metadata
        for constraint in (part, *getattr(part, "metadata", ()))
        for name, sign in signs
        if getattr(constraint, name, None) is not None
    ]
    return ", ".join(dict.fromkeys(found))


def _bounds_inside(annotation: Any) -> str:
    """The bounds of the number in an optional one."""
    parts = (getattr(part, "__metadata__", ()) for part in getattr(annotation, "__args__", ()))
    return next((bounds for part in parts if (bounds := _bounds(part))), "")


def _value(value: object) -> str:
    return "—" if value is None or value == () else f"`{value}`"
