"""A terminal small enough to read: what rich writes, as the screen shows it."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.cells import cell_len

from tests.cli.console import START
from tests.fork_server import ForkedProcess

_OF_A_TEST = {
    *("PYTHONDONTWRITEBYTECODE", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"),
    *("CI", "PYTEST_VERSION", "PYTEST_CURRENT_TEST", "PYDANTIC_AI_NO_BANNER"),
}
_CONTROL = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])")


class Screen:
    """The lines of an endless screen of a given width. A line that is too long wraps."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines = [""]
        self.wrapped: list[str] = []
        self.row = 0

    def feed(self, text: str) -> None:
        """Show what was written."""
        place = 0
        for found in _CONTROL.finditer(text):
            self._write(text[place : found.start()])
            self._control(found[1], found[2])
            place = found.end()
        self._write(text[place:])

    def visible(self, height: int) -> list[str]:
        """What a person sees who has so many lines: those up to the cursor."""
        return self.lines[max(0, self.row + 1 - height) : self.row + 1]

    def _control(self, argument: str, letter: str) -> None:
        if letter == "A":
            self.row -= int(argument or 1)
            assert self.row >= 0, "the cursor left the screen"
        elif letter == "K":
            assert argument == "2"
            self.lines[self.row] = ""
        else:
            assert letter in "mhl", f"unexpected control {argument}{letter}"

    def _write(self, text: str) -> None:
        for part in re.split(r"(\r\n|\n|\r)", text):
            if "\n" in part:
                self.row += 1
                if self.row == len(self.lines):
                    self.lines.append("")
            elif part != "\r":
                self.lines[self.row] += part
                if cell_len(self.lines[self.row]) > self.width:
                    self.wrapped.append(self.lines[self.row])


def on_terminal(
    *args: str, cwd: Path, width: int, height: int = 40, start: str = "", **env: str
) -> tuple[int, str]:
    """Run the command line on the pseudo-terminal of a person; or `start`, in a fresh process.

    Its exit code and all it wrote. That it is started by a test is nothing it could know.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    keep = {k: v for k, v in os.environ.items() if k not in _OF_A_TEST}
    seen = {**keep, "TERM": "xterm-256color", **env}
    if start:
        command = [sys.executable, "-c", start, *args]
        process = subprocess.Popen(
            command, cwd=cwd, env=seen, stdin=theirs, stdout=theirs, stderr=theirs, text=True
        )
    else:
        process = ForkedProcess(START, *args, cwd=cwd, env=seen, streams=(theirs, theirs, theirs))
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 65536):
            written += chunk
    except OSError:  # how Linux says that the other side is closed
        pass
    finally:
        os.close(ours)
    return process.wait(timeout=120), written.decode("utf-8")
