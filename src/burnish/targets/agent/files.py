"""Agent files read, edited and exported: comments kept, paths rebased."""

import copy
import hashlib
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from burnish.core.cases import Case
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, FileTrouble, Problem
from burnish.core.structures import Position, SurfaceType, position_id
from burnish.core.surfaces import Demonstration, Value
from burnish.datasets.agent_cases import cases_in
from burnish.datasets.formats import read_cases
from burnish.models.references import ModelRef
from burnish.system import YamlTree, read_bytes, read_text, read_tree, validate_config
from burnish.system.config import variables_in
from burnish.targets.agent.blocks import (
    WEIGHTS,
    AgentBlock,
    FunctionTool,
    HierarchicalTool,
    McpTool,
    PromptTool,
    expanded,
)
from burnish.targets.agent.paths import (
    DEMONSTRATIONS,
    INSTRUCTIONS,
    demonstrations_of,
    is_instructions,
    put_at,
    unknown_tools,
    value_at,
    written,
)

_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KNOWN = ("version", "author", "description", "tags")


@dataclass(frozen=True, kw_only=True)
class Instructions:
    """The text that the model is sent, and what stands before it in its file."""

    text: str
    front: str = ""
    """The frontmatter as it stands, dashes included; kept when the file is written again."""
    version: str = ""
    name: str = ""
    """What the frontmatter calls it."""

    def with_text(self, text: str) -> str:
        """The whole file with another text."""
        return f"{self.front}{text}"


def read_instructions(path: Path) -> Instructions:
    """The instructions of a file."""
    return parse_instructions(read_text(path).removeprefix("\ufeff"), source=path.name)


def parse_instructions(whole: str, *, source: str) -> Instructions:
    """Take the frontmatter off, if there is one."""
    match = _FRONT.match(whole)
    text = whole[match.end() :].lstrip("\n") if match else whole
    front = whole[: len(whole) - len(text)]
    facts = _facts(match[1] if match else "", source)
    version = str(facts.get("version") or f"auto-{hashlib.sha256(text.encode()).hexdigest()[:8]}")
    name = str(facts.get("name") or "")
    return Instructions(text=text, front=front, version=version, name=name)


def _facts(front: str, source: str) -> Mapping[str, Any]:
    reader: Any = YAML(typ="safe", pure=True)
    try:
        facts: object = reader.load(front) or {}
    except YAMLError as error:
        cause = " ".join(str(error).split())
        raise ConfigError([Problem(where=source, message=f"its frontmatter: {cause}")]) from None
    if not isinstance(facts, Mapping):
        message = f"its frontmatter has no keys; known: {', '.join(_KNOWN)}"
        raise ConfigError([Problem(where=source, message=message)])
    return cast("Mapping[str, Any]", facts)


# -- Reading an agent file ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LoadedAgent:
    """An agent file that was read and found sound."""

    path: Path
    tree: YamlTree = field(repr=False)
    """As it stands, `${VAR}` and comments included."""
    block: AgentBlock
    """As it counts, with variables expanded."""
    instructions: Instructions = field(repr=False)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict[str, Any], repr=False)
    """Functions that were given as they are, by the tool that calls each; files have none."""

    @property
    def folder(self) -> Path:
        """What relative paths are relative to."""
        return self.path.parent

    @property
    def data(self) -> dict[str, Json]:
        """The file as plain data, unexpanded."""
        assert isinstance(self.tree.data, dict)
        return self.tree.data

    @property
    def notes(self) -> list[str]:
        """What the file says that has no effect here."""
        return self.block.ignored()

    @property
    def own_model(self) -> ModelRef:
        """Who judges and writes where nobody is named: its model, at its most even-tempered."""
        ref = self.block.model.reference()
        return replace(ref, settings=replace(ref.settings, temperature=None, max_tokens=None))

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """The test cases of the file, or of the file it names."""
        if self.block.test_cases is None and self.block.test_cases_file is None:
            return ()
        return cases_in(self.tree, read_cases).cases

    @cached_property
    def contents(self) -> dict[str, str]:
        """Hashes of the files that decide what the agent does, by the path that names them."""
        return {name: hashlib.sha256(read_bytes(path)).hexdigest() for name, path in self._files()}

    def _files(self) -> Iterator[tuple[str, Path]]:
        block = self.block
        tools = [tool for tool in block.tools if tool.name not in self.functions]
        named = [block.instructions.file, *(_file_of(tool) for tool in tools)]
        if isinstance(block.response_format, str):
            named.append(block.response_format)
        for name in named:
            if name is not None:
                yield name, self.folder / name


