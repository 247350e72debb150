"""`burnish mcp` as a coding agent uses it: a real process, and the protocol's own client."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="pip install 'burnish[mcp]'")

from mcp import Client, StdioServerParameters

from tests.cli.console import Burnish

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("toy_plugin")]

EXAMPLES = Path(__file__).parents[2] / "examples"
READING = {"list_runs", "show_run", "read_report", "explain_run", "compare_runs"}
PAYING = {"estimate", "evaluate", "optimize", "wait", "stop", "budget"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with an agent to measure and a project to optimise."""
    folder = tmp_path / "project"
    made = shutil.ignore_patterns("results", "__pycache__")
    for example in ("toy", "any_agent"):
        shutil.copytree(EXAMPLES / example, folder, ignore=made, dirs_exist_ok=True)
    return folder


@asynccontextmanager
async def client(folder: Path, *flags: str) -> AsyncGenerator[Client]:
    server = StdioServerParameters(
        command=str(Path(sys.executable).with_name("burnish")),
        args=["mcp", str(folder), *flags],
        env=dict(os.environ),
    )
    async with Client(server) as connected:
        yield connected


async def ask(connected: Client, tool: str, **arguments: Any) -> str:
    """What a tool answers."""
    answer = await connected.call_tool(tool, arguments)
    assert not answer.is_error, answer
    return _text(answer)


async def refused(connected: Client, tool: str, **arguments: Any) -> str:
    """Why a tool does not do it."""
    answer = await connected.call_tool(tool, arguments)
    assert answer.is_error, answer
    return _text(answer)


def _text(answer: Any) -> str:
    return "\n".join(part.text for part in answer.content)


@pytest.fixture
def finished(project: Path, burnish: Burnish) -> str:
    """The folder of a run."""
    folder = project / "first"
    assert burnish("optimize", str(project / "toy.yaml"), "-q", "-o", str(folder)).code == 0
    return str(folder)


async def test_without_a_limit_it_only_looks(project: Path, finished: str) -> None:
    async with client(project) as connected:
        tools = (await connected.list_tools()).tools
        assert {tool.name for tool in tools} == READING
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        assert "first" in await ask(connected, "list_runs")
        assert "improved" in await ask(connected, "show_run", run=finished)
        assert "# " in await ask(connected, "read_report", run=finished)
        assert "fixed" in await ask(connected, "explain_run", run="first")
        assert "'nowhere'" in await refused(connected, "read_report", run="nowhere")
        assert "neither a run nor a file" in await refused(connected, "show_run", run="--help")


async def test_within_its_limit_it_measures_and_optimises(project: Path) -> None:
    async with client(project, "--max-calls", "2000") as connected:
        assert {tool.name for tool in (await connected.list_tools()).tools} == READING | PAYING
        assert "nothing was paid" in await ask(connected, "estimate", file="toy.yaml")
        assert await ask(connected, "budget") == ("left: 2,000 of 2,000 calls\nnothing is running")
        assert "failed: 1 of 5 cases fails" in await ask(connected, "evaluate", file="agent.yaml")
        assert (await ask(connected, "budget")).startswith("left: 1,994 of 2,000 calls")
        started = await ask(connected, "optimize", file="toy.yaml")
        folder = started.splitlines()[0].removeprefix("started: ")
        assert "nothing is running" in await ask(connected, "wait", seconds=600)
        assert "improved" in await ask(connected, "show_run", run=folder)
        both = await ask(connected, "list_runs")
        assert both.count("mcp-") == 2


async def test_a_limit_is_one_for_everything(project: Path) -> None:
    async with client(project, "--max-calls", "6") as connected:
        await ask(connected, "evaluate", file="agent.yaml")
        assert "all 6 calls are used" in await refused(connected, "evaluate", file="agent.yaml")
        assert "all 6 calls are used" in await refused(connected, "optimize", file="toy.yaml")


async def test_files_elsewhere_are_not_measured(project: Path, tmp_path: Path) -> None:
    shutil.copy(project / "toy.yaml", tmp_path / "toy.yaml")
    (project / "link.yaml").symlink_to(tmp_path / "toy.yaml")
    async with client(project, "--max-usd", "1") as connected:
        for name in ("../toy.yaml", str(tmp_path / "toy.yaml"), "link.yaml"):
            assert " is outside " in await refused(connected, "evaluate", file=name)
        assert "there is no file" in await refused(connected, "optimize", file="none.yaml")
        assert "nothing is running" in await refused(connected, "stop")


@pytest.fixture
def slow(project: Path) -> str:
    """A project whose every call takes a minute."""
    text = (project / "toy.yaml").read_text(encoding="utf-8")
    (project / "slow.yaml").write_text(text.replace("0.02", "60"), encoding="utf-8")
    return "slow.yaml"


async def test_what_is_running_is_stopped_and_can_be_resumed(project: Path, slow: str) -> None:
    async with client(project, "--max-calls", "100000") as connected:
        started = await ask(connected, "optimize", file=slow)
        folder = started.splitlines()[0].removeprefix("started: ")
        assert folder.startswith(str(project / "results/optimizer/mcp-"))
        assert f"{folder} is running" in await refused(connected, "optimize", file=slow)
        assert f"stopped: {folder}" in await ask(connected, "stop")
        assert "nothing is running" in await ask(connected, "budget")
        assert "runs resume" in await ask(connected, "show_run", run=folder)


async def test_a_client_that_leaves_stops_what_it_started(project: Path, slow: str) -> None:
    async with client(project, "--max-calls", "100000") as connected:
        started = await ask(connected, "optimize", file=slow)
    async with client(project) as connected:
        folder = started.splitlines()[0].removeprefix("started: ")
        shown = "running"
        while "running" in shown.split():
            await asyncio.sleep(0.2)
            shown = await ask(connected, "show_run", run=folder)
        assert "runs resume" in shown


def test_a_folder_that_is_not_there(burnish: Burnish) -> None:
    said = burnish("mcp", "nowhere")
    assert (said.code, said.out) == (1, "")
    assert "nowhere is no folder" in said.err
