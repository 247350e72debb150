"""Read, edit and export agent files, by paths to their fields: comments stay, paths are rebased."""

import copy
import difflib
import hashlib
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias, cast

from pydantic import BaseModel

from burnish.core.cases import Case
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, FileTrouble, Problem
from burnish.core.surfaces import Demonstration, Position, SurfaceType, Value, position_id
from burnish.datasets.agent_cases import CaseFile, cases_in
from burnish.datasets.formats import read_cases
from burnish.models.factory import model_keys
from burnish.models.references import ModelRef
from burnish.system import YamlTree, read_bytes, read_text, read_tree, validate_config
from burnish.system.variables import variables_in
from burnish.system.yaml import parse_tree
from burnish.targets.agent.blocks import (
    DEMONSTRATIONS,
    WEIGHTS,
    AddedValue,
    AgentBlock,
    FunctionTool,
    HierarchicalTool,
    McpTool,
    PromptTool,
    added_values,
    demonstrations_of,
    expanded,
    tool_secrets,
    unknown_tools,
    with_added,
    written,
)

_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Instructions:
    """The text for the model, and the frontmatter of its file."""

    text: str
    front: str = ""
    """As written, dashes included."""
    version: str = ""
    name: str = ""

    def with_text(self, text: str) -> str:
        """The whole file with another text."""
        return f"{self.front}{text}"


def read_instructions(path: Path) -> Instructions:
    """Read instructions from a file."""
    return parse_instructions(read_text(path).removeprefix("\ufeff"), source=path.name)


def parse_instructions(whole: str, *, source: str) -> Instructions:
    """Split instructions from their frontmatter, if there is one."""
    match = _FRONT.match(whole)
    text = whole[match.end() :].lstrip("\n") if match else whole
    front = whole[: len(whole) - len(text)]
    facts = _frontmatter(match[1] if match else "", source)
    version = str(facts.get("version") or f"auto-{hashlib.sha256(text.encode()).hexdigest()[:8]}")
    name = str(facts.get("name") or "")
    return Instructions(text=text, front=front, version=version, name=name)


def _frontmatter(front: str, source: str) -> Mapping[str, Any]:
    try:
        facts = parse_tree(Path(source).with_suffix(".yaml"), front).data or {}
    except ConfigError as error:
        cause = error.problems[0]
        message = f"the frontmatter is not valid: {cause.message}"
        raise ConfigError.of(source, message, cause.remedy) from None
    if not isinstance(facts, Mapping):
        message = "the frontmatter has no keys; known keys: version, author, description, tags"
        raise ConfigError([Problem(where=source, message=message)])
    return facts


@dataclass(frozen=True, kw_only=True)
class LoadedAgent:
    """A valid agent file."""

    path: Path
    tree: YamlTree = field(repr=False)
    """As written, with `${VAR}` and comments."""
    block: AgentBlock
    """With variables expanded."""
    instructions: Instructions = field(repr=False)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict[str, Any], repr=False)
    """Functions passed in Python, by the name of their tool; files have none."""
    added: tuple[AddedValue, ...] = ()
    """What a config.yaml of HoloDeck adds to its models."""
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    """The columns of its cases file that are named: `input` and `expected`."""

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def data(self) -> dict[str, Json]:
        """The file as plain data, unexpanded."""
        assert isinstance(self.tree.data, dict)
        return self.tree.data

    @property
    def described(self) -> dict[str, Json]:
        """The same, with what a config.yaml adds."""
        return with_added(self.data, self.added)

    def secrets(self) -> list[str]:
        """What its tools are sent and nobody may store."""
        return [*tool_secrets(self.described.get("tools"), self.folder)]

    def reread(self, data: Mapping[str, Json]) -> AgentBlock:
        """Validate other data of this file."""
        return read_block(with_added(data, self.added), source=self.path.name)

    @property
    def own_model(self) -> ModelRef:
        """The default model for judges and editors: the agent's, with default settings."""
        ref = self.block.model.reference()
        return replace(ref, settings=replace(ref.settings, temperature=None, max_tokens=None))

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """The test cases of the file, or of the file it names."""
        return self.case_file.cases

    @cached_property
    def case_file(self) -> CaseFile:
        """The same, with the columns that were taken."""
        if self.block.test_cases is None and self.block.test_cases_file is None:
            return CaseFile(cases=())
        return cases_in(self.tree, partial(read_cases, **self.columns))

    @cached_property
    def contents(self) -> dict[str, str]:
        """Hashes of the files that decide what the agent does, by path."""
        return {name: hashlib.sha256(read_bytes(path)).hexdigest() for name, path in self._files()}

    def _files(self) -> Iterator[tuple[str, Path]]:
        block = self.block
        tools = [tool for tool in block.tools if isinstance(tool, FunctionTool | PromptTool)]
        named = [tool.file for tool in tools if tool.name not in self.functions]
        named = [block.instructions.file, *named]
        if isinstance(block.response_format, str):
            named.append(block.response_format)
        yield from ((name, self.folder / name) for name in named if name is not None)


