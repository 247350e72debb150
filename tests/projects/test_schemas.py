"""The JSON Schemas of the kinds of files: what burnish accepts, an editor accepts too."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from burnish.core.errors import ConfigError
from burnish.projects.artifacts.spec import starter_files
from burnish.projects.dialects import Document, dialect_named, dialect_names, dialect_of
from burnish.projects.file_structure import editor_line, file_schema
from burnish.projects.starters.files import write_new
from burnish.system import read_tree

ROOT = Path(__file__).parents[2]
KINDS = dialect_names()


def files() -> list[Path]:
    """Every file of the examples that describes a run."""
    found: list[Path] = []
    patterns = ("*.yaml", "*.json")
    paths = sorted(path for each in patterns for path in (ROOT / "examples").rglob(each))
    for path in paths:
        if {"own_strategy", "toy"} & {*path.parts}:  # their plug-ins are not installed here
            continue
        with suppress(ConfigError):
            dialect_of(Document(path=path, tree=read_tree(path)))
            found.append(path)
    return found


def errors_of(schema: dict[str, Any], data: Any) -> list[str]:
    validator: Any = jsonschema.Draft202012Validator(schema)
    return [f"{each.json_path}: {each.message}" for each in validator.iter_errors(data)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_sound_and_refuses_unknown_keys(kind: str) -> None:
    schema = file_schema(dialect_named(kind))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert any("no_such_key" in each for each in errors_of(schema, {"no_such_key": 1}))


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_example_keeps_the_schema_of_its_kind(path: Path) -> None:
    tree = read_tree(path)
    schema = file_schema(dialect_of(Document(path=path, tree=tree)))
    assert errors_of(schema, tree.data) == []


def test_the_examples_have_most_kinds_of_files() -> None:
    kinds = {dialect_of(Document(path=path, tree=read_tree(path))).kind for path in files()}
    assert {"agent", "graph", "optimizer", "prompts", "suite", "task"} <= kinds


def test_a_starter_keeps_its_schema_and_tells_editors_where_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    write_new(folder, starter_files())
    text = (folder / "task.yaml").read_text(encoding="utf-8")
    assert text.startswith(editor_line("task"))
    name = text.splitlines()[0].partition("$schema=")[2]
    schema = json.loads((folder / name).read_text(encoding="utf-8"))
    assert errors_of(schema, read_tree(folder / "task.yaml").data) == []
    assert errors_of(schema, {"artefacts": {}})
