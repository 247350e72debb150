"""docs/benchmarks.md: figures stand in blocks, and a command of the Makefile writes each block."""

import re
from pathlib import Path

import pytest
from benchmarks.page import PAGE, with_block

MAKEFILE = Path(__file__).parents[2] / "Makefile"
BLOCK = re.compile(r"<!-- ([\w -]+) begins -->\n(.*?)\n<!-- \1 ends -->", re.DOTALL)


def test_only_what_is_between_the_marks_of_a_page_is_replaced() -> None:
    page = "before\n<!-- bench begins -->\nold\n<!-- bench ends -->\nafter\n"
    written = with_block(page, "bench", "new")
    assert "old" not in written
    assert written.startswith("before\n")
    assert written.endswith("after\n")
    assert with_block(written, "bench", "new") == written


def test_a_page_without_the_place_is_refused() -> None:
    with pytest.raises(SystemExit, match="no place for the figures of soak"):
        with_block("nothing", "soak", "new")


def test_every_block_says_the_command_that_made_it() -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert blocks
    for block, text in blocks:
        part = block.split()[0]
        assert f"Made with `make bench PART={part}" in text, f"{block} does not say how it was made"
        assert f"\nBENCH_{part} = " in MAKEFILE.read_text(encoding="utf-8")


def test_no_table_stands_outside_a_block() -> None:
    rest = BLOCK.sub("", PAGE.read_text(encoding="utf-8"))
    assert not [line for line in rest.splitlines() if line.startswith("|")]
