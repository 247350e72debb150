"""`burnish mcp` as a coding agent uses it: its tools, and the protocol's own client."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("mcp", reason="pip install 'burnish[mcp]'")

from mcp import Client, StdioServerParameters

from burnish.cli.mcp_tools import Refused, Tools
from burnish.runs.directory import LOCK, RunRecord
from burnish.system.files import is_held
from tests.cli.console import SMALL, Burnish, until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("toy_plugin")]

EXAMPLES = Path(__file__).parents[2] / "examples"
READING = {"list_runs", "show_run", "read_report", "explain_run", "compare_runs"}
PAYING = {"estimate", "evaluate", "optimize", "wait", "stop", "budget"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with an agent to measure, and a project whose every call takes ten minutes."""
    folder = tmp_path / "project"
    made = shutil.ignore_patterns("results", "__pycache__")
    shutil.copytree(EXAMPLES / "any_agent", folder, ignore=made)
    slow = SMALL.replace("counter: calls.txt", "call_seconds: 600")
    (folder / "slow.yaml").write_text(slow, encoding="utf-8")
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


def folder_of(started: str) -> Path:
    return Path(started.splitlines()[0].removeprefix("started: "))


def wait_until_over(folder: Path) -> None:
    """Nobody drives the run any more, and it can be resumed."""
    until(lambda: not is_held(folder / LOCK))
    assert RunRecord.read(folder).status in {"interrupted", "killed"}


async def test_without_a_limit_it_only_looks(project: Path, finished: Path) -> None:
    async with client(project) as connected:
        tools = (await connected.list_tools()).tools
        assert {tool.name for tool in tools} == READING
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        assert "finished" in await ask(connected, "show_run", run=str(finished))
        assert "# " in await ask(connected, "read_report", run=str(finished))
        assert "'nowhere'" in await refused(connected, "read_report", run="nowhere")
        assert "neither a run nor a file" in await refused(connected, "show_run", run="--help")


async def test_a_client_that_leaves_stops_what_it_started(project: Path) -> None:
    async with client(project, "--max-calls", "2000") as connected:
        assert {tool.name for tool in (await connected.list_tools()).tools} == READING | PAYING
        assert await ask(connected, "budget") == "left: 2,000 of 2,000 calls\nnothing is running"
        folder = folder_of(await ask(connected, "optimize", file="slow.yaml"))
        assert folder.parent == project / "results/optimizer"
        assert f"{folder} is running" in await refused(connected, "optimize", file="slow.yaml")
        assert f"running: {folder}" in await ask(connected, "wait", seconds=0)
    wait_until_over(folder)


async def test_a_signal_ends_the_server_and_what_it_started(project: Path) -> None:
    async with client(project, "--max-calls", "2000") as connected:
        folder = folder_of(await ask(connected, "optimize", file="slow.yaml"))
        server = next(each for each in psutil.Process().children() if "mcp" in each.cmdline())
        server.send_signal(signal.SIGTERM)
        await asyncio.to_thread(until, lambda: not server.is_running())
        assert not is_held(folder / LOCK)


async def test_a_run_ends_with_a_server_that_is_killed(project: Path) -> None:
    """The process of the run holds the other end of a pipe, which no kill can leave open."""
    program = (
        "import asyncio, sys; from pathlib import Path; from burnish.cli.mcp_tools import Tools\n"
        "tools = Tools(folder=Path(sys.argv[1]), max_calls=2000)\n"
        "async def wait():\n"
        "    print(await tools.optimize('slow.yaml'), flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(wait())"
    )
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(project), stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    started = (await server.stdout.readline()).decode()
    server.kill()
    await server.wait()
    wait_until_over(folder_of(started.strip()))


@asynccontextmanager
async def tools_of(folder: Path, **limits: Any) -> AsyncGenerator[Tools]:
    tools = Tools(folder=folder, **limits)
    try:
        yield tools
    finally:
        await tools.close()


async def test_a_limit_is_one_for_everything(project: Path) -> None:
    async with tools_of(project, max_calls=6) as tools:
        assert "failed: 1 of 5 cases fails" in await tools.evaluate("agent.yaml")
        assert await tools.budget() == "left: 0 of 6 calls\nnothing is running"
        for start in (tools.evaluate, tools.optimize):
            with pytest.raises(Refused, match="all 6 calls are used"):
                await start("agent.yaml")


async def test_what_is_running_is_stopped_and_can_be_resumed(project: Path) -> None:
    async with tools_of(project, max_usd=1.0, patience=0.0) as tools:
        folder = folder_of(await tools.optimize("slow.yaml"))
        assert f"stopped: {folder}" in await tools.stop()
        assert "nothing is running" in await tools.budget()
        assert RunRecord.read(folder).status in {"interrupted", "killed"}


async def test_an_evaluation_that_is_cancelled_ends(project: Path) -> None:
    async with tools_of(project, max_calls=100) as tools:
        evaluation = asyncio.create_task(tools.evaluate("agent.yaml"))
        while "running: " not in await tools.budget():
            await asyncio.wait({evaluation}, timeout=0.01)
        evaluation.cancel()
        with pytest.raises(asyncio.CancelledError):
            await evaluation
        assert "nothing is running" in await tools.wait(seconds=600)


async def test_files_elsewhere_are_not_measured(project: Path, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(SMALL, encoding="utf-8")
    (project / "link.yaml").symlink_to(tmp_path / "other.yaml")
    async with tools_of(project, max_usd=1.0) as tools:
        for name in ("../other.yaml", str(tmp_path / "other.yaml"), "link.yaml"):
            with pytest.raises(Refused, match=" is outside "):
                await tools.evaluate(name)
        with pytest.raises(Refused, match="there is no file"):
            await tools.optimize("none.yaml")
        with pytest.raises(Refused, match="nothing is running"):
            await tools.stop()


def test_a_folder_that_is_not_there(burnish: Burnish) -> None:
    said = burnish("mcp", "nowhere")
    assert (said.code, said.out) == (1, "")
    assert "nowhere is no folder" in said.err
