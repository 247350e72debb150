"""`burnish serve` as a process of its own."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.cli.console import START
from tests.fork_server import SERVICE, ForkedProcess

PATIENCE = 120.0


class Worker:
    """A process of a service that only drives runs."""

    arguments: tuple[str, ...] = ("--role", "worker")
    says = "driving runs"

    def __init__(self, cwd: Path, *arguments: str) -> None:
        self._said = (cwd / "stderr.txt").open("a+")
        self.process = ForkedProcess(
            START,
            *("serve", *self.arguments, *arguments),
            cwd=cwd,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            streams=(subprocess.DEVNULL, subprocess.PIPE, self._said.fileno()),
            imported=SERVICE,
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        assert self.line.startswith(self.says), (cwd / "stderr.txt").read_text()

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """As an operator would; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE)

    def close(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._said.close()


class Process(Worker):
    """A service in another process, and a client for it."""

    arguments = ("--port", "0")
    says = "serving http://"

    def __init__(self, cwd: Path, *arguments: str) -> None:
        super().__init__(cwd, *arguments)
        self.client = httpx.Client(
            base_url=self.line.split()[1] + "/api/v1", timeout=PATIENCE, trust_env=False
        )

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        """Ask for something."""
        answer = self.client.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def get(self, path: str) -> dict[str, Any]:
        """Look at something."""
        answer = self.client.get(path)
        assert answer.is_success, answer.text
        return answer.json()

    def until(self, path: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Look until it is so."""
        end = time.monotonic() + PATIENCE
        while not holds(found := self.get(path)):
            assert time.monotonic() < end, found
            time.sleep(0.02)
        return found

    def close(self) -> None:
        """Leave nothing behind."""
        self.client.close()
        super().close()


@contextmanager
def working(cwd: Path, *arguments: str) -> Generator[Worker, None, None]:
    """A worker while it is entered."""
    worker = Worker(cwd, *arguments)
    try:
        yield worker
    finally:
        worker.close()


@contextmanager
def serving(cwd: Path, *arguments: str) -> Generator[Process, None, None]:
    """A service while it is entered."""
    process = Process(cwd, *arguments)
    try:
        yield process
    finally:
        process.close()
