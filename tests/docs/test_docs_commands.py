"""Every `burnish …` that a page names is a command that there is."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.docs.docs_console import commands
from tests.docs.docs_pages import ROOT, blocks, written_pages

from burnish.cli.program import app

_CODE = re.compile(r"`([^`]+)`")
_CALL = re.compile(r"(?<![\w./:-])burnish((?:\s+[\w…-]+)*)")
_HINT = re.compile(r"\w+ +(burnish .+)")
"""A line of output that says what to type next."""


@pytest.mark.parametrize("page", written_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_commands_that_exist(page: Path) -> None:
    for code in (*_inline(page), *_typed(page)):
        for call in _CALL.finditer(code):
            words = call[1].split()
            named = f"{page.relative_to(ROOT)} names `{code}`"
            assert _exists(words), f"{named}: there is no such command"


@pytest.mark.parametrize("line", ["prompts", "prompts list", "runs look", "data checks x.csv"])
def test_a_command_that_is_not_there_is_noticed(line: str) -> None:
    assert not _exists(line.split())


def _exists(words: list[str]) -> bool:
    """Whether these words lead to a command; a group is one by itself, options end the way."""
    command: Any = typer.main.get_command(app)
    for word in words:
        below = getattr(command, "commands", None)
        if below is None or not re.fullmatch(r"[a-z][a-z-]*", word):
            return True
        if word not in below:
            return False
        command = below[word]
    return True


def _inline(page: Path) -> Iterator[str]:
    text = page.read_text(encoding="utf-8")
    for block in blocks(page):
        text = text.replace(f"```{block.language}\n{block.text}```", "")
    yield from (" ".join(code.split()) for code in _CODE.findall(text))


def _typed(page: Path) -> Iterator[str]:
    for block in blocks(page):
        if block.language == "console":
            yield from (command.line for command in commands(block))
        if block.language in ("console", "text"):
            hints = map(_HINT.fullmatch, block.text.splitlines())
            yield from (hint[1] for hint in hints if hint)