def load_agent(path: Path, *, with_cases: bool = True) -> LoadedAgent:
    """Read an agent file, and report all its problems at once.

    Symlinks are resolved first, because relative paths start at the real file. Its cases are not
    read if others replace them.
    """
    path = path.resolve() if path.is_symlink() else path
    tree = read_tree(path)
    data, added = tree.data, ()
    if isinstance(data, dict):
        added = added_values(data, path.parent)
        data = with_added(data, added)
    block = read_block(data, source=path.name, tree=tree)
    return sound_agent(path, tree, block, with_cases=with_cases, added=added)


def sound_agent(
    path: Path,
    tree: YamlTree,
    block: AgentBlock,
    *,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    with_cases: bool = True,
    added: tuple[AddedValue, ...] = (),
    columns: Mapping[str, str] | None = None,
) -> LoadedAgent:
    """Load the files that a block names; raises a ConfigError with all problems."""
    problems: list[Problem] = []
    instructions = Instructions(text=block.instructions.inline or "")
    if block.instructions.file is not None:
        try:
            instructions = read_instructions(path.parent / block.instructions.file)
        except BurnishError as error:
            problems.append(_problem(path, "instructions.file", error))
    agent = LoadedAgent(
        path=path,
        tree=tree,
        block=block,
        instructions=instructions,
        functions=functions or {},
        added=added,
        columns=columns or {},
    )
    try:
        _ = agent.contents
        response_schema(agent, agent.block)
    except BurnishError as error:
        problems.append(_problem(path, "a file it names", error))
    problems += [
        replace(problem, where=f"{path.name} {problem.where}")
        for problem in unknown_tools(block, demonstrations_of(block))
    ]
    problems += _unreadable_cases(agent) if with_cases else ()
    if problems:
        raise ConfigError(problems)
    return agent


def read_block(data: Json, *, source: str, tree: YamlTree | None = None) -> AgentBlock:
    """Validate data as an agent file, with variables expanded."""
    return validate_config(expanded(data, where=source), AgentBlock, source=source, tree=tree)


def response_schema(agent: LoadedAgent, block: AgentBlock) -> dict[str, Json] | None:
    """The JSON schema of answers, from the file or the file it names."""
    if isinstance(block.response_format, str):
        schema = read_tree(agent.folder / block.response_format).data
        if not isinstance(schema, dict):
            message = "response_format must be a JSON schema, which is a mapping"
            raise ConfigError([Problem(where=block.response_format, message=message)])
        return schema
    return block.response_format


def template_of(agent: LoadedAgent, tool: PromptTool) -> str:
    return tool.template if tool.template is not None else read_text(agent.folder / str(tool.file))


def _unreadable_cases(agent: LoadedAgent) -> Iterator[Problem]:
    where = f"{agent.path.name} test_cases_file"
    try:
        yield from _blanks(agent)
    except ConfigError as error:
        yield from (replace(each, where=each.where or where) for each in error.problems)
    except FileTrouble as error:
        yield _problem(agent.path, "test_cases_file", error)


def _blanks(agent: LoadedAgent) -> Iterator[Problem]:
    """Texts of cases that are there and empty: no answer could be right, or nothing is asked."""
    for case in agent.cases:
        for number, turn in enumerate(case.turns, start=1):
            where = f"{agent.path.name} case {case.id}"
            where += f" turn {number}" if len(case.turns) > 1 else ""
            if case.scenario is None and not turn.input.strip():
                yield Problem(where=where, message="input is empty", remedy="write what is asked")
            if turn.expected is not None and not turn.expected.strip():
                remedy = "remove it if no answer is expected"
                yield Problem(where=where, message="ground_truth is empty", remedy=remedy)


