"""Console blocks: the commands they show are run, and the output they show is compared.

scripts/transcripts.py writes the output into pages with the same code.
"""

import contextlib
import difflib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest import mock

from tests.docs.docs_pages import ROOT, Block
from tests.fork_server import programs

from burnish.cli import main

_ANYTHING = "…"
_LEVELLED = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d_[0-9a-f]{8}(-\d+)?"), "RUN"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00)?"), "TIME"),
    (re.compile(r"\$\d+(\.\d+)?"), "$"),
    (re.compile(r"\b(\d+h \d\dm|\d+m \d\ds|\d+(\.\d+)?s)\b"), "TIME"),
    (re.compile(r"(?<=,)\d+\.\d{3}$"), "TIME"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of a console block, and the lines shown below it."""

    line: str
    shown: tuple[str, ...]


def commands(block: Block) -> Iterator[Command]:
    """The commands of a block, each with the output that the page shows."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, *shown = part.splitlines()
        while shown and not shown[-1].strip():
            shown.pop()
        yield Command(line=line, shown=tuple(shown))


def run_block(block: Block, folder: Path) -> None:
    """Run the commands of a block in `folder`; what it shows must be what comes out."""
    for command in commands(block):
        if not skipped(command):
            run_command(command, folder, place=block.place)


def skipped(command: Command) -> bool:
    """Whether it is not run: the checkout is set up already, and its tests are what runs here."""
    return command.line.startswith("make ") and not command.shown


def run_command(command: Command, folder: Path, *, place: str) -> str:
    """Run one command; what is shown below it must be what comes out, which is returned."""
    code, output = _run(_meant(command.line), folder)
    came = output.replace(f"{folder.resolve()}/", "")
    told = f"{place}: `$ {command.line}` now prints\n\n{came}\n"
    assert code == exit_code(command), f"{told}with exit code {code}"
    same = renewed(command.shown, came.splitlines()) == command.shown
    assert same, f"{told}python -m scripts.transcripts {place.partition(':')[0]} writes it there"
    return came


def exit_code(command: Command) -> int:
    """The exit code that a command must have by what is shown below it."""
    refused = any(line.startswith("error:") for line in command.shown)
    return 0 if not refused else 3 if command.line.startswith("burnish eval") else 1


def _run(line: str, folder: Path) -> tuple[int, str]:
    """The exit code and the output. A plain `burnish …` needs no process of its own."""
    if line.startswith("burnish ") and not set(line) & set("|&;<>"):
        return _run_burnish(shlex.split(line))
    return run_in_shell(line, folder, {})


def run_in_shell(line: str, folder: Path, exported: Mapping[str, str]) -> tuple[int, str]:
    """The exit code and the output of a command in a process of its own."""
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={**_environment(), "PATH": f"{programs()}{os.pathsep}{_path()}", **exported},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    return done.returncode, done.stdout


def _run_burnish(argv: list[str]) -> tuple[int, str]:
    out = io.StringIO()
    with (
        mock.patch.dict(os.environ, _environment(), clear=True),
        mock.patch.object(sys, "argv", argv),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
    ):
        try:
            main(argv[1:])  # with arguments it is not alone in its process
        except SystemExit as ended:
            return int(ended.code or 0), out.getvalue()
    return 0, out.getvalue()


def matches(shown: Sequence[str], came: Sequence[str]) -> bool:
    """Whether the output is what is shown; a line `…` stands for any number of lines."""
    wanted = [level(line) for line in shown]
    lines = [level(line) for line in came]
    return _matches(wanted, lines)


def _matches(wanted: Sequence[str], lines: Sequence[str]) -> bool:
    if not wanted:
        return not any(lines)
    if wanted[0] == _ANYTHING:
        return any(_matches(wanted[1:], lines[skip:]) for skip in range(len(lines) + 1))
    return bool(lines) and wanted[0] == lines[0] and _matches(wanted[1:], lines[1:])


def renewed(shown: Sequence[str], came: Sequence[str]) -> tuple[str, ...]:
    """What a page should show of the output: what it shows, brought up to date where that is old.

    Lines that say the same stay as they are written, and `…` still stands for what it stood for.
    Nothing is shown where nothing was.
    """
    if not shown or matches(shown, came):
        return tuple(shown)
    end = max((number for number, line in enumerate(came, 1) if line.strip()), default=0)
    return _aligned(tuple(shown), tuple(line.rstrip() for line in came[:end]))


_ALIKE = 0.5
"""From this similarity on, a line is another version of the one that is shown."""


def _aligned(shown: tuple[str, ...], came: tuple[str, ...]) -> tuple[str, ...]:
    """The output in place of what is shown, by the alignment that changes least."""

    @cache
    def least(first: int, second: int) -> tuple[float, tuple[str, ...]]:
        if first == len(shown):
            return float(len(came) - second), came[second:]
        old, ways = shown[first], list[tuple[float, tuple[str, ...]]]()
        omits = old.strip() == _ANYTHING
        cost, rest = least(first + 1, second)
        ways.append((cost, (old, *rest)) if omits else (cost + 1, rest))
        if second < len(came):
            cost, rest = least(first, second + 1)
            ways.append((cost, rest) if omits else (cost + 1, (came[second], *rest)))
        if second < len(came) and not omits and (alike := _likeness(old, came[second])) >= _ALIKE:
            cost, rest = least(first + 1, second + 1)
            line = old if alike == 1 else came[second]
            ways.append((cost + 2 * (1 - alike), (line, *rest)))
        return min(ways, key=lambda way: way[0])

    return least(0, 0)[1]


def _likeness(old: str, new: str) -> float:
    return difflib.SequenceMatcher(None, level(old), level(new), autojunk=False).ratio()


def level(line: str) -> str:
    """The line with ids, times, paths and money levelled out."""
    for pattern, word in _LEVELLED:
        line = pattern.sub(word, line)
    return line.strip()


def _meant(line: str) -> str:
    """`make demo` as the Makefile has it: the checkout's virtual environment is there already."""
    if line != "make demo":
        return line
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    told = r"(?:\t@echo .+\n)*"
    recipe = re.search(rf"^demo:.*\n{told}\t@\$\(BIN\)/(.+)$", makefile, flags=re.MULTILINE)
    assert recipe is not None, "the Makefile has no `demo` that runs one command"
    return recipe[1]


def _environment() -> dict[str, str]:
    """That of a person with no model of their own, no network, and a terminal without colours."""
    drop = re.compile("FORCE_COLOR|GITHUB_ACTIONS|PY_COLORS|EXAMPLE_.*")
    kept = {name: value for name, value in os.environ.items() if not drop.fullmatch(name)}
    nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    plain = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "no_proxy": "127.0.0.1,localhost"}
    return {**kept, **nowhere, **plain, "PATH": _path()}


def _path() -> str:
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
