"""The goldens of a test, and an environment in which output depends on nothing but the code."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from burnish.cli import main
from burnish.core.errors import BurnishError
from tests.cli.console import Burnish, Said
from tests.goldens.harness import REPOSITORY, Goldens, Masks, Watching

WIDTH = 100
_OURS = ("BURNISH_", "AWP_", "OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_", "AZURE_", "OLLAMA_")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--renew-goldens`."""
    parser.addoption(
        "--renew-goldens", action="store_true", help="write goldens instead of comparing them"
    )


@pytest.fixture(autouse=True)
def _plain(_own_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """No keys, no settings and no terminal of the machine's; the test's own folder."""
    for name in [name for name in os.environ if name.startswith(_OURS)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("BURNISH_HOME", str(_own_index))
    monkeypatch.setenv("BURNISH_HTML", "never")
    for name in ("FORCE_COLOR", "TERMINAL_WIDTH", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def goldens(request: pytest.FixtureRequest, tmp_path: Path, _own_index: Path) -> Goldens:
    """The frozen files that this test compares."""
    folders = {
        str(tmp_path.resolve()): "<HERE>",
        str(tmp_path): "<HERE>",
        str(_own_index): "<BURNISH_HOME>",
        str(REPOSITORY): "<REPOSITORY>",
        sys.executable: "<PYTHON_PROGRAM>",
    }
    return Goldens(
        masks=Masks(folders=folders),
        renewing=bool(request.config.getoption("--renew-goldens", default=False)),
        test=request.node.nodeid,
    )


@pytest.fixture
def watching(capsys: pytest.CaptureFixture[str]) -> Watching:
    """Calls what a command does and gives what a user would see of it."""

    def watch(act: Callable[[], None]) -> Said:
        capsys.readouterr()
        code, message = 0, ""
        try:
            act()
        except BurnishError as error:
            code, message = error.exit_code, f"error: {error}\n"
        except typer.Exit as end:
            code = end.exit_code
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        out, err = capsys.readouterr()
        return Said(code=code, out=out, err=err + message)

    return watch


@pytest.fixture
def burnish(watching: Watching) -> Burnish:
    """The command line in this process."""
    return lambda *args: watching(lambda: main([*args]))
