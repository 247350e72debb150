"""What tests share: an index of runs of their own; the toy world and a browser where wanted."""

import gc
import os
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import psutil
import pytest
from hypothesis import HealthCheck, settings

from burnish.models.embedded.files import EMBEDDING, KNOWN
from burnish.runs.plugins import strategy_names, strategy_plugin, target_plugin
from tests.leaks import ProcessState

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

CHROMIUM = Path("/usr/bin/chromium")
BROWSER_LIMIT = 120_000
"""Milliseconds for anything that a page does."""
TOY = Path(__file__).resolve().parents[1] / "examples" / "toy"

# Laws over pure functions; half of hypothesis's own number finds what there is to find here.
# Nothing fails because the machine is slow.
settings.register_profile(
    "suite", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

_MEMORY = Path("/dev/shm")
_SHIPPED = {each.module for each in (*KNOWN.values(), *sum(EMBEDDING.values(), ()))}
"""The packages that carry models."""
_ROOM = 4 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Temporary files go to memory if there is room: runs flush theirs, and disks take their time.

    The variable is pytest's own. Workers get their folder from the process that starts them. The
    embedded model gets one thread: a machine that runs tests has no core to spare later.
    """
    os.environ.setdefault("BURNISH_LOCAL_THREADS", "1")
    if config.option.basetemp is None and _has_room():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


def pytest_collection_finish() -> None:
    """What was collected stays to the end: nobody looks through it for garbage again."""
    gc.collect()
    gc.freeze()


def _has_room() -> bool:
    if not os.access(_MEMORY, os.W_OK):
        return False
    system = os.statvfs(_MEMORY)
    room = min(system.f_bavail * system.f_frsize, psutil.virtual_memory().available)
    return room > _ROOM and not system.f_flag & os.ST_NOEXEC


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """The test's own folder; marked `on_disk`, one in the system's folder of temporary files."""
    if request.node.get_closest_marker("on_disk") is None:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="burnish-", ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:  # pyright: ignore[reportUnusedFunction]
    """Names that nobody has to look for: pytest lists its folder for each that it gives out."""
    folder = tmp_path_factory.mktemp("burnish-homes")
    return (folder / str(number) for number in count())


@pytest.fixture(autouse=True)
def _leaves_nothing(  # pyright: ignore[reportUnusedFunction]
    tmp_path_factory: pytest.TempPathFactory,
) -> Generator[None]:
    """Fails a test that the next one on this worker would notice."""
    before, temporary = ProcessState.now(), Path(tempfile.gettempdir()).resolve()
    yield
    if leaks := before.leaks(tmp_path_factory.getbasetemp(), temporary):
        pytest.fail("the test left behind: " + "; ".join(leaks), pytrace=False)


@pytest.fixture(autouse=True)
def _own_index(  # pyright: ignore[reportUnusedFunction]
    _leaves_nothing: None, _homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch
) -> Path:
    home = next(_homes)
    home.mkdir()
    monkeypatch.setenv("BURNISH_HOME", str(home))
    # A page of five megabytes at the end of each run would cost more than most tests.
    monkeypatch.setenv("BURNISH_HTML", "never")
    # As if they were not installed: a test that damages a model finds only the one it made.
    for module in _SHIPPED:
        monkeypatch.setitem(sys.modules, module, None)
    return home


@pytest.fixture
def own_variables() -> Iterator[None]:
    """For tests that load a `.env`: what is in it becomes part of this process's environment."""
    with mock.patch.dict(os.environ):
        yield


@contextmanager
def toy_installed(patch: pytest.MonkeyPatch | None = None) -> Generator[None]:
    """The toy world as an installed plug-in, in this process and in its children."""
    path = os.pathsep.join(filter(None, (str(TOY), os.environ.get("PYTHONPATH"))))
    with pytest.MonkeyPatch.context() if patch is None else nullcontext(patch) as patching:
        patching.setattr(sys, "path", [str(TOY), *sys.path])
        patching.setenv("PYTHONPATH", path)
        _forget_plugins()
        yield
    _forget_plugins()


@pytest.fixture
def toy_plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For tests over `kind: toy`: users of burnish do not have it unless they install it.

    On the test's own patches: a second pile of them would put back a path with the toy in it
    after a test that patches the path as well.
    """
    with toy_installed(monkeypatch):
        yield


def _forget_plugins() -> None:
    for names in (strategy_names, strategy_plugin, target_plugin):
        names.cache_clear()


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    """One browser for the tests of a module. Its event loop occupies the thread until they end."""
    pytest.importorskip("playwright", reason="needs playwright")
    if not CHROMIUM.exists():
        pytest.skip(f"needs {CHROMIUM}: `make deps` installs it")
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=flags, timeout=BROWSER_LIMIT
        )
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: "Browser") -> Iterator["Page"]:
    """A page of its own.

    The test fails if a script of the page fails or opens a dialog, or if the browser blocks
    something that the page wants.
    """
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(BROWSER_LIMIT)
    opened = context.new_page()
    errors: list[str] = []

    def listen(message: "ConsoleMessage") -> None:
        if "Content Security Policy" in message.text:
            errors.append(message.text)

    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("dialog", lambda dialog: errors.append(dialog.message))
    opened.on("console", listen)
    yield opened
    context.close()
    assert errors == []
