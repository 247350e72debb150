"""Where adopted values go: agent files, graphs and what they name, prompts, files of a task."""

import contextlib
import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from burnish.core.candidates import Change
from burnish.core.errors import ConfigError, FileTrouble, Problem
from burnish.core.surfaces import Value
from burnish.projects.adopting_files import FileChange, file_changes
from burnish.projects.adopting_originals import changed_since
from burnish.projects.adopting_values import to_put, value_now
from burnish.projects.agent.dialect import AgentFile
from burnish.projects.artifacts.originals import changed_files, task_paths
from burnish.projects.file_kinds import GraphFile
from burnish.projects.graph.adopting import GraphHome
from burnish.projects.graph.originals import has_files
from burnish.projects.graph.reading import read_graph
from burnish.projects.prompts.originals import changed_prompts, paths_in
from burnish.runs.header import Header
from burnish.runs.plugins import strategy_plugin
from burnish.runs.record import RunRecord
from burnish.system import read_bytes, read_text, read_tree
from burnish.system.files import state_folder
from burnish.system.restoration import borrowed_folder, restore_abandoned
from burnish.targets.agent.loading import LoadedAgent, load_agent
from burnish.targets.artifacts.axes import texts_of, value_in
from burnish.targets.prompts.fields import FileField, decoded, encoded
from burnish.targets.prompts.locking import lock_files


class Home(Protocol):
    """The user's files that a run is about."""

    @property
    def place(self) -> str:
        """Where they lie, in words."""
        ...

    def changed_since(self, header: Header) -> list[str]:
        """Those that are not what the run measured."""
        ...

    def put(self, changes: Sequence[Change]) -> tuple[FileChange, ...]:
        """What becomes of them when they get these values."""
        ...


@dataclass(frozen=True)
class AgentHome:
    """An agent file."""

    agent: LoadedAgent

    @property
    def place(self) -> str:
        """The agent's folder."""
        return str(self.agent.folder)

    def changed_since(self, header: Header) -> list[str]:
        """The file and those that it names."""
        return changed_since(header, self.agent)

    def put(self, changes: Sequence[Change]) -> tuple[FileChange, ...]:
        """The agent file, and that of its instructions."""
        return file_changes(self.agent, to_put(changes, partial(value_now, self.agent)))


@dataclass(frozen=True)
class PromptsHome:
    """Prompts that are files, by the name of the field."""

    paths: Mapping[str, Path]

    @property
    def place(self) -> str:
        """No one folder: each file is named whole."""
        return ""

    def changed_since(self, header: Header) -> list[str]:
        """The prompt files."""
        return changed_prompts(header, self.paths)

    def put(self, changes: Sequence[Change]) -> tuple[FileChange, ...]:
        """A file a prompt; its mark and its line ends stay."""
        values = to_put(changes, self._now)
        return tuple(self._change(name, str(text)) for name, text in values.items())

    def _now(self, name: str) -> Value:
        if name not in self.paths:
            message = "this prompt lies behind functions of a program, which burnish cannot call"
            remedy = "take its text from the run's folder and put it there yourself"
            raise ConfigError([Problem(where=name, message=message, remedy=remedy)])
        return decoded(read_bytes(self.paths[name]), self.paths[name])

    def _change(self, name: str, text: str) -> FileChange:
        field = _field(name, self.paths[name])
        before = field.content()
        return FileChange(path=field.home, before=before, after=encoded(text, before, field.path))


@dataclass(frozen=True)
class TaskHome:
    """The files of a task, by their path in its folder."""

    paths: Mapping[str, Path]

    @property
    def place(self) -> str:
        """No one folder: each file is named whole."""
        return ""

    def changed_since(self, header: Header) -> list[str]:
        """The files that could have been edited; the scripts are the user's own affair."""
        return [str(self.paths[name]) for name in changed_files(header, self.paths)]

    def put(self, changes: Sequence[Change]) -> tuple[FileChange, ...]:
        """Whole files, and values at places inside them."""
        values = to_put(changes, self._now)
        around = dict.fromkeys(file for name in values if (file := self._parted(name)[0]) != name)
        texts = texts_of({**{name: self._now(name) for name in around}, **values})
        return tuple(self._change(name, text) for name, text in texts.items())

    def _parted(self, name: str) -> tuple[str, str]:
        """The file of a surface, and the place in it where it is not the whole file."""
        file, _, place = name.partition("#")
        return (name, "") if name in self.paths else (file, place)

    def _now(self, name: str) -> Value:
        file, place = self._parted(name)
        text = read_text(self.paths[file])
        return value_in(text, file, place) if place else text

    def _change(self, name: str, text: str) -> FileChange:
        home = Path(os.path.realpath(self.paths[name]))
        return FileChange(path=home, before=read_bytes(home), after=text.encode())


def is_adoptable(header: Header) -> bool:
    """Whether a run is about files of the user, into which its best can be put."""
    if not strategy_plugin(header.strategy).proposes:
        return False
    if header.project.kind == GraphFile.kind:
        return has_files(header)
    return header.project.kind == AgentFile.kind or bool(paths_in(header) or task_paths(header))


def home_of(run: RunRecord, file: Path | None) -> Home:
    """The files of a run; `file` says where its agent file lies now."""
    prompts, files = paths_in(run.header), task_paths(run.header)
    if prompts or files:
        if file is not None:
            message = "these files are adopted where they lie"
            raise ConfigError([Problem(where="--file", message=message, remedy="leave it out")])
        _require_there(run, (prompts or files).values())
        return PromptsHome(prompts) if prompts else TaskHome(files)
    path = file or Path(run.header.project.file)
    _require_there(run, [path], otherwise=", or say where it is now with --file FILE")
    if run.header.project.kind == GraphFile.kind:
        return GraphHome(read_graph(path, read_tree(path)))
    return AgentHome(load_agent(path))


@contextlib.contextmanager
def nobody_writes(header: Header) -> Generator[None, None, None]:
    """Keeps runs that write candidates into the same prompt files away.

    What a killed run left in them is put back first.
    """
    fields = [_field(name, path) for name, path in paths_in(header).items()]
    if fields:
        restore_abandoned(borrowed_folder(state_folder()))
    with lock_files(fields, state_folder()):
        yield


def _field(name: str, path: Path) -> FileField:
    return FileField(name=name, given=str(path), path=path)


def _require_there(run: RunRecord, paths: Iterable[Path], *, otherwise: str = "") -> None:
    for path in paths:
        if not path.exists():
            raise FileTrouble(
                f"run {run.header.id} was started from {path}, which is gone",
                remedy=f"put the file back{otherwise}",
            )
