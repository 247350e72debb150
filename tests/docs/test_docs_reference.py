"""The reference says what the code says."""

import runpy
import sys
import tomllib
from collections.abc import Callable
from typing import cast

import pytest
from packaging.version import Version
from tests.docs.docs_pages import REFERENCE, ROOT

pytestmark = pytest.mark.slow


def test_the_reference_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    script = runpy.run_path(str(ROOT / "scripts" / "reference.py"))
    pages = cast("Callable[[], dict[str, str]]", script["pages"])()
    there = {path.name: path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md")}
    assert set(there) == set(pages), "run `make docs`, and remove pages that it does not write"
    old = [name for name, text in pages.items() if there[name] != text]
    assert not old, f"docs/reference: {', '.join(old)} no longer says what the code says: make docs"


def test_the_list_of_lowest_versions_is_current() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "minimum_versions.py"))
    minimum = cast("Callable[[], str]", script["minimum"])()
    current = (ROOT / "constraints-minimum.txt").read_text(encoding="utf-8")
    assert current == minimum, "run `python scripts/minimum_versions.py`"


@pytest.mark.parametrize("extra", ["crewai", "dspy", "google-adk", "openai-agents"])
def test_a_framework_is_tested_from_the_oldest_version_that_is_allowed(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (requirement,) = project["optional-dependencies"][extra]
    versions = [_pin(extra, suffix) for suffix in ("-oldest", "")]
    assert Version(versions[0]) == Version(requirement.removeprefix(f"{extra}>="))
    page = (ROOT / "docs" / "frameworks.md").read_text(encoding="utf-8")
    assert f"| {versions[0]} | {versions[1]} |" in page


def _pin(extra: str, suffix: str) -> str:
    file = ROOT / "constraints" / f"{extra}{suffix}.txt"
    if not file.exists():  # the oldest is the newest
        file = file.with_stem(extra)
    lines = file.read_text(encoding="utf-8").splitlines()
    return next(each for each in lines if each.startswith(f"{extra}==")).partition("==")[2]