def load_agent(path: Path, *, with_cases: bool = True) -> LoadedAgent:
    """Read an agent file; everything that is wrong is said at once.

    A link is followed first: what a file names is found from where the file lies. Its cases are
    not looked at where others take their place.
    """
    path = path.resolve() if path.is_symlink() else path
    tree = read_tree(path)
    block = read_block(tree.data, source=path.name, tree=tree)
    return sound_agent(path, tree, block, with_cases=with_cases)


def sound_agent(
    path: Path,
    tree: YamlTree,
    block: AgentBlock,
    *,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    with_cases: bool = True,
) -> LoadedAgent:
    """The agent of a block with what it names, or a ConfigError with all that is wrong there."""
    problems: list[Problem] = []
    instructions = Instructions(text=block.instructions.inline or "")
    if block.instructions.file is not None:
        try:
            instructions = read_instructions(path.parent / block.instructions.file)
        except BurnishError as error:
            problems.append(_problem(path, "instructions.file", error))
    agent = LoadedAgent(
        path=path, tree=tree, block=block, instructions=instructions, functions=functions or {}
    )
    problems += _unreadable(agent)
    problems += [
        replace(problem, where=f"{path.name} {problem.where}")
        for problem in unknown_tools(block, demonstrations_of(block))
    ]
    problems += _unreadable_cases(agent) if with_cases else ()
    if problems:
        raise ConfigError(problems)
    return agent


def read_block(data: Json, *, source: str, tree: YamlTree | None = None) -> AgentBlock:
    """The data as an agent file, with variables expanded."""
    return validate_config(expanded(data, where=source), AgentBlock, source=source, tree=tree)


def response_schema(agent: LoadedAgent, block: AgentBlock) -> dict[str, Json] | None:
    """The schema that answers keep, from the file or the file it names."""
    if isinstance(block.response_format, str):
        schema = read_tree(agent.folder / block.response_format).data
        if not isinstance(schema, dict):
            message = "a response_format is a JSON schema: a mapping"
            raise ConfigError([Problem(where=block.response_format, message=message)])
        return schema
    return block.response_format


def template_of(agent: LoadedAgent, tool: PromptTool) -> str:
    """The template of a prompt tool."""
    return tool.template if tool.template is not None else read_text(agent.folder / str(tool.file))


def _unreadable(agent: LoadedAgent) -> Iterator[Problem]:
    try:
        _ = agent.contents
        response_schema(agent, agent.block)
    except BurnishError as error:
        yield _problem(agent.path, "a file it names", error)


def _unreadable_cases(agent: LoadedAgent) -> Iterator[Problem]:
    where = f"{agent.path.name} test_cases_file"
    try:
        _ = agent.cases
    except ConfigError as error:
        yield from (replace(each, where=each.where or where) for each in error.problems)
    except FileTrouble as error:
        yield _problem(agent.path, "test_cases_file", error)


def _file_of(tool: object) -> str | None:
    return tool.file if isinstance(tool, FunctionTool | PromptTool) else None


def _problem(path: Path, what: str, error: BurnishError) -> Problem:
    return Problem(where=f"{path.name} {what}", message=error.message, remedy=error.remedy)


# -- Candidates of an agent file ------------------------------------------------------------------


_DIGITS = 6


@dataclass(frozen=True, kw_only=True)
class EditedAgent:
    """An agent file with other values in it."""

    block: AgentBlock
    instructions: str
    changes: Mapping[str, Json]
    """What was put where, siblings included; the instructions and demonstrations apart."""
    demonstrations: tuple[Demonstration, ...] | None = None
    """None where they are as the file has them."""


def edit(agent: LoadedAgent, values: Mapping[str, Value]) -> EditedAgent:
    """Put values into a file; what is then wrong with it is raised as a ConfigError."""
    instructions = [str(value) for path, value in values.items() if is_instructions(path)]
    demos = cast("tuple[Demonstration, ...] | None", values.get(DEMONSTRATIONS))
    plain = {
        path: cast("Json", value)
        for path, value in values.items()
        if not is_instructions(path) and path != DEMONSTRATIONS
    }
    new = {path: v for path, v in plain.items() if value_at(agent.block, path) != v}
    if brought := list(_variables(new)):
        raise ConfigError(brought)
    changes = {**new, **_siblings(agent.block, new)}
    data = copy.deepcopy(agent.data)
    for path, value in changes.items():
        put_at(cast("dict[str, Any]", data), path, value)
    block = read_block(data, source=agent.path.name) if changes else agent.block
    if strange := list(unknown_tools(block, demos or ())):
        raise ConfigError(strange)
    return EditedAgent(
        block=block,
        instructions=instructions[0] if instructions else agent.instructions.text,
        changes=changes,
        demonstrations=None if demos == demonstrations_of(agent.block) else demos,
    )


