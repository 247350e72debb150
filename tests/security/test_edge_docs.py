"""The page of the API in a browser without a network."""

import asyncio
import shutil
from pathlib import Path

import pytest

from burnish.server import create_app
from tests.server.world import desk_app, listening, manager_of

pytestmark = pytest.mark.slow
CHROMIUM = shutil.which("chromium") or ""


@pytest.mark.skipif(not CHROMIUM, reason="no chromium")
async def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    log = tmp_path / "chromium.log"
    async with listening(create_app(manager_of(tmp_path, desk_app(tmp_path)))) as client:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "--enable-logging",
            f"--log-file={log}",
            "--dump-dom",
            f"{client.base_url}/docs",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        page, _ = await process.communicate()
    text = page.decode()
    assert "burnish API" in text
    assert text.count("<details") > 60, "operations and shapes"
    assert "async-runs" in text
    assert "refinement_sessions" in text
    said = [line for line in log.read_text(errors="replace").splitlines() if "CONSOLE" in line]
    assert not said, "nothing was blocked by the page's policy"
