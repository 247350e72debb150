"""Attacks on `burnish view`: from web pages, from other programs, and by odd requests."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from burnish.cli.browser_pages import ProjectAdopter
from burnish.pages.library import Library, run_key
from burnish.pages.viewer import Viewer
from tests.projects.adopting_runs import TEMPERATURE, agent_run
from tests.targets.agent_world import write_agent

pytestmark = pytest.mark.slow
_ODD = (
    ("GET /x//[", 404),
    ("GET http://[::1", 400),
    ("GET /?" + "&".join(f"a{n}=1" for n in range(40)), 400),
    ("GET /?find=" + "x" * 60_000, 200),
    ("GET /?" + "x" * 70_000, 414),
    ("GET /?page=" + "9" * 5000, 200),
    ("GET /?page=-1&find=%00%1b%5b31m%ff%ed%a0%80", 200),
    ("GET /?status=%3Cscript%3E", 200),
    ("GET /compare?run=..%2f..&run=%00", 404),
    ("GET /runs/..%2f..%2fetc%2fpasswd", 404),
    ("GET /runs/%2e%2e/%2e%2e", 404),
    ("GET /runs/%00", 404),
    ("GET /runs/%ed%a0%80/live", 404),
    ("GET /runs/" + "a" * 5000, 404),
    ("GET /runs/RUN/trials/" + "9" * 5000, 404),
    ("GET /runs/RUN/trials/%D9%A1%D9%A2", 404),
    ("GET /runs/RUN/cases/train/%1b%5b2J%3Cb%3E", 404),
    ("GET /static/..%2f..%2f__init__.py", 404),
    ("GET /static/%2e%2e/viewer.py", 404),
    ("PUT /runs/RUN/adopt", 501),
    ("DELETE /runs/RUN", 501),
)


@dataclass(frozen=True, kw_only=True)
class Attacked:
    """A viewer of one run that could be adopted, and the file that this would change."""

    viewer: Viewer
    run: str
    agent: Path
    text: str

    def raw(self, request: str) -> str:
        """Everything that the viewer sends until it closes the connection."""
        address = ("127.0.0.1", self.viewer.port)
        with socket.create_connection(address, timeout=120) as connection:
            connection.sendall(request.encode("latin-1"))
            answer = b""
            while part := connection.recv(65536):
                answer += part
        return answer.decode("utf-8", "replace")

    def ask(self, line: str, *headers: str, body: str = "", host: str = "") -> str:
        """One request, after which the connection is closed."""
        head = [
            f"{line} HTTP/1.1",
            f"Host: {host or f'127.0.0.1:{self.viewer.port}'}",
            "Connection: close",
            *headers,
            *([f"Content-Length: {len(body)}"] if body else []),
        ]
        return self.raw("\r\n".join(head) + f"\r\n\r\n{body}")

    def enter(self) -> str:
        """The cookie header of somebody who has opened the link."""
        url = urlsplit(self.viewer.link())
        answer = self.ask(f"GET {url.path}?{url.query}")
        [cookie] = [line for line in answer.splitlines() if line.startswith("Set-Cookie: ")]
        return f"Cookie: {cookie.removeprefix('Set-Cookie: ').partition(';')[0]}"

    @property
    def untouched(self) -> bool:
        return self.agent.read_text(encoding="utf-8") == self.text


@pytest.fixture
def attacked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Attacked]:
    agent = write_agent(tmp_path)
    run = agent_run(agent, {TEMPERATURE: 0.7}, measured=True)
    library = Library(folders=lambda: [run.folder], cases=lambda _: None, adopter=ProjectAdopter())
    viewer = Viewer(library)
    thread = threading.Thread(target=viewer.serve, daemon=True)
    thread.start()
    text = agent.read_text(encoding="utf-8")
    try:
        yield Attacked(viewer=viewer, run=run_key(run.folder), agent=agent, text=text)
    finally:
        viewer.close()
        thread.join(120)
    assert not thread.is_alive()
    assert "Traceback" not in capfd.readouterr().err


def status_of(answer: str) -> int:
    return int(answer.split(" ", 2)[1])


def test_a_site_that_points_its_name_here_is_refused(attacked: Attacked) -> None:
    cookie, port = attacked.enter(), attacked.viewer.port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}",
                 f"127.0.0.1:{port}.evil.example", "[::1]", f"0.0.0.0:{port}", " "):  # fmt: skip
        answer = attacked.ask("GET /", cookie, host=host)
        assert status_of(answer) == 421, host
        assert attacked.run not in answer
    absolute = attacked.ask(f"GET http://127.0.0.1:{port}/", cookie, host="evil.example")
    assert status_of(absolute) == 421
    nameless = attacked.raw(f"GET / HTTP/1.1\r\nConnection: close\r\n{cookie}\r\n\r\n")
    assert status_of(nameless) == 421


def test_the_link_opens_one_session_and_leads_nowhere_else(attacked: Attacked) -> None:
    url = urlsplit(attacked.viewer.link())
    entered = attacked.ask(f"GET {url.path}?{url.query}&to=//evil.example")
    assert status_of(entered) == 303
    assert "\r\nLocation: /\r\n" in entered
    assert status_of(attacked.ask(f"GET {url.path}?{url.query}")) == 403
    assert status_of(attacked.ask(f"HEAD {url.path}?{url.query}")) == 403


def test_an_odd_place_after_the_link_is_ignored(attacked: Attacked) -> None:
    url = urlsplit(attacked.viewer.link())
    entered = attacked.ask(f"GET {url.path}?{url.query}&to=%E6%BC%A2%0d%0aX:1")
    assert status_of(entered) == 303
    assert "\r\nLocation: /\r\n" in entered


def test_another_site_changes_no_file(attacked: Attacked) -> None:
    cookie = attacked.enter()
    for action in ("adopt", "undo"):
        _forge(attacked, cookie, action)


def _forge(attacked: Attacked, cookie: str, action: str) -> None:
    token = attacked.viewer.pages.place.token
    line = f"POST /runs/{attacked.run}/{action}"
    kind = "Content-Type: application/x-www-form-urlencoded"
    for headers, body in (
        ((cookie, kind), "token="),
        ((cookie, kind), "token=guess"),
        ((cookie, "Content-Type: text/plain"), "a=b&c=d&e=f&g=h&i=j&k=l&m=n"),
        ((cookie, kind, "Origin: http://evil.example"), f"token={token}"),
        ((cookie, kind, "Origin: null"), f"token={token}"),
        ((kind,), f"token={token}"),
        ((f"{cookie}x", kind), f"token={token}"),
    ):
        assert status_of(attacked.ask(line, *headers, body=body)) == 403
    assert status_of(attacked.ask(line, cookie, kind, body=f"token={token}", host="evil")) == 421
    assert status_of(attacked.ask(f"GET /runs/{attacked.run}/{action}", cookie)) == 404
    assert attacked.untouched


def test_what_a_refused_request_brings_along_is_no_request(attacked: Attacked) -> None:
    cookie, port = attacked.enter(), attacked.viewer.port
    hidden = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{cookie}\r\n\r\n"
    for line, length in (("POST /", f"Content-Length: {len(hidden)}"),
                         ("GET /", f"Content-Length: {len(hidden)}"),
                         ("POST /", "Transfer-Encoding: chunked")):  # fmt: skip
        answer = attacked.raw(f"{line} HTTP/1.1\r\nHost: evil\r\n{length}\r\n\r\n{hidden}")
        assert answer.count("HTTP/1.1 ") == 1
        assert attacked.run not in answer


def test_odd_addresses_end_in_a_plain_answer(attacked: Attacked) -> None:
    cookie = attacked.enter()
    for line, status in _ODD:
        answer = attacked.ask(line.replace("RUN", attacked.run), cookie)
        assert status_of(answer) == status, line
        assert not {"\x00", "\x1b"} & set(answer), line
        for part in ("<script>", "<b>", str(attacked.agent.parent)):
            assert part not in answer, line
    assert attacked.untouched


def test_a_form_says_how_long_it_is(attacked: Attacked) -> None:
    cookie, line = attacked.enter(), f"POST /runs/{attacked.run}/adopt"
    for length in ("9" * 5000, "-1", "1e3", "1000001", " ", "\xb3"):
        answer = attacked.ask(line, cookie, f"Content-Length: {length}")
        assert status_of(answer) == 400, length
    assert attacked.untouched


def test_a_browser_that_goes_away_leaves_no_trace(attacked: Attacked) -> None:
    cookie, address = attacked.enter(), ("127.0.0.1", attacked.viewer.port)
    host = f"Host: 127.0.0.1:{attacked.viewer.port}"
    for _ in range(20):
        with socket.create_connection(address, timeout=120) as connection:
            # Closing at once, with a reset: the answer then has nowhere to go.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.sendall(f"GET / HTTP/1.1\r\n{host}\r\n{cookie}\r\n\r\n".encode())
    assert status_of(attacked.ask("GET /", cookie)) == 200
