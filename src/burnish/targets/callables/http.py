"""An agent behind an HTTP endpoint."""

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import quote, urlsplit

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Description
from burnish.metrics.json_matching import path_problem
from burnish.metrics.text_matching import spelled
from burnish.models.endpoints import Endpoint
from burnish.system import Redactor, expand_variables
from burnish.targets.callables.target import (
    AgentUnreachable,
    CallingTarget,
    Reply,
    TurnInput,
    failed,
    of_text,
)
from burnish.targets.current_prompts import current_prompts

if TYPE_CHECKING:
    import ssl

    from httpx2 import AsyncClient, Response


LONGEST_BODY = 8 * 1024 * 1024
_CONNECTING = 15.0
"""Seconds for opening a connection; the whole exchange is under the agent's own limit."""


async def _exchanged(
    client: "AsyncClient", method: str, url: str, content: bytes, headers: Mapping[str, str]
) -> tuple[int, str | None, str]:
    """Status, body (None where it is too long) and where a redirect leads."""
    async with client.stream(method, url, content=content, headers=headers) as response:
        text = await _text(response)
        return response.status_code, text, response.headers.get("location", "")


async def _text(response: "Response") -> str | None:
    read = bytearray()
    async for part in response.aiter_bytes():
        read += part
        if len(read) > LONGEST_BODY:
            return None
    return read.decode(response.charset_encoding or "utf-8", errors="replace")


def _transport_errors() -> tuple[type[Exception], ...]:
    """What is raised when nobody answers, or not to the end."""
    import httpx2

    return (httpx2.TransportError, OSError)


def _client_for(url: str) -> "AsyncClient":
    """No redirects, no retries, no proxy to this machine; the time limit is ours."""
    import httpx2

    place = Endpoint(address=url, key="")
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(None, connect=_CONNECTING),
        trust_env=not place.is_local,
        verify=_trust(),
    )


@cache
def _trust() -> "ssl.SSLContext":
    """Reading the certificates of the world takes a while: once is enough."""
    import httpx2

    return httpx2.create_ssl_context()


# -- Secrets of agents that are called ------------------------------------------------------------


_SHORTEST = 8
_VARIABLE = re.compile(r"\$\{[A-Za-z_]\w*\}")


def hidden(text: str, secrets: Iterable[str]) -> str:
    """The text without secrets, these values and parts of them after a space included."""
    values = {part for value in secrets for part in (value, value.rpartition(" ")[2])}
    long_values = [value for value in values if len(value) >= _SHORTEST]
    return Redactor.from_environment(extra=long_values).text(text)


def written_out(name: str, value: str) -> str:
    """Why a header or a variable may not be kept in a file; empty where it may."""
    if _VARIABLE.search(value) or Redactor(secrets=()).json({name: value}) == {name: value}:
        return ""
    return "this looks like a secret, which does not belong into a file"


# -- Templates of requests ------------------------------------------------------------------------


_PLACE = re.compile(r"\{\{\s*(prompts\.[^{}]*[^{}\s]|\w+)\s*\}\}")
_PROMPT = re.compile(r"\{\{\s*(prompts\.[^{}]*[^{}\s])\s*\}\}")
_PROMPTS = "prompts."
"""What the places of prompt fields begin with."""
_NAMES = ("input", "history", "messages", "session")
_REMEMBERING = ("history", "messages", "session")
"""With one of these an endpoint can know what was said before."""


def _values_of(turn: TurnInput) -> dict[str, Json]:
    """What the places stand for in one turn."""
    now: Json = {"role": "user", "content": turn.input}
    return {
        "input": turn.input,
        "history": turn.messages(),
        "messages": [*turn.messages(), now],
        "session": turn.session,
    }


def _filled(template: Json, values: Mapping[str, Json], expand: Callable[[str], str]) -> Json:
    """The template with its places filled; `expand` looks at the template's own texts only.

    A text that is one place alone becomes the value, whatever it is. In a longer text the value
    is spelled out.
    """
    if isinstance(template, str):
        return _filled_text(template, values, expand)
    if isinstance(template, list):
        return [_filled(item, values, expand) for item in template]
    if isinstance(template, dict):
        return {key: _filled(item, values, expand) for key, item in template.items()}
    return template


