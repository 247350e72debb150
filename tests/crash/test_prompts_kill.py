"""With real processes and a real SIGKILL: the prompts stay the user's own, however a run ends."""

import json
import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from burnish.system.processes import process_entry
from burnish.system.restoration import borrowed_folder, restore_abandoned
from burnish.targets.prompts.target import sweep
from tests.crash.nursery import ROOT, Born, nursery
from tests.fork_server import ForkedProcess
from tests.targets.prompts.prompt_files import names_in

pytestmark = pytest.mark.crash

CHILD = "tests.crash.prompts_child"
MAIN = f"import asyncio; from {CHILD} import main; asyncio.run(main())"
OWN = {"system": b"\xef\xbb\xbfBe brief.\r\n", "skill": b"Make tea."}


class World:
    """A folder with prompts, and processes that try candidates in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        (folder / "prompts").mkdir()
        for name, content in OWN.items():
            self.prompt(name).write_bytes(content)
        (folder / "store.json").write_text(json.dumps({"rule": "No milk."}))

    def prompt(self, name: str) -> Path:
        return self.folder / "prompts" / f"{name}.md"

    @property
    def prompts(self) -> dict[str, bytes]:
        return {name: self.prompt(name).read_bytes() for name in OWN}

    @property
    def rule(self) -> str:
        return json.loads((self.folder / "store.json").read_text())["rule"]

    @property
    def records(self) -> list[Path]:
        """Of borrowed files."""
        return sorted(borrowed_folder(self.home).glob("[0-9]*.json"))

    @contextmanager
    def at_work(self, what: str) -> Generator[ForkedProcess, None, None]:
        """A process whose agent is at work under a candidate; it leads a session of its own."""
        child = ForkedProcess(
            f"import os; os.setsid(); {MAIN}",
            *(str(self.folder), what),
            cwd=ROOT,
            env={**os.environ, "BURNISH_HOME": str(self.home)},
            imported=(CHILD,),
        )
        try:
            until((self.folder / "ready").exists)
            yield child
        finally:
            child.kill()
            child.communicate()

    def forked(self, what: str, *flags: str) -> Born:
        """A process from the nursery, to its end; to callbacks it is a program of its own."""
        return nursery(0, CHILD).run(
            MAIN,
            str(self.folder),
            what,
            *flags,
            cwd=ROOT,
            outputs=self.folder,
            env={**os.environ, "BURNISH_HOME": str(self.home)},
        )

    def baseline(self) -> dict[str, Any]:
        done = self.forked("baseline")
        assert done.code == 0, done.err
        return json.loads(done.out)


def until(seen: Callable[[], bool], seconds: float = 120) -> None:
    limit = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.01)


def guards_of(owner: int) -> list[int]:
    """The processes whose command line says that they guard this one."""
    guards: list[int] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            command = process.cmdline()
            if str(owner) in command and any("restoration" in part for part in command):
                guards.append(process.pid)
    return guards


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("what", ["wait", "command", "fork"])
def test_killed_and_the_guard_puts_back(world: World, what: str) -> None:
    with world.at_work(what) as child:
        assert world.prompts == {
            "system": b"\xef\xbb\xbfsystem of candidate 0",
            "skill": b"skill of candidate 0",
        }
        [guard] = guards_of(child.pid)
        child.kill()
        until(lambda: world.prompts == OWN)
        until(lambda: not world.records)
        until(lambda: process_entry(guard) is None)
        if what != "wait":
            left = int((world.folder / "pid").read_text())
            assert process_entry(left) is not None, "it was to be alive while the guard worked"
            os.kill(left, signal.SIGKILL)
    assert names_in(world.folder / "prompts") == ["skill.md", "system.md"]


def test_the_guard_killed_too_the_next_command_puts_back(world: World) -> None:
    with world.at_work("wait") as child:
        assert restore_abandoned(borrowed_folder(world.home)) == []
        for guard in guards_of(child.pid):
            os.kill(guard, signal.SIGKILL)
        child.kill()
        child.wait()
        assert world.prompts != OWN
        done = restore_abandoned(borrowed_folder(world.home))
    assert world.prompts == OWN
    assert sorted((Path(each.path).name, each.fate) for each in done) == [
        ("skill.md", "put back"),
        ("system.md", "put back"),
    ]
    assert restore_abandoned(borrowed_folder(world.home)) == []


def test_the_guard_killed_too_the_next_target_puts_back_callbacks_as_well(world: World) -> None:
    with world.at_work("wait") as child:
        for guard in guards_of(child.pid):
            os.kill(guard, signal.SIGKILL)
    assert world.rule == "rule of candidate 0"
    told = world.baseline()
    assert told["values"] == {"system": "Be brief.\r\n", "skill": "Make tea.", "rule": "No milk."}
    assert len(told["notes"]) == 3
    assert world.prompts == OWN
    assert world.rule == "No milk."
    assert world.baseline()["notes"] == []


def test_what_somebody_else_wrote_behind_a_callback_stays(world: World) -> None:
    with world.at_work("wait"):
        pass
    (world.folder / "store.json").write_text(json.dumps({"rule": "edited by hand"}))
    assert world.baseline()["values"]["rule"] == "edited by hand"


def test_what_somebody_else_wrote_to_a_file_stays(world: World) -> None:
    with world.at_work("wait") as child:
        world.prompt("skill").write_text("edited by hand")
        child.kill()
        until(lambda: not world.records)
    assert world.prompts == {**OWN, "skill": b"edited by hand"}


def test_ctrl_c_puts_back_before_the_program_ends(world: World) -> None:
    with world.at_work("wait") as child:
        os.killpg(child.pid, signal.SIGINT)
        child.wait(120)
        assert world.prompts == OWN
        assert world.rule == "No milk."
        assert world.records == []
        assert guards_of(child.pid) == []


def test_killed_at_its_file_operations(world: World) -> None:
    kills = 0
    for number in range(1, 60, 4):
        code = world.forked("candidates", "--file", str(number)).code
        kills += code == -signal.SIGKILL
        until(lambda: world.prompts == OWN and not world.records)
        assert names_in(world.folder / "prompts") == ["skill.md", "system.md"]
        if code == 0:
            break
    assert kills >= 8, kills
    assert world.baseline()["values"]["rule"] == "No milk."


def test_a_write_back_that_was_killed_is_undone(world: World) -> None:
    new = {"system": b"\xef\xbb\xbfnew system", "skill": b"new skill"}
    kills = 0
    while world.prompts == OWN:
        kills += 1
        ended = world.forked("write back", "--file", str(2 * kills + 5)).code
        assert ended in (0, -signal.SIGKILL)
        values = world.baseline()["values"]
        # All or none; killed when all was written, it stays.
        assert (world.prompts, values["rule"]) in ((OWN, "No milk."), (new, "new rule")), kills
        assert world.records == []
        assert names_in(world.folder / "prompts") == ["skill.md", "system.md"]
    assert kills >= 5


def test_folders_of_a_killed_run_are_swept(world: World) -> None:
    folders = world.home / "isolated"
    with world.at_work("isolated"):
        assert len(names_in(folders)) == 2
        sweep(folders)
        assert len(names_in(folders)) == 2
    sweep(folders)
    assert names_in(folders) == []
    assert world.prompts == OWN