def _problem(path: Path, what: str, error: BurnishError) -> Problem:
    return Problem(where=f"{path.name} {what}", message=error.message, remedy=error.remedy)


@dataclass(frozen=True, kw_only=True)
class EditedAgent:
    """An agent file with other values in it."""

    block: AgentBlock
    instructions: str
    changes: Mapping[str, Json]
    """New values by path, without the instructions and demonstrations."""
    demonstrations: tuple[Demonstration, ...] | None = None
    """None if they are unchanged."""


def edit(agent: LoadedAgent, values: Mapping[str, Value]) -> EditedAgent:
    """Put values into a file; raises a ConfigError if it is no longer valid."""
    instructions = [str(value) for path, value in values.items() if is_instructions(path)]
    demos = cast("tuple[Demonstration, ...] | None", values.get(DEMONSTRATIONS))
    plain = {
        path: cast("Json", value)
        for path, value in values.items()
        if not is_instructions(path) and path != DEMONSTRATIONS
    }
    new = {path: v for path, v in plain.items() if value_at(agent.block, path) != v}
    if problems := list(_variables(new)):
        raise ConfigError(problems)
    changes = {**new, **_siblings(agent.block, new)}
    data = copy.deepcopy(agent.data)
    for path, value in changes.items():
        put_at(cast("dict[str, Any]", data), path, value)
    block = agent.reread(data) if changes else agent.block
    if problems := list(unknown_tools(block, demos or ())):
        raise ConfigError(problems)
    return EditedAgent(
        block=block,
        instructions=instructions[0] if instructions else agent.instructions.text,
        changes=changes,
        demonstrations=None if demos == demonstrations_of(agent.block) else demos,
    )


def _variables(new: Mapping[str, Json]) -> Iterator[Problem]:
    """Variables in new values: reading the file again would put a secret into a prompt."""
    for path, value in new.items():
        for name in variables_in(value) if isinstance(value, str) else ():
            message = f"it contains the variable ${{{name}}}, which only the file itself may use"
            yield Problem(where=path, message=message, remedy="write it without the braces")


def _siblings(block: AgentBlock, changes: Mapping[str, Json]) -> dict[str, Json]:
    """The other weights of a hybrid search, rescaled so that all add up to 1."""
    siblings: dict[str, Json] = {}
    for tool in block.tools:
        paths = {key: f"tools[name={tool.name}].{key}" for key in WEIGHTS}
        changed = {key: changes[path] for key, path in paths.items() if path in changes}
        if isinstance(tool, HierarchicalTool) and changed:
            before = {key: float(getattr(tool, key)) for key in WEIGHTS}
            chosen = {key: float(cast("float", value)) for key, value in changed.items()}
            weights = rescaled(before, chosen)
            siblings |= {paths[key]: weight for key, weight in weights.items()}
    return siblings


def rescaled(before: Mapping[str, float], chosen: Mapping[str, float]) -> dict[str, float]:
    """Scale weights to add up to 1: keep the chosen ones, and the proportions of the rest.

    If the chosen ones alone exceed 1, or all are chosen, they are scaled down together.
    """
    rest = {key: weight for key, weight in before.items() if key not in chosen}
    left = 1 - math.fsum(chosen.values())
    if left < 0 or not rest:
        whole = math.fsum(chosen.values()) or 1.0
        shares = {key: chosen.get(key, 0.0) / whole for key in before}
    else:
        old = math.fsum(rest.values())
        spread = {k: weight / old if old else 1 / len(rest) for k, weight in rest.items()}
        shares = {**chosen, **{key: left * share for key, share in spread.items()}}
    rounded = {key: round(shares[key], 6) for key in before}
    # What rounding lost goes to the largest that was not chosen, so that the sum is exact.
    takes = max(rest or before, key=lambda key: rounded[key])
    others = math.fsum(weight for key, weight in rounded.items() if key != takes)
    return {**rounded, takes: round(1 - others, 6)}


PROMPTS = "instructions"


