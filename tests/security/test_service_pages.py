"""Attacks on the pages of `burnish serve`, over a real socket."""

import itertools
import re
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta

import pytest
import pytest_asyncio

from burnish.core.cases import Case, Outcome
from burnish.core.surfaces import Candidate
from burnish.server.guards import cookie_name
from burnish.server.security import OF_ADDRESS, OF_TOKEN, Attempts, TooManyAttempts
from burnish.server.stores import RunStatus
from burnish.server.tokens import FILE, TokenBook, TokenFile, TokenScope
from tests.compat.promptiter.desk import answer
from tests.security.edge_world import leaks_of, request, send
from tests.server.guests import HTML, Guest, House, house, token_in
from tests.server.world import RUN, Door, knocked, until

pytest.importorskip("jinja2", reason="pages need the extra `view`")
pytest.importorskip("plotly", reason="pages need the extra `view`")
pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

MARKUP = "</script><script>alert('burnish')</script><img src=x onerror=alert(1)>"
POSTS = ("/start", "/logout", "/runs/desk/r/stop", "/runs/desk/r/resume")


class _HostileDesk(Door):
    """An agent that answers in HTML."""

    async def answer(self, candidate: Candidate, case: Case, draw: int) -> Outcome:
        await self.passed(candidate, case)
        outcome = answer(candidate, case, draw)
        return replace(outcome, replies=(f"{outcome.output} {MARKUP}",))

    def shut(self) -> None:
        """Keep everybody waiting again."""
        self.open.clear()
        self.knocked.clear()


