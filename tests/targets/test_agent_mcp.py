"""MCP servers as tools of an agent: a real child process, a real socket."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from burnish.core.cases import Case, Outcome
from burnish.core.errors import ConfigError
from burnish.journal.once import DirectEffects
from burnish.models.chat import ChatReply, ChatRequest
from tests.targets.agent_world import PLAIN, target, uses, write_agent

pytestmark = pytest.mark.slow

pytest.importorskip("mcp", reason="the extra mcp is not installed")

SERVER = Path(__file__).parent / "mcp_server.py"


def stdio(more: str = "") -> str:
    return f"""{PLAIN}tools:
  - name: shelf
    type: mcp
    description: The shelf
    command: {sys.executable}
    args: ["{SERVER}"]
    env: {{SHELF_KEY: "${{SHELF_SECRET}}"}}
{more}"""


def asks(tool: str, **arguments: str) -> ChatReply:
    return uses(tool, **arguments)


async def run(path: Path, first: ChatReply) -> tuple[Outcome, list[ChatRequest]]:
    def respond(request: ChatRequest, draw: int) -> str | ChatReply:
        last = request.messages[-1]
        return last.content if last.role == "tool" else first

    made, backend = target(path, respond)
    try:
        receipt = await made.run(made.baseline, Case.single("go"), draw=0, effects=DirectEffects())
        again = await made.run(made.baseline, Case.single("again"), draw=0, effects=DirectEffects())
        assert again.value.replies == receipt.value.replies
    finally:
        await made.close()
    return receipt.value, backend.asked


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("SHELF_SECRET", "k-42")
    monkeypatch.setenv("UNRELATED_SECRET", "not for servers")


async def test_a_server_over_stdio(tmp_path: Path) -> None:
    outcome, asked = await run(write_agent(tmp_path, stdio()), asks("lookup", title="Emma"))
    assert outcome.replies == ("Emma: shelf 4 (k-42)",)
    assert {tool.name for tool in asked[0].tools} == {"lookup", "forbidden", "fails"}
    call = outcome.trace.steps[0].tools[0]
    assert (call.name, call.arguments) == ("lookup", {"title": "Emma"})


async def test_only_the_tools_that_are_asked_for(tmp_path: Path) -> None:
    text = stdio("    load_tools: [lookup]\n")
    _, asked = await run(write_agent(tmp_path, text), asks("lookup", title="Emma"))
    assert [tool.name for tool in asked[0].tools] == ["lookup"]


async def test_what_a_retrieving_server_brings_are_passages(tmp_path: Path) -> None:
    text = stdio("    is_retrieval: true\n")
    outcome, _ = await run(write_agent(tmp_path, text), asks("lookup", title="Emma"))
    assert outcome.trace.steps[0].tools[0].passages == ("Emma: shelf 4 (k-42)",)


async def test_a_server_that_does_not_start(tmp_path: Path) -> None:
    text = stdio().replace(str(SERVER), str(tmp_path / "gone.py"))
    made, _ = target(write_agent(tmp_path, text))
    with pytest.raises(ConfigError, match="the MCP server did not start"):
        await made.run(made.baseline, Case.single("go"), draw=0, effects=DirectEffects())
    await made.close()


@pytest.fixture
def port() -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, str(SERVER), str(number)],
        env={**os.environ, "SHELF_KEY": "http"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(number)
        yield number
    finally:
        server.terminate()
        server.wait()


def _wait_for(number: int) -> None:
    for _ in range(2400):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", number)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the server did not come up")


async def test_a_server_over_http(tmp_path: Path, port: int) -> None:
    text = f"""{PLAIN}tools:
  - {{name: shelf, type: mcp, description: d, transport: http, url: "http://127.0.0.1:{port}/mcp"}}
"""
    outcome, _ = await run(write_agent(tmp_path, text), asks("lookup", title="Emma"))
    assert outcome.replies == ("Emma: shelf 4 (http)",)