def export_agent(
    agent: LoadedAgent, edited: EditedAgent, home: Path, *, prompt: str = ""
) -> dict[str, bytes]:
    """The agent file under its own name, and its instructions if they have a file.

    `prompt` is the path of new instructions from `home`; a separate folder by default.
    """
    tree = copied(agent.tree)
    root = cast("MutableMapping[str, Any]", tree.root if tree.root is not None else tree.data)
    files = write_values(root, agent, edited, way=way_back(home, agent.folder), prompt=prompt)
    return {agent.path.name: tree.dump().encode(), **files}


def write_values(
    root: MutableMapping[str, Any],
    agent: LoadedAgent,
    edited: EditedAgent,
    *,
    way: str,
    prompt: str = "",
) -> dict[str, bytes]:
    """Put new values into the tree of an agent and rebase its paths; return the files beside it."""
    for path, value in edited.changes.items():
        put_at(root, path, value)
    if edited.demonstrations is not None:
        root["demonstrations"] = [written(demo) for demo in edited.demonstrations]
    for holder, key in _paths(root) if way != "." else ():
        holder[key] = rebased(holder[key], way)
    if edited.instructions == agent.instructions.text:
        return {}
    # New instructions go where the old ones are: into the file, or beside it.
    named = agent.block.instructions.file
    if named is None:
        root["instructions"]["inline"] = edited.instructions
        return {}
    path = prompt or f"{PROMPTS}/{Path(named).name}"
    root["instructions"]["file"] = path
    return {path: agent.instructions.with_text(edited.instructions).encode()}


def copied(tree: YamlTree) -> YamlTree:
    root, data = copy.deepcopy(tree.root), copy.deepcopy(tree.data)
    return replace(tree, root=root, data=data)


def way_back(home: Path, folder: Path) -> str:
    """The relative path from an exported file back to the folder of its original."""
    return os.path.relpath(folder.resolve(), home.resolve())


def rebased(path: str, way: str) -> str:
    """A relative path as seen from the other end of `way`."""
    elsewhere = Path(path).is_absolute() or "://" in path or path.startswith("${")
    if way == "." or not path or elsewhere:
        return path
    return Path(way, path).as_posix()


def _paths(root: Mapping[str, Any]) -> Iterator[tuple[MutableMapping[str, Any], str]]:
    """The keys of a file that name other files."""
    yield from _named(root, "test_cases_file", "response_format")
    yield from _named(root.get("instructions"), "file")
    for tool in _items(root.get("tools")):
        yield from _named(tool, "source", "file", "env_file")
    optimizer = _mapping(root.get("evaluations")).get("optimizer")
    yield from _named(optimizer, "train_cases_file", "holdout_cases_file", "sealed_cases_file")
    for case in _items(root.get("test_cases")):
        for turn in (case, *_items(case.get("turns"))):
            for file in _items(turn.get("files")):
                yield from _named(file, "path")


def _named(holder: Any, *keys: str) -> Iterator[tuple[MutableMapping[str, Any], str]]:
    mapping = _mapping(holder)
    yield from ((mapping, key) for key in keys if isinstance(mapping.get(key), str))


def _mapping(value: Any) -> MutableMapping[str, Any]:
    return cast("MutableMapping[str, Any]", value) if isinstance(value, MutableMapping) else {}


def _items(value: Any) -> list[MutableMapping[str, Any]]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [_mapping(item) for item in items if isinstance(item, MutableMapping)]


def positions_of(agent: LoadedAgent, node: str, schemas: Mapping[str, Json]) -> Iterator[Position]:
    """Each position with its value; `surface` is its path in the agent file.

    `schemas` are those of the tools. Tools of a server are not in the file.
    """

    def position(
        kind: SurfaceType, value: Value, path: str, part: str = "", about: Json = None
    ) -> Position:
        name = position_id(node, kind, part)
        return Position(
            id=name, node=node, type=kind, value=value, surface=path, part=part, about=about
        )

    block = agent.block
    yield position(SurfaceType.INSTRUCTION, agent.instructions.text, INSTRUCTIONS[0])
    yield position(SurfaceType.FEW_SHOT, demonstrations_of(block), DEMONSTRATIONS)
    for tool in block.tools:
        if not isinstance(tool, McpTool):
            path = f"tools[name={tool.name}].description"
            about: Json = {"type": tool.type, "parameters": schemas.get(tool.name)}
            yield position(SurfaceType.TOOL, tool.description, path, tool.name, about)
    model = block.model
    provider: Json = {"provider": model.provider}
    yield position(SurfaceType.MODEL, model.name, "model.name", about=provider)
    for key in ("temperature", "top_p", "max_tokens"):
        value: float | None = getattr(model, key)
        if value is not None:
            yield position(SurfaceType.MODEL, value, f"model.{key}", key)


