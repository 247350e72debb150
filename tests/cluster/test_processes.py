"""Workers that are real processes: killed, stopped, elsewhere, of another version."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
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

async def answer(query):
    with open(HERE / "calls", "a") as calls:
        calls.write(f"{os.getpid()} {query}\\n")
    begun = HERE / f"begun {query}"
    if not begun.exists():
        begun.touch()
        while not (HERE / "go").exists():  # its worker is lost meanwhile
            await asyncio.sleep(0.1)
    return query.upper()
"""
HUNGRY = """\
import os, time
from pathlib import Path

HERE = Path(os.environ["CLUSTER_TEST_FOLDER"])

def answer(query):
    with open(HERE / "calls", "a") as calls:
        calls.write(f"{query}\\n")
    if query == "ask 1":
        room = bytearray(os.urandom(1 << 20)) * 1500
        while room:  # its memory is beyond what Dask allows: only the end of the worker helps
            time.sleep(0.1)
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


def evaluation_on(folder: Path, address: str) -> "subprocess.Popen[str]":
    """An evaluation on the workers of a cluster, four cases at once."""
    command = [*BURNISH, "eval", "bot.yaml", "--executor", "dask", "--address", address]
    return subprocess.Popen(
        [*command, "--concurrency", "4"],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
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


@contextmanager
def scheduler_process(
    folder: Path, port: int = 0
) -> Generator[tuple["subprocess.Popen[str]", str]]:
    """A scheduler of Dask: its process and its address."""
    file = folder / "scheduler.json"
    file.unlink(missing_ok=True)
    listens = ("--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
    with dask(
        folder, "scheduler", *listens, "--scheduler-file", str(file), log="scheduler.log"
    ) as process:
        wait_for(lambda: file.exists() and file.read_text().endswith("}"), process)
        yield process, json.loads(file.read_text())["address"]


@contextmanager
def scheduler(folder: Path) -> Generator[str]:
    """A scheduler of Dask; its address."""
    with scheduler_process(folder) as (_, address):
        yield address


def worker_args(address: str, *more: str) -> tuple[str, ...]:
    return ("worker", address, *(more or ("--no-nanny",)), "--nthreads", "1", "--no-dashboard")


def test_a_cluster_elsewhere_gets_the_folder_and_the_key(tmp_path: Path) -> None:
    project, machine = tmp_path / "project", tmp_path / "machine"
    project.mkdir()
    machine.mkdir()
    function_project(project, UPLOADED, cases=3, module="bot_that_travels")
    with (
        scheduler(machine) as address,
        dask(machine, *worker_args(address), log="worker.log"),
    ):
        done = evaluate(
            project,
            *("--executor", "dask", "--address", address),
            *("--upload", ".", "--send-key", "WORKER_KEY"),
            WORKER_KEY=KEY,
        )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "3 passed, of 3" in done.stdout
    logs = [(machine / name).read_text() for name in ("scheduler.log", "worker.log")]
    assert all(logs)
    assert not any(KEY in log for log in logs)
    assert not [*machine.rglob("bot_that_travels.py")]


def test_workers_are_killed_in_turn_and_the_network_is_cut(tmp_path: Path) -> None:
    function_project(tmp_path, PATIENT, cases=32, module="bot_that_waits")
    calls = tmp_path / "calls"
    calls.touch()

    def waiting(*workers: "subprocess.Popen[str]") -> list["subprocess.Popen[str]"]:
        """Those with a case that waits: one that has begun once."""
        made = [line.partition(" ") for line in calls.read_text().splitlines()]
        times = Counter(query for _, _, query in made)
        pids = {int(pid) for pid, _, query in made if times[query] == 1}
        return [each for each in workers if each.pid in pids]

    with ExitStack() as cluster:
        address = cluster.enter_context(scheduler(tmp_path))
        port = urlsplit(address).port or 0
        network, other = (
            cluster.enter_context(closing(Proxy("127.0.0.1", port))) for _ in range(2)
        )

        def worker(number: int, way: Proxy) -> "subprocess.Popen[str]":
            args = worker_args(f"tcp://127.0.0.1:{way.port}")
            return cluster.enter_context(dask(tmp_path, *args, log=f"worker-{number}.log"))

        other.away = True
        workers = [worker(number, network) for number in range(4)]
        last = worker(4, other)  # it waits for its way to the scheduler
        run = cluster.enter_context(evaluation_on(tmp_path, address))
        for _ in range(3):
            wait_for(lambda: waiting(*workers), run)
            killed = waiting(*workers)[0]
            workers.remove(killed)
            killed.kill()
        wait_for(lambda: waiting(*workers), run)
        network.away = True
        network.cut()
        wait_for(lambda: workers[0].poll() is not None, run)  # Dask ends what is cut off
        other.away = False
        wait_for(lambda: waiting(last), run)
        (tmp_path / "go").touch()
        output, errors = run.communicate()
    assert run.returncode == 0, errors + output
    assert "32 passed, of 32" in output
    record = RunRecord.read(only_run(tmp_path))
    made = Counter(line.partition(" ")[2] for line in calls.read_text().splitlines())
    assert made.keys() == {f"ask {n}" for n in range(32)}
    assert record.spent.calls == 32
    assert made.total() <= record.billed.calls


def test_the_scheduler_restarts_in_the_middle(tmp_path: Path) -> None:
    function_project(tmp_path, PATIENT, cases=12, module="bot_that_stays_calm")
    calls = tmp_path / "calls"
    calls.touch()
    with ExitStack() as cluster:
        process, address = cluster.enter_context(scheduler_process(tmp_path))
        first = cluster.enter_context(dask(tmp_path, *worker_args(address), log="worker-0.log"))
        run = cluster.enter_context(evaluation_on(tmp_path, address))
        wait_for(lambda: len(calls.read_text().splitlines()) == 4, run)
        process.kill()
        process.wait()
        port = urlsplit(address).port or 0
        _, again = cluster.enter_context(scheduler_process(tmp_path, port))
        assert again == address
        wait_for(lambda: first.poll() is not None, run)  # Dask ends workers without a scheduler
        (tmp_path / "go").touch()
        cluster.enter_context(dask(tmp_path, *worker_args(address), log="worker-1.log"))
        output, errors = run.communicate()
    assert run.returncode == 0, errors + output
    assert "12 passed, of 12" in output
    record = RunRecord.read(only_run(tmp_path))
    made = Counter(line.partition(" ")[2] for line in calls.read_text().splitlines())
    assert made == {f"ask {n}": 2 if n < 4 else 1 for n in range(12)}
    assert (record.spent.calls, record.billed.calls) == (12, 16)


def test_a_worker_that_runs_out_of_memory_loses_its_cases_only(tmp_path: Path) -> None:
    """Dask starts another one; a case that no worker has the memory for is missing."""
    function_project(tmp_path, HUNGRY, cases=6, module="bot_that_eats")
    with ExitStack() as cluster:
        address = cluster.enter_context(scheduler(tmp_path))
        guarded = worker_args(address, "--nanny", "--memory-limit", "1GB")
        cluster.enter_context(dask(tmp_path, *guarded, log="worker.log"))
        done = evaluate(tmp_path, "--executor", "dask", "--address", address, "--concurrency", "1")
    assert done.returncode == 1, done.stderr + done.stdout
    calls = Counter((tmp_path / "calls").read_text().splitlines())
    assert calls == {"ask 0": 1, "ask 1": 3, "ask 2": 1, "ask 3": 1, "ask 4": 1, "ask 5": 1}
    assert "5 passed, 1 missing, of 6" in done.stdout
    assert "3 workers ended while they ran this case" in done.stdout
    record = RunRecord.read(only_run(tmp_path))
    assert (record.spent.calls, record.billed.calls) == (5, 8)


def test_another_version_is_refused_with_the_remedy(tmp_path: Path) -> None:
    function_project(tmp_path, UPLOADED, cases=1, module="bot_of_today")
    old = tmp_path / "old" / "burnish-0.0.1.dist-info"
    old.mkdir(parents=True)
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: burnish\nVersion: 0.0.1\n")
    with (
        scheduler(tmp_path) as address,
        dask(tmp_path, *worker_args(address), log="w.log", PYTHONPATH=str(old.parent)),
    ):
        done = evaluate(tmp_path, "--executor", "dask", "--address", address)
    assert done.returncode == 1
    assert "has burnish 0.0.1, but this run has" in done.stderr + done.stdout
    assert "on the workers" in done.stderr + done.stdout
    assert RunRecord.read(only_run(tmp_path)).billed.calls == 0
