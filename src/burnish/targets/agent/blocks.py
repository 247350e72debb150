"""The agent file: every key it may have, its tools, demonstrations, and HoloDeck's config.yaml.

config.yaml has what agents have in common, such as the address of a provider. It is read next to
the agent file and in `~/.holodeck`; the agent file has precedence over the first, and that over the
second. `providers` is used, and of `execution` what has an effect here.
"""

import copy
import difflib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from burnish.core.content import (
    AboveZero,
    AtLeastOne,
    Json,
    NoneOrMore,
    NotBlank,
    NotNegative,
    Places,
    Share,
    codec,
)
from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import DemonstratedCall, Demonstration
from burnish.metrics.files import EvaluationsBlock
from burnish.models.dotenv import read_dotenv
from burnish.models.factory import ModelBlock, spelled_out
from burnish.models.providers import find_provider
from burnish.system import expand_variables, read_tree
from burnish.system.variables import expanded_secrets, secrets_in
from burnish.system.yaml import TreePath, YamlTree, parse_tree

_FILES = ("config.yml", "config.yaml")
_MODELS: tuple[TreePath, ...] = (("model",), ("evaluations", "model"), ("embedding_provider",))
_ADDRESS = ("base_url", "endpoint")
_EXECUTION = ("llm_timeout", "parallel_test_cases")

_TopK: TypeAlias = Annotated[int, Field(ge=1, le=100)]
DEMONSTRATIONS = "demonstrations"
WEIGHTS = ("semantic_weight", "keyword_weight", "exact_weight")
"""The weights of a hybrid search; together they are 1."""


class ToolBlock(BaseModel):
    """What every tool has."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    without_effect: ClassVar[tuple[str, ...]] = ()
    """Keys that are read, and that burnish does nothing with."""

    name: Annotated[str, Field(pattern=r"^[0-9A-Za-z_]+$")]
    description: NotBlank
    defer_loading: bool = True

    def ignored(self) -> list[str]:
        """The keys that this file sets to no effect."""
        set_keys = [key for key in self.without_effect if key in self.model_fields_set]
        return [key for key in set_keys if getattr(self, key) not in (None, False, [])]


class FunctionTool(ToolBlock):
    """A Python function."""

    type: Literal["function"]
    file: str
    function: str
    parameters: dict[str, dict[str, JsonValue]] | None = None
    """By name, a JSON schema each; taken from the type hints where it is left out."""


class VectorstoreTool(ToolBlock):
    """Passages that are near in meaning."""

    without_effect: ClassVar[tuple[str, ...]] = ("database", "record_prefix", "meta_prefix")

    type: Literal["vectorstore"]
    source: str
    embedding_model: str | ModelBlock | None = None
    """A name at the agent's provider of embeddings, `provider:name`, or a block that says more."""
    embedding_dimensions: AtLeastOne | None = None
    database: JsonValue = None
    top_k: _TopK = 5
    min_similarity_score: Share | None = None
    chunk_size: AtLeastOne | None = None
    chunk_overlap: NoneOrMore | None = None
    vector_field: str | list[str] | None = None
    id_field: str | None = None
    meta_fields: list[str] | None = None
    field_separator: str = "\n"
    delimiter: str | None = None
    record_path: str | None = None
    record_prefix: str | None = None
    meta_prefix: str | None = None

    @model_validator(mode="after")
    def _structured(self) -> "VectorstoreTool":
        if self.vector_field and not self.id_field:
            raise ValueError("vector_field needs an id_field")
        return self