def _filled_text(text: str, values: Mapping[str, Json], expand: Callable[[str], str]) -> Json:
    alone = _PLACE.fullmatch(text.strip())
    if alone is not None:
        return values[alone[1]]
    # Taken apart first: what is filled in may look like a place, or like a variable.
    parts = _PLACE.split(text)
    pieces = (
        spelled(values[part]) if number % 2 else expand(part) for number, part in enumerate(parts)
    )
    return "".join(pieces)


def _filled_header(text: str, values: Mapping[str, Json], expand: Callable[[str], str]) -> str:
    """A header with its prompts filled in, percent-encoded: a header has one line of ASCII."""
    parts = _PROMPT.split(text)
    pieces = (
        quote(str(values[part])) if number % 2 else expand(part)
        for number, part in enumerate(parts)
    )
    return "".join(pieces)


def _prompts_in(template: Json) -> set[str]:
    """The names of the prompt fields that a template has a place for."""
    places = {name for text in _texts_in(template) for name in _PROMPT.findall(text)}
    return {name.removeprefix(_PROMPTS) for name in places}


def _places_in(template: Json) -> set[str]:
    """The names of the places that a template has."""
    return {name for text in _texts_in(template) for name in _PLACE.findall(text)}


def _texts_in(template: Json) -> Iterator[str]:
    """Every text of a template."""
    if isinstance(template, str):
        yield template
    elif isinstance(template, list):
        for item in template:
            yield from _texts_in(item)
    elif isinstance(template, dict):
        for item in template.values():
            yield from _texts_in(item)


def _problems_in(template: Json) -> Iterator[Problem]:
    """Places that nothing is known for, and a template that leaves the input out."""
    names = {name for name in _places_in(template) if not name.startswith(_PROMPTS)}
    for name in sorted(names - set(_NAMES)):
        places = ", ".join(f"{{{{{each}}}}}" for each in _NAMES)
        yield Problem(message=f"unknown place {{{{{name}}}}}", remedy=f"there are: {places}")
    if not names & {"input", "messages"}:
        remedy = 'put "{{input}}" where the agent reads what it is asked'
        yield Problem(message="nothing of it is what the agent is asked", remedy=remedy)


# -- An agent behind an HTTP endpoint -------------------------------------------------------------


_Method: TypeAlias = Literal["POST", "PUT", "PATCH"]

_WORDS = 300
_BUSY = {429, 503}


def _plain_body() -> Json:
    return {"input": "{{input}}"}


