"""Fixtures of the tests over pages."""

from pathlib import Path

import pytest

from burnish.runs.directory import RunRecord
from tests.pages.shown_runs import refined_run, shown_grid, shown_run

pytest.importorskip("jinja2", reason="pages need the extra `view`")
pytest.importorskip("plotly", reason="pages need the extra `view`")


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    """A finished run with harmful texts; tests only read it."""
    home = tmp_path_factory.mktemp("shown")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BURNISH_HOME", str(home / "home"))
        patch.setenv("BURNISH_HTML", "never")
        return shown_run(home / "shown-run")


@pytest.fixture(scope="session")
def refined_seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A delegation and its refinement, with a harmful gradient; tests only read it."""
    home = tmp_path_factory.mktemp("refined")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BURNISH_HOME", str(home / "home"))
        patch.setenv("BURNISH_HTML", "never")
        return refined_run(home)


@pytest.fixture(scope="session")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a grid of three columns, with harmful texts; tests only read it."""
    home = tmp_path_factory.mktemp("grid")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BURNISH_HOME", str(home / "home"))
        patch.setenv("BURNISH_HTML", "never")
        patch.setenv("OPENAI_API_KEY", "none")
        return shown_grid(home / "project")
