"""Every door honours every setting that it lists, and refuses those that it may not set.

Made from the fields themselves: a field that is added is tested without another line.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from burnish.core.errors import ConfigError
from burnish.projects.clients import AllowedNames, ClientRequest
from burnish.projects.description import Doors, describe, from_stored
from burnish.projects.dialects import Document, dialect_named, dialect_of
from burnish.runs.build import RunDescription, kept_spec
from burnish.runs.plugins import fitting, strategy_names, strategy_plugin, target_plugin
from burnish.server.runs import Datasets
from burnish.server.shapes import RunSettings
from burnish.system import validate_config
from burnish.system.settings import Access, SettingField, plain_type

FILES: Mapping[str, tuple[str, str]] = {
    "agent": (
        "agent.yaml",
        """
name: echo
model: {provider: openai, name: m}
instructions: {inline: Answer.}
evaluations:
  metrics: [{type: standard, metric: equality}]
  optimizer:
    loss: {equality: 1.0}
    axes: {textual: [{path: instructions}]}
""",
    ),
    "prompts": ("project.yaml", "kind: prompts\ntarget: {python: a:b}\nprompts: {p: p.md}\n"),
    "graph": (
        "graph.yaml",
        "kind: graph\nname: g\nentry: one\nnodes: {one: {agent: agent.yaml}}\n",
    ),
    "task": (
        "task.yaml",
        "artifacts: {include: [a.md]}\nrunner: {command: run}\nscorer: {command: score}\n",
    ),
    "suite": ("suite.yaml", "name: s\ntasks: [{name: t, task: do it}]\n"),
    "workflow": ("workflow.yaml", "workflow: {name: w}\n"),
}
SEARCHES = ("auto", "backprop", "coordinate", "edits", "epochs", "frugal", "reflective")
TASKS = ("delegate", "refine")
"""Strategies that do one task with a workflow."""
PAIRS = [
    (kind, strategy)
    for kind in FILES
    for target in [target_plugin(dialect_named(kind).target)]
    for strategy in fitting(target.surfaces, target.abilities)
]
NUMBERS: tuple[object, ...] = (int, float, bool)


def document(folder: Path, kind: str) -> Document:
    name, text = FILES[kind]
    (folder / name).write_text(text, encoding="utf-8")
    return Document.read(folder / name)


def doors(kind: str, strategy: str, folder: Path) -> Doors:
    target = dialect_of(document(folder, kind)).target
    return Doors.of(target, strategy)


def sample(field: SettingField) -> Any:
    """A value that is not the default, as a flag would say it."""
    kind = plain_type(field.info.annotation)
    if field.path[0] == "roles":
        return "openai:other"
    if field.path[0] == "data":
        return "/cases/some.jsonl"
    if field.name == "agent":
        return "module:function"
    if get_origin(kind) is dict:
        return {"key": "/a/file"}
    if get_origin(kind) is tuple:
        words = get_args(plain_type(get_args(kind)[0]))  # of a Literal
        return [words[-1] if words and isinstance(words[-1], str) else "nightly"]
    plain: dict[object, Any] = {bool: True, int: 7, float: 0.25, str: "text"}
    if get_origin(kind) is not None and str(get_origin(kind)) == "typing.Literal":
        return get_args(kind)[-1]
    return plain.get(kind, "openai:other")


def value_at(description: RunDescription, field: SettingField) -> Any:
    value: Any = description.spec
    for step in field.path:
        inside: Any = value
        value = inside[step] if step not in dir(inside) else getattr(inside, step)
    return value


def is_there(value: Any, field: SettingField, said: Any) -> bool:
    """Whether what was said is what the description holds, in whichever shape."""
    if field.switches_off:
        return value is False
    if isinstance(value, (BaseModel, dict, tuple)):
        words = json.dumps(value, default=lambda each: each.model_dump(mode="json"))
        many = said.values() if isinstance(said, dict) else said  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        wanted: list[Any] = [many] if isinstance(many, str) else [*many]  # pyright: ignore[reportUnknownArgumentType]
        return all(str(each).rpartition(":")[2] in words for each in wanted)
    return bool(value == said)


@pytest.mark.parametrize(("kind", "strategy"), PAIRS)
def test_flag_variable_and_kept_description(kind: str, strategy: str, tmp_path: Path) -> None:
    file = document(tmp_path, kind)
    fields = doors(kind, strategy, tmp_path).named()
    for name, field in fields.items():
        if name == "strategy":
            continue
        said = sample(field)
        flagged = describe(file, {"strategy": strategy, name: said}, environ={})
        assert is_there(value_at(flagged, field), field, said), field.flag
        again = from_stored(kept_spec(flagged), {})
        assert value_at(again, field) == value_at(flagged, field), f"{field.flag} in run.json"
        if field.door.environment and not isinstance(said, dict) and not field.switches_off:
            environ = {field.variable: str(said)}
            told = describe(file, {"strategy": strategy}, environ=environ)
            assert is_there(value_at(told, field), field, said), field.variable


@pytest.mark.parametrize(("kind", "strategy"), PAIRS)
def test_http_sets_what_is_open_and_nothing_else(kind: str, strategy: str, tmp_path: Path) -> None:
    file = document(tmp_path, kind)
    datasets = Datasets(folder=tmp_path / "datasets")
    datasets.folder.mkdir()
    (datasets.folder / "some.jsonl").write_text('{"id": "a", "input": "x", "expected": "y"}\n')
    for name, field in doors(kind, strategy, tmp_path).named().items():
        said = "some.jsonl" if field.path[0] == "data" else sample(field)
        said = 1 if field.door.http is Access.CEILING else said  # more than the file's is cut
        setting = field.http_name or name
        other = RunSettings.fields.get(setting, field)
        if name == "strategy" or other.path != field.path:
            continue  # a limit of searches may have the same name
        if setting not in RunSettings.fields:  # or only in a request of another route
            with pytest.raises(ConfigError, match="unknown key"):
                validate_config({setting: said}, RunSettings, source="settings")
            continue
        settings = validate_config({setting: said}, RunSettings, source="settings")
        changes = ClientRequest(
            values=settings.values,
            allowance=AllowedNames(names=frozenset({str(said)})),
            dataset=datasets.path,
        )
        described = describe(file, {"strategy": strategy}, environ={}, request=changes)
        value = value_at(described, field)
        there = value is said if field.switches_off else is_there(value, field, said)
        assert there, setting


RULES = (
    "expected",
    "go together",
    "goes with",
    "exactly one of",
    "required",
    "must rise",
    "must both be set",
    "can only be set with",
)
"""What is said where one value alone makes no sense, or is out of its bounds."""


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [
        ("agent", "coordinate"),
        ("prompts", "reflective"),
        ("graph", "backprop"),
        ("task", "edits"),
        ("suite", "epochs"),
        ("workflow", "delegate"),
    ],
)
def test_set_reaches_numbers_and_switches_by_their_path(
    kind: str, strategy: str, tmp_path: Path
) -> None:
    file, reached = document(tmp_path, kind), 0
    for field in doors(kind, strategy, tmp_path).fields():
        if plain_type(field.info.annotation) not in NUMBERS or not field.door.file:
            continue
        said = not field.info.default if field.is_switch else sample(field)
        path = ".".join(field.path)
        flags: dict[str, Any] = {"strategy": strategy, "set": [f"{path}={json.dumps(said)}"]}
        try:
            described = describe(file, flags, environ={})
        except ConfigError as error:
            told = str(error)
        else:
            reached, told = reached + 1, ""
            assert value_at(described, field) == said, path
        assert not told or any(rule in told for rule in RULES), path
    assert reached > 10


def test_every_strategy_is_looked_at() -> None:
    searches = {name for name in strategy_names() if strategy_plugin(name).proposes}
    assert {*SEARCHES, *TASKS} == searches


@pytest.mark.parametrize("strategy", TASKS)
def test_a_strategy_for_one_task_goes_with_a_workflow_alone(strategy: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"'{strategy}' needs a task to do"):
        describe(document(tmp_path, "prompts"), {"strategy": strategy}, environ={})
    own = {name for name, field in doors("workflow", strategy, tmp_path).named().items()
           if field.path[0] not in ("target", "strategy")}  # fmt: skip
    assert not own, "limits of searches have no meaning here"
