"""`burnish view` and the `--html` flags: where pages are written, and who may open them."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from burnish.cli.browser_pages import viewed_folders
from burnish.pages.library import run_key
from burnish.runs.directory import LOCK
from burnish.system import FileLock
from tests.cli.console import START, Burnish, refused

pytest.importorskip("jinja2", reason="pages need the extra `view`")
pytest.importorskip("plotly", reason="pages need the extra `view`")
pytestmark = pytest.mark.slow

GRID = ("eval", "p.yaml", "--set", "system=yes,no")


def test_a_run_and_a_comparison_become_files(burnish: Burnish, finished: Path) -> None:
    said = burnish("runs", "report", "done", "--html")
    assert (said.code, said.out) == (0, f"page     {finished / 'report.html'}\n")
    page = (finished / "report.html").read_text(encoding="utf-8")
    assert page.index('id="verdict"') < page.index('id="changes"') < page.index('id="cases"')
    assert burnish("runs", "compare", "done", "done", "--html", "both.html").code == 0
    assert "Side by side" in Path("both.html").read_text(encoding="utf-8")
    refused(
        burnish("runs", "compare", "done", "done", "--html", "gone/both.html"),
        "there is no folder gone",
    )


def test_a_run_writes_its_page_by_itself_unless_told_not_to(
    burnish: Burnish, finished: Path, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not (finished / "report.html").exists()
    monkeypatch.delenv("BURNISH_HTML")
    assert burnish("optimize", str(toy), "-q", "-o", "again").code == 0
    page = Path("again/report.html").read_text(encoding="utf-8")
    assert "Content-Security-Policy" in page


def test_a_measurement_becomes_a_file(burnish: Burnish, tmp_path: Path) -> None:
    rows = [
        {
            "name": name,
            "input": f"{name}?",
            "expected": "yes",
            "recorded": {"replies": [f"{name} <script>alert(1)</script>"]},
        }
        for name in ("one", "two")
    ]
    cases = tmp_path / "cases.jsonl"
    cases.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "metrics.yaml").write_text("- {type: standard, metric: equality}\n")
    said = burnish(
        "eval", str(cases), "--metrics", "metrics.yaml", "--progress", "none", "--html", "page.html"
    )
    assert said.code == 1
    page = Path("page.html").read_text(encoding="utf-8")
    assert "Failed: 2 of 2 cases fail." in page
    assert "two &lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>alert(1)" not in page


@pytest.fixture
def shop(burnish: Burnish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A grid of two columns, one of which is wrong."""
    monkeypatch.delitem(sys.modules, "reading", raising=False)
    monkeypatch.setenv("BURNISH_HTML", "never")
    agent = "from pathlib import Path\n\ndef call(query):\n    return Path('s.md').read_text()\n"
    project = (
        "kind: prompts\ntarget: {python: reading:call}\nprompts: {system: s.md}\n"
        "train: cases.csv\nmetrics: [{type: standard, metric: equality}]\n"
    )
    files = {"reading.py": agent, "p.yaml": project, "cases.csv": "input,expected\na,yes\nb,yes\n"}
    for name, text in {**files, "s.md": "no"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert burnish(*GRID, "-o", "shop", "-q").code == 1
    return tmp_path / "shop"


def test_a_grid_is_one_row_and_has_a_table(burnish: Burnish, shop: Path) -> None:
    listed = burnish("runs", "list").lines
    assert len(listed) == 2
    assert listed[1].split()[:1] == ["shop"]
    assert "2 columns" in listed[1]
    assert [each["grid"] for each in burnish("runs", "list", "--json").records] == ["shop"] * 2
    table = burnish("runs", "show", "shop").out
    assert "1 system=yes" in table
    assert "reference" in table
    columns = burnish("runs", "show", "shop", "--json").json["columns"]
    assert [each["score"] for each in columns] == [1.0, 0.0]
    runs = [Path(each["run"]).name for each in columns]
    assert burnish("runs", "compare", *runs, "--html", "both.html").code == 0
    assert "2 columns over 2 cases" in Path("both.html").read_text(encoding="utf-8")
    folders, start = viewed_folders("shop")
    assert (start, len(folders())) == (run_key(shop), 2)


def test_a_grid_is_removed_whole_and_only_on_request(
    burnish: Burnish, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert burnish(*GRID, "-o", "shop-2", "-q").code == 1
    for typed, code in (("n\n", 0), ("", 1)):
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdin", io.StringIO(typed))
            said = burnish("runs", "rm", "shop")
        assert (said.code, f"remove {shop} and everything in it?" in said.out) == (code, True)
    refused(burnish("runs", "rm", "sho", "--yes"), "could be any of")
    with FileLock.acquire(shop / LOCK, holding="the grid"):
        refused(burnish("runs", "rm", "shop", "--yes"), "grid shop is in use")
    (column, _) = sorted((shop / "columns").iterdir())
    with FileLock.acquire(column / LOCK, holding="a column"):
        refused(burnish("runs", "rm", "shop", "--yes"), f"run {column.name} is in use")
    (shop / "notes.txt").write_text("mine", encoding="utf-8")
    refused(burnish("runs", "rm", "shop", "--yes"), "more in it than the grid: notes.txt")
    (shop / "notes.txt").unlink()
    assert shop.is_dir()
    assert burnish("runs", "rm", "shop", "--yes").out == f"removed {shop}\n"
    assert not shop.exists()
    listed = burnish("runs", "list").lines
    assert [line.split()[0] for line in listed[1:]] == ["shop-2"]
    folders, _ = viewed_folders("")
    assert {folder.parents[1].name for folder in folders()} == {"shop-2"}
    refused(burnish("runs", "show", "shop-3"), "there is no run 'shop-3'")


def test_a_grid_does_not_move_into_a_folder_that_is_there(burnish: Burnish, shop: Path) -> None:
    said = burnish(*GRID, "-o", str(shop.parent), "-q")
    assert (said.code, "already exists" in said.err) == (3, True)
    assert not (shop.parent / "grid.json").exists()
    with FileLock.acquire(shop / LOCK, holding="the grid"):
        busy = burnish("eval", "p.yaml", "--resume", "shop", "-q")
    assert "the grid shop" in busy.err


def test_what_is_not_a_run_is_refused(burnish: Burnish, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused(burnish("view", "empty"), "there is no run in empty")
    refused(burnish("view", "nobody"), "there is no run 'nobody'")


def test_the_viewer_prints_a_link_and_ends_with_ctrl_c(finished: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", START, "view", "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        cwd=finished.parent,
    ) as viewer:
        assert viewer.stdout is not None
        limit = threading.Timer(120, viewer.kill)  # then the line below is empty
        limit.start()
        try:
            link = re.search(r"http://127\.0\.0\.1:\d+/enter\S+", viewer.stdout.readline())
            assert link is not None
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with opener.open(link[0], timeout=120) as answer:
                assert "done" in answer.read().decode()
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(link[0], timeout=120)
            viewer.send_signal(signal.SIGINT)
            assert viewer.wait(120) == 0
        finally:
            limit.cancel()
            viewer.kill()