class HierarchicalTool(ToolBlock):
    """Passages of structured documents, found by meaning and by words."""

    without_effect: ClassVar[tuple[str, ...]] = (
        "database",
        "keyword_index",
        "enable_reranking",
        "reranker_model",
        "contextual_embeddings",
        "context_model",
        "context_max_tokens",
        "context_concurrency",
        "extract_definitions",
        "extract_cross_references",
        "document_domain",
        "max_subsection_depth",
    )

    type: Literal["hierarchical_document"]
    source: str
    chunking_strategy: Literal["structure", "token"] = "structure"
    max_chunk_tokens: Annotated[int, Field(ge=100, le=2000)] = 800
    chunk_overlap: Annotated[int, Field(ge=0, le=200)] = 50
    document_domain: Literal[
        "none", "us_legislative", "au_legislative", "academic", "technical", "legal_contract"
    ] = "none"
    max_subsection_depth: int | None = None
    search_mode: Literal["semantic", "keyword", "hybrid"] = "hybrid"
    top_k: _TopK = 10
    min_score: Share | None = None
    semantic_weight: Share = 0.5
    keyword_weight: Share = 0.3
    exact_weight: Share = 0.2
    rrf_k: AtLeastOne = 60
    contextual_embeddings: bool = True
    context_max_tokens: int | None = None
    context_concurrency: int | None = None
    context_model: JsonValue = None
    extract_definitions: bool | None = None
    extract_cross_references: bool | None = None
    enable_reranking: bool = False
    reranker_model: JsonValue = None
    embedding_model: str | ModelBlock | None = None
    """A name at the agent's provider of embeddings, `provider:name`, or a block that says more."""
    database: JsonValue = None
    keyword_index: JsonValue = None

    @model_validator(mode="after")
    def _weighed(self) -> "HierarchicalTool":
        if self.search_mode != "hybrid":
            return self
        if abs(math.fsum(getattr(self, key) for key in WEIGHTS) - 1) > 1e-6:
            raise ValueError(f"in a hybrid search {', '.join(WEIGHTS)} must add up to 1")
        if self.semantic_weight + self.keyword_weight <= 0:
            raise ValueError("semantic_weight and keyword_weight must not both be 0")
        return self


class McpTool(ToolBlock):
    """A server of tools that speaks MCP."""

    without_effect: ClassVar[tuple[str, ...]] = (
        "config",
        "load_prompts",
        "registry_name",
        "terminate_on_close",
    )

    type: Literal["mcp"]
    transport: Literal["stdio", "http", "sse", "websocket"] = "stdio"
    command: str | None = None
    args: list[str] = Field(default_factory=list[str])
    env: dict[str, str] = Field(default_factory=dict[str, str])
    env_file: str | None = None
    url: str | None = None
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    timeout: AboveZero | None = None
    sse_read_timeout: AboveZero | None = None
    request_timeout: AboveZero = 60
    terminate_on_close: bool = True
    config: JsonValue = None
    load_tools: bool | list[str] = True
    load_prompts: bool = False
    is_retrieval: bool = False
    registry_name: str | None = None

    @model_validator(mode="after")
    def _reachable(self) -> "McpTool":
        if self.transport in ("sse", "websocket"):
            raise ValueError(
                f"the transport '{self.transport}' is not supported: use stdio or http"
            )
        if self.transport == "stdio" and not self.command:
            raise ValueError("stdio needs a command")
        if self.transport == "http" and not self.url:
            raise ValueError("http needs a url")
        return self


class PromptTool(ToolBlock):
    """A template that a model fills out."""

    type: Literal["prompt"]
    template: str | None = None
    file: str | None = None
    parameters: dict[str, dict[str, JsonValue]]
    model: Any = None

    @model_validator(mode="after")
    def _one_text(self) -> "PromptTool":
        if (self.template is None) == (self.file is None):
            raise ValueError("give either template or file")
        return self


AgentTool: TypeAlias = Annotated[
    FunctionTool | VectorstoreTool | HierarchicalTool | McpTool | PromptTool,
    Field(discriminator="type"),
]


class Block(BaseModel):
    """A block of an agent file: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class AgentModel(ModelBlock):
    """The model of an agent."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.3
    max_tokens: AtLeastOne | None = 1000


