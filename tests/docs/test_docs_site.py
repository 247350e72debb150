"""The pages build as a site, strictly: every link and anchor leads somewhere on it."""

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import pytest
from tests.docs.docs_pages import ROOT

pytestmark = pytest.mark.slow

SCHEMAS = ROOT / "src" / "burnish" / "schemas"


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs the extra `docs`: mkdocs-material")
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    build = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert build.returncode == 0, build.stderr
    pages = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    assert {"index.html", "tutorial.html", "concepts.html", "file-agent.html"} <= set(pages)
    loaded = re.compile(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"')
    assert [url for text in pages.values() for url in loaded.findall(text)] == []
    assert (tmp_path / "site" / "search").is_dir()


def test_the_published_schemas_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    script = runpy.run_path(str(ROOT / "scripts" / "reference.py"))
    schemas = cast("Callable[[], dict[str, str]]", script["schemas"])()
    there = {path.name: path.read_text(encoding="utf-8") for path in SCHEMAS.iterdir()}
    assert set(there) == set(schemas), "run `make docs`"
    old = [name for name, text in schemas.items() if there[name] != text]
    assert not old, f"src/burnish/schemas: {', '.join(old)} no longer says what the code says"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 60
