"""The server of `burnish view`, which shows pages.

It listens on loopback only, with one link that works once and then a session cookie.
"""

import hmac
import secrets
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from burnish.core.errors import BurnishError, RunNotFound
from burnish.pages.document import (
    DOWNLOAD,
    DOWNLOADED,
    PAGE_HEADERS,
    STATIC,
    Place,
    render,
    static_file,
)
from burnish.pages.library import Library
from burnish.pages.run_status import rest_after
from burnish.pages.served import Query, ServedPages, first, joined
from burnish.runs.directory import LOCK
from burnish.system import is_held

_HOST = "127.0.0.1"
_FORM_LIMIT = 1_000_000
"""Bytes of a form: a text to try may be long."""
_LISTENERS = 16
"""Pages that may follow live runs at once."""
_LOOK_EVERY = 1.0
"""Seconds between two looks at a live run."""


@dataclass(frozen=True, kw_only=True)
class PageAnswer:
    """What is sent back for a request."""

    body: str
    status: HTTPStatus = HTTPStatus.OK
    kind: str = "text/html"
    headers: tuple[tuple[str, str], ...] = ()


class Viewer:
    """Serves pages about local runs until it is closed."""

    def __init__(self, library: Library, *, port: int = 0) -> None:
        self.closing = threading.Event()
        self.listeners = threading.BoundedSemaphore(_LISTENERS)
        self.page_seconds: dict[str, float] = {}
        """The time of a processor that it took to make the page of a run, by its key."""
        self._entry: str | None = secrets.token_urlsafe(24)
        self._session = secrets.token_urlsafe(24)
        self._form_token = secrets.token_urlsafe(24)
        self._lock = threading.Lock()
        place = Place(alone=False, token=self._form_token, has_texts=True)
        self.pages = ServedPages(library=library, place=place)
        handler = type("_ViewerHandler", (_Handler,), {"viewer": self})
        self._server = _Server((_HOST, port), handler)
        self.port: int = self._server.server_address[1]

    @property
    def origin(self) -> str:
        return f"http://{_HOST}:{self.port}"

    @property
    def hosts(self) -> tuple[str, str]:
        """What a browser may call this server: anything else is another site that points here."""
        return f"{_HOST}:{self.port}", f"localhost:{self.port}"

    @property
    def cookie(self) -> str:
        """Two viewers of one browser have different cookies."""
        return f"burnish_view_{self.port}"

    def link(self, path: str = "") -> str:
        """The link that opens a session; it works once."""
        to = f"&to={path}" if path else ""
        return f"{self.origin}/enter?token={self._entry}{to}"

    def serve(self) -> None:
        """Serve until `close` is called."""
        try:
            self._server.serve_forever(poll_interval=0.2)
        finally:
            self._server.server_close()

    def close(self) -> None:
        """End `serve`."""
        self.closing.set()
        self._server.shutdown()

    def enter(self, token: str) -> bool:
        """Whether this is the link's token; it is used up then."""
        with self._lock:
            if self._entry is None or not _same(token, self._entry):
                return False
            self._entry = None
            return True

    @property
    def session_cookie(self) -> str:
        """What a browser stores once it has entered."""
        return f"{self.cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict"

    def knows(self, cookies: str) -> bool:
        """Whether a request belongs to the session."""
        try:
            morsel = SimpleCookie(cookies).get(self.cookie)
        except CookieError:
            return False
        return morsel is not None and _same(morsel.value, self._session)

    def own_form(self, token: str) -> bool:
        """Whether a form was filled in on a page of this viewer."""
        return _same(token, self._form_token)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of browsers that went away before they had their answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@dataclass(frozen=True, kw_only=True)
class _Address:
    """The address of a request; ValueError if it is none."""

    path: str
    query: Query

    @classmethod
    def of(cls, text: str) -> "_Address":
        url = urlsplit(text)
        return cls(path=url.path, query=parse_qs(url.query, max_num_fields=20))

    @property
    def parts(self) -> list[str]:
        return self.path.split("/")[1:]