# -- Paths to fields -------------------------------------------------------------------------------

INSTRUCTIONS = ("instructions", "instructions.inline", "instructions.file")
"""All three mean the text of the instructions, inline or in a file."""
_STEP = re.compile(r"\.?([A-Za-z_]\w*)|\[(\d+)\]|\[([A-Za-z_]\w*)=([^\]]+)\]")


@dataclass(frozen=True)
class Named:
    """The item of a list that has this value under this key."""

    key: str
    value: str


_Step: TypeAlias = str | int | Named


def parse_path(path: str) -> tuple[_Step, ...]:
    """Parse a path into its steps."""
    steps: list[_Step] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None or (not steps and path[at] in ".["):
            raise _wrong(path, "not a path; write it like tools[name=archive].top_k")
        name, index, key, value = match.groups()
        steps.append(name or (int(index) if index else Named(key, value.strip("'\""))))
        at = match.end()
    if not steps:
        raise _wrong(path, "the path is empty")
    return tuple(steps)


def is_instructions(path: str) -> bool:
    """Whether the path means the text of the instructions."""
    return path in INSTRUCTIONS


def value_at(block: BaseModel, path: str) -> Any:
    """The value in a validated file, or its default."""
    node: Any = block
    for step in parse_path(path):
        node = _below(node, step, path)
    return node


def put_at(root: MutableMapping[str, Any], path: str, value: Any) -> None:
    """Set a value in the file's tree; missing blocks are created."""
    node: Any = root
    *way, last = parse_path(path)
    for step in way:
        node = _into(node, step, path)
    if isinstance(last, Named):
        raise _wrong(path, "the path must end in a field")
    node[last] = value


def _into(node: Any, step: _Step, path: str) -> Any:
    if isinstance(step, Named):
        return _item(node, step, path)
    if isinstance(step, str) and isinstance(node, MutableMapping):
        mapping = cast("MutableMapping[str, Any]", node)
        if step == "model" and isinstance(short := mapping.get(step), str):
            mapping[step] = model_keys(short)  # `provider:name` has no room for settings
        return mapping.setdefault(step, {})
    return node[step]


def _below(node: Any, step: _Step, path: str) -> Any:
    if isinstance(step, Named):
        return _item(node, step, path)
    if isinstance(step, int):
        items = cast("Sequence[Any]", node if isinstance(node, list) else [])
        if step >= len(items):
            raise _wrong(path, f"there is no item {step}")
        return items[step]
    if isinstance(node, BaseModel) and step in type(node).model_fields:
        return getattr(node, step)
    if isinstance(node, Mapping) and step in node:
        return cast("Mapping[str, Any]", node)[step]
    raise _wrong(path, f"there is no '{step}'", _near(step, node))


def _item(node: Any, step: Named, path: str) -> Any:
    items = cast("list[Any]", node) if isinstance(node, list) else []
    names = [
        cast("Mapping[str, Any]", item).get(step.key)
        if isinstance(item, Mapping)
        else getattr(item, step.key, None)
        for item in items
    ]
    if step.value not in names:
        listing = ", ".join(str(name) for name in names) or "none"
        raise _wrong(path, f"nothing has {step.key} '{step.value}'", f"there are: {listing}")
    return items[names.index(step.value)]


def _near(step: str, node: Any) -> str:
    if isinstance(node, BaseModel):
        names = list(type(node).model_fields)
    else:
        names = list(cast("Mapping[str, Any]", node)) if isinstance(node, Mapping) else []
    near = difflib.get_close_matches(step, names, n=1)
    if near:
        return f"did you mean '{near[0]}'?"
    return f"there are: {', '.join(names)}" if names else ""


def _wrong(path: str, message: str, remedy: str = "") -> ConfigError:
    return ConfigError([Problem(where=path, message=message, remedy=remedy)])
