"""`burnish adopt` in its own process, which is killed, or fails, at one of its file operations."""

import os
from pathlib import Path

from tests.cli.console import Said
from tests.crash.nursery import nursery

AT = """
import os, signal, sys
left = int(os.environ["AT"])
writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
def counts(event, arguments):
    if event == "os.rename":
        return {renames}
    return {others} and (event == "os.remove" or event == "open" and arguments[2] & writes)
def hook(event, arguments):
    global left
    if os.environ["IN"] in str(arguments[:2]) and counts(event, arguments):
        left -= 1
        if left == 0:
            {act}
sys.addaudithook(hook)
from burnish.cli import main; main()
"""
"""Acts right before the n-th operation on a file."""
USERS = 'str(arguments[1]).endswith(("agent.yaml", "system.md"))'
ADOPTING = ("burnish.cli.adopt", "burnish.projects.adopt")
KILL, FULL = "os.kill(os.getpid(), signal.SIGKILL)", "raise OSError(28, 'no space')"


def cut(*args: str, home: Path, at: int, act: str = KILL, every: bool = False) -> Said:
    """A command that does not get past the n-th file that it renames, or changes at all."""
    start = AT.format(renames="True" if every else USERS, others=every, act=act)
    outputs = home / "run"
    own = {**os.environ, "AT": str(at), "IN": str(home)}
    born = nursery(0, *ADOPTING).run(
        start, "adopt", "run", *args, cwd=home, outputs=outputs, env=own
    )
    return Said(code=born.code, out=born.out, err=born.err)
