"""One run of coordinate descent that many tests look at, and none changes."""

from pathlib import Path

import pytest

from tests.reports.coordinate_world import launched


@pytest.fixture(scope="session")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    home = tmp_path_factory.mktemp("tuned")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BURNISH_HOME", str(home))
        return launched(home)
