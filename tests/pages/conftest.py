"""Fixtures of the tests over pages."""

import pytest

from burnish.runs.directory import RunRecord
from tests.pages.shown_runs import shown_run

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
