"""The README of an example, run in a copy, with what each of its commands left behind."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.docs.docs_console import commands, run_command
from tests.docs.docs_pages import blocks
from tests.example_copies import EXAMPLES, copy_example, is_left_behind


@dataclass(frozen=True, kw_only=True)
class Step:
    """A command of a README that was run, what it printed, and every file there is since."""

    line: str
    out: str
    files: Mapping[str, bytes]
    stamps: Mapping[str, int]
    """When each file was written last."""

    @property
    def sources(self) -> Mapping[str, bytes]:
        """The files of the example but what its runs left."""
        return {name: text for name, text in self.files.items() if _is_source(Path(name))}

    def rows(self, name: str) -> list[dict[str, Any]]:
        """A file of JSON lines."""
        return [json.loads(line) for line in self.files[name].splitlines()]

    @classmethod
    def taken(cls, folder: Path, *, line: str = "", out: str = "") -> Self:
        """As the folder is now."""
        found = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
        files = {name: path.read_bytes() for name, path in found.items()}
        stamps = {name: path.stat().st_mtime_ns for name, path in found.items()}
        return cls(line=line, out=out, files=files, stamps=stamps)


def copy_of(name: str, folder: Path) -> Path:
    """The example where its README looks for it: in `examples` of a folder."""
    return copy_example(name, folder / "examples" / name)


def run_readme(name: str, folder: Path) -> list[Step]:
    """Run a README of commands; each must print what is shown. The first step is the start."""
    copy_of(name, folder)
    steps = [Step.taken(folder)]
    with contextlib.chdir(folder):
        for block in blocks(EXAMPLES / name / "README.md"):
            for command in commands(block) if block.language == "console" else ():
                out = run_command(command, folder, place=block.place)
                steps.append(Step.taken(folder, line=command.line, out=out))
    return steps


def _is_source(name: Path) -> bool:
    return name.parts[0] == "examples" and not is_left_behind(name)