class _Handler(BaseHTTPRequestHandler):
    viewer: ClassVar[Viewer]
    timeout = 60
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "burnish", ""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Write no log: the addresses hold a token."""

    def do_GET(self) -> None:
        """Answer a page."""
        self._answer(self._get)

    def do_HEAD(self) -> None:
        """Answer without the page."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Adopt or undo."""
        self._answer(self._post)

    def _answer(self, make: Callable[[_Address], PageAnswer | None]) -> None:
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            # What stays unread must not be taken for the next request.
            self.close_connection = True
        try:
            address = _Address.of(self.path)
        except ValueError:
            self._send(_trouble(HTTPStatus.BAD_REQUEST, "this address cannot be read"))
            return
        try:
            answer = self._refusal(address) or make(address)
        except RunNotFound as error:
            answer = _trouble(HTTPStatus.NOT_FOUND, str(error))
        except BurnishError as error:
            # The run, or a file of the user, is not in a state that allows this.
            answer = _trouble(HTTPStatus.CONFLICT, str(error))
        if answer is not None:
            self._send(answer)

    def _send(self, answer: PageAnswer) -> None:
        body = answer.body.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", f"{answer.kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (*PAGE_HEADERS.items(), *answer.headers):
            self.send_header(name, value)
        if not any(name == "Cache-Control" for name, _ in answer.headers):
            self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refusal(self, address: _Address) -> PageAnswer | None:
        """Why a request is not answered: from another site, or without a session."""
        if self.headers.get("Host", "") not in self.viewer.hosts:
            return _trouble(HTTPStatus.MISDIRECTED_REQUEST, "this server has another name")
        if address.path == "/enter" or address.path.startswith("/static/"):
            return None
        if not self.viewer.knows(self.headers.get("Cookie", "")):
            words = (
                "open the link that `burnish view` printed; it works once. For another browser, "
            )
            return _trouble(HTTPStatus.FORBIDDEN, f"{words}start `burnish view` again")
        return None

    def _get(self, address: _Address) -> PageAnswer | None:
        query, pages = address.query, self.viewer.pages
        parts = joined([unquote(part) for part in address.parts])
        match parts:
            case ["enter"]:
                return self._enter(first(query, "token"), first(query, "to"))
            case ["static", name] if name in STATIC:
                stays = ("Cache-Control", "private, max-age=3600")
                return PageAnswer(body=static_file(name), kind=STATIC[name], headers=(stays,))
            case ["runs", key, "live"]:
                return self._live(key)
            case _:
                message, began = _MESSAGES.get(first(query, "done"), ""), time.thread_time()
                page = pages.at(parts, query, message=message)
                self.viewer.page_seconds["/".join(parts[1:])] = time.thread_time() - began
                if page is None:
                    return _no_page()
                headers = (DOWNLOAD,) if parts[-1] == DOWNLOADED else ()
                return PageAnswer(body=page, headers=headers)

    def _enter(self, token: str, to: str) -> PageAnswer:
        if not self.viewer.enter(token):
            words = "this link was used before, or is not complete; start `burnish view` again"
            return _trouble(HTTPStatus.FORBIDDEN, words)
        place = f"/runs/{to}" if to.isascii() and to.isalnum() else "/"
        return _to(place, ("Set-Cookie", self.viewer.session_cookie))

    def _post(self, address: _Address) -> PageAnswer:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or len(length) > 9 or int(length) > _FORM_LIMIT:
            return _trouble(HTTPStatus.BAD_REQUEST, "the form is too long")
        form = _form(self.rfile.read(int(length)))
        origin = self.headers.get("Origin")
        ours = origin is None or origin in {f"http://{host}" for host in self.viewer.hosts}
        if not ours or not self.viewer.own_form(first(form, "token")):
            return _trouble(HTTPStatus.FORBIDDEN, "this form is not from a page of this viewer")
        library = self.viewer.pages.library
        match address.parts:
            case ["runs", key, "adopt"]:
                library.adopter.adopt(library.record(key))
                return _to(f"/runs/{key}?done=adopt")
            case ["runs", key, "undo"]:
                library.adopter.undo(library.record(key))
                return _to(f"/runs/{key}?done=undo")
            case _:
                return _no_page()

    def _live(self, key: str) -> PageAnswer | None:
        """Tell a page when its run or grid changes, until that or the viewer ends."""
        viewer, library = self.viewer, self.viewer.pages.library
        folder = library.grid(key) or library.folder(key)
        if not viewer.listeners.acquire(blocking=False):
            return _trouble(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages follow runs already")
        try:
            # Before the answer: whatever changes from then on is told.
            before, quiet = library.stamp(folder), 0
            # The page was just made.
            due = time.monotonic() + rest_after(viewer.page_seconds.get(key, 0.0))
            self.send_response(HTTPStatus.OK)
            for name, value in (("Content-Type", "text/event-stream"), *PAGE_HEADERS.items()):
                self.send_header(name, value)
            self.send_header("Cache-Control", "no-store")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            while is_held(folder / LOCK) and not viewer.closing.wait(_LOOK_EVERY):
                now = library.stamp(folder)
                if now != before and time.monotonic() >= due:
                    due = time.monotonic() + rest_after(viewer.page_seconds.get(key, 0.0))
                    before, quiet = now, 0
                    self._event("changed")
                elif (quiet := quiet + 1) % 15 == 0:
                    self.wfile.write(b": still here\n\n")  # notices a page that was closed
            self._event("ended")
        except OSError:
            pass  # the page was closed
        finally:
            viewer.listeners.release()
        return None

    def _event(self, name: str) -> None:
        self.wfile.write(f"event: {name}\ndata: {time.time():.0f}\n\n".encode())
        self.wfile.flush()


_MESSAGES = {
    "adopt": "Adopted: your files have the best candidate now.",
    "undo": "Undone: your files are as they were before.",
}


def _form(body: bytes) -> Query:
    """The fields of a form; none if it is not one of ours."""
    try:
        return parse_qs(body.decode(errors="replace"), max_num_fields=100)
    except ValueError:
        return {}


def _to(path: str, *headers: tuple[str, str]) -> PageAnswer:
    return PageAnswer(body="", status=HTTPStatus.SEE_OTHER, headers=(("Location", path), *headers))


def _no_page() -> PageAnswer:
    return _trouble(HTTPStatus.NOT_FOUND, "there is no such page")


def _trouble(status: HTTPStatus, words: str) -> PageAnswer:
    context = {"title": status.phrase, "words": f"{words[:1].upper()}{words[1:]}."}
    return PageAnswer(
        body=render("trouble.html.j2", context, place=Place(alone=False)), status=status
    )
