"""The command line: thin commands over projects, runs and reports."""

import gc
import os
import sys
from collections.abc import Sequence

from burnish.system.restoration import borrowed_folder, records_in
from burnish.system.shutdown import end_program
from burnish.version import VERSION

__all__ = ["main"]

_NEW_OBJECTS = 200_000
"""More than a search makes before the first answer of a model."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; a user's error is one message and an exit code, never a traceback."""
    # Loading makes many objects, and all of them stay: a search for garbage among them would find
    # nothing, and as often as Python searches, that would be a tenth of the start.
    gc.set_threshold(_NEW_OBJECTS)
    code = _run(sys.argv[1:] if argv is None else list(argv))
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone; python would complain again when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    end_program(code, alone=argv is None)


def _run(arguments: list[str]) -> int:
    """Print the version before loading the commands, unless files must be put back first."""
    only_version = arguments == ["--version"]
    if only_version and not any(records_in(borrowed_folder(), "[0-9]*.json")) and _tell_version():
        return 0
    from burnish.cli.program import run

    return run(arguments)


def _tell_version() -> bool:
    """Whether the version could be written; if not, the program reports why."""
    try:
        print(f"burnish {VERSION}", flush=True)  # noqa: T201 - typer.echo would load typer
    except OSError:
        return False
    return True
