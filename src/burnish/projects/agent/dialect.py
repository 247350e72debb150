"""Agent files: which keys set which field, which fields a search may change, where values are.

Only the lines that must change are changed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from pydantic import JsonValue
from ruamel.yaml.scalarstring import LiteralScalarString

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import Value
from burnish.models.factory import Models, spelled_out
from burnish.projects.adopt_files import carried_over
from burnish.projects.dialects import Dialect, Document, Translation, setting_keys, value_under
from burnish.runs.directory import Header
from burnish.runs.draft import Draft, FilePlace, Strength
from burnish.runs.homes import FileChange, Homes, measured_hashes
from burnish.runs.plugins import StrategyPlugin
from burnish.runs.spec import WORKER_FIELDS, BudgetSpec
from burnish.system import read_bytes
from burnish.system.config import MISSING
from burnish.system.restoration import digest
from burnish.system.settings import setting_fields
from burnish.system.yaml import TreePath, parse_tree
from burnish.targets.agent.blocks import (
    DEMONSTRATIONS,
    WEIGHTS,
    AgentBlock,
    FunctionTool,
    HierarchicalTool,
    McpTool,
    PromptTool,
    ToolBlock,
    VectorstoreTool,
    added_values,
    demonstrations_of,
    expanded,
)
from burnish.targets.agent.files import (
    INSTRUCTIONS,
    EditedAgent,
    Instructions,
    LoadedAgent,
    Named,
    edit,
    export_agent,
    is_instructions,
    load_agent,
    parse_instructions,
    parse_path,
    value_at,
)
from burnish.targets.agent.target import AgentTarget

_BLOCK = ("evaluations", "optimizer")
_BUDGET = (*_BLOCK, "budget")
_DOCUMENT = ("target", "document")
_AT_ONCE = ("execution", "parallel_test_cases")
_WHOLE = (*_BUDGET, "global")


class AgentFile(Dialect):
    """An agent file of HoloDeck or burnish."""

    kind: ClassVar[str] = "agent"
    target: ClassVar[str] = "agent"
    strategy: ClassVar[str] = "coordinate"
    strategy_at: ClassVar[TreePath] = (*_BLOCK, "strategy")
    confirms: ClassVar[bool] = False
    known_by: ClassVar[str] = "its model and instructions"
    keys: ClassVar[Mapping[str, str]] = {
        "loss": "objective.weights",
        "penalties": "objective.penalties",
        "constraints": "objective.constraints",
        "train_cases_file": "data.train",
        "holdout_cases_file": "data.holdout",
        "sealed_cases_file": "data.test",
        "min_holdout_cases": "target.min_holdout_cases",
        "axes": "target.axes",
        "budget": "",
        "strategy": "strategy.name",
        "seed": "execution.seed",
        "confirm": "execution.confirm",
        "min_delta": "target.min_delta",
        "models": "models",
    }

    def recognises(self, document: Document) -> bool:
        if "kind" in document.data:
            return super().recognises(document)
        return "model" in document.data or "instructions" in document.data

    def translate(self, document: Document, draft: Draft, strategy: StrategyPlugin) -> None:
        """The agent as it is, and its optimizer block with variables expanded.

        The block only matters for searches, not for measurements.
        """
        agent = agent_keys(document.data)
        draft.put("target.document", agent, place=document.place(), strength=Strength.FILE)
        for each in added_values(agent, document.folder):
            *above, _ = each.at
            if isinstance(short := value_under(agent, tuple(above)), str):
                block, place = cast("JsonValue", spelled_out(short)), document.place(*above)
                draft.put((*_DOCUMENT, *above), block, place=place, strength=Strength.FILE)
            place = FilePlace(tree=each.tree, keys=each.keys)
            draft.put((*_DOCUMENT, *each.at), each.value, place=place, strength=Strength.FILE)
            if each.at == _AT_ONCE:
                draft.put("execution.concurrency", each.value, place=place, strength=Strength.FILE)
        draft.mark("data", document.place(*_BLOCK))
        draft.mark("target", document.place(*_BLOCK, "axes"))
        data = expanded(document.tree.data, where=document.name)
        written, document = document, replace(document, tree=replace(document.tree, data=data))
        translation = Translation(document, draft, strategy, written=written)
        translation.put("execution.concurrency", _AT_ONCE)
        for field in (*WORKER_FIELDS, "wait_minutes"):
            translation.put(f"execution.{field}", ("execution", field))
        translation.put("source.name", ("name",))
        if document.at(_BLOCK) is not None and strategy.proposes:
            draft.default("target.axes", {})
            limits, phases = limit_keys(strategy)
            translation.block(_BUDGET, {"global": ""}, settings=phases, names=False)
            whole = {name: f"budget.{name}" for name in BudgetSpec.model_fields}
            translation.block(_WHOLE, whole, settings=limits, names=False)
            # Last, since a limit that is missing belongs right in the block.
            translation.block(_BLOCK, self.keys, settings=setting_keys(strategy.Settings))
            translation.problems += [*_loss(document), *_written_twice(document, strategy)]
        translation.settle()


def agent_keys(data: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The keys of a file that describe the agent: all but its optimizer block."""
    agent = dict(data)
    evaluations = agent.get(_BLOCK[0])
    if isinstance(evaluations, dict):
        agent[_BLOCK[0]] = {k: value for k, value in evaluations.items() if k != _BLOCK[1]}
    return agent


