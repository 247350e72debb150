"""`burnish adopt` in its own process, which is killed, or fails, at one of its file operations."""

from pathlib import Path

from tests.cli.console import Said, finish, forked

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
KILL, FULL = "os.kill(os.getpid(), signal.SIGKILL)", "raise OSError(28, 'no space')"


def cut(*args: str, home: Path, at: int, act: str = KILL, every: bool = False) -> Said:
    """A command that does not get past the n-th file that it renames, or changes at all."""
    start = AT.format(renames="True" if every else USERS, others=every, act=act)
    process = forked("adopt", "run", *args, cwd=home, start=start, AT=str(at), IN=str(home))
    return finish(process)
