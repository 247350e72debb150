"""The pages of the service in a real browser: log in, watch a run go by, stop it, resume it."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from burnish.server import RunManager, Security, TokenBook, create_app
from burnish.server.tokens import FILE, TokenFile, TokenScope
from burnish.server.work import App
from tests.axe import barriers, tab_to
from tests.server.gated import HARM, gated_app
from tests.server.world import Door, listening, manager_of

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytest.importorskip("jinja2", reason="pages need the extra `view`")
pytest.importorskip("plotly", reason="pages need the extra `view`")
pytestmark = pytest.mark.slow


@dataclass(frozen=True, kw_only=True)
class Served:
    """A service in another thread."""

    url: str
    manager: RunManager
    tokens: TokenFile
    door: Door

    def log_in(self, page: "Page", name: str, scope: TokenScope = TokenScope.RUN) -> None:
        """Log in as somebody new."""
        page.goto(f"{self.url}/login")
        page.get_by_label("Token").fill(self.tokens.add(name, scope))
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", name="Runs").wait_for()

    def start(self, page: "Page", trials: int) -> None:
        """Start a run, and wait until it stands before the door."""
        page.get_by_role("link", name="Start a run").click()
        page.get_by_label("trials at most").fill(str(trials))
        page.get_by_role("button", name="Start", exact=True).click()
        page.get_by_text("The run is started.").wait_for()
        assert self.door.knocked.wait(120)


@contextmanager
def served(
    tmp_path: Path, door: Door, *, failing: str = "", app: App | None = None
) -> Generator[Served]:
    """A service on a socket that requires tokens, for the toy project unless there is an app."""
    tokens = TokenFile(path=tmp_path / FILE)
    book = TokenBook(("a-long-secret-of-the-operator",), tokens.path)
    manager = manager_of(tmp_path, app or gated_app(tmp_path, door, failing=failing))
    service = create_app(manager, security=Security(tokens=book))
    ready, urls = threading.Event(), list[str]()
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        end = asyncio.Event()
        async with listening(service) as client:
            urls.append(str(client.base_url).rstrip("/"))
            loops.append((asyncio.get_running_loop(), end))
            ready.set()
            await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(120)
    try:
        yield Served(url=urls[0], manager=manager, tokens=tokens, door=door)
    finally:
        door.open.set()
        for loop, end in loops:
            loop.call_soon_threadsafe(end.set)
        thread.join(120)
        assert not thread.is_alive()


def test_somebody_logs_in_and_watches_a_run_go_by(page: "Page", tmp_path: Path) -> None:
    door = Door(after=3)
    with served(tmp_path, door, failing="message-000") as home:
        page.goto(f"{home.url}/runs/toy/none")
        page.get_by_label("Token").fill("bt_not-a-token-of-anybody")
        page.get_by_role("button", name="Log in").click()
        page.get_by_text("This token is unknown").wait_for()
        home.log_in(page, "team")
        home.start(page, trials=2)
        panel = page.locator("#panel")
        panel.get_by_text("cases").first.wait_for()
        panel.get_by_text("baseline").first.wait_for()
        page.get_by_role("button", name="Stop this run").wait_for()
        assert page.locator("[data-live]").count() == 1
        door.open.set()
        page.locator("#now .tag.succeeded").wait_for()
        page.locator("#verdict-title").wait_for()
        assert page.locator("[data-live]").count() == 0
        assert page.get_by_text("The run is started.").count() == 0, "that is over"
        page.locator("#trial-list > details").last.locator("summary").click()
        page.get_by_text("The decision").first.wait_for()
        assert page.title() != "harmed"
        scripts: list[Route] = []

        def late(route: "Route") -> None:
            route.continue_() if scripts else scripts.append(route)

        page.route("**/static/page.js", late)
        page.goto(page.url, wait_until="commit")
        page.locator("#trial-list > details").last.locator("summary").click()
        scripts[0].continue_()
        page.get_by_text("The decision").first.wait_for()
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.get_by_role("button", name="Log out").click()
        page.get_by_role("heading", name="Log in").wait_for()
        page.goto(f"{home.url}/")
        page.get_by_label("Token").wait_for()


def test_a_run_is_stopped_and_resumed_with_more_budget(page: "Page", tmp_path: Path) -> None:
    door = Door(after=30)
    with served(tmp_path, door) as home:
        home.log_in(page, "team")
        home.start(page, trials=3)
        page.get_by_role("button", name="Stop this run").click()
        page.locator("#now .tag.canceled").wait_for()
        page.locator("#now summary").click()
        page.get_by_label("trials at most").fill("5")
        door.open.set()
        page.get_by_role("button", name="Resume", exact=True).click()
        page.locator("#now .tag.succeeded").wait_for()
        page.locator("#verdict .facts").get_by_text("5, ").first.wait_for()


def test_a_token_for_reading_has_no_buttons_and_an_agent_no_scripts(
    page: "Page", tmp_path: Path
) -> None:
    door = Door(after=30)
    with served(tmp_path, door, failing="message-000") as home:
        home.log_in(page, "team")
        home.start(page, trials=2)
        address = page.url.partition("?")[0]
        page.locator("#panel").get_by_text("failed").first.wait_for()
        page.locator("#panel").get_by_text(HARM).first.wait_for()
        page.get_by_role("button", name="Log out").click()
        page.get_by_role("heading", name="Log in").wait_for()
        home.log_in(page, "reader", TokenScope.READ)
        page.goto(address)
        page.locator("#panel").get_by_text(HARM).first.wait_for()
        forms = page.locator('form[method="post"]')
        assert [form.get_attribute("action") for form in forms.all()] == ["/logout"]
        assert page.get_by_role("link", name="Start a run").count() == 0
        token = page.locator('[name="token"]').first.get_attribute("value")
        send = "([url, token]) => fetch(url, {method: 'POST', body: new URLSearchParams({token})})"
        status = page.evaluate(f"async (sent) => (await ({send})(sent)).status", [
            f"{address}/stop", token
        ])  # fmt: skip
        assert status == 403
        assert page.title() != "harmed"
        assert page.locator("#panel img, #panel script").count() == 0


def test_pages_are_used_without_a_mouse_and_have_no_barriers(page: "Page", tmp_path: Path) -> None:
    door = Door(after=3)
    found: dict[str, list[str]] = {}
    with served(tmp_path, door, failing="message-000") as home:
        page.goto(f"{home.url}/login")
        found["login"] = barriers(page)
        page.set_viewport_size({"width": 390, "height": 800})
        page.keyboard.type(home.tokens.add("team"))
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Runs").wait_for()
        tab_to(page, page.get_by_role("link", name="Start a run"))
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Start a run").wait_for()
        found["start"] = barriers(page)
        tab_to(page, page.get_by_label("trials at most"))
        page.keyboard.type("2")
        page.keyboard.press("Enter")
        page.locator("#panel").get_by_text("failed").first.wait_for()
        found["live"] = barriers(page)
        door.open.set()
        page.locator("#now .tag.succeeded").wait_for()
        page.locator("#verdict-title").wait_for()
        tab_to(page, page.locator("#case-list > details").first.locator("summary").first)
        page.keyboard.press("Enter")
        page.locator("#case-list .case-body").first.wait_for()
        found["run"] = barriers(page)
        page.set_viewport_size({"width": 390, "height": 800})
        page.goto(f"{home.url}/?find=toy")
        found["app"] = barriers(page)
        page.set_viewport_size({"width": 390, "height": 800})
        leave = page.get_by_role("button", name="Log out")
        box = leave.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 390, "nobody scrolls sideways to log out"
        tab_to(page, leave)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Log in").wait_for()
    assert [each for each in found.items() if each[1]] == []