def limit_keys(strategy: StrategyPlugin) -> tuple[list[str], list[str]]:
    """The settings of a strategy that are limits: single ones, and blocks of them."""
    fields = setting_fields(strategy.Settings)
    paths = [field.path for field in fields if field.door.panel == "Limits"]
    single = [path[0] for path in paths if len(path) == 1]
    return single, list(dict.fromkeys(path[0] for path in paths if len(path) > 1))


def _loss(document: Document) -> Iterator[Problem]:
    """The loss is required: without it every metric would count."""
    weights = document.at((*_BLOCK, "loss"))
    where = str(document.place(*_BLOCK, "loss"))
    if weights is None:
        yield Problem(where=where, message=MISSING, remedy="add it")
    elif weights == {}:
        yield Problem(where=where, message="expected at least 1 metric with its weight")


def _written_twice(document: Document, strategy: StrategyPlugin) -> Iterator[Problem]:
    block = document.block(_BLOCK)
    insides = {
        "budget": {**document.block(_BUDGET), **document.block(_WHOLE)},
        strategy.name: document.block((*_BLOCK, strategy.name)),
    }
    for name, inside in insides.items():
        for key in block:
            if block[key] is not None and inside.get(key) is not None:
                yield Problem(
                    where=str(document.place(*_BLOCK, key)),
                    message=f"{key} is set twice: here and under {name}",
                    remedy="keep one of the two",
                )


NOISY = ("model.temperature", "model.top_p")
"""What makes answers vary: without repeats nobody knows by how much."""
_HYBRID = (*WEIGHTS, "rrf_k")
"""What counts in a hybrid search only."""

_MODEL = ("name", "temperature", "top_p", "max_tokens")
_SEARCH = ("description", "top_k")
_LIVE: dict[type[ToolBlock], tuple[str, ...]] = {
    FunctionTool: ("description",),
    PromptTool: ("description", "template"),
    VectorstoreTool: (*_SEARCH, "min_similarity_score"),
    HierarchicalTool: (*_SEARCH, "search_mode", "min_score", *_HYBRID),
    McpTool: (),
}
"""By kind of tool, the fields that reach what the agent is asked or finds."""
_READING_IN = (
    "source", "chunking_strategy", "max_chunk_tokens", "chunk_size", "chunk_overlap",
    "contextual_embeddings", "embedding_model", "embedding_dimensions", "vector_field", "id_field",
    "meta_fields", "field_separator", "delimiter", "record_path",
)  # fmt: skip
_READS_IN = (
    "it takes effect when documents are indexed, so every trial would have to index them again"
)
_ELSEWHERE = {
    "embedding_provider": _READS_IN,
    "evaluations": "it says how the agent is measured, not what it does",
    "execution": "it says how cases are run, not what the agent does",
    "user_simulator": "it plays the user, not the agent",
    DEMONSTRATIONS: "demonstrations have their own axis: axes.demonstrations",
}


