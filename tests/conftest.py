"""What every test shares: an index of runs of its own, and no keys from the environment."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

# Laws over pure functions; half of hypothesis's own number finds what there is to find here.
settings.register_profile("suite", max_examples=50)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:  # pyright: ignore[reportUnusedFunction]
    """Names that nobody has to look for: pytest lists its folder for each that it gives out."""
    folder = tmp_path_factory.mktemp("burnish-homes")
    return (folder / str(number) for number in count())


@pytest.fixture(autouse=True)
def _own_index(_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:  # pyright: ignore[reportUnusedFunction]
    home = next(_homes)
    home.mkdir()
    monkeypatch.setenv("BURNISH_HOME", str(home))
    return home
