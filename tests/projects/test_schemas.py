"""The JSON Schemas of the kinds of files: what burnish accepts, an editor accepts too."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from burnish.core.errors import ConfigError
from burnish.projects.dialects import Document, dialect_named, dialect_of
from burnish.projects.schemas import file_schema
from burnish.system import read_tree

ROOT = Path(__file__).parents[2]
KINDS = ("agent", "command", "graph", "http", "prompts", "python", "suite", "task")


def files() -> list[Path]:
    """Every file of the examples that describes a run."""
    found: list[Path] = []
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        try:
            dialect = dialect_of(Document(path=path, tree=read_tree(path)))
        except ConfigError:
            continue
        if dialect.kind in KINDS and path.parent.name != "own_strategy":  # not installed here
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