@dataclass(frozen=True, kw_only=True)
class HttpTarget(CallingTarget):
    """Sends a JSON body for each turn and reads the reply out of the answer.

    `${VAR}` in the address, the headers and the body is expanded when a request is made, and
    kept nowhere.
    """

    url: str
    method: _Method = "POST"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Json = field(default_factory=_plain_body)
    """A template: see `templates.py`."""
    response_path: str = ""
    """Where in the answer's JSON the reply stands; empty takes the whole answer."""
    timeout: float = 60.0
    """Seconds for one turn; past them it is the agent that was too slow."""

    @property
    def description(self) -> Description:
        """Where it is and what it is sent, `${VAR}` unexpanded."""
        config: dict[str, Json] = {
            "url": self.url,
            "method": self.method,
            "headers": dict(self.headers),
            "body": self.body,
            "response_path": self.response_path,
            "timeout": self.timeout,
        }
        return self._described("http", config)

    @property
    def remembers(self) -> bool:
        """Whether the body carries what was said, or which conversation this is."""
        return bool(_places_in(self.body) & set(_REMEMBERING))

    def problems(self) -> Sequence[Problem]:
        """What is wrong with the settings, each with the setting it is about."""
        problems = [Problem(where="body", message=p.message, remedy=p.remedy)
                 for p in _problems_in(self.body)]  # fmt: skip
        problems += [
            Problem(where=f"headers.{name}", message=message, remedy="write it as ${NAME}")
            for name, value in self.headers.items()
            if (message := written_out(name, value))
        ]
        if self.response_path and (cause := path_problem(self.response_path)):
            problems.append(Problem(where="response_path", message=cause))
        return [*problems, *self._unset_variables()]

    def _unset_variables(self) -> list[Problem]:
        try:
            self._request_parts()
        except ConfigError as error:
            return [Problem(where=p.where or "variables", message=p.message, remedy=p.remedy)
                    for p in error.problems]  # fmt: skip
        return []

    def _request_parts(self) -> tuple[str, dict[str, str]]:
        for text in _texts_in(self.body):
            _expanded(text)
        url = _expanded(self.url)
        _require_address(url, self.url)
        return url, {name: _expanded(value) for name, value in self.headers.items()}

    @property
    def prompts(self) -> set[str]:
        """The prompt fields that an endpoint is sent: `{{prompts.NAME}}` in body or headers."""
        return _prompts_in(self.body) | _prompts_in(dict(self.headers))

    def _prompts(self) -> dict[str, Json]:
        """What the places of prompts stand for, or a ConfigError where nobody gives one."""
        current = current_prompts()
        texts: Mapping[str, str] = {} if current is None else current.texts
        if missing := sorted(self.prompts - set(texts)):
            places = ", ".join(f"{{{{{_PROMPTS}{name}}}}}" for name in missing)
            message = f"nobody gives the texts for {places}"
            remedy = "such an agent runs where its prompts are named too: as fields to optimise"
            raise ConfigError([Problem(where="body", message=message, remedy=remedy)])
        return {f"{_PROMPTS}{name}": texts[name] for name in self.prompts}

    @asynccontextmanager
    async def conversation(self) -> AsyncGenerator[Reply, None]:
        """One connection for the conversation."""
        url, headers = self._request_parts()
        prompts = self._prompts()
        headers = {name: _filled_header(self.headers[name], prompts, _expanded) for name in headers}
        async with _client_for(url) as client:
            yield partial(self._reply, client, url, headers, prompts)

    async def _reply(
        self,
        client: "AsyncClient",
        url: str,
        headers: Mapping[str, str],
        prompts: Mapping[str, Json],
        turn: TurnInput,
    ) -> Outcome:
        body = _filled(self.body, {**_values_of(turn), **prompts}, _expanded)
        content = json.dumps(body).encode()
        sent = {"content-type": "application/json", **headers}
        try:
            async with asyncio.timeout(self.timeout):
                status, text, place = await _exchanged(client, self.method, url, content, sent)
        except TimeoutError:
            raise TimeoutError(f"{self.url} did not answer within {self.timeout:g} s") from None
        except _transport_errors() as error:
            message = hidden(f"{self.url}: {error}", headers.values())
            raise AgentUnreachable(message) from None
        if text is None:
            return failed(f"{self.url} answered with more than {LONGEST_BODY} bytes", "TooLong")
        if 200 <= status < 300:
            return of_text(text, self.response_path)
        return self._turned_away(status, hidden(_squeezed(text), headers.values()), place)

    def _turned_away(self, status: int, words: str, place: str) -> Outcome:
        message = f"{self.url} answered HTTP {status}{f': {words}' if words else ''}"
        if status in _BUSY:
            raise AgentUnreachable(message)
        if 300 <= status < 400:
            raise ConfigError([_redirect(message, place)])
        return failed(message, "HttpStatus")


def _expanded(text: str) -> str:
    return expand_variables(text, os.environ)


def _squeezed(text: str) -> str:
    squeezed = " ".join(text.split())
    return squeezed if len(squeezed) <= _WORDS else f"{squeezed[:_WORDS]}…"


def _redirect(message: str, place: str) -> Problem:
    return Problem(
        message=f"{message}: redirects are not followed, since credentials are for one host",
        remedy=f"give the address it leads to: {place}" if place else "give the final address",
    )


def _require_address(url: str, written: str) -> None:
    try:
        parts = urlsplit(url)
        sane = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sane = False
    if not sane or not url.isprintable() or " " in url:
        remedy = "write it as https://host/path or http://host:port/path"
        raise ConfigError(
            [Problem(where="url", message=f"'{written}' is no address", remedy=remedy)]
        )
