"""The tools of `burnish mcp`. Each is a command in a process of its own, with what it prints."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from threading import Thread
from typing import Any

from burnish.core.errors import BurnishError, ConfigError, MissingExtra, Problem
from burnish.core.formatting import money
from burnish.core.money import NOTHING, Spend
from burnish.reports.rendering import NAME as REPORT
from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import RunRecord, find_run
from burnish.system.extras import install_command
from burnish.version import VERSION

_MOST = 60_000
"""Characters of an answer: what a model can read at once."""
_PATIENCE = 3.0
_LAST_SECOND = 1.0
"""Seconds for a run to end after SIGTERM: a client kills this process two seconds later or so."""
_LONGEST_WAIT = 600.0
_NANO = 1_000_000_000
_START = "from burnish.cli import main; from burnish.cli.mcp_tools import attended; attended(main)"
_INSTRUCTIONS = """burnish measures AI agents and makes them better, with honest statistics.
Runs are named by their id, the beginning of it, or their folder. A gain counts only if burnish
says `improved`; report what it says of chance and noise too. Adopting a result is for the user."""


def serve_tools(folder: Path, *, max_calls: int | None, max_usd: float | None) -> None:
    """Answer a client on stdin and stdout until it leaves."""
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp.types import ToolAnnotations
    except ImportError:
        raise MissingExtra(
            "tools for coding agents need mcp, which is not installed",
            remedy=install_command("mcp"),
        ) from None
    if not folder.is_dir():
        raise ConfigError([Problem(where="FOLDER", message=f"{folder} is no folder")])
    tools = Tools(folder=folder.resolve(), max_calls=max_calls, max_usd=max_usd)

    def refusing(tool: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str]]:
        """The tool, whose refusals are answers and not faults of the server."""

        @wraps(tool)
        async def answer(*args: Any, **kwargs: Any) -> str:
            try:
                return await tool(*args, **kwargs)
            except Refused as error:
                raise ToolError(str(error)) from None

        return answer

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[None]:
        with _closed_by_signal(tools):
            try:
                yield
            finally:
                await tools.close()

    server: Any = MCPServer(
        "burnish", instructions=_INSTRUCTIONS, version=VERSION, lifespan=lifespan
    )
    look, act = ToolAnnotations(read_only_hint=True), ToolAnnotations(read_only_hint=False)
    reading: list[Callable[..., Awaitable[str]]] = [
        tools.list_runs,
        tools.show_run,
        tools.read_report,
        tools.explain_run,
        tools.compare_runs,
    ]
    paying: list[Callable[..., Awaitable[str]]] = [
        tools.estimate,
        tools.evaluate,
        tools.optimize,
        tools.wait,
        tools.stop,
        tools.budget,
    ]
    for tool in reading:
        server.tool(annotations=look, structured_output=False)(refusing(tool))
    for tool in paying if tools.may_pay else ():
        server.tool(annotations=act, structured_output=False)(refusing(tool))
    server.run("stdio")


@contextmanager
def _closed_by_signal(tools: "Tools") -> Generator[None]:
    """Let SIGTERM end what was started, and then this process, which may be waiting for input."""
    loop, ending = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    async def end() -> None:
        await tools.close(patience=_LAST_SECOND)
        loop.remove_signal_handler(signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_signal_handler(signal.SIGTERM, lambda: ending.add(loop.create_task(end())))
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def attended(main: Callable[[], object]) -> None:
    """Run a command until it ends, or until nobody holds the other end of the pipe.

    The first argument is the pipe. So a command ends with the server, even if that is killed.
    """
    pipe = int(sys.argv.pop(1))
    Thread(target=_end_unattended, args=(pipe,), name="burnish attendance", daemon=True).start()
    main()


def _end_unattended(pipe: int) -> None:
    os.read(pipe, 1)  # it never has anything to read, only its end
    for seconds in (_LAST_SECOND / 4, _PATIENCE):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


class Refused(Exception):
    """Something that the client asked for and does not get; it reads the message."""


@dataclass(kw_only=True)
class Tools:
    """What a client may ask for. The first line of each is what its model reads."""

    folder: Path
    """The only place of files that are measured."""
    max_calls: int | None = None
    max_usd: float | None = None
    patience: float = _PATIENCE
    """Seconds between one way to stop a run and a stronger one."""
    _paid: Spend = NOTHING
    """By runs that have ended."""
    _running: "_Running | None" = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _attendance: "_Attendance" = field(default_factory=lambda: _Attendance())

    @property
    def may_pay(self) -> bool:
        return self.max_calls is not None or self.max_usd is not None

    async def list_runs(self) -> str:
        """List the runs on this machine, newest first: id, state, scores, cost."""
        return await self._printed("runs", "list")

    async def show_run(self, run: str) -> str:
        """Show the state, result, trials and cost of a run, also while it is running."""
        return await self._printed("runs", "show", _plain(run))

    async def read_report(self, run: str) -> str:
        """Read the report of a finished run: what changed, the evidence, every trial."""
        try:
            return _cut((find_run(_plain(run)) / REPORT).read_text(encoding="utf-8"))
        except BurnishError as error:
            raise Refused(str(error)) from None
        except OSError:
            raise Refused("it has no report yet: it may still be running") from None

    async def explain_run(self, run: str) -> str:
        """Explain a run: why this candidate won, cases fixed and broken, what to do next."""
        return await self._printed("why", _plain(run))

    async def compare_runs(self, runs: list[str]) -> str:
        """Compare two runs or more, case by case where they share cases."""
        return await self._printed("runs", "compare", *map(_plain, runs))

    async def estimate(self, file: str) -> str:
        """Check a project file and estimate what optimising it would cost; nothing is paid."""
        return await self._printed("optimize", self._file(file), "--dry-run")

    async def evaluate(self, file: str, repeats: int = 1) -> str:
        """Measure an agent or project file: every case, every metric, what fails and why."""
        words = ("eval", self._file(file), "--repeats", str(repeats), "--progress", "none")
        async with self._turn:
            running = await self._start("eval", words)
            try:
                out, err = await running.process.communicate()
            except asyncio.CancelledError:
                # Apart from here, where everything is cancelled; it counts until it has ended.
                running.ending = asyncio.create_task(running.stop(self.patience))
                raise
            self._settle()
        # 1 says that a case fails, which is a result.
        return _answer(out, err, failed=running.process.returncode not in (0, 1))

    async def optimize(self, file: str) -> str:
        """Start optimising a project file in the background; look at it with show_run."""
        path = self._file(file)
        async with self._turn:
            running = await self._start("optimizer", ("optimize", path, "--progress", "none"))
        return await self._begun(running)

    async def wait(self, seconds: float = 50) -> str:
        """Wait until what was started here ends, at most so many seconds."""
        running = self._active()
        if running is not None and (end := running.output or running.ending) is not None:
            await asyncio.wait({end}, timeout=min(seconds, _LONGEST_WAIT))
        return await self.budget()

    async def stop(self) -> str:
        """Stop the optimisation that was started here; it can be resumed."""
        if (running := self._active()) is None:
            raise Refused("nothing is running")
        await running.stop(self.patience)
        return f"stopped: {running.folder}\n{self._left_words()}"

    async def budget(self) -> str:
        """Say how much may still be paid, and what is running."""
        running = self._active()
        doing = "nothing is running" if running is None else f"running: {running.folder}"
        return f"{self._left_words()}\n{doing}"

    async def close(self, patience: float = _PATIENCE) -> None:
        """End what is running: nobody would see what it pays."""
        self._attendance.close()
        if (running := self._active()) is not None:
            await running.end(patience)

    async def _printed(self, *words: str) -> str:
        process = await self._attendance.process(*words)
        try:
            out, err = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            raise
        return _answer(out, err, failed=process.returncode != 0)

    def _file(self, name: str) -> str:
        path = (self.folder / _plain(name)).resolve()
        if not path.is_relative_to(self.folder):
            raise Refused(f"{name} is outside {self.folder}")
        if not path.is_file():
            raise Refused(f"there is no file {name} in {self.folder}")
        return str(path)

    async def _start(self, kind: str, words: tuple[str, ...]) -> "_Running":
        if (running := self._active()) is not None:
            raise Refused(f"one run at a time: {running.folder} is running")
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-%f")
        folder = Path(words[1]).parent / "results" / kind / f"mcp-{now}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        words = (*words, "-o", str(folder), *self._limits())
        process = await self._attendance.process(*words)
        self._running = _Running(process=process, folder=folder)
        return self._running

    async def _begun(self, running: "_Running") -> str:
        """Once it has a record, which is what other tools read; or what keeps it from beginning."""
        ended = asyncio.create_task(running.process.communicate())
        running.output = ended
        while not ended.done() and not (running.folder / HEADER).exists():
            await asyncio.wait({ended}, timeout=0.2)
        if (running.folder / HEADER).exists():
            return f"started: {running.folder}\n{self._left_words()}"
        out, err = ended.result()
        return _answer(out, err, failed=True)

    def _active(self) -> "_Running | None":
        if self._running is not None and self._running.process.returncode is not None:
            self._settle()
        return self._running

    def _settle(self) -> None:
        """Add up what a run that ended has cost."""
        if self._running is not None:
            self._paid += self._running.billed()
            self._running = None

    def _spent(self) -> Spend:
        return self._paid if self._running is None else self._paid + self._running.billed()

    def _limits(self) -> list[str]:
        """What is left, as flags of a run; none may begin where nothing is left."""
        spent, words = self._spent(), list[str]()
        if self.max_calls is not None:
            if (left := self.max_calls - spent.calls) <= 0:
                raise Refused(f"all {self.max_calls:,} calls are used")
            words += ["--max-calls", str(left)]
        if self.max_usd is not None:
            if (usd := self.max_usd - spent.nano_usd / _NANO) <= 0:
                raise Refused(f"all of {money(self.max_usd)} is spent")
            words += ["--max-usd", f"{usd:.9f}"]
        return words

    def _left_words(self) -> str:
        spent, left = self._spent(), list[str]()
        if self.max_calls is not None:
            left.append(f"{max(0, self.max_calls - spent.calls):,} of {self.max_calls:,} calls")
        if self.max_usd is not None:
            usd = max(0.0, self.max_usd - spent.nano_usd / _NANO)
            left.append(f"{money(usd)} of {money(self.max_usd)}")
        return f"left: {', '.join(left)}"


@dataclass(kw_only=True)
class _Running:
    """A run in a process of its own."""

    process: asyncio.subprocess.Process
    folder: Path
    output: "asyncio.Task[tuple[bytes, bytes]] | None" = None
    ending: "asyncio.Task[None] | None" = None

    def billed(self) -> Spend:
        try:
            return RunRecord.read(self.folder).billed
        except BurnishError:  # it never began
            return NOTHING

    async def stop(self, patience: float) -> None:
        """As Ctrl-C does, twice: what is under way is not waited for."""
        for _ in range(2):
            if self.process.returncode is None:
                with suppress(ProcessLookupError):
                    self.process.send_signal(signal.SIGINT)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.process.wait(), patience)
        await self.end(patience=0)

    async def end(self, patience: float) -> None:
        """Wait for its end, and force it after so many seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), patience)
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()


class _Attendance:
    """Starts commands that end when this process does, or when it is closed."""

    def __init__(self) -> None:
        self._theirs, self._ours = os.pipe()
        self._closed = False

    async def process(self, *words: str) -> asyncio.subprocess.Process:
        # stdin and stdout of this process belong to the protocol.
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _START, str(self._theirs), *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "120"},
            pass_fds=[self._theirs],
        )

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self._ours)
            os.close(self._theirs)


def _plain(word: str) -> str:
    """A word that no command takes for a flag."""
    if not word or word.startswith("-"):
        raise Refused(f"'{word}' is neither a run nor a file")
    return word


def _answer(out: bytes, err: bytes, *, failed: bool) -> str:
    texts = (each.decode(errors="replace").strip() for each in (out, err))
    answer = _cut("\n".join(filter(None, texts)))
    if failed:
        raise Refused(answer)
    return answer


def _cut(text: str) -> str:
    return (
        text if len(text) <= _MOST else f"{text[:_MOST]}\n… {len(text) - _MOST:,} more characters"
    )
