"""docs/benchmarks.md: each block of figures there is what one command printed, and it writes it."""

import argparse
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def add_option(parser: argparse.ArgumentParser) -> None:
    """The option that puts what was measured on the page."""
    parser.add_argument("--write", action="store_true", help="put it into docs/benchmarks.md")


def made_with(part: str, argv: Sequence[str] | None = None) -> str:
    """The command and the machine that a block comes from."""
    typed = shlex.join(sys.argv[1:] if argv is None else argv)
    command = f"make bench PART={part}" + (f' ARGS="{typed}"' if typed else "")
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return f"Made with `{command}` ({machine})"


def show(block: str, text: str, asked: argparse.Namespace) -> None:
    """Print figures, and put them into a block of the page if the option is set."""
    print(text)
    if asked.write:
        write(block, text)


def write(block: str, text: str) -> None:
    """Put other figures into a block of the page."""
    PAGE.write_text(with_block(PAGE.read_text(encoding="utf-8"), block, text), encoding="utf-8")


def with_block(page: str, block: str, text: str) -> str:
    """The page with other figures between the two marks of a block."""
    marks = [f"<!-- {block} {word} -->" for word in ("begins", "ends")]
    before, begin, rest = page.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (begin and end):
        sys.exit(f"{PAGE} has no place for the figures of {block}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