class InstructionsBlock(Block):
    """The system prompt: in a file of its own, or here."""

    file: NotBlank | None = None
    inline: NotBlank | None = None

    @model_validator(mode="before")
    @classmethod
    def _mapping(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError("write `inline:` before the text, or `file:` before a path")  # noqa: TRY004
        return value

    @model_validator(mode="after")
    def _one(self) -> "InstructionsBlock":
        if (self.file is None) == (self.inline is None):
            raise ValueError("give either file or inline")
        return self


class ExecutionBlock(Block):
    """How cases are run."""

    file_timeout: AboveZero | None = None
    llm_timeout: AboveZero = 60
    """Seconds for one answer of a model."""
    download_timeout: AboveZero | None = None
    cache_enabled: bool | None = None
    cache_dir: str | None = None
    verbose: bool | None = None
    quiet: bool | None = None
    parallel_test_cases: Places = 1
    """Cases at once; the turns of one case follow each other."""
    wait_minutes: NotNegative | None = None
    """Minutes to wait while nobody answers; 5 by default."""
    executor: str | None = None
    """Where cases are run: local, processes or dask."""
    address: str | None = None
    """The scheduler of a Dask cluster."""
    workers: Places | None = None
    """Worker processes to start on this machine."""
    upload: str | None = None
    """A folder that workers get a copy of."""
    send_keys: tuple[str, ...] = ()
    """Environment variables that workers get from here."""


class CallBlock(Block):
    """A use of a tool in a worked example."""

    tool: Annotated[str, Field(min_length=1)]
    arguments: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    result: str = ""
    """What came back."""


class DemonstrationBlock(Block):
    """A worked example that the agent is shown before the conversation."""

    input: str
    output: str
    case: str = ""
    calls: list[CallBlock] = Field(default_factory=list[CallBlock])
    """The tools that are used between input and output, in order."""


class AgentBlock(Block):
    """An agent file."""

    without_effect: ClassVar[tuple[str, ...]] = ("observability", "deployment", "claude", "openai")

    name: NotBlank
    description: str | None = None
    author: str | None = None
    model: AgentModel
    instructions: InstructionsBlock
    demonstrations: list[DemonstrationBlock] = Field(default_factory=list[DemonstrationBlock])
    response_format: dict[str, JsonValue] | str | None = None
    """A JSON schema, or a file that holds one: the agent then answers with such an object."""
    tools: Annotated[list[AgentTool], Field(max_length=50)] = Field(default_factory=list[AgentTool])
    evaluations: EvaluationsBlock | None = None
    test_cases: JsonValue = None
    test_cases_file: str | None = None
    execution: ExecutionBlock = Field(default_factory=ExecutionBlock)
    embedding_provider: ModelBlock | None = None
    user_simulator: ModelBlock | None = None
    """Who plays the user in conversation scenarios."""
    observability: JsonValue = None
    deployment: JsonValue = None
    claude: JsonValue = None
    openai: JsonValue = None
    kind: Literal["agent"] | None = None
    """What the file is; its other keys tell as well."""

    @model_validator(mode="after")
    def _distinct(self) -> "AgentBlock":
        names = [tool.name for tool in self.tools]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two tools have the same name: {', '.join(twice)}")
        if self.test_cases is not None and self.test_cases_file is not None:
            raise ValueError("give either test_cases or test_cases_file")
        return self

    def ignored(self) -> list[str]:
        """What this file says that has no effect here, in words."""
        blocks = [key for key in self.without_effect if key in self.model_fields_set]
        notes = [f"the block {key} has no effect on an evaluation" for key in blocks]
        for tool in self.tools:
            keys = tool.ignored()
            notes += [f"tool {tool.name}: {', '.join(keys)} has no effect here"] if keys else []
            if isinstance(tool, PromptTool) and tool.model is not None:
                notes.append(f"tool {tool.name}: model has no effect here: it fills a template")
        used = ("file_timeout", "download_timeout", "cache_enabled", "cache_dir")
        keys = [key for key in used if getattr(self.execution, key) is not None]
        return notes + ([f"execution: {', '.join(keys)} has no effect here"] if keys else [])


_SECRET_KEYS = ("api_key", "env", "headers")
"""What stands under these keys is expanded by whoever sends it, and never kept."""
_KEPT_KEYS = ("base_url", "baseURL", "endpoint", "url", "args")
"""Also expanded when it is sent: only with its variables can it be told whose address it is."""
_IGNORED_KEYS = ("database", "keyword_index", "claude", "openai", "observability", "deployment")
"""What has no effect here need not be set here either."""
_WORD_FOR_WORD = ("demonstrations",)
"""What a tool or a user said may have a `${` of its own in it."""


def expanded(data: Json, *, environ: Mapping[str, str] | None = None, where: str = "") -> Json:
    """The data with every variable's value, secrets left as they are.

    A value that is nothing but `${VAR}` becomes what YAML would make of it: a number, a flag.
    """
    env = os.environ if environ is None else environ
    problems: list[Problem] = []
    result = _expanded(data, env, where, problems)
    if problems:
        raise ConfigError(problems)
    return result


def _expanded(data: Json, env: Mapping[str, str], where: str, problems: list[Problem]) -> Json:
    if isinstance(data, list):
        return [_expanded(v, env, f"{where}[{n}]", problems) for n, v in enumerate(data)]
    if isinstance(data, dict):
        result = dict(data)
        for key, value in data.items():
            if key not in _SECRET_KEYS + _IGNORED_KEYS + _WORD_FOR_WORD:
                full = _expanded(value, env, f"{where}.{key}" if where else key, problems)
                result[key] = value if key in _KEPT_KEYS else full
        return result
    if not isinstance(data, str) or "${" not in data:
        return data
    try:
        text = expand_variables(data, env)
    except ConfigError as error:
        problems += [replace(problem, where=where) for problem in error.problems]
        return data
    if not (data.startswith("${") and data.endswith("}") and data.count("$") == 1):
        return text
    try:
        value = parse_tree(Path("value.yaml"), text).data
    except ConfigError:
        return text
    return value if isinstance(value, bool | int | float) else text


def tool_secrets(tools: Json, folder: Path) -> Iterator[str]:
    """What variables, and the files of variables, bring into servers of tools as written."""
    for tool in tools if isinstance(tools, list) else ():
        if not isinstance(tool, dict) or tool.get("type") != "mcp":
            continue
        yield from expanded_secrets([tool.get(key) for key in ("url", "args", "headers", "env")])
        file = folder / str(tool.get("env_file") or "")
        if file.is_file():
            yield from (secret for v in read_dotenv(file).values() for secret in secrets_in(v))


@dataclass(frozen=True, kw_only=True)
class AddedValue:
    """A value that an agent file leaves to config.yaml."""

    at: TreePath
    """Its place in the agent file."""
    value: Json
    tree: YamlTree
    """The file that says it."""
    keys: TreePath
    """Its place there."""


def added_values(data: Mapping[str, Json], folder: Path) -> tuple[AddedValue, ...]:
    """What these files add to an agent file in a folder."""
    places = [folder, Path.home() / ".holodeck"]
    trees = [tree for place in places if (tree := _tree_in(place)) is not None]
    models = (value for at in _MODELS for value in _added(data, at, trees))
    return (*models, *_execution(data, trees)) if trees else ()


def with_added(data: Mapping[str, Json], added: tuple[AddedValue, ...]) -> dict[str, Json]:
    """The data of an agent file with these values."""
    if not added:
        return dict(data)
    whole = copy.deepcopy(dict(data))
    for each in added:
        block = cast("dict[str, Any]", whole)
        for step in each.at[:-1]:
            block[str(step)] = inner = dict(spelled_out(block.get(str(step)) or {}))
            block = inner
        block[str(each.at[-1])] = each.value
    return whole


def _tree_in(folder: Path) -> YamlTree | None:
    path = next((folder / name for name in _FILES if (folder / name).is_file()), None)
    return None if path is None else read_tree(path)


def _added(data: Mapping[str, Json], at: TreePath, trees: list[YamlTree]) -> Iterator[AddedValue]:
    block: Json = cast("Json", data)
    for step in at:
        block = block.get(str(step)) if isinstance(block, dict) else None
    try:
        model = cast("Json", spelled_out(block))
    except ValueError:
        return  # The agent file says what is wrong with it.
    if not isinstance(model, dict):
        return
    present = {*model, *(_ADDRESS if any(name in model for name in _ADDRESS) else ())}
    for tree in trees:
        key, entry = _entry(tree, str(model.get("provider", "")))
        for name, value in entry.items():
            if name not in present and value is not None:
                present |= {name, *(_ADDRESS if name in _ADDRESS else ())}
                keys = ("providers", key, name)
                yield AddedValue(at=(*at, name), value=value, tree=tree, keys=keys)


def _execution(data: Mapping[str, Json], trees: list[YamlTree]) -> Iterator[AddedValue]:
    own = data.get("execution") or {}
    present = set(own) if isinstance(own, dict) else set(_EXECUTION)
    for tree in trees:
        block = tree.data.get("execution") if isinstance(tree.data, dict) else None
        for name in _EXECUTION:
            value = block.get(name) if isinstance(block, dict) else None
            if name not in present and value is not None:
                present.add(name)
                at = ("execution", name)
                yield AddedValue(at=at, value=value, tree=tree, keys=at)


def _entry(tree: YamlTree, provider: str) -> tuple[str, Mapping[str, Json]]:
    """The provider of this name, or the first one of this kind."""
    providers = tree.data.get("providers") if isinstance(tree.data, dict) else None
    entries = providers if isinstance(providers, dict) else {}
    if isinstance(entry := entries.get(provider), dict):
        return provider, entry
    row = find_provider(provider)
    for key, each in entries.items():
        if isinstance(each, dict) and row and find_provider(str(each.get("provider"))) is row:
            return key, each
    return "", {}


# -- Demonstrations --------------------------------------------------------------------------------


def demonstrations_of(block: AgentBlock) -> tuple[Demonstration, ...]:
    """The demonstrations of a file."""
    return tuple(
        Demonstration(
            input=demo.input,
            output=demo.output,
            case=demo.case,
            calls=tuple(
                DemonstratedCall.of(call.tool, call.arguments, call.result) for call in demo.calls
            ),
        )
        for demo in block.demonstrations
    )


def written(demo: Demonstration) -> Json:
    """A demonstration as a file has it."""
    data = codec(Demonstration).encode(demo)
    assert isinstance(data, dict)
    return {key: value for key, value in data.items() if value or key != "case"}


def unknown_tools(block: AgentBlock, demos: Sequence[Demonstration]) -> Iterator[Problem]:
    """Calls of tools that the agent does not have."""
    if any(isinstance(tool, McpTool) and tool.load_tools is True for tool in block.tools):
        return  # What a server offers is known once it runs.
    offered = [name for tool in block.tools for name in _offered(tool)]
    for number, demo in enumerate(demos):
        for place, call in enumerate(demo.calls):
            if call.tool not in offered:
                where = f"{DEMONSTRATIONS}[{number}].calls[{place}].tool"
                message = f"the agent has no tool '{call.tool}'"
                there = f"there are: {', '.join(offered)}" if offered else "the agent has none"
                near = difflib.get_close_matches(call.tool, offered, n=1)
                remedy = f"remove the call, or add the tool; {there}"
                if near:
                    remedy = f"did you mean '{near[0]}'?"
                yield Problem(where=where, message=message, remedy=remedy)


def _offered(tool: AgentTool) -> Sequence[str]:
    """The names under which a model sees a tool."""
    match tool:
        case VectorstoreTool() | HierarchicalTool():
            return [f"{tool.name}_search"]
        case McpTool():
            return tool.load_tools if isinstance(tool.load_tools, list) else []
        case _:
            return [tool.name]
