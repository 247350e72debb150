"""Running commands within limits, and behind walls where there are any."""

import asyncio
import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from burnish.core.errors import FileTrouble
from burnish.system.file_trouble import file_trouble
from burnish.system.files import remove_stale_temporaries
from burnish.system.processes import MARKER_VARIABLE, ChildProcesses
from burnish.system.sandbox.bubblewrap import INSIDE_TMP, Walls, walled
from burnish.system.sandbox.environment import clean_environment, with_python
from burnish.system.sandbox.isolation import Isolation, Mode, resolve
from burnish.system.sandbox.results import CommandResult, Limits, told
from burnish.system.sandbox.supervising import Order, Supervised, supervise
from burnish.system.temporaries import spare_beside
from burnish.system.workspaces.removal import remove_tree

_SHELL = "/bin/sh"


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """Where commands run that somebody else wrote, or that run what a model wrote."""

    isolation: Isolation
    children: ChildProcesses
    allow: tuple[str, ...] = ()
    """Names of variables that commands get from this process; keys are among them only if named."""
    network: bool = False
    """Whether commands may use the network; without isolation they always may."""
    hidden: tuple[Path, ...] = ()
    """Files and folders that isolated commands do not see, unless they may write in them."""

    @classmethod
    def open(
        cls,
        mode: Mode,
        *,
        children: ChildProcesses,
        allow: Sequence[str] = (),
        network: bool = False,
        hidden: Sequence[Path] = (),
    ) -> Self:
        """Find out what this machine offers, and clear away what a killed burnish left."""
        remove_stale_temporaries(Path(tempfile.gettempdir()), shared=True)
        return cls(
            isolation=resolve(mode),
            children=children,
            allow=tuple(allow),
            network=network,
            hidden=tuple(path.resolve() for path in hidden),
        )

    async def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: Path,
        writable: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        stdin: bytes = b"",
    ) -> CommandResult:
        """Run a command to its end; nothing that it started runs any more when this returns.

        A text is a line for `sh`, with its pipes and `&&`; a sequence is a program and its
        arguments, without a shell. Isolated, it can write to `writable` and to a /tmp of its own.
        """
        cwd, *writable = _folders(cwd, *writable)
        limits = limits or Limits()
        async with _private_folder() as private:
            tmp = INSIDE_TMP if self._isolates else private / "tmp"
            roots = writable or [cwd]
            made = clean_environment(tmp=tmp, allow=self.allow, extra=env, roots=roots)
            made = with_python(made, private / "tmp/bin", tmp / "bin")
            marker = secrets.token_hex(16)
            argv = _argv(command, cwd, f"{private / 'tmp/bin'}{os.pathsep}{made['PATH']}")
            if self._isolates:
                walls = Walls(private=private, cwd=cwd, writable=writable, readable=[cwd],
                              hidden=self.hidden, network=self.network)  # fmt: skip
                argv = [*walled(self.isolation.program, walls), *argv]
            order = Order(argv=argv, cwd=cwd, env={**made, MARKER_VARIABLE: marker}, limits=limits,
                          marker=marker, walled=self._isolates)  # fmt: skip
            return self._result(await supervise(order, self.children, stdin), limits)

    @property
    def _isolates(self) -> bool:
        return self.isolation.kind == "bwrap"

    def _result(self, ran: Supervised, limits: Limits) -> CommandResult:
        report = ran.report
        return CommandResult(
            exit_code=report.exit_code,
            ended_by=report.ended_by,
            stdout=ran.stdout.text(),
            stderr=ran.stderr.text(),
            stdout_bytes=ran.stdout.total,
            stderr_bytes=ran.stderr.total,
            truncated=bool(ran.stdout.left_out or ran.stderr.left_out),
            seconds=report.seconds,
            cpu_seconds=report.cpu_seconds,
            left_running=report.left_running,
            isolation=self.isolation.kind,
            reason=told(report.ended_by, report.exit_code, limits),
        )


def _argv(command: str | Sequence[str], cwd: Path, path: str) -> list[str]:
    if isinstance(command, str):
        return [_SHELL, "-c", command]
    if not command:
        raise FileTrouble("cannot start a command: it is empty", remedy="Name a program.")
    program = command[0]
    if shutil.which(str(cwd / program) if os.sep in program else program, path=path) is None:
        remedy = "Name a program on the PATH, or a path to one."
        raise FileTrouble(f"cannot start {program}: there is no such program", remedy=remedy)
    return list(command)


def _folders(*paths: Path) -> list[Path]:
    found = [path.resolve() for path in paths]
    for folder in found:
        if not folder.is_dir():
            raise FileTrouble(f"cannot run a command in {folder}: there is no such folder")
    return found


def _new_folder() -> Path:
    folder = spare_beside(Path(tempfile.gettempdir()).resolve() / "sandbox")
    try:
        folder.mkdir(mode=0o700)
        (folder / "tmp/home").mkdir(parents=True)
    except OSError as error:
        raise file_trouble("make", folder, error) from error
    return folder


@asynccontextmanager
async def _private_folder() -> AsyncGenerator[Path, None]:
    """A folder for what a command keeps for itself; named so that a later burnish clears it."""
    folder = _new_folder()
    try:
        yield folder
    finally:
        # Not in this thread: a command may have left very many files.
        removing = asyncio.create_task(asyncio.to_thread(remove_tree, folder))
        await asyncio.shield(removing)
