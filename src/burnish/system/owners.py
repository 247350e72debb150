"""Who made something that others may find later, and whether that process is gone for good."""

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from burnish.system.process_table import boot_id, process_entry

SILENT = 60.0
"""Seconds without a sign of life after which a process that cannot be seen from here is gone."""


@dataclass(frozen=True, kw_only=True)
class Owner:
    """One process, named so that no other can be mistaken for it."""

    pid: int
    started: str
    boot: str
    host: str
    space: str
    """The space of process numbers it lives in: containers have their own."""

    @classmethod
    def here(cls) -> Self:
        """This process."""
        entry = process_entry(os.getpid())
        return cls(
            pid=os.getpid(),
            started=entry.start_time if entry else "",
            boot=boot_id(),
            host=os.uname().nodename,
            space=_space(),
        )

    @classmethod
    def parse(cls, told: Mapping[str, Any]) -> Self:
        """An owner as it was written down."""
        return cls(
            pid=int(told["pid"]),
            started=str(told["started"]),
            boot=str(told["boot"]),
            host=str(told["host"]),
            space=str(told["space"]),
        )

    def as_json(self) -> dict[str, Any]:
        """How it is written down."""
        return asdict(self)

    def is_gone(self, sign_of_life: Path) -> bool:
        """Whether it ended; one of another machine or container when its file is old."""
        if self.host == os.uname().nodename:
            if "" not in (self.boot, boot_id()) and self.boot != boot_id():
                return True
            if self.space == _space():
                return self._ended_here()
        try:
            return time.time() - sign_of_life.stat().st_mtime > SILENT
        except FileNotFoundError:
            return False

    def _ended_here(self) -> bool:
        entry = process_entry(self.pid)
        if entry is None or not entry.is_running:
            return True
        return "" not in (self.started, entry.start_time) and self.started != entry.start_time


def _space() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
