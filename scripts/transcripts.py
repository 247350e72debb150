"""Writes what the commands of README.md and the tutorial print into these pages.

`python -m scripts.transcripts [PAGE …]` runs the console blocks of a page from top to bottom in a
copy of the examples. A line `…` stands for lines that the page leaves out, and stays. Ids, times
and prices that differ from run to run stay as they are written; any other difference is written
into the page. The tests run the same blocks, and fail where this script would change a page.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.docs.docs_console import commands, exit_code, renewed, run_in_shell, skipped
from tests.docs.docs_pages import ROOT, Block, blocks
from tests.example_copies import copy_examples

PAGES = (ROOT / "README.md", ROOT / "docs" / "tutorial.md")
_EXPORT = "export "


def with_output(page: Path, folder: Path) -> str:
    """The page, with what its commands print now in this folder."""
    lines = page.read_text(encoding="utf-8").splitlines()
    exported = {"BURNISH_HOME": str(folder / ".home")}  # the runs are nobody's
    shift = 0
    for block in blocks(page):
        if block.language != "console" or block.not_run:
            continue
        old, new = block.text.splitlines(), _output(block, folder, exported)
        start = block.line + shift
        lines[start : start + len(old)] = new
        shift += len(new) - len(old)
    return "\n".join(lines) + "\n"


def _output(block: Block, folder: Path, exported: dict[str, str]) -> Sequence[str]:
    """The lines of a block, as they are now."""
    made: list[str] = []
    for command in commands(block):
        made.append(f"$ {command.line}")
        if skipped(command):
            continue
        if command.line.startswith(_EXPORT):
            name, _, value = command.line.removeprefix(_EXPORT).partition("=")
            exported[name] = value
            continue
        code, output = run_in_shell(command.line, folder, exported)
        if code != exit_code(command):
            sys.exit(f"{block.place}: `{command.line}` ended with exit code {code}\n\n{output}")
        made += renewed(command.shown, output.splitlines())
    old = block.text.splitlines()
    return old if made == [line for line in old if line.strip() or line in made] else made


def main() -> None:
    """Write the pages that differ."""
    pages = [Path(name).resolve() for name in sys.argv[1:]] or PAGES
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            copy_examples(Path(folder) / "examples")
            text = with_output(page, Path(folder))
        if text != page.read_text(encoding="utf-8"):
            page.write_text(text, encoding="utf-8")
            print(f"wrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