def elsewhere(path: str) -> str:
    """Why a field does not affect what the agent does; empty for all others."""
    return _ELSEWHERE.get(str(parse_path(path)[0]), "")


def refusal(block: AgentBlock, path: str, hybrid: Collection[str] = ()) -> str:
    """Why an existing field cannot be tuned; empty if it can.

    `hybrid` names the tools whose search mode may become hybrid on its own axis.
    """
    steps = parse_path(path)
    if is_instructions(path):
        return ""
    if steps[0] == "tools":
        tool = tool_at(block, path)
        assert tool is not None
        return _of_tool(tool, str(steps[2]) if len(steps) == 3 else "", hybrid)
    if steps[0] == "model" and steps[1:] in [(name,) for name in _MODEL]:
        return ""
    if steps[0] == "model":
        return (
            f"only {', '.join(_MODEL)} of a model can be tuned; provider and address depend on "
            "the name, and one axis cannot change both"
        )
    return _ELSEWHERE.get(str(steps[0]), "it does not affect what the agent is asked")


def tunable(block: AgentBlock) -> list[str]:
    """The paths of a file that affect what the agent is asked, with their current tools."""
    fields = [("model", name) for name in _MODEL]
    fields += [(f"tools[name={t.name}]", name) for t in block.tools for name in _LIVE[type(t)]]
    paths = [f"{holder}.{name}" for holder, name in fields]
    return [INSTRUCTIONS[0], *(path for path in paths if not refusal(block, path))]


def tool_at(block: AgentBlock, path: str) -> ToolBlock | None:
    """The tool that a path goes through, if any."""
    steps = parse_path(path)
    if len(steps) < 2 or steps[0] != "tools":
        return None
    step = steps[1]
    for index, tool in enumerate(block.tools):
        value = getattr(tool, step.key, None) if isinstance(step, Named) else index
        if value == (step.value if isinstance(step, Named) else step):
            return tool
    return None


def _of_tool(tool: ToolBlock, name: str, hybrid: Collection[str]) -> str:
    live = _LIVE[type(tool)]
    if name in live:
        mode = getattr(tool, "search_mode", "hybrid")
        if name not in _HYBRID or mode == "hybrid" or tool.name in hybrid:
            return ""
        return f"it only has an effect in hybrid search, but the search_mode of this tool is {mode}"
    if name in _READING_IN:
        return _READS_IN
    if name in tool.without_effect:
        return "burnish reads it but does not use it"
    if isinstance(tool, McpTool) and name == "description":
        return "the server describes its tools itself, and the model never sees this"
    names = ", ".join(live) or "none"
    return f"it does not reach the model; of this tool, these can be tuned: {names}"


# -- Where the values are --------------------------------------------------------------------------


T = TypeVar("T")


def changed_files(before: Mapping[str, Json], now: Mapping[str, Json]) -> list[str]:
    """The names whose hashes differ."""
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


def measured_files(agent: LoadedAgent) -> dict[str, Json]:
    """Hashes of the agent file and of the files it names, by the path that names them."""
    own = read_bytes(agent.path) if agent.path.exists() else agent.tree.text.encode()
    return {agent.path.name: digest(own), **agent.contents}