DOOR = _HostileDesk()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def home(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[House, None]:
    """One service for all attacks."""
    async with house(tmp_path_factory.mktemp("home"), desk_door=DOOR) as served:
        yield served


_NUMBERS = itertools.count()


@pytest.fixture
def name() -> str:
    """A name for a token of this test only."""
    return f"client-{next(_NUMBERS)}"


# -- Guessing --------------------------------------------------------------------------------------


async def test_guesses_are_limited_and_nobody_else_is_kept_out(home: House, name: str) -> None:
    known, token = home.guest(), home.tokens.add(name)
    assert (await known.log_in(token)).status_code == 303
    attacker, wrong = home.guest("198.51.100.7"), "bt_wrong-and-long-enough"
    for number in range(OF_TOKEN):
        if number % 2:
            guess = {**attacker.headers, **bearer(f"{wrong}{number}")}
            assert (await home.client.get("/api/v1/runs", headers=guess)).status_code == 401
        else:
            assert (await attacker.log_in(f"{wrong}{number}")).status_code == 403
    page = await attacker.log_in(wrong)
    guess = {**attacker.headers, **bearer(wrong)}
    api = await home.client.get("/api/v1/runs", headers=guess)
    for refused in (page, api):
        assert refused.status_code == 429
        assert 0 < int(refused.headers["retry-after"]) <= 300
    assert "try again in" in page.text
    assert api.json()["error"]["code"] == "too_many_attempts"
    assert (await attacker.log_in(token)).status_code == 303, "other tokens of the address"
    assert (await home.guest("198.51.100.8").log_in(wrong)).status_code == 403


async def test_an_address_that_guesses_keeps_out_only_what_is_new_there(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("book") / FILE
    file, now = TokenFile(path=path), [0.0]
    familiar, new = file.add("familiar"), file.add("new")
    book, attempts = TokenBook((), path), Attempts(clock=lambda: now[0])
    assert attempts.client(book, "::1", familiar) is not None
    for number in range(OF_ADDRESS):
        assert attempts.client(book, f"2001:db8::{number:x}", f"{number:08}-wrong") is None
    with pytest.raises(TooManyAttempts) as refused:
        attempts.client(book, "2001:db8::ffff", new)
    assert refused.value.seconds == 300
    assert attempts.client(book, "2001:db8::ffff", familiar) is not None
    assert attempts.client(book, "2001:db8:0:1::1", new) is not None, "another network"
    now[0] = 301
    assert attempts.client(book, "2001:db8::ffff", new) is not None


# -- Sessions --------------------------------------------------------------------------------------


async def test_a_session_is_never_the_one_that_somebody_else_chose(home: House, name: str) -> None:
    token = home.tokens.add(name)
    guest, cookie = home.guest(), cookie_name({"server": ("", home.client.base_url.port)})
    guest.cookies = {cookie: "chosen-by-the-attacker"}
    answer = await guest.log_in(token)
    assert guest.cookies[cookie] != "chosen-by-the-attacker"
    assert token not in str(answer.headers)
    before = Guest(home.client, dict(guest.cookies))
    assert (await guest.log_in(token)).status_code == 303
    assert before.cookies != guest.cookies
    assert (await before.get("/")).status_code == 303, "logging in ends the session before"
    assert (await guest.get("/")).status_code == 200


async def test_the_cookie_is_kept_from_scripts_and_other_sites(home: House, name: str) -> None:
    token = home.tokens.add(name)
    plain = (await home.guest().log_in(token)).headers["set-cookie"]
    assert re.search(r"; HttpOnly; SameSite=Strict$", plain)
    proxied = await home.client.post(
        "/login", data={"key": token}, headers={"X-Forwarded-Proto": "https"}
    )
    assert proxied.headers["set-cookie"].endswith("; HttpOnly; SameSite=Strict; Secure")


async def test_who_logs_in_often_ends_only_sessions_of_the_same_token(
    home: House, name: str
) -> None:
    other = await home.known(f"{name}-other")
    own, token = home.guest(), home.tokens.add(name)
    await own.log_in(token)
    for _ in range(20):
        assert (await home.guest().log_in(token)).status_code == 303
    assert (await own.get("/")).status_code == 303
    assert (await other.get("/")).status_code == 200


@pytest.mark.parametrize("end", ["revoke", "rotate"])
async def test_who_follows_a_run_hears_nothing_after_the_token(
    home: House, name: str, end: str
) -> None:
    DOOR.shut()
    watcher, token = await home.known(name), home.tokens.add(f"{name}-api")
    await home.manager.start("desk", {"kind": "promptiter", "promptiter": RUN}, run_id=end)
    await knocked(DOOR)
    live, stream = f"/runs/desk/{end}/live", f"/api/v1/apps/desk/runs/{end}/stream"
    async with (
        home.client.stream("GET", live, headers=watcher.headers) as page,
        home.client.stream("GET", stream, headers=bearer(token)) as events,
    ):
        assert (page.status_code, events.status_code) == (200, 200)
        for each in (name, f"{name}-api"):
            if end == "revoke":
                home.tokens.revoke(each)
            else:
                home.tokens.rotate(each, overlap=timedelta(0))
        DOOR.open.set()
        said = [await each.aread() for each in (page, events)]
    await until(home.manager, "desk", end, RunStatus.SUCCEEDED)
    assert all(b"event: end" not in each for each in said)


# -- Forms -----------------------------------------------------------------------------------------


async def test_every_form_needs_the_token_of_its_session(home: House, name: str) -> None:
    guest, other = await home.known(name), await home.known(f"{name}-other")
    stolen = token_in((await other.get("/start")).text)
    for path in POSTS:
        for token in ({}, {"token": stolen}, {"token": ""}):
            assert (await guest.post(path, **token)).status_code == 403, path
        stranger = await home.guest().post(path, token=stolen)
        assert (stranger.status_code, stranger.headers["location"][:6]) == (303, "/login")
    assert (await guest.get("/")).status_code == 200


async def test_no_other_site_sends_a_form(home: House, name: str) -> None:
    guest = await home.known(name)
    form = {"token": token_in((await guest.get("/start")).text), "key": "x"}
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        {"Host": "evil.example", "Origin": "http://evil.example"},
    ):
        for path in ("/login", *POSTS):
            answer = await home.client.post(path, data=form, headers={**guest.headers, **headers})
            assert answer.status_code == 403, (path, headers)
            assert "evil.example" not in answer.text + str(answer.headers)


async def test_a_token_for_reading_sends_nothing(home: House, name: str) -> None:
    reader = await home.known(name, TokenScope.READ)
    token = token_in((await reader.get("/")).text)
    for path in POSTS:
        if path != "/logout":
            for method in ("POST", "PUT", "DELETE", "PATCH"):
                answer = await home.client.request(
                    method, path, data={"token": token, "app": "desk"}, headers=reader.headers
                )
                assert answer.status_code == 403, (method, path)
    assert (await reader.get("/start")).status_code == 403


async def test_forms_of_any_size_and_kind_are_refused_or_read(home: House, name: str) -> None:
    guest = await home.known(name)
    token = token_in((await guest.get("/start")).text)
    many = {f"field{number}": "x" for number in range(5_000)}
    assert (await guest.post("/start", token=token, app="a" * 70_000)).status_code == 413
    assert (await guest.post("/start", token=token, **many)).status_code in (403, 413)
    for value in ("9" * 5_000, "9" * 4_000, "nan", "inf", "1e999", "-1", "0x10", "1\0"):
        for field in ("max_trials", "max_usd"):
            form = {"token": token, "app": "toy", "id": "never", field: value}
            answer = await guest.post("/start", **form)
            assert answer.status_code == 422, (field, value)
            assert leaks_of(answer.text) == []
    names = [run.run_id for run in (await home.manager.list_runs()).runs]
    assert "never" not in names


# -- Addresses and answers -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "to",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "javascript:alert(1)",
        "runs/../../evil",
        "a\r\nSet-Cookie: x=y",
        "%2f%2fevil.example",
        "",
    ],
)
async def test_a_login_leads_to_pages_of_this_service_only(home: House, name: str, to: str) -> None:
    answer = await home.guest().log_in(home.tokens.add(name), to=to)
    assert answer.headers["location"] == "/"
    assert len(answer.headers.get_list("set-cookie")) == 1