def _variables(new: Mapping[str, Json]) -> Iterator[Problem]:
    """A value with a variable in it: re-reading the file would put a secret into a prompt."""
    for path, value in new.items():
        for name in variables_in(value) if isinstance(value, str) else ():
            message = f"it brings in the variable ${{{name}}}, which only the file itself may name"
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
    """Weights that add up to 1: the chosen ones as they are, the rest in their old proportions.

    Where the chosen ones alone are above 1, or all are chosen, they are scaled down together.
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
    rounded = {key: round(shares[key], _DIGITS) for key in before}
    # What rounding lost goes to the largest that was not chosen, so that the sum is exact.
    takes = max(rest or before, key=lambda key: rounded[key])
    others = math.fsum(weight for key, weight in rounded.items() if key != takes)
    return {**rounded, takes: round(1 - others, _DIGITS)}


# -- A candidate as files that load from where they lie -------------------------------------------


PROMPTS = "instructions"
_OPTIMIZER_FILES = ("train_cases_file", "holdout_cases_file", "sealed_cases_file")


def export_agent(
    agent: LoadedAgent, edited: EditedAgent, home: Path, *, prompt: str = ""
) -> dict[str, bytes]:
    """The agent file under its own name, and its instructions where they have a file.

    `prompt` is where new instructions lie, from `home`; a folder of their own by default.
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
    """Put new values into the tree of an agent, and lead its paths `way`; what goes beside it."""
    for path, value in edited.changes.items():
        put_at(root, path, value)
    if edited.demonstrations is not None:
        root["demonstrations"] = [written(demo) for demo in edited.demonstrations]
    _rebase(root, way)
    if edited.instructions == agent.instructions.text:
        return {}
    return _instructions(agent, edited, root, prompt)


def _instructions(
    agent: LoadedAgent, edited: EditedAgent, root: MutableMapping[str, Any], prompt: str
) -> dict[str, bytes]:
    """New instructions go where the old ones are: into the file, or beside it."""
    named = agent.block.instructions.file
    if named is None:
        root["instructions"]["inline"] = edited.instructions
        return {}
    path = prompt or f"{PROMPTS}/{Path(named).name}"
    root["instructions"]["file"] = path
    return {path: agent.instructions.with_text(edited.instructions).encode()}


def copied(tree: YamlTree) -> YamlTree:
    """A tree of its own to write into."""
    root, data = copy.deepcopy(tree.root), copy.deepcopy(tree.data)
    return replace(tree, root=root, data=data)


def way_back(home: Path, folder: Path) -> str:
    """The way from an exported file back to the folder of the one it came from."""
    return os.path.relpath(folder.resolve(), home.resolve())


def _rebase(root: MutableMapping[str, Any], way: str) -> None:
    """Make every relative path of the file lead to the same place from elsewhere."""
    if way == ".":
        return
    for holder, key in _paths(root):
        named = holder[key]
        if isinstance(named, str):
            holder[key] = rebased(named, way)


def rebased(path: str, way: str) -> str:
    """A relative path as it is spelled from elsewhere."""
    if way == "." or not path or _is_elsewhere(path):
        return path
    return Path(way, path).as_posix()


def _paths(root: Mapping[str, Any]) -> Iterator[tuple[MutableMapping[str, Any], str]]:
    """The places of a file that name other files."""
    yield from _named(root, "test_cases_file", "response_format")
    yield from _named(root.get("instructions"), "file")
    for tool in _items(root.get("tools")):
        yield from _named(tool, "source", "file", "env_file")
    yield from _named(_mapping(root.get("evaluations")).get("optimizer"), *_OPTIMIZER_FILES)
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


def _is_elsewhere(path: str) -> bool:
    return Path(path).is_absolute() or "://" in path or path.startswith("${")


# -- The positions of an agent --------------------------------------------------------------------


_SETTINGS = ("temperature", "top_p", "max_tokens")
"""The numbers of a model."""


def positions_of(agent: LoadedAgent, node: str, schemas: Mapping[str, Json]) -> Iterator[Position]:
    """Each position with its value; `surface` is the path in the agent file that holds it.

    `schemas` are those of the tools. What a server's tools say of themselves is not in the file.
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
    for key in _SETTINGS:
        value: float | None = getattr(model, key)
        if value is not None:
            yield position(SurfaceType.MODEL, value, f"model.{key}", key)
