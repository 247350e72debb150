"""Child processes recorded by the process that started them, for those who have no run's folder.

Each driving process has a folder of its own, named so that nobody else can be mistaken for it.
Whoever starts children later ends what drivers that are gone left running.
"""

import os
from pathlib import Path

from burnish.system.process_table import boot_id, process_entry
from burnish.system.processes import ChildProcesses, end_leftovers


def own_children(home: Path) -> ChildProcesses:
    """The children of this process, on record under `home`; those of dead drivers are ended."""
    _end_orphans(home)
    return ChildProcesses(folder=home / _name(os.getpid()))


def _end_orphans(home: Path) -> None:
    machine = _machine()
    for folder in sorted(home.glob(f"{machine}-*-*")):
        pid = folder.name.removeprefix(f"{machine}-").partition("-")[0]
        if pid.isdigit() and folder.name != _name(int(pid)):
            end_leftovers(folder)
            _remove(folder)


def _name(pid: int) -> str:
    driver = process_entry(pid)
    if driver is None or not driver.is_running:
        return f"{_machine()}-{pid}-gone"
    started = "".join(driver.start_time.split()).replace(":", "")
    return f"{_machine()}-{pid}-{started}"


def _machine() -> str:
    """This start of this machine: a home folder may be shared with others."""
    return boot_id().replace("-", "")[:12] or "here"


def _remove(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # somebody else was faster, or wrote into it
