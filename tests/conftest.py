"""What every test shares: an index of runs of its own, and no keys from the environment."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_index(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:  # pyright: ignore[reportUnusedFunction]
    home = tmp_path_factory.mktemp("burnish-home")
    monkeypatch.setenv("BURNISH_HOME", str(home))
    return home