@dataclass(frozen=True, kw_only=True)
class AgentHomes(Homes):
    """An agent file, and that of its instructions."""

    movable: ClassVar[bool] = True
    path: Path
    hashes: Mapping[str, Json] | None = None
    """What the run measured; a run that kept none knows only a fingerprint of the whole agent."""
    fingerprint: str = ""

    @classmethod
    def of(cls, header: Header) -> "AgentHomes | None":
        if not header.project.file:
            return None
        return cls(
            path=Path(header.project.file),
            hashes=measured_hashes(header),
            fingerprint=header.inputs.get("target", ""),
        )

    @cached_property
    def agent(self) -> LoadedAgent:
        return load_agent(self.path)

    @property
    def place(self) -> str:
        return str(self.agent.folder)

    @property
    def files(self) -> Sequence[Path]:
        return (self.path,)

    def load(self) -> None:
        assert self.agent

    def changed(self) -> list[str]:
        if self.hashes is not None:
            return changed_files(self.hashes, measured_files(self.agent))
        if AgentTarget(self.agent, Models()).description.fingerprint == self.fingerprint:
            return []
        return [f"{self.path.name}, or a file that it names,"]

    def value(self, surface: str) -> Value:
        if is_instructions(surface):
            return self.agent.instructions.text
        if surface == DEMONSTRATIONS:
            return demonstrations_of(self.agent.block)
        return cast("Value", value_at(self.agent.block, surface))

    def edited(self, values: Mapping[str, Value]) -> tuple[FileChange, ...]:
        return file_changes(self.agent, values)


def file_changes(agent: LoadedAgent, values: Mapping[str, Value]) -> tuple[FileChange, ...]:
    """The files of the agent that change when it gets these values."""
    edited = edit(agent, values)
    instructions = agent.instructions
    changes: list[FileChange] = []
    if (prompt := agent.block.instructions.file) is not None:
        changes.append(text_change(agent.folder / prompt, instructions, edited.instructions))
        # The agent file goes on naming that file as it does, `${VAR}` too.
        edited = replace(edited, instructions=instructions.text)
    changes.insert(0, FileChange.of(agent.path, agent.tree.text, _agent_text(agent, edited)))
    return tuple(change for change in changes if change.after != change.before)


def text_change(path: Path, old: Instructions, text: str) -> FileChange:
    """A file of instructions with another text: header and line ends stay."""
    before = old.with_text(old.text)
    if text == old.text:
        return FileChange.of(path, before, before)
    if "\r\n" in before and "\r\n" not in text:
        text = text.replace("\n", "\r\n")
    whole = old.with_text(text)
    if parse_instructions(whole, source=path.name).text.lstrip("\n") != text.lstrip("\n"):
        message = "the new instructions begin with text that looks like a file header"
        remedy = "add them to the file yourself, below a header"
        raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])
    return FileChange.of(path, before, whole)


def _agent_text(agent: LoadedAgent, edited: EditedAgent) -> str:
    if edit(agent, {}) == edited:
        return agent.tree.text
    untouched = _dumped(agent, edit(agent, {}))
    in_lines = replace(
        edited,
        instructions=_literal(edited.instructions),
        changes={path: _literal(value) for path, value in edited.changes.items()},
    )
    for written in (in_lines, edited):
        made = _dumped(agent, written)
        for text in (carried_over(agent.tree.text, untouched, made), made):
            if text is not None and _says(agent, edited, text):
                return text
    message = "with the new values, the file would not describe the agent that was measured"
    remedy = (
        "an anchor that is used twice, or a ${NAME} in a new text, prevents it: take the "
        "values from the run's folder and edit the file yourself"
    )
    raise ConfigError([Problem(where=agent.path.name, message=message, remedy=remedy)])


def _dumped(agent: LoadedAgent, edited: EditedAgent) -> str:
    return export_agent(agent, edited, agent.folder)[agent.path.name].decode()


def _literal(value: T) -> T | LiteralScalarString:
    return LiteralScalarString(value) if isinstance(value, str) and "\n" in value else value


def _says(agent: LoadedAgent, edited: EditedAgent, text: str) -> bool:
    """Whether the text means the edited agent and nothing else."""
    try:
        block = agent.reread(cast("dict[str, Any]", parse_tree(agent.path, text).data))
    except ConfigError:
        return False
    instructions = edited.instructions if agent.block.instructions.file is None else None
    demos = edited.demonstrations
    return (
        block.instructions.inline == instructions
        and demonstrations_of(block) == (demonstrations_of(agent.block) if demos is None else demos)
        and _rest(block) == _rest(edited.block)
    )


def _rest(block: AgentBlock) -> dict[str, Any]:
    return block.model_dump(exclude={"demonstrations": True, "instructions": {"inline"}})
