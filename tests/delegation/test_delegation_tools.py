"""Tools of workers in whole runs: commands, functions, MCP servers; and programs as workers."""

import shlex
import sys
from pathlib import Path

import pytest

from burnish.system.sandbox import probe_bubblewrap
from burnish.testing.delegation_world import COMPLETE, Response, RoleTurn, delegation, use, uses
from tests.delegation.delegation_world import FLOW, GOOD, REPORT, DelegationWorld, flawed, in_order
from tests.delegation.runs import read, run

pytestmark = pytest.mark.slow

PROBE = probe_bubblewrap()
FUNCTIONS = """\
tools:
  - {name: add, type: function, description: Adds., file: own.py, function: add}
  - {name: fails, type: function, description: Fails., file: own.py, function: fails}
"""
OWN = """\
def add(a: int, b: int) -> float:
    return float("nan") if a == 0 else a + b

def fails() -> str:
    raise RuntimeError("no luck")
"""
PROGRAM = """\
import json, os, pathlib, sys
task = pathlib.Path(os.environ["BURNISH_TASK_FILE"]).read_text()
mended = "Defects" in task or "Sent back" in task
text = {report!r} if mended else {first!r}
pathlib.Path("report.md").write_text(text)
usage = {{"tokens": 70, "tool_calls": 2, "junk": float("nan")}}
pathlib.Path(os.environ["BURNISH_USAGE_FILE"]).write_text(json.dumps(usage))
print("key", os.environ.get("AGENT_KEY"), "other", os.environ.get("OTHER_KEY"))
sys.exit({code})
"""


def answers(world: DelegationWorld) -> list[str]:
    """What tools said in the longest conversation of a worker."""
    return max((turn.answers for turn in world.turns_of("worker")), key=len)


def one_worker(worker: object) -> DelegationWorld:
    return DelegationWorld(manager=in_order(delegation("w"), COMPLETE), worker=worker)  # pyright: ignore[reportArgumentType]


async def test_commands_run_in_the_workspace_and_without_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-key-0123456789")

    def worker(turn: RoleTurn) -> Response:
        if turn.answers:
            return {"summary": "ok"}
        return uses(
            ("run_command", {"command": "pwd; echo $OPENAI_API_KEY; exit 3"}),
            ("code_execute", {}),
            ("run_command", {"command": 7}),
        )

    world = one_worker(worker)
    monkeypatch.chdir(tmp_path)
    await run(Path(), world, FLOW, task="Try.")
    first, unknown, wrong = answers(world)
    assert first == "exit code 3 (the command ended with exit code 3)\nstdout:\n."
    assert "there is no tool 'code_execute'; there are: file_read" in unknown
    assert "must be a text" in wrong


async def test_a_command_has_a_time_limit(tmp_path: Path) -> None:
    def worker(turn: RoleTurn) -> Response:
        return {"summary": "ok"} if turn.answers else uses(("run_command", {"command": "sleep 30"}))

    world = one_worker(worker)
    await run(tmp_path, world, FLOW + "command_timeout: 0.3\n", task="Try.")
    assert "more than 0.3 s" in answers(world)[0]


async def test_functions_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)

    def worker(turn: RoleTurn) -> Response:
        if turn.answers:
            return {"summary": "ok"}
        return uses(("add", {"a": 2, "b": 3}), ("add", {"a": 0, "b": 3}), ("add", {"a": "x"}),
                    ("fails", {}))  # fmt: skip

    world = one_worker(worker)
    await run(tmp_path, world, FLOW + FUNCTIONS, task="Try.")
    said = answers(world)
    assert said[:2] == ["5", '"NaN"']
    assert "the arguments do not fit" in said[2]
    assert said[3] == "error: RuntimeError: no luck"
    calls = read(tmp_path, "iterations/001/delegations/w/tool_calls.json")
    assert [call["name"] for call in calls] == ["add", "add", "add", "fails"]


async def test_only_the_tools_that_the_manager_allows(tmp_path: Path) -> None:
    world = DelegationWorld(
        manager=in_order(delegation("w", tools_allowed=["file.read", "file_list"]), COMPLETE),
        worker=lambda t: {"summary": "ok"} if t.answers else use("run_command", command="true"),
    )
    await run(tmp_path, world, task="Try.")
    names = [tool.name for tool in world.turns_of("worker")[0].request.tools]
    assert names == ["file_read", "file_list"]
    assert "there is no tool 'run_command'" in answers(world)[0]


