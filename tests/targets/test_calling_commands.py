"""Commands as agents: real processes, their ends, their pipes, and that none is left behind."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case, Turn
from burnish.core.content import canonical
from burnish.core.errors import ConfigError
from burnish.journal.executors import is_infrastructure
from burnish.system.processes import process_entry
from burnish.targets.callables import CommandTarget
from burnish.targets.callables.programs import LONGEST_OUTPUT
from burnish.testing import check_target
from tests.targets.calling_agents import SCENARIO, TWO_TURNS, outcome, receipt, user

UPPER = "import sys; print(sys.stdin.buffer.read().decode().upper())"
TOLD = (
    "import json, sys; told = json.load(sys.stdin)\n"
    "print(json.dumps({'answer': told['input'], 'before': len(told['history'])}))"
)


def _open_pipes() -> set[str]:
    """The pipes that this process has open, by their numbers."""
    links = (os.path.realpath(each) for each in Path("/proc/self/fd").iterdir())
    return {link for link in links if "pipe:" in link}


def python(code: str, *arguments: str) -> tuple[str, ...]:
    # Without the site packages a process starts in half the time.
    return (sys.executable, "-S", "-c", code, *arguments)


async def test_the_contract() -> None:
    target = CommandTarget(command=python(UPPER))
    await check_target(target, [Case.single("grüß dich 🙂"), TWO_TURNS])
    assert (await outcome(target, "é 日本語")).output == "É 日本語"
    assert target.remembers is False


async def test_an_argument_is_one_argument_and_no_shell_sees_it() -> None:
    code = "import sys; print(sys.argv[1:])"
    tricky = "$(touch x); 'a' \"b\" {session} *"
    found = await outcome(CommandTarget(command=python(code, "--q={input}")), tricky)
    assert found.output == str([f"--q={tricky}"])


async def test_a_session_is_one_conversations_own() -> None:
    code = "import sys; print(sys.argv[1])"
    target = CommandTarget(command=python(code, "{session}"))
    found = await outcome(target, TWO_TURNS)
    assert found.replies[0] == found.replies[1] != ""
    assert target.remembers


async def test_the_conversation_as_json() -> None:
    target = CommandTarget(command=python(TOLD), input="json")
    found = await outcome(target, TWO_TURNS)
    assert found.data == {"answer": "Who am I?", "before": 2}
    assert target.remembers
    path = CommandTarget(command=python(TOLD), input="json", response_path="answer")
    assert (await outcome(path, TWO_TURNS)).replies == ("My name is Ana.", "Who am I?")


async def test_where_and_with_what_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASS", "hunter2-hunter2")
    code = (
        "import os; print(os.path.basename(os.getcwd()), os.environ['KEY'], 'PATH' in os.environ)"
    )
    target = CommandTarget(command=python(code), cwd=tmp_path, env={"KEY": "${SHOP_PASS}"})
    found = await outcome(target, "q")
    assert found.output == f"{tmp_path.name} hunter2-hunter2 True"
    assert "hunter2" not in canonical(dict(target.description.config)).decode()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import sys; sys.exit('no such\\n shop')", "exit code 1: no such shop"),
        ("raise SystemExit(7)", "exit code 7"),
        ("import os; os.kill(os.getpid(), 9)", "signal 9"),
        ("import sys; sys.stderr.write('x' * 10**6 + ' the end'); sys.exit(2)", "x the end"),
    ],
)
async def test_a_bad_end_is_the_agents_failure(code: str, words: str) -> None:
    found = await receipt(CommandTarget(command=python(code)), TWO_TURNS)
    assert found.value.failure is not None
    assert found.value.failed
    assert found.value.failure.message.endswith(words)
    assert len(found.value.failure.message) < 3000
    assert found.spend.calls == 1


async def test_last_words_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASS", "hunter2-hunter2")
    code = "import os, sys; sys.exit('refused: ' + os.environ['KEY'])"
    found = await outcome(CommandTarget(command=python(code), env={"KEY": "${SHOP_PASS}"}), "q")
    assert found.failure is not None
    assert found.failure.message.endswith("refused: [redacted]")


async def test_an_exit_code_may_say_come_back_later() -> None:
    code = "import sys; print('rate limit', file=sys.stderr); sys.exit(75)"
    with pytest.raises(ConnectionError, match="exit code 75: rate limit") as raised:
        await outcome(CommandTarget(command=python(code)), "q")
    assert is_infrastructure(raised.value)


async def test_output_without_an_end_is_bounded() -> None:
    # The child goes on writing after the command was killed, until its group is.
    code = "import subprocess; subprocess.run(['yes'])"
    before = _open_pipes()
    found = await outcome(CommandTarget(command=python(code)), "q")
    assert found.failure is not None
    assert f"more than {LONGEST_OUTPUT} bytes" in found.failure.message
    for _ in range(100):  # The loop closes them in its next rounds.
        await asyncio.sleep(0)
    assert _open_pipes() == before


async def test_a_large_input_and_output_pass_through() -> None:
    text = "line é\n" * 100_000
    found = await outcome(CommandTarget(command=python(UPPER)), text)
    assert found.output == text.upper().rstrip("\n")


async def test_a_program_that_does_not_read_is_no_trouble() -> None:
    found = await outcome(CommandTarget(command=python("print('deaf')")), "x" * 1_000_000)
    assert found.output == "deaf"


async def test_an_input_too_long_for_an_argument_is_said() -> None:
    found = await outcome(CommandTarget(command=python("print(1)", "{input}")), "x" * 200_000)
    assert found.failure is not None
    assert "pass it on stdin" in found.failure.message


async def test_output_that_is_no_text_is_still_a_reply() -> None:
    code = "import sys; sys.stdout.buffer.write(b'a\\xffb')"
    assert (await outcome(CommandTarget(command=python(code)), "q")).output == "a\ufffdb"


LEAVES_A_CHILD = (
    "import subprocess, sys, time\n"
    "child = subprocess.Popen(['sleep', '3600'])\n"
    "open(sys.argv[1], 'w').write(str(child.pid)); {}"
)


@pytest.mark.slow
async def test_too_slow_is_ended_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    leaves_a_child = f"sleep 3600 & echo $! > '{note}'; wait"
    target = CommandTarget(command=("sh", "-c", leaves_a_child), timeout=1.5, processes=tmp_path)
    with pytest.raises(TimeoutError, match=r"ran for more than 1\.5 s"):
        await outcome(target, "q")
    assert not is_alive(int(note.read_text()))
    assert records_in(tmp_path) == []


async def test_what_a_command_leaves_running_does_not_hold_its_reply(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = LEAVES_A_CHILD.format("print('done')")
    found = await outcome(CommandTarget(command=python(code, str(note))), "q")
    assert found.output == "done"
    assert not is_alive(int(note.read_text()))


async def test_a_cancelled_case_leaves_no_process(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = LEAVES_A_CHILD.format("time.sleep(3600)")
    target = CommandTarget(command=python(code, str(note)))
    running = asyncio.create_task(outcome(target, "q"))
    await eventually(lambda: note.exists() and note.read_text() != "")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not is_alive(int(note.read_text()))


DRIVER = (
    "import asyncio, sys; from pathlib import Path\n"
    "from burnish.core.cases import Case\n"
    "from burnish.journal.once import DirectEffects\n"
    "from burnish.targets.callables import CommandTarget\n"
    "target = CommandTarget(command=('sleep', '3600'), processes=Path(sys.argv[1]))\n"
    "asyncio.run(target.run(target.baseline, Case.single('q'), draw=0, effects=DirectEffects()))"
)


@pytest.mark.crash
async def test_what_a_killed_burnish_left_running_is_ended_by_the_next(tmp_path: Path) -> None:
    driver = await asyncio.create_subprocess_exec(sys.executable, "-c", DRIVER, str(tmp_path))
    await eventually(lambda: records_in(tmp_path) != [])
    group = int(records_in(tmp_path)[0].stem)
    target = CommandTarget(command=python("print('ok')"), processes=tmp_path)
    await outcome(target, "q")
    assert is_alive(group), "somebody else's process was ended while its driver lives"
    driver.kill()
    await driver.wait()
    assert is_alive(group)
    await outcome(CommandTarget(command=target.command, processes=tmp_path), "q")
    assert not is_alive(group)
    assert records_in(tmp_path) == []


def records_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.json"))


async def eventually(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 120
    while not condition() and time.monotonic() < limit:  # noqa: ASYNC110 - nothing would tell
        await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    entry = process_entry(pid)
    return entry is not None and entry.is_running


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"command": ("no-such-program-at-all",)}, "there is no program"),
        ({"command": ("./gone.sh",)}, "there is no program"),
        ({"cwd": Path("/no/such/folder")}, "there is no folder"),
        ({"input": "argument"}, "has no {input}"),
        ({"env": {"A": "${NOT_SET_AT_ALL}"}}, "NOT_SET_AT_ALL is not set"),
        ({"env": {"API_KEY": "sk-abcdefghijklmnop"}}, "looks like a secret"),
        ({"response_path": "a."}, "is not a path"),
        ({"command": ()}, "there is no command"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_started(
    settings: dict[str, Any], words: str
) -> None:
    whole: dict[str, Any] = {"command": python("1"), **settings}
    with pytest.raises(ConfigError) as raised:
        CommandTarget(**whole)
    assert words in str(raised.value)


async def test_two_conversations_at_once_never_mix() -> None:
    cases = [Case(turns=(Turn(input=f"{n}a"), Turn(input=f"{n}b"))) for n in range(4)]
    target = CommandTarget(command=python(UPPER))
    found = await asyncio.gather(*(outcome(target, case) for case in cases))
    assert [each.replies for each in found] == [(f"{n}A", f"{n}B") for n in range(4)]


async def test_a_scenario_with_a_command() -> None:
    target = CommandTarget(command=python(UPPER), user=user("To Oslo."))
    assert (await outcome(target, SCENARIO)).replies == ("I NEED A FLIGHT.", "TO OSLO.")
