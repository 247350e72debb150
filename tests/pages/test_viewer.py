"""`burnish view` over HTTP: who gets in, what is shown, what may be changed."""

import http.client
import json
import os
import re
import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from burnish.pages.library import run_key
from burnish.pages.viewer import Viewer
from burnish.runs.directory import LOCK, RunRecord
from burnish.runs.events import Listener
from burnish.runs.spec import set_tags
from burnish.system import FileLock
from tests.pages.shown_runs import DATASET, HARM, shown_grid, viewing
from tests.projects.adopting_runs import TEMPERATURE, agent_run
from tests.targets.agent_world import write_agent

pytestmark = pytest.mark.slow


@dataclass
class Browser:
    """Asks a viewer as a browser does, with a cookie once it has one."""

    viewer: Viewer
    cookie: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])

    def ask(
        self, path: str, *, form: dict[str, str] | None = None, **headers: str
    ) -> tuple[int, str, dict[str, str]]:
        """The status, the body and the headers of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.viewer.port, timeout=120)
        sent = {**({"Cookie": self.cookie} if self.cookie else {}), **headers}
        body = None if form is None else urlencode(form)
        if body is not None:
            sent = {"Content-Type": "application/x-www-form-urlencoded", **sent}
        try:
            connection.request("GET" if body is None else "POST", path, body=body, headers=sent)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), dict(answer.getheaders())
        finally:
            connection.close()

    def enter(self) -> "Browser":
        """Open the link, and keep its cookie."""
        url = urlsplit(self.viewer.link())
        status, _, headers = self.ask(f"{url.path}?{url.query}")
        assert status == 303
        self.cookie = headers["Set-Cookie"].partition(";")[0]
        return self

    def page(self, path: str) -> str:
        """A page that must be there."""
        status, body, _ = self.ask(path)
        assert status == 200, body
        return body


@pytest.fixture(scope="module")
def browser(shown: RunRecord) -> Iterator[Browser]:
    with viewing(shown.folder, cases=DATASET) as viewer:
        yield Browser(viewer).enter()


@pytest.fixture(scope="module")
def key(shown: RunRecord) -> str:
    return run_key(shown.folder)


def test_the_link_works_once_and_nothing_works_without_it(shown: RunRecord) -> None:
    with viewing(shown.folder) as viewer:
        browser, url = Browser(viewer), urlsplit(viewer.link())
        assert browser.ask("/")[0] == 403
        assert browser.ask("/enter?token=guess")[0] == 403
        browser.enter()
        assert browser.ask(f"{url.path}?{url.query}")[0] == 403
        assert browser.ask("/")[0] == 200
        stranger = Browser(browser.viewer, cookie=f"{browser.viewer.cookie}=guess")
        assert stranger.ask(f"/runs/{run_key(shown.folder)}")[0] == 403


def test_another_name_for_this_machine_is_refused(browser: Browser) -> None:
    assert browser.ask("/", Host="evil.example")[0] == 421
    assert browser.ask("/", Host=f"localhost:{browser.viewer.port}")[0] == 200


def test_pages_come_with_a_strict_policy(browser: Browser) -> None:
    _, _, headers = browser.ask("/")
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"


def test_a_run_its_cases_and_its_trials_are_shown(browser: Browser, key: str) -> None:
    page = browser.page(f"/runs/{key}")
    assert "Improved" in page
    assert HARM not in page
    detail = browser.page(f"/runs/{key}/cases/train/fixed")
    assert detail.count("&lt;script&gt;") >= 3
    assert HARM not in detail
    assert "Trace: 1 step" in detail
    assert "What it saw" in browser.page(f"/runs/{key}/trials/2")
    assert "always" in browser.page(f"/runs/{key}/cases?group=passing")
    assert "held-1" not in browser.page(f"/runs/{key}/cases?group=passing")
    assert "warmer" in browser.page(f"/runs/{key}/trials?page=1")
    assert "<style>" in browser.page(f"/runs/{key}/report.html")


def test_a_grid_is_one_row_and_leads_to_its_columns_and_back(grid: Path) -> None:
    columns = sorted((grid / "columns").iterdir())
    with viewing(*columns) as viewer:
        browser = Browser(viewer).enter()
        listed = browser.page("/")
        assert "3 columns: 0.000 to 1.000" in listed
        assert all(column.name not in listed for column in columns)
        page = browser.page(f"/runs/{run_key(grid)}")
        assert "grid · finished" in page
        assert "Quality and cost" in page
        assert "&lt;script&gt;" in page
        assert HARM not in page
        column = browser.page(f"/runs/{run_key(columns[0])}")
        assert f'<a href="/runs/{run_key(grid)}">its grid</a>' in column
        assert all(f'href="/runs/{run_key(each)}"' in page for each in columns)
        assert "<style>" in browser.page(f"/runs/{run_key(grid)}/report.html")
        marked = urlencode([("run", run_key(each)) for each in columns])
        compared = browser.page(f"/compare?{marked}")
        assert "reference" in compared
        assert browser.page(f"/compare?run={run_key(grid)}") == compared


def test_a_grid_that_was_cut_off_says_so(grid: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(grid, tmp_path / "cut", symlinks=True))
    last = sorted((home / "columns").iterdir())[-1]
    results = home / "results.json"
    whole = results.read_text(encoding="utf-8")
    shutil.rmtree(last)
    with viewing(*(home / "columns").iterdir()) as viewer:
        browser = Browser(viewer).enter()
        cut = json.loads(whole)
        cut["columns"][2] |= {"failure": "not measured yet", "run": ""}
        results.write_text(json.dumps(cut), encoding="utf-8")
        assert "grid · interrupted" in browser.page(f"/runs/{run_key(home)}")
        results.unlink()
        assert ">interrupted</span>" in browser.page("/")
        assert browser.ask(f"/runs/{run_key(home)}")[0] == 409


def test_what_is_not_there_is_said_plainly(browser: Browser, key: str) -> None:
    for path in (
        "/runs/0000000000000000",
        f"/runs/{key}/trials/99",
        f"/runs/{key}/cases/train/nobody",
        f"/runs/{key}/cases/../../secret",
        "/static/../pyproject.toml",
        "/static/other.js",
        "/nowhere",
    ):
        status, body, _ = browser.ask(path)
        assert status == 404, path
        assert "Traceback" not in body


def test_runs_can_be_searched_and_compared(browser: Browser, key: str) -> None:
    assert key in browser.page("/?find=shown&status=finished&verdict=improved")
    assert "No run fits" in browser.page("/?find=other")
    assert browser.ask(f"/compare?run={key}")[0] == 404
    page = browser.page(f"/compare?run={key}&run={key}")
    assert "They are the same." in page


def test_runs_are_found_by_their_tags(shown: RunRecord, tmp_path: Path) -> None:
    folders = [Path(shutil.copytree(shown.folder, tmp_path / n, symlinks=True)) for n in "ab"]
    tagged, other = map(run_key, folders)
    with viewing(*folders) as viewer:
        browser = Browser(viewer).enter()
        assert 'name="tag"' not in browser.page("/"), "there are none to choose from"
        set_tags(folders[0], ["night/day"])
        listed = browser.page("/")
        assert "?tag=night/day" in listed
        assert f"/runs/{other}" in listed
        found = browser.page("/?tag=night%2Fday")
        assert f"/runs/{tagged}" in found
        assert f"/runs/{other}" not in found
        assert f"/runs/{other}" not in browser.page("/?find=night")
        assert "night/day" in browser.page(f"/runs/{tagged}")


def test_more_than_two_runs_are_compared_and_too_many_are_not(browser: Browser, key: str) -> None:
    page = browser.page(f"/compare?{'&'.join([f'run={key}'] * 3)}")
    assert "3 runs side by side" in page
    assert 'data-chart="several"' in page
    status, words, _ = browser.ask(f"/compare?{'&'.join([f'run={key}'] * 13)}")
    assert status == 404
    assert "Choose 2 to 12 runs" in words


def test_the_page_of_a_run_that_goes_on_hears_of_changes_and_of_the_end(
    shown: RunRecord, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(shown.folder, tmp_path / "going-on", symlinks=True))
    key = run_key(folder)
    driver = FileLock.acquire(folder / LOCK, holding="the run")
    with driver, viewing(folder) as viewer:
        browser = Browser(viewer)
        assert f'data-live="/runs/{key}/live"' in browser.enter().page(f"/runs/{key}")
        connection = http.client.HTTPConnection("127.0.0.1", browser.viewer.port, timeout=120)
        connection.request("GET", f"/runs/{key}/live", headers={"Cookie": browser.cookie})
        events = connection.getresponse()
        os.utime(folder / "journal.db", (1, 1))
        assert events.readline() == b"event: changed\n"
        driver.release()
        assert b"event: ended" in events.read()
        connection.close()
        assert "data-live" not in browser.page(f"/runs/{key}")


def test_the_page_of_a_grid_that_goes_on_hears_of_each_column(tmp_path: Path) -> None:
    home = tmp_path / "project" / "shown-grid"
    key, seen = run_key(home), list[str]()
    with viewing(home) as viewer:
        browser = Browser(viewer).enter()
        connection = http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=120)

        @contextmanager
        def views(measurement: object, name: str) -> Generator[Sequence[Listener], None, None]:
            """Looks at the page before each column but the first, whose folder is not there yet."""
            del measurement, name
            if not (home / "columns").exists():
                yield ()
                return
            seen.append(browser.page(f"/runs/{key}"))
            if len(seen) == 1:
                connection.request("GET", f"/runs/{key}/live", headers={"Cookie": browser.cookie})
                events.append(connection.getresponse())
            yield ()

        events: list[http.client.HTTPResponse] = []
        assert shown_grid(home.parent, views) == home
        heard = events[0].read()
        connection.close()
        assert (heard.count(b"event: ended"), seen[0].count(">not yet</td>")) == (1, 2)
        assert all(f'data-live="/runs/{key}/live"' in page for page in seen)
        assert all("grid · running" in page for page in seen)
        assert "Not finished: 1 of 3 columns so far" in seen[0]
        assert "Not finished: 2 of 3 columns so far" in seen[1]
        ended = browser.page(f"/runs/{key}")
        assert "grid · finished" in ended
        assert "data-live" not in ended


def test_the_page_of_a_grid_is_told_of_new_results(grid: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(grid, tmp_path / "going-on", symlinks=True))
    key, driver = run_key(home), FileLock.acquire(home / LOCK, holding="the grid")
    with driver, viewing(*(home / "columns").iterdir()) as viewer:
        browser = Browser(viewer).enter()
        connection = http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=120)
        connection.request("GET", f"/runs/{key}/live", headers={"Cookie": browser.cookie})
        events = connection.getresponse()
        os.utime(home / "results.json", (1, 1))
        assert events.readline() == b"event: changed\n"
        driver.release()
        assert b"event: ended" in events.read()
        connection.close()


def test_a_result_is_adopted_and_undone(tmp_path: Path) -> None:
    agent = write_agent(tmp_path)
    before = agent.read_text(encoding="utf-8")
    run = agent_run(agent, {"instructions": "Be brief.\n", TEMPERATURE: 0.7}, measured=True)
    path = f"/runs/{run_key(run.folder)}"
    with viewing(run.folder) as viewer:
        browser = Browser(viewer)
        page = browser.enter().page(path)
        token = _token(page)
        assert "~  temperature: [-0.3-]{+0.7+}" in re.sub(r"</?span[^>]*>", "", page)
        for form, headers in (
            ({}, {}),
            ({"token": "guess"}, {}),
            ({"token": token}, {"Origin": "http://evil.example"}),
        ):
            assert browser.ask(f"{path}/adopt", form=form, **headers)[0] == 403
        stranger = Browser(browser.viewer)
        assert stranger.ask(f"{path}/adopt", form={"token": token})[0] == 403
        assert agent.read_text(encoding="utf-8") == before
        assert browser.ask(f"{path}/adopt", form={"token": token})[0] == 303
        assert "temperature: 0.7" in agent.read_text(encoding="utf-8")
        assert "Undo: put the files back" in browser.page(path)
        assert browser.ask(f"{path}/undo", form={"token": token})[0] == 303
        assert agent.read_text(encoding="utf-8") == before


def test_a_file_that_was_edited_since_is_not_changed(tmp_path: Path) -> None:
    agent = write_agent(tmp_path)
    run = agent_run(agent, {TEMPERATURE: 0.7}, measured=True)
    edited = agent.read_text(encoding="utf-8").replace("temperature: 0.3", "temperature: 0.4")
    with viewing(run.folder) as viewer:
        browser, path = Browser(viewer), f"/runs/{run_key(run.folder)}"
        token = browser.viewer.pages.place.token
        browser.enter()
        agent.write_text(edited, encoding="utf-8")
        page = browser.page(path)
        assert "is not what the run measured" in page
        assert "Change these files" not in page
        status, body, _ = browser.ask(f"{path}/adopt", form={"token": token})
        assert status == 409
        assert "is not what the run measured" in body
    assert agent.read_text(encoding="utf-8") == edited


def _token(page: str) -> str:
    token = re.search(r'name="token" value="([^"]+)"', page)
    assert token is not None
    return token[1]
