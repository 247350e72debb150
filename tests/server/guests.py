"""Browsers without a window, and a service with pages that they visit."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from burnish.server import RunManager, Security, TokenBook, create_app
from burnish.server.tokens import FILE, TokenFile, TokenScope
from tests.server.gated import gated_app
from tests.server.world import Door, desk_app, listening, manager_of, toy_app

HTML = {"Accept": "text/html,*/*"}


@dataclass
class Guest:
    """A browser without a window, as one person uses it."""

    client: httpx.AsyncClient
    cookies: dict[str, str] = field(default_factory=dict[str, str])
    address: str = ""
    """Where it comes from, as a proxy on the machine of the service says; empty for this one."""

    async def get(self, path: str, **headers: str) -> httpx.Response:
        """Ask for a page, as a browser does."""
        return await self.client.get(path, headers={**self.headers, **headers})

    async def post(self, path: str, **form: str) -> httpx.Response:
        """Send a form."""
        return await self.client.post(
            path, data=form, headers={**self.headers, "Origin": self.origin}
        )

    async def send(self, path: str, page: str, **form: str) -> httpx.Response:
        """Send a form of a page."""
        return await self.post(path, token=token_in((await self.get(page)).text), **form)

    async def log_in(self, token: str, to: str = "") -> httpx.Response:
        """Log in, and keep the cookie."""
        answer = await self.post("/login", key=token, to=to)
        if (cookie := answer.headers.get("set-cookie")) is not None:
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        return answer

    @property
    def origin(self) -> str:
        return str(self.client.base_url).rstrip("/")

    @property
    def headers(self) -> dict[str, str]:
        """What it sends with every request."""
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        proxied = {"X-Forwarded-For": self.address} if self.address else {}
        return {**HTML, "Cookie": cookie, **proxied}


def token_in(page: str) -> str:
    """The token of the forms of a page."""
    match = re.search(r'name="token" value="([^"]+)"', page)
    assert match is not None, page
    return match[1]


@dataclass(frozen=True, kw_only=True)
class House:
    """A service that requires tokens."""

    manager: RunManager
    client: httpx.AsyncClient
    tokens: TokenFile

    def guest(self, address: str = "") -> Guest:
        """Somebody who has not logged in."""
        return Guest(self.client, address=address)

    async def known(self, name: str, scope: TokenScope = TokenScope.RUN) -> Guest:
        """Somebody with a token, logged in."""
        guest = self.guest()
        assert (await guest.log_in(self.tokens.add(name, scope))).status_code == 303
        return guest


@asynccontextmanager
async def house(
    tmp_path: Path, door: Door | None = None, *, desk_door: Door | None = None
) -> AsyncGenerator[House, None]:
    """A service with the toy world and the desk, that requires tokens.

    With a door, the agent of one of them waits there.
    """
    tokens = TokenFile(path=tmp_path / FILE)
    book = TokenBook(("a-long-secret-of-the-operator",), tokens.path)
    toy = toy_app(tmp_path) if door is None else gated_app(tmp_path, door)
    manager = manager_of(tmp_path, desk_app(tmp_path, desk_door), toy)
    async with listening(create_app(manager, security=Security(tokens=book))) as client:
        yield House(manager=manager, client=client, tokens=tokens)