async def test_what_comes_from_outside_is_shown_as_text(home: House, name: str) -> None:
    DOOR.open.set()
    await home.manager.start("desk", {"kind": "promptiter", "promptiter": RUN}, run_id="markup")
    await until(home.manager, "desk", "markup", RunStatus.SUCCEEDED)
    guest, seen = await home.known(name), 0
    base = "/runs/desk/markup"
    pages = [f"/?find={MARKUP}", f"/login?to={MARKUP}", f"/start?id={MARKUP}", f"/{MARKUP}"]
    run = await guest.get(base)
    links = re.findall(rf'(?:href|data-src)="({base}/[^"#]+)"', run.text)
    assert links
    for path in (base, *links, *pages, f"{base}/cases/{MARKUP}", f"/runs/{MARKUP}/x"):
        answer = await guest.get(path)
        seen += "alert(&#39;burnish" in answer.text or "alert('burnish" in answer.text
        assert "<script>alert" not in answer.text, path
        assert "<img src=x" not in answer.text, path
        assert leaks_of(answer.text, str(home.tokens.path.parent)) == [], path
    assert seen, "the agent's answer is shown nowhere"


async def test_pages_are_not_framed_stored_or_guessed(home: House, name: str) -> None:
    guest = await home.known(name)
    for path in ("/", "/start", "/runs/desk/none", "/login", "/nothing"):
        for visitor in (guest, home.guest()):
            headers = (await visitor.get(path)).headers
            assert headers["x-frame-options"] == "DENY", path
            assert "frame-ancestors 'none'" in headers["content-security-policy"], path
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["cache-control"] == "no-store", path
            assert headers["x-content-type-options"] == "nosniff"
            assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("target", ["*", "http://evil.example/", "//evil.example/", "/%00", "/%ff"])
async def test_odd_targets_of_requests_tell_nothing(home: House, target: str) -> None:
    for method in ("GET", "OPTIONS", "POST"):
        answer = await send(home.client, request(method, target, b"", *_HTML))
        assert 300 <= answer.status < 500, (method, answer.text)
        assert leaks_of(answer.text) == []
        assert "location: http" not in answer.text.lower()


_HTML = tuple(f"{key}: {value}" for key, value in HTML.items())


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
