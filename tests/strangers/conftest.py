"""The built wheel in a virtual environment, and a scripted endpoint for its models."""

import asyncio
import csv
import fcntl
import json
import os
import subprocess
import sys
import venv
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from burnish.testing.servers import Answer, HttpRequest, ScriptedServer
from burnish.testing.standin import Rewriting, read_request

ROOT = Path(__file__).resolve().parents[2]
TICKETS = ROOT / "src/burnish/projects/starters/tickets.csv"
RULE = "Answer with the category alone, in one word."
LABELS = "billing, delivery, returns, technical"
_SECONDS = 240


@dataclass(frozen=True, kw_only=True)
class Printed:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


Installed = Callable[..., Awaitable[Printed]]
"""Runs the installed command in the stranger's folder."""


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, made by the first worker that needs it."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    home = shared / "installed"
    with (shared / "installed.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "made").exists():
            home.mkdir()
            _make_environment(home)
            (home / "made").touch()
    return home / "venv"


def _make_environment(home: Path) -> None:
    """Other packages than burnish are those of this Python."""
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(home), cwd=ROOT)
    [wheel] = home.glob("*.whl")
    venv.create(home / "venv", with_pip=False, symlinks=True)
    [site] = (home / "venv").glob("lib/python*/site-packages")
    places = [each for each in sys.path if each.endswith("-packages")]
    (site / "others.pth").write_text("".join(f"{each}\n" for each in places), encoding="utf-8")
    python = str(home / "venv/bin/python")
    install = ["install", "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel)]
    _run(sys.executable, "-m", "pip", "--python", python, *install, cwd=home)


def _run(*command: str, cwd: Path) -> None:
    result = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    assert result.returncode == 0, result.stderr


@pytest.fixture
def installed(environment: Path, tmp_path: Path) -> Installed:
    """The installed command, in an empty folder and without anybody's keys."""
    folder = tmp_path / "desk"
    folder.mkdir()
    hidden = ("PYTHON", "COLUMNS", "BURNISH", "OPENAI", "ANTHROPIC", "GOOGLE", "GEMINI")
    own = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    own |= {"BURNISH_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    own["PATH"] = f"{environment / 'bin'}{os.pathsep}{own['PATH']}"

    async def run(*args: str) -> Printed:
        process = await asyncio.create_subprocess_exec(
            str(environment / "bin/burnish"),
            *args,
            cwd=folder,
            env=own,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), _SECONDS)
        finally:
            if process.returncode is None:
                process.kill()
        return Printed(code=process.returncode or 0, out=out.decode(), err=err.decode())

    return run


def categories() -> dict[str, str]:
    """The category of each ticket."""
    with TICKETS.open(encoding="utf-8", newline="") as file:
        return {row["ticket"]: row["category"] for row in csv.DictReader(file)}


@pytest.fixture
async def model() -> AsyncGenerator[str, None]:
    """The address of a model that sorts tickets, and rewrites instructions when asked to."""
    right = categories()

    def answer(request: HttpRequest) -> Answer:
        asked = read_request(request)
        if isinstance(asked, Rewriting):
            text = asked.text if RULE in asked.text else f"{asked.text.rstrip()}\n{RULE}\n"
            return json.dumps({"diagnosis": "the reply has more than one word", "new_text": text})
        system, ticket = (str(request.json["messages"][place]["content"]) for place in (0, -1))
        category = right[ticket]
        return category if RULE in system else f"I would say that this is about {category}."

    async with ScriptedServer(answers=answer) as server:
        yield server.base_url
