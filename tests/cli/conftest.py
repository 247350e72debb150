"""Fixtures of the command line's tests."""

from pathlib import Path

import pytest

from burnish.cli import main
from tests.cli.console import SMALL, Burnish, Said


@pytest.fixture(autouse=True)
def _toy(toy_plugin: None) -> None:  # pyright: ignore[reportUnusedFunction]
    """Most runs here are over the toy world."""


@pytest.fixture
def burnish(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Burnish:
    """The command line in this process, in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*args: str) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([*args])
        out, err = capsys.readouterr()
        code = end.value.code
        assert isinstance(code, int)
        return Said(code=code, out=out, err=err)

    return run


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A small project file."""
    path = tmp_path / "toy.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return path


@pytest.fixture
def finished(burnish: Burnish, toy: Path) -> Path:
    """A run that ended by itself."""
    assert burnish("optimize", str(toy), "-q", "-o", "done").code == 0
    return toy.parent / "done"


@pytest.fixture
def stopped(burnish: Burnish, toy: Path) -> Path:
    """A run that stopped at a limit before it read its sealed test: it can be resumed."""
    toy.write_text(SMALL.replace("test: 4", "test: 0"), encoding="utf-8")
    assert burnish("optimize", str(toy), "-q", "-o", "part", "--max-trials", "2").code == 0
    return toy.parent / "part"
