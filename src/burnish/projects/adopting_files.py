"""Values put into the user's own files: only the lines that must change do, or nothing at all."""

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ruamel.yaml.scalarstring import LiteralScalarString

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import Value
from burnish.projects.adopting_lines import carried_over, lines_of
from burnish.system import read_bytes, to_plain
from burnish.system.yaml import parse_json, parse_yaml
from burnish.targets.agent.blocks import AgentBlock
from burnish.targets.agent.demonstrating import demonstrations_of
from burnish.targets.agent.editing import EditedAgent, edit
from burnish.targets.agent.exporting import export_agent
from burnish.targets.agent.instructions import Instructions, parse_instructions
from burnish.targets.agent.loading import LoadedAgent, read_block

_BOM = "\ufeff"
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """A file as it is and as it will be."""

    path: Path
    """Where the file really lies: links are followed."""
    before: bytes = field(repr=False)
    after: bytes = field(repr=False)

    def diff(self, name: str) -> list[str]:
        """The change as a unified diff, for people."""
        old, new = (lines_of(text.decode()) for text in (self.before, self.after))
        return [line.rstrip("\r\n") for line in difflib.unified_diff(old, new, name, name)]


def file_changes(agent: LoadedAgent, values: Mapping[str, Value]) -> tuple[FileChange, ...]:
    """The files of the agent that change when it gets these values."""
    edited = edit(agent, values)
    told = agent.instructions
    changes: list[FileChange] = []
    if (prompt := agent.block.instructions.file) is not None:
        changes.append(text_change(agent.folder / prompt, told, edited.instructions))
        # The agent file goes on naming that file as it does, `${VAR}` too.
        edited = replace(edited, instructions=told.text)
    changes.insert(0, change_of(agent.path, agent.tree.text, _agent_text(agent, edited)))
    return tuple(change for change in changes if change.after != change.before)


def text_change(path: Path, told: Instructions, text: str) -> FileChange:
    """A file of instructions with another text: its head and its line ends stay."""
    return change_of(path, told.with_text(told.text), _new_text(path.name, told, text))


def change_of(path: Path, loaded: str, new: str) -> FileChange:
    """A file with another content, if it still has the one that was loaded."""
    before = read_bytes(path)
    text = before.decode()
    if text.removeprefix(_BOM) != loaded:
        raise changed_meanwhile(path)
    bom = _BOM if text.startswith(_BOM) else ""
    home = Path(os.path.realpath(path))
    return FileChange(path=home, before=before, after=f"{bom}{new}".encode())


def changed_meanwhile(path: Path) -> ConfigError:
    """Someone else wrote the file while it was about to be edited."""
    message = "someone changed it just now; nothing of it was overwritten"
    remedy = "look at it, then give the command again"
    return ConfigError([Problem(where=str(path), message=message, remedy=remedy)])


def _agent_text(agent: LoadedAgent, edited: EditedAgent) -> str:
    """The agent file with the values in it, as close to how it stands as can be."""
    if edit(agent, {}) == edited:
        return agent.tree.text
    untouched = _dumped(agent, edit(agent, {}))
    for written in (_in_lines(edited), edited):
        made = _dumped(agent, written)
        for text in (carried_over(agent.tree.text, untouched, made), made):
            if text is not None and _says(agent, edited, text):
                return text
    message = "with the new values in it, it would not say what was measured"
    remedy = (
        "an anchor that is used twice, or a ${NAME} in a new text, stands in the way: take the "
        "values from the run's folder and edit the file yourself"
    )
    raise ConfigError([Problem(where=agent.path.name, message=message, remedy=remedy)])


def _dumped(agent: LoadedAgent, edited: EditedAgent) -> str:
    return export_agent(agent, edited, agent.folder)[agent.path.name].decode()


def _in_lines(edited: EditedAgent) -> EditedAgent:
    """With texts of several lines as people write them in YAML."""
    return replace(
        edited,
        instructions=_literal(edited.instructions),
        changes={path: _literal(value) for path, value in edited.changes.items()},
    )


def _literal(value: T) -> T | LiteralScalarString:
    return LiteralScalarString(value) if isinstance(value, str) and "\n" in value else value


def _says(agent: LoadedAgent, edited: EditedAgent, text: str) -> bool:
    """Whether the text means the edited agent and nothing else."""
    try:
        block = read_block(_data(agent.path, text), source=agent.path.name)
    except ConfigError:
        return False
    inline = agent.block.instructions.file is None
    told = edited.instructions if inline else None
    demos = edited.demonstrations
    return (
        block.instructions.inline == told
        and demonstrations_of(block) == (demonstrations_of(agent.block) if demos is None else demos)
        and _rest(block) == _rest(edited.block)
    )


def _rest(block: AgentBlock) -> dict[str, Any]:
    return block.model_dump(exclude={"demonstrations": True, "instructions": {"inline"}})


def _data(path: Path, text: str) -> Json:
    if path.suffix.lower() == ".json":
        return parse_json(text, source=path.name)
    return to_plain(parse_yaml(text, source=path.name))


def _new_text(name: str, old: Instructions, text: str) -> str:
    before = old.with_text(old.text)
    if text == old.text:
        return before
    if "\r\n" in before and "\r\n" not in text:
        text = text.replace("\n", "\r\n")
    whole = old.with_text(text)
    if parse_instructions(whole, source=name).text.lstrip("\n") != text.lstrip("\n"):
        message = "the new instructions begin with what reads as the head of a file"
        remedy = "put them in yourself, below a head of their own"
        raise ConfigError([Problem(where=name, message=message, remedy=remedy)])
    return whole
