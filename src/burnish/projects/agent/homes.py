"""Where the values of an agent are: the agent file and the files it names.

Only the lines that must change are changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from ruamel.yaml.scalarstring import LiteralScalarString

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import Value
from burnish.models.factory import Models
from burnish.projects.adopt_files import carried_over
from burnish.runs.directory import Header
from burnish.runs.homes import FileChange, Homes, measured_hashes
from burnish.system import read_bytes
from burnish.system.restoration import digest
from burnish.system.yaml import parse_tree
from burnish.targets.agent.blocks import AgentBlock
from burnish.targets.agent.files import (
    EditedAgent,
    Instructions,
    LoadedAgent,
    edit,
    export_agent,
    load_agent,
    parse_instructions,
)
from burnish.targets.agent.paths import DEMONSTRATIONS, demonstrations_of, is_instructions, value_at
from burnish.targets.agent.target import AgentTarget

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
