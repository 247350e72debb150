"""What every test shares: an index of runs of its own, and the toy world where it is wanted."""

import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from burnish.runs.plugins import strategy_names, strategy_plugin, target_plugin

TOY = Path(__file__).resolve().parents[1] / "examples" / "toy"

# Laws over pure functions; half of hypothesis's own number finds what there is to find here.
# Nothing fails because the machine is slow.
settings.register_profile(
    "suite", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
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


@contextmanager
def toy_installed() -> Generator[None]:
    """The toy world as an installed plug-in, in this process and in its children."""
    path = os.pathsep.join(filter(None, (str(TOY), os.environ.get("PYTHONPATH"))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(TOY), *sys.path])
        patch.setenv("PYTHONPATH", path)
        _forget_plugins()
        yield
    _forget_plugins()


@pytest.fixture
def toy_plugin() -> Iterator[None]:
    """For tests over `kind: toy`: users of burnish do not have it unless they install it."""
    with toy_installed():
        yield


def _forget_plugins() -> None:
    for names in (strategy_names, strategy_plugin, target_plugin):
        names.cache_clear()
