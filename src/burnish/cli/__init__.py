"""The command line: thin commands over projects, runs and reports."""

import os
import sys
from collections.abc import Sequence

from burnish.system.restoration import borrowed_folder, records_in
from burnish.system.shutdown import end_program
from burnish.version import VERSION

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; a user's error is one message and an exit code, never a traceback."""
    code = _run(sys.argv[1:] if argv is None else list(argv))
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
    end_program(code)


def _run(arguments: list[str]) -> int:
    """The version is told before the commands load, unless there are files to put back first."""
    if arguments == ["--version"] and not _is_anything_borrowed() and _tell_version():
        return 0
    from burnish.cli.program import run

    return run(arguments)


def _is_anything_borrowed() -> bool:
    return any(records_in(borrowed_folder(), "[0-9]*.json"))


def _tell_version() -> bool:
    """Whether it could be written; the program knows how to complain where it could not."""
    try:
        print(f"burnish {VERSION}", flush=True)  # noqa: T201 - typer.echo would load typer
    except OSError:
        return False
    return True


def _silence_stdout() -> None:
    """The reader has gone; python would complain again when it flushes stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
