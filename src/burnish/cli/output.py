"""Text about runs for the terminal: their folders may be from anybody, with codes that steer it.

Messages name commands as `burnish …`. Where they are printed, they become what can be typed there.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from burnish.core.errors import in_shell

if TYPE_CHECKING:
    from burnish.core.content import Json


def this_program(*, elsewhere: bool = False) -> str:
    """How to type the program that runs now, here or in another folder: `burnish` if that finds it.

    After `.venv/bin/burnish …` a shell may know no `burnish`, or that of another environment.
    """
    started = sys.argv[0]
    is_module = Path(started).parts[-2:] == ("burnish", "__main__.py")
    if not is_module and Path(started).name != "burnish":
        return "burnish"  # a program of the user's that calls this one
    own = Path(sys.executable).with_name("burnish") if is_module else Path(started)
    known = shutil.which("burnish")
    if known is not None and own.exists() and own.samefile(known):
        return "burnish"
    typed = sys.orig_argv[0] if is_module else started
    if elsewhere and os.sep in typed:
        typed = str(Path(typed).absolute())
    return f"{in_shell(typed)} -m burnish" if is_module else in_shell(typed)


def as_typed(message: str) -> str:
    """A message of burnish whose commands, which stand in backticks, can be typed here."""
    return message.replace("`burnish ", f"`{this_program()} ")


def echo(text: str, *, err: bool = False) -> None:
    """Write text with visible signs instead of control characters."""
    from burnish.core.formatting import visible  # the command line loads it late

    typer.echo(visible(text), err=err)


def echo_json(data: "Json", *, indent: int | None = 2) -> None:
    """Write a JSON document with escapes instead of control characters."""
    from burnish.core.formatting import visible_json

    typer.echo(visible_json(json.dumps(data, ensure_ascii=False, indent=indent)))
