"""From an empty folder and the wheel to an adopted improvement, with no file written by hand."""

import asyncio
import shlex
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.strangers.conftest import LABELS, RULE, TICKETS, Installed, Printed

pytestmark = [pytest.mark.slow]

PROMPT = "You sort the tickets of a shop by category.\n"
SORTING = """
import csv
from pathlib import Path

HERE = Path(__file__).parent


def sort(ticket: str) -> str:
    with (HERE / "tickets.csv").open(encoding="utf-8", newline="") as file:
        right = {row["ticket"]: row["category"] for row in csv.DictReader(file)}
    prompt = (HERE / "prompts/triage.md").read_text(encoding="utf-8")
    category = right[ticket.strip()]
    return category if "in one word" in prompt else f"This is about {category}."
"""
GRAPH = (
    SORTING
    + """

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph


def triage(state: MessagesState) -> dict[str, list[AIMessage]]:
    return {"messages": [AIMessage(sort(str(state["messages"][-1].content)))]}


builder = StateGraph(MessagesState)
builder.add_node("triage", triage)
builder.add_edge(START, "triage")
builder.add_edge("triage", END)
graph = builder.compile()
"""
)
SERVICE = (
    SORTING
    + """

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Desk(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        reply = json.dumps({"reply": sort(body["message"])}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None: ...


server = ThreadingHTTPServer(("127.0.0.1", 0), Desk)
print(server.server_port, flush=True)
server.serve_forever()
"""
)
COMMAND = f"{SORTING}\n\nimport sys\n\nprint(sort(sys.stdin.read()))\n"


@pytest.fixture
def folder(tmp_path: Path, installed: Installed) -> Path:
    """The stranger's folder, with forty tickets."""
    del installed  # it makes the folder
    rows = TICKETS.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "desk/tickets.csv").write_text("".join(rows[:41]), encoding="utf-8")
    return tmp_path / "desk"


def program(folder: Path, name: str, text: str) -> None:
    """An agent that the stranger had before."""
    (folder / "prompts").mkdir()
    (folder / "prompts/triage.md").write_text(PROMPT, encoding="utf-8")
    (folder / name).write_text(text, encoding="utf-8")


def fine(printed: Printed) -> Printed:
    """It worked, and nothing is left to wonder about."""
    assert printed.code == 0, printed
    assert "Traceback" not in printed.err
    assert "error" not in printed.err.lower(), printed.err
    return printed


def content(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def line(printed: Printed, start: str) -> str:
    """The one line that starts so."""
    [only] = (each for each in printed.out.splitlines() if each.startswith(start))
    return only


async def improve(installed: Installed, file: str, text: Path) -> None:
    """Everything after `init`, as its last lines say."""
    before = content(text)
    measured = await installed("eval", file)
    assert (measured.code, measured.err) == (1, ""), measured
    assert "failed: 20 of 20 cases fail" in measured.out
    plan = fine(await installed("optimize", file, "--dry-run"))
    assert "nothing was paid" in plan.out
    finished = fine(await installed("optimize", file))
    assert content(text) == before
    assert f" words added: “{RULE}" in line(finished, "changed ")
    assert line(finished, "sealed test").endswith(", improved")
    assert " calls · " in line(finished, "spent ")
    last = finished.out.splitlines()[-1]
    assert last.startswith("next     burnish adopt ")
    adopted = fine(await installed("adopt", last.split()[3], "--yes"))
    assert f"+{RULE}" in adopted.out.splitlines()
    # A search for texts names the categories, too: they are a closed set.
    _, _, more = content(text).partition(f"{before}{RULE}\n")
    assert more.strip() in ("", f"Answer with exactly one of these, and nothing else: {LABELS}")
    assert content(text).startswith(f"{before}{RULE}\n")
    assert "undo " in adopted.out


async def test_tickets_in_a_csv_and_nothing_else(
    installed: Installed, folder: Path, model: str
) -> None:
    made = fine(await installed("init", "--yes", "--model", "openai:desk", "--base-url", model))
    assert 'input = "ticket"' in made.out
    assert 'expected = "category"' in made.out
    assert made.out.splitlines()[-1].split() == ["burnish", "optimize", "agent.yaml"]
    await improve(installed, "agent.yaml", folder / "instructions.md")


async def test_a_langgraph_program(installed: Installed, folder: Path, model: str) -> None:
    pytest.importorskip("langgraph", reason="pip install 'burnish[langgraph]'")
    program(folder, "desk.py", GRAPH)
    fine(await installed("init", "--yes", "--model", "openai:desk", "--base-url", model))
    assert "from desk import graph" in content(folder / "call_agent.py")
    await improve(installed, "burnish.yaml", folder / "prompts/triage.md")


async def test_a_command(installed: Installed, folder: Path, model: str) -> None:
    program(folder, "desk.py", COMMAND)
    words = ("--command", f"{shlex.quote(sys.executable)} desk.py", "--model", "openai:desk")
    fine(await installed("init", "--yes", *words, "--base-url", model))
    await improve(installed, "burnish.yaml", folder / "prompts/triage.md")


async def test_an_http_endpoint(installed: Installed, folder: Path, model: str) -> None:
    program(folder, "service.py", SERVICE)
    async with served(folder / "service.py") as url:
        body = ("--body", '{"message": "{{input}}"}', "--response-path", "reply")
        words = ("--url", url, *body, "--model", "openai:desk", "--base-url", model)
        fine(await installed("init", "--yes", *words))
        await improve(installed, "burnish.yaml", folder / "prompts/triage.md")


@asynccontextmanager
async def served(script: Path) -> AsyncGenerator[str, None]:
    """The stranger's own service, while it is needed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(script), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = await asyncio.wait_for(process.stdout.readline(), 120)
        yield f"http://127.0.0.1:{port.decode().strip()}/"
    finally:
        process.kill()
        await asyncio.wait_for(process.wait(), 120)
