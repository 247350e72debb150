"""Tools for files, confined to the workspace: no path and no link leads out of it."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from burnish.core.content import Json
from burnish.core.errors import FileTrouble
from burnish.evaluation.matching.excerpts import without_middle
from burnish.models.chat import ToolSpec
from burnish.system.workspaces import path_problem, read_contents, shown, snapshot, write_files
from burnish.targets.artifacts.workspace import finished
from burnish.targets.delegation.tools import ToolRefused, WorkerTool, readable, schema, text_of
from burnish.targets.delegation.workspace import INPUT

MOST_READ = 100_000
"""Characters of one file that come back."""
_MOST_LISTED = 500
_PATH = "a path relative to the workspace, such as report.md"


@dataclass(frozen=True, kw_only=True)
class FileTool:
    """One of the tools for files."""

    spec: ToolSpec
    act: Callable[[Mapping[str, Json]], str]

    @property
    def only_looks(self) -> bool:
        """Reading and listing change nothing."""
        return self.spec.name in ("file_read", "file_list")

    async def use(self, arguments: Mapping[str, Json]) -> str:
        """Do it in a thread, and to its end."""
        try:
            return readable(await finished(self.act, arguments))
        except FileTrouble as error:
            raise ToolRefused(error.message) from error


def file_tools(folder: Path) -> dict[str, WorkerTool]:
    """Reading, writing, listing and deleting files below `folder`."""
    files = _Files(folder)
    told: list[tuple[str, str, dict[str, Json], Callable[[Mapping[str, Json]], str]]] = [
        ("file_read", "Read a text file.", schema(["path"], path=_PATH), files.read),
        (
            "file_write",
            "Give a file this text, whole; folders are made as needed.",
            schema(["path", "content"], path=_PATH, content="the whole text of the file"),
            files.write,
        ),
        (
            "file_list",
            "List the files of the workspace, or of a folder in it.",
            schema([], path="a folder; all of the workspace unless said"),
            files.listed,
        ),
        ("file_delete", "Delete a file.", schema(["path"], path=_PATH), files.delete),
    ]
    return {
        name: FileTool(spec=ToolSpec(name=name, description=words, parameters=shape), act=act)
        for name, words, shape, act in told
    }


@dataclass(frozen=True)
class _Files:
    folder: Path

    def read(self, arguments: Mapping[str, Json]) -> str:
        path = self._inside(text_of(arguments, "path"))
        content = read_contents(self.folder, [path]).get(path)
        if content is None:
            raise ToolRefused(f"there is no file {path}; file_list shows what is there")
        return without_middle(content.decode("utf-8", "replace"), MOST_READ)

    def write(self, arguments: Mapping[str, Json]) -> str:
        path, content = self._own(arguments), text_of(arguments, "content")
        write_files(self.folder, {path: content})
        return f"wrote {path}: {len(content.encode())} bytes"

    def delete(self, arguments: Mapping[str, Json]) -> str:
        path = self._own(arguments)
        if not os.path.lexists(self.folder / path):
            raise ToolRefused(f"there is no file {path}")
        write_files(self.folder, {path: None})
        return f"deleted {path}"

    def listed(self, arguments: Mapping[str, Json]) -> str:
        asked = text_of(arguments, "path", otherwise="").strip("/")
        below = "" if asked in ("", ".") else f"{self._inside(asked)}/"
        entries = snapshot(self.folder).entries
        lines = [
            f"{shown(path)} ({entry.size} bytes)"
            for path, entry in entries.items()
            if entry.kind == "file" and path.startswith(below)
        ]
        more = [f"… and {len(lines) - _MOST_LISTED} more"] if len(lines) > _MOST_LISTED else []
        return "\n".join([*lines[:_MOST_LISTED], *more]) or "(no files)"

    def _own(self, arguments: Mapping[str, Json]) -> str:
        """A path that may be changed."""
        path = self._inside(text_of(arguments, "path"))
        if path == INPUT or path.startswith(f"{INPUT}/"):
            raise ToolRefused(f"{path} was given with the task and stays as it is: write elsewhere")
        return path

    def _inside(self, path: str) -> str:
        plain = path.removeprefix("./")
        if problem := path_problem(plain):
            raise ToolRefused(f"'{shown(path)}' is refused: {problem}")
        home = os.path.realpath(self.folder)
        found = os.path.realpath(self.folder / plain)
        if not found.startswith(f"{home}{os.sep}"):
            raise ToolRefused(f"'{shown(path)}' is refused: a link leads out of the workspace")
        return plain
