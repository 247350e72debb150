"""The help of every command, and the service's OpenAPI document."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from burnish.cli.program import app
from burnish.server import create_app
from tests.cli.console import Burnish
from tests.goldens.harness import Goldens
from tests.server.world import manager_of

WIDTH = 80


def test_help(burnish: Burnish, goldens: Goldens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    groups: dict[str, str] = {}
    for path in _commands(typer.main.get_command(app)):
        help_text = burnish(*path, "--help")
        assert help_text.code == 0, path
        name = f"{path[0] if path else 'burnish'}.txt"
        page = f"$ {' '.join(('burnish', *path))} --help\n{_stripped(help_text.out)}\n"
        groups[name] = groups.get(name, "") + page
    goldens.check("help", groups)


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from _commands(below, (*path, name))


def _stripped(text: str) -> str:
    """Without the blanks with which rich fills lines up."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def test_openapi(tmp_path: Path, goldens: Goldens) -> None:
    document = create_app(manager_of(tmp_path)).openapi()
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)
    goldens.check("openapi", {"openapi.json": text})
