"""Child processes that never outlive their run: each in a group of its own, and on record."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

from burnish.system.file_trouble import file_trouble
from burnish.system.files import read_bytes, write_atomic
from burnish.system.process_groups import end_group, is_running, kill_group
from burnish.system.process_table import boot_id, process_entry
from burnish.system.strays import kill_marked

_Stream: TypeAlias = int | IO[Any] | None
_POLL = 0.05


class _Record(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    pgid: int
    start_time: str
    boot: str = ""
    marker: str = ""


@dataclass(frozen=True, kw_only=True)
class ChildProcesses:
    """Starts and ends child processes; `folder` records those that run."""

    folder: Path

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: _Stream = asyncio.subprocess.DEVNULL,
        stdout: _Stream = None,
        stderr: _Stream = None,
        pass_fds: Sequence[int] = (),
        marker: str = "",
    ) -> asyncio.subprocess.Process:
        """Start a program in a session of its own and put its group on record."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=cwd,
                env=env,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                pass_fds=pass_fds,
            )
        except OSError as error:
            raise file_trouble("start", Path(error.filename or argv[0]), error) from error
        try:
            self.record(process.pid, marker=marker)
        except BaseException:
            # Without a record nobody could end it after a crash.
            await self.end(process, grace=0)
            raise
        return process

    async def wait(self, process: asyncio.subprocess.Process) -> int:
        """The exit code, once it ended by itself; what it left running in its group is ended.

        Read its pipes at the same time: they reach their end when the group is gone.
        """
        code = await _exit_code(process)
        await self.end(process, grace=0)
        return code

    async def end(self, process: asyncio.subprocess.Process, *, grace: float = 2.0) -> None:
        """End the whole group: ask, wait for `grace` seconds, then kill."""
        path = _record_path(self.folder, process.pid)
        # Long after it ended by itself, its number may belong to somebody else.
        if process.returncode is None or _is_ours(_read_record(path)):
            await end_group(process.pid, grace)
        await _exit_code(process)
        path.unlink(missing_ok=True)

    def record(self, group: int, *, marker: str = "") -> None:
        """Put a group on record; with a `marker`, whoever carries it is ended with the group."""
        leader = process_entry(group)
        started = leader.start_time if leader else ""
        record = _Record(pgid=group, start_time=started, boot=boot_id(), marker=marker)
        # Not durable: no process survives the power cut either.
        write_atomic(_record_path(self.folder, group), record.model_dump_json(), durable=False)

    def forget(self, group: int) -> None:
        """Take a group that is known to be gone off the record."""
        _record_path(self.folder, group).unlink(missing_ok=True)

    def end_recorded(self, group: int) -> None:
        """Kill what still runs of a group that `record` put on record, and those with its marker.

        Blocks for the moment that this takes.
        """
        _end_recorded(_record_path(self.folder, group))


def end_leftovers(folder: Path) -> list[int]:
    """Kill what a killed run left running, by its records; the groups that were ended."""
    groups = [_end_recorded(path) for path in sorted(folder.glob("[0-9]*.json"))]
    return [group for group in groups if group is not None]


def _end_recorded(path: Path) -> int | None:
    record, ended = _read_record(path), None
    if record and _is_ours(record):
        kill_group(record.pgid)
        ended = record.pgid
    if record and record.boot in ("", boot_id()):
        kill_marked(record.marker)
    path.unlink(missing_ok=True)
    return ended


async def _exit_code(process: asyncio.subprocess.Process) -> int:
    waiting = asyncio.create_task(process.wait())
    try:
        # Older Pythons wake the waiting only when the pipes are closed too, and a grandchild may
        # hold those open for ever.
        while process.returncode is None:
            await asyncio.wait({waiting}, timeout=_POLL)
    finally:
        waiting.cancel()
    return process.returncode


def _record_path(folder: Path, group: int) -> Path:
    return folder / f"{group}.json"


def _read_record(path: Path) -> _Record | None:
    try:
        return _Record.model_validate_json(read_bytes(path)) if path.exists() else None
    except ValidationError:
        return None


def _is_ours(record: _Record | None) -> bool:
    """Whether the group still runs and is the one on record, not a later owner of its number."""
    if record is None or record.pgid <= 1 or record.pgid == os.getpgrp():
        return False
    if record.boot not in ("", boot_id()):
        return False
    leader = process_entry(record.pgid)
    if leader is not None and leader.start_time != record.start_time:
        return False
    return is_running(record.pgid)
