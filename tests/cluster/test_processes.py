"""Workers that are real processes: killed, stopped, elsewhere, of another version."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from burnish.runs.directory import RunRecord
from tests.cluster.worlds import function_project
from tests.journal.database_proxy import Proxy

pytestmark = [pytest.mark.slow, pytest.mark.crash]

BURNISH = (str(Path(sys.executable).with_name("burnish")),)
DASK = (sys.executable, "-m", "dask")
KEY = "sk-only-for-workers-0123456789"
SUICIDAL = """\
import os, signal
from pathlib import Path

HERE = Path(os.environ["CLUSTER_TEST_FOLDER"])

def answer(query):
    with open(HERE / "calls", "a") as calls:
        calls.write(f"{query}\\n")
    if query == "ask 3" and not (HERE / "died").exists():
        (HERE / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return query.upper()
"""
WAITING = """\
import os, time
from pathlib import Path

HERE = Path(os.environ["CLUSTER_TEST_FOLDER"])

def answer(query):
    (HERE / f"pid-{os.getpid()}").touch()
    time.sleep(3600)
"""
PATIENT = """\
import asyncio, os
from pathlib import Path

HERE = Path(os.environ["CLUSTER_TEST_FOLDER"])
LIMITED = os.environ.get("CLUSTER_TEST_LIMITED")

async def answer(query):
    with open(HERE / "calls", "a") as calls:
        calls.write(f"{os.getpid()} {query}\\n")
    begun, greedy = HERE / f"begun {query}", HERE / "greedy"
    if begun.exists():
        return query.upper()
    begun.touch()
    if LIMITED and not greedy.exists():
        greedy.write_text(query)
        hoard = bytearray(os.urandom(1 << 20)) * 900
        await asyncio.sleep(3600)
    while not (HERE / "go").exists():  # its worker is lost meanwhile
        await asyncio.sleep(0.1)
    return query.upper()
"""
UPLOADED = """\
import os

def answer(query):
    here, key = __file__, os.environ["WORKER_KEY"]
    return query.upper() if "burnish-" in here else f"not uploaded: {here} {key}"
"""


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "CLUSTER_TEST_FOLDER": str(folder), **more}


def evaluate(folder: Path, *flags: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [*BURNISH, "eval", "bot.yaml", *flags]
    return subprocess.run(
        command, cwd=folder, env=environment(folder, **more), capture_output=True, text=True
    )


def only_run(folder: Path) -> Path:
    (run,) = (folder / "results" / "eval").iterdir()
    return run


def wait_for(happened: Callable[[], Any], process: "subprocess.Popen[str]") -> None:
    """Wait until something has happened, as long as the process lives."""
    while not happened():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def test_a_killed_worker_and_another_number_of_workers(tmp_path: Path) -> None:
    function_project(tmp_path, SUICIDAL, cases=8, module="bot_that_dies")
    done = evaluate(tmp_path, "--executor", "processes", "--workers", "2", "--concurrency", "2")
    assert done.returncode == 0, done.stderr
    assert "8 passed, of 8" in done.stdout
    record = RunRecord.read(only_run(tmp_path))
    calls = (tmp_path / "calls").read_text().splitlines()
    assert set(calls) == {f"ask {n}" for n in range(8)}
    lost = record.billed.calls - record.spent.calls
    assert record.spent.calls == 8
    assert 1 <= lost <= 2
    assert len(calls) <= record.billed.calls

    resumed = evaluate(tmp_path, "--executor", "local", "--resume", only_run(tmp_path).name)
    assert resumed.returncode == 0, resumed.stderr
    assert (tmp_path / "calls").read_text().splitlines() == calls


def test_a_second_ctrl_c_ends_the_workers(tmp_path: Path) -> None:
    function_project(tmp_path, WAITING, cases=2, module="bot_that_sleeps")
    command = [*BURNISH, "eval", "bot.yaml", "--executor", "processes", "--workers", "1"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        wait_for(lambda: [*tmp_path.glob("pid-*")], process)
        workers = [int(path.name.removeprefix("pid-")) for path in tmp_path.glob("pid-*")]
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
        events = only_run(tmp_path) / "events.jsonl"
        wait_for(lambda: "stopping" in events.read_text(), process)
        assert all(map(psutil.pid_exists, workers))
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 2, errors
    assert not any(map(psutil.pid_exists, workers))


@contextmanager
def dask(folder: Path, *args: str, log: str, **more: str) -> Generator["subprocess.Popen[str]"]:
    """A process of Dask, with everything that it logs in a file."""
    debug = {"DASK_LOGGING__DISTRIBUTED": "debug"}
    with (
        (folder / log).open("w") as output,
        subprocess.Popen(
            [*DASK, *args],
            cwd=folder,
            env={**environment(folder), **debug, **more},
            stdout=output,
            stderr=output,
            text=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()


@dataclass(frozen=True)
class Scheduler:
    """A scheduler of Dask that runs."""

    process: "subprocess.Popen[str]"
    address: str


@contextmanager
def scheduler(folder: Path, port: int = 0) -> Generator[Scheduler]:
    """A scheduler of Dask, at a free port or at this one."""
    file = folder / "scheduler.json"
    file.unlink(missing_ok=True)
    listens = ("--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
    with dask(
        folder, "scheduler", *listens, "--scheduler-file", str(file), log="scheduler.log"
    ) as process:
        wait_for(lambda: file.exists() and file.read_text().endswith("}"), process)
        yield Scheduler(process, json.loads(file.read_text())["address"])


def worker_args(address: str, *more: str) -> tuple[str, ...]:
    return ("worker", address, "--nthreads", "1", "--no-dashboard", *(more or ("--no-nanny",)))


def test_a_cluster_elsewhere_gets_the_folder_and_the_key(tmp_path: Path) -> None:
    project, machine = tmp_path / "project", tmp_path / "machine"
    project.mkdir()
    machine.mkdir()
    function_project(project, UPLOADED, cases=3, module="bot_that_travels")
    with (
        scheduler(machine) as there,
        dask(machine, *worker_args(there.address), log="worker.log"),
    ):
        done = evaluate(
            project,
            *("--executor", "dask", "--address", there.address),
            *("--upload", ".", "--send-key", "WORKER_KEY"),
            WORKER_KEY=KEY,
        )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "3 passed, of 3" in done.stdout
    logs = [(machine / name).read_text() for name in ("scheduler.log", "worker.log")]
    assert all(logs)
    assert not any(KEY in log for log in logs)
    assert not [*machine.rglob("bot_that_travels.py")]


def test_a_run_survives_the_loss_of_every_part_of_its_cluster(tmp_path: Path) -> None:
    """Four workers are killed in turn; the network is cut, the scheduler restarted, memory ends."""
    function_project(tmp_path, PATIENT, cases=64, module="bot_that_waits_for_all")
    calls = tmp_path / "calls"
    calls.touch()

    def waits_on(*workers: "subprocess.Popen[str]") -> list["subprocess.Popen[str]"]:
        """Those with a case that waits, once every case of a lost worker has begun again."""
        made = [line.partition(" ") for line in calls.read_text().splitlines()]
        times = Counter(query for _, _, query in made)
        waiting = {int(pid) for pid, _, query in made if times[query] == 1}
        lost = waiting - {each.pid for each in workers}
        return [] if lost else [each for each in workers if each.pid in waiting]

    with ExitStack() as cluster:
        first = cluster.enter_context(scheduler(tmp_path))
        port = urlsplit(first.address).port or 0
        network = cluster.enter_context(closing(Proxy("127.0.0.1", port)))

        numbers = itertools.count()

        def worker(*more: str, **environ: str) -> "subprocess.Popen[str]":
            args = worker_args(f"tcp://127.0.0.1:{network.port}", *more)
            log = f"worker-{next(numbers)}.log"
            return cluster.enter_context(dask(tmp_path, *args, log=log, **environ))

        workers = [worker() for _ in range(4)]
        command = [*BURNISH, "eval", "bot.yaml", "--executor", "dask", "--address", first.address]
        run = cluster.enter_context(
            subprocess.Popen(
                [*command, "--concurrency", "4"],
                cwd=tmp_path,
                env=environment(tmp_path),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        while workers:
            wait_for(lambda: waits_on(*workers), run)
            killed = waits_on(*workers)[0]
            workers.remove(killed)
            killed.kill()
        spare = worker()
        wait_for(lambda: waits_on(spare), run)
        network.away = True
        network.cut()
        wait_for(lambda: spare.poll() is not None, run)  # Dask ends a worker that is cut off
        network.away = False
        last = worker()
        wait_for(lambda: waits_on(last), run)
        first.process.kill()
        first.process.wait()
        cluster.enter_context(scheduler(tmp_path, port=port))
        worker("--nanny", "--memory-limit", "700MiB", CLUSTER_TEST_LIMITED="yes")
        (tmp_path / "go").touch()
        output, errors = run.communicate()
    assert run.returncode == 0, errors + output
    assert "64 passed, of 64" in output
    record = RunRecord.read(only_run(tmp_path))
    made = Counter(line.partition(" ")[2] for line in calls.read_text().splitlines())
    assert made.keys() == {f"ask {n}" for n in range(64)}
    assert made[(tmp_path / "greedy").read_text()] == 2, "a worker ran out of memory once"
    assert record.spent.calls == 64
    assert made.total() <= record.billed.calls


def test_another_version_is_refused_with_the_remedy(tmp_path: Path) -> None:
    function_project(tmp_path, UPLOADED, cases=1, module="bot_of_today")
    old = tmp_path / "old" / "burnish-0.0.1.dist-info"
    old.mkdir(parents=True)
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: burnish\nVersion: 0.0.1\n")
    with (
        scheduler(tmp_path) as there,
        dask(tmp_path, *worker_args(there.address), log="w.log", PYTHONPATH=str(old.parent)),
    ):
        done = evaluate(tmp_path, "--executor", "dask", "--address", there.address)
    assert done.returncode == 1
    assert "has burnish 0.0.1, but this run has" in done.stderr + done.stdout
    assert "on the workers" in done.stderr + done.stdout
    assert RunRecord.read(only_run(tmp_path)).billed.calls == 0
