"""Console blocks: the commands they show are run, and the output they show is compared."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from tests.docs.docs_pages import ROOT, Block

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
        if command.line.startswith("make ") and not command.shown:
            continue  # the checkout is set up already, and its tests are what runs here
        run_command(command, folder, place=block.place)


def run_command(command: Command, folder: Path, *, place: str) -> str:
    """Run one command; what is shown below it must be what comes out, which is returned."""
    code, output = _run(_meant(command.line), folder)
    came = output.replace(f"{folder.resolve()}/", "")
    told = f"{place}: `$ {command.line}` now prints\n\n{came}\n"
    refused = any(line.startswith("error:") for line in command.shown)
    wanted = 0 if not refused else 3 if command.line.startswith("burnish eval") else 1
    assert code == wanted, f"{told}with exit code {code}"
    assert not command.shown or matches(command.shown, came.splitlines()), told
    return came


def _run(line: str, folder: Path) -> tuple[int, str]:
    """The exit code and the output. A plain `burnish …` needs no process of its own."""
    if line.startswith("burnish ") and not set(line) & set("|&;<>"):
        return _run_burnish(shlex.split(line))
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
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
            main()
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
    recipe = re.search(r"^demo:.*\n\t@\$\(BIN\)/(.+)$", makefile, flags=re.MULTILINE)
    assert recipe is not None, "the Makefile has no `demo` that runs one command"
    return recipe[1]


def _environment() -> dict[str, str]:
    """That of a person with no model of their own, no network, and a terminal without colours."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    drop = re.compile("FORCE_COLOR|GITHUB_ACTIONS|PY_COLORS|EXAMPLE_.*")
    kept = {name: value for name, value in os.environ.items() if not drop.fullmatch(name)}
    nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    plain = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "no_proxy": "127.0.0.1,localhost"}
    return {**kept, **nowhere, **plain, "PATH": path}
