"""The reference says what the code says."""

import runpy
import sys
from collections.abc import Callable
from typing import cast

import pytest
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
