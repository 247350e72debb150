"""Reading an agent file: the file, its instructions, its cases, and what has no effect."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from burnish.core.cases import Case
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, FileTrouble, Problem
from burnish.evaluation.datasets.agent_case_files import cases_in
from burnish.evaluation.datasets.formats import read_cases
from burnish.models.references import ModelRef
from burnish.system import YamlTree, read_bytes, read_text, read_tree, validate_config
from burnish.targets.agent.blocks import AgentBlock
from burnish.targets.agent.demonstrating import demonstrations_of, unknown_tools
from burnish.targets.agent.instructions import Instructions, read_instructions
from burnish.targets.agent.tool_blocks import FunctionTool, PromptTool
from burnish.targets.agent.variables import expanded


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
        found = read_tree(agent.folder / block.response_format).data
        if not isinstance(found, dict):
            message = "a response_format is a JSON schema: a mapping"
            raise ConfigError([Problem(where=block.response_format, message=message)])
        return found
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