async def test_tools_of_an_mcp_server_and_no_server_on_a_replay(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    server = Path(__file__).parents[1] / "targets" / "mcp_server.py"
    text = f"""{FLOW}tools:
  - name: shelf
    type: mcp
    description: The shelf
    command: {sys.executable}
    args: ["{server}"]
    load_tools: [lookup, fails]
"""

    def worker(turn: RoleTurn) -> Response:
        if turn.answers:
            return {"summary": "ok"}
        return uses(("lookup", {"title": "Emma"}), ("fails", {}), ("forbidden", {}))

    world = one_worker(worker)
    first = await run(tmp_path, world, text, task="Try.")
    said = answers(world)
    assert "Emma: shelf 4" in said[0]
    assert said[1].startswith("error: ")
    assert "there is no tool 'forbidden'" in said[2]
    assert await run(tmp_path, world, text, task="Try.") == first


def command_flow(folder: Path, *, first: str, code: int = 0, more: str = "") -> str:
    program = PROGRAM.format(report=REPORT, first=first, code=code)
    (folder / "agent.py").write_text(program)
    return f"""\
workflow: {{name: coder}}
orchestration:
  engine: command
  command:
    command: "{shlex.quote(sys.executable)} {folder / "agent.py"}"
    env: [AGENT_KEY]
    models: {{critic: "openai:eye"}}
deliverables: [report.md]
sandbox: none
{more}"""


async def test_a_program_does_the_work_and_mends_what_the_critic_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_KEY", "agent-value")
    monkeypatch.setenv("OTHER_KEY", "other-value")
    critiques = iter([flawed(0.3, "critical", "too thin"), GOOD])
    world = DelegationWorld(critic=lambda _: next(critiques))
    result = await run(tmp_path, world, command_flow(tmp_path, first="# thin\n"))
    assert (result.status, result.iterations) == ("complete", 2)
    assert result.deliverables[0].read_text() == REPORT
    tokens = result.budget["tokens"]
    assert isinstance(tokens, dict)
    assert tokens["consumed"] == result.spent.tokens + 140
    assert result.spent.unpriced, "what a program costs is unknown, not nothing"
    assert [role for role, _ in world.turns] == ["delegation_critic"] * 2
    said = read(tmp_path, "iterations/001/delegations/command/result.json")["summary"]
    assert said == "key [redacted] other None"
    again = await run(tmp_path, DelegationWorld(), command_flow(tmp_path, first="# thin\n"))
    assert again == result


async def test_a_program_hears_why_its_work_was_sent_back(tmp_path: Path) -> None:
    text = command_flow(tmp_path, first=f"{REPORT}\nTODO\n", more="command_timeout: 20\n")
    result = await run(tmp_path, DelegationWorld(), text)
    assert (result.status, result.iterations) == ("complete", 4)
    assert [verdict.gate for verdict in result.rejections] == ["l0"]
    told = (tmp_path / "run/iterations/003/delegations/command/instructions.md").read_text()
    assert "## Sent back\n\ngate l0" in told


@pytest.mark.skipif(not PROBE.works, reason=f"bubblewrap: {PROBE.reason}")
async def test_an_isolated_program_writes_to_its_workspace_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    text = command_flow(tmp_path, first=REPORT, more="workspace: {copy_from: start}\n")
    own = f"import pathlib\ntry:\n    pathlib.Path('{outside}/x').touch()\nexcept OSError: pass\n"
    (tmp_path / "start").mkdir()
    (tmp_path / "start/agent.py").write_text(own + (tmp_path / "agent.py").read_text())
    text = text.replace(str(tmp_path / "agent.py"), "agent.py").replace("none", "bwrap")
    result = await run(tmp_path, DelegationWorld(), text)
    assert result.status == "complete"
    assert [path.name for path in result.deliverables] == ["report.md"]
    assert list(outside.iterdir()) == []
    assert "the workflow allows network access for the program" in result.notes


async def test_a_program_that_fails(tmp_path: Path) -> None:
    result = await run(tmp_path, DelegationWorld(critic=lambda _: flawed(0.1)),
                       command_flow(tmp_path, first=REPORT, code=3))  # fmt: skip
    assert result.status == "partial"
    failed = read(tmp_path, "iterations/001/delegations/command/result.json")
    assert failed["status"] == "failed"
    assert "exit code 3" in failed["summary"]


METRICS = """\
observability:
  evaluation:
    metrics:
      - {name: words, kind: command, params: {command: "touch litter; echo '{\\"score\\": SCORE}'"}}
      - {name: there, kind: deterministic_assertion, params: {path: report.md, contains: heat}}
      - {name: lean, kind: budget_utility, weight: 0.1}
      - {name: lawful, kind: policy_score}
"""


async def test_metrics_by_command_by_file_by_budget_and_by_policy(tmp_path: Path) -> None:
    text = FLOW + "deliverables: [{path: go.sh, smoke: true}, report.md]\n" + METRICS

    def worker(turn: RoleTurn) -> Response:
        if turn.answers:
            return {"summary": "ok"}
        script = "echo hi > made.txt\n"
        return uses(
            ("file_write", {"path": "report.md", "content": REPORT}),
            ("file_write", {"path": "go.sh", "content": script}),
        )

    result = await run(tmp_path, one_worker(worker), text.replace("SCORE", "0.75"))
    assert result.evaluation is not None
    assert result.status == "complete", result.rejections
    assert result.evaluation.per_metric.keys() == {"words", "there", "lean", "lawful"}
    assert result.evaluation.per_metric["words"] == 0.75
    left = sorted(path.name for path in (tmp_path / "run/workspace").iterdir())
    assert left == ["go.sh", "report.md"], "what checks leave behind is undone"
    (tmp_path / "b").mkdir()
    wrong = await run(tmp_path / "b", one_worker(worker), text.replace("SCORE", "NaN"))
    assert wrong.evaluation is not None
    assert wrong.evaluation.missing == ("words",)
    assert wrong.status == "partial"


async def test_a_script_that_does_not_run_is_sent_back(tmp_path: Path) -> None:
    text = FLOW + "deliverables: [{path: go.py, smoke: true}]\n"

    def worker(turn: RoleTurn) -> Response:
        code = "raise SystemExit('not today')\n"
        return {"summary": "ok"} if turn.answers else use("file_write", path="go.py", content=code)

    result = await run(tmp_path, one_worker(worker), text, task="Make a tool.")
    assert result.rejections[0].gate == "smoke_test"
    assert "not today" in result.rejections[0].reason


async def test_the_workspace_starts_as_a_copy_and_the_original_stays(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/code.py").write_text("print(1)\n")
    text = FLOW + "workspace: {copy_from: project}\ndeliverables: [code.py]\n"

    def worker(turn: RoleTurn) -> Response:
        done = {"summary": "ok"}
        return done if turn.answers else use("file_write", path="code.py", content="print(2)\n")

    result = await run(tmp_path, one_worker(worker), text, task="Change it.")
    assert result.status == "complete"
    assert result.deliverables[0].read_text() == "print(2)\n"
    assert (tmp_path / "project/code.py").read_text() == "print(1)\n"


async def test_a_command_that_takes_the_workspace_away_leaves_an_empty_one(tmp_path: Path) -> None:
    def worker(turn: RoleTurn) -> Response:
        match len(turn.answers):
            case 0:
                return use("file_write", path="a.txt", content="a")
            case 1:
                return use("run_command", command='d="$PWD"; cd /; rm -rf "$d"; ln -s /etc "$d"')
            case 2:
                return use("file_list")
            case _:
                return {"summary": "ok"}

    world = one_worker(worker)
    await run(tmp_path, world, task="Try.")
    assert answers(world)[2] == "(no files)"
    assert (tmp_path / "run/workspace").is_dir()
    assert not (tmp_path / "run/workspace").is_symlink()


async def test_two_at_once_in_one_folder_are_refused(tmp_path: Path) -> None:
    def worker(turn: RoleTurn) -> Response:
        return {"summary": "ok"} if turn.answers else use("second_run")

    (tmp_path / "own.py").write_text(SECOND.format(folder=str(tmp_path)))
    tool = "{name: second_run, type: function, description: d, file: own.py, function: again}"
    world = one_worker(worker)
    await run(tmp_path, world, f"{FLOW}tools: [{tool}]\n", task="Try.")
    assert answers(world)[0].startswith("RunLocked: delegation")


SECOND = """\
import asyncio
from pathlib import Path
from burnish.core.errors import RunLocked
from burnish.system import FileLock

def again() -> str:
    try:
        FileLock.acquire(Path({folder!r}) / "run/run.lock", holding="delegation x")
    except RunLocked as error:
        return f"RunLocked: {{error.message}}"
    return "not locked"
"""
