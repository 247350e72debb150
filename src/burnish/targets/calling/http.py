"""An agent behind an HTTP endpoint."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import urlsplit

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Description
from burnish.evaluation.matching.json_paths import path_problem
from burnish.system import expand_variables
from burnish.targets.calling.answers import AgentUnreachable, failed, of_text
from burnish.targets.calling.http_wire import (
    LONGEST_BODY,
    client_for,
    exchanged,
    transport_errors,
)
from burnish.targets.calling.secrets import hidden, written_out
from burnish.targets.calling.talks import Reply, Said
from burnish.targets.calling.target import CallingTarget
from burnish.targets.calling.templates import (
    PROMPTS,
    REMEMBERING,
    filled,
    filled_header,
    places_in,
    problems_in,
    prompts_in,
    texts_in,
    values_of,
)
from burnish.targets.given import given_prompts

if TYPE_CHECKING:
    from httpx2 import AsyncClient

Method: TypeAlias = Literal["POST", "PUT", "PATCH"]

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
    method: Method = "POST"
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
        return bool(places_in(self.body) & set(REMEMBERING))

    def problems(self) -> Sequence[Problem]:
        """What is wrong with the settings, each with the setting it is about."""
        found = [Problem(where="body", message=p.message, remedy=p.remedy)
                 for p in problems_in(self.body)]  # fmt: skip
        found += [
            Problem(where=f"headers.{name}", message=message, remedy="write it as ${NAME}")
            for name, value in self.headers.items()
            if (message := written_out(name, value))
        ]
        if self.response_path and (told := path_problem(self.response_path)):
            found.append(Problem(where="response_path", message=told))
        return [*found, *self._unset_variables()]

    def _unset_variables(self) -> list[Problem]:
        try:
            self._request_parts()
        except ConfigError as error:
            return [Problem(where=p.where or "variables", message=p.message, remedy=p.remedy)
                    for p in error.problems]  # fmt: skip
        return []

    def _request_parts(self) -> tuple[str, dict[str, str]]:
        for text in texts_in(self.body):
            _expanded(text)
        url = _expanded(self.url)
        _require_address(url, self.url)
        return url, {name: _expanded(value) for name, value in self.headers.items()}

    @property
    def prompts(self) -> set[str]:
        """The prompt fields that an endpoint is sent: `{{prompts.NAME}}` in body or headers."""
        return prompts_in(self.body) | prompts_in(dict(self.headers))

    def _prompts(self) -> dict[str, Json]:
        """What the places of prompts stand for, or a ConfigError where nobody gives one."""
        given = given_prompts()
        texts: Mapping[str, str] = {} if given is None else given.texts
        if missing := sorted(self.prompts - set(texts)):
            places = ", ".join(f"{{{{{PROMPTS}{name}}}}}" for name in missing)
            message = f"nobody gives the texts for {places}"
            remedy = "such an agent runs where its prompts are named too: as fields to optimise"
            raise ConfigError([Problem(where="body", message=message, remedy=remedy)])
        return {f"{PROMPTS}{name}": texts[name] for name in self.prompts}

    @asynccontextmanager
    async def conversation(self) -> AsyncGenerator[Reply, None]:
        """One connection for the conversation."""
        url, headers = self._request_parts()
        prompts = self._prompts()
        headers = {name: filled_header(self.headers[name], prompts, _expanded) for name in headers}
        async with client_for(url) as client:
            yield partial(self._reply, client, url, headers, prompts)

    async def _reply(
        self,
        client: "AsyncClient",
        url: str,
        headers: Mapping[str, str],
        prompts: Mapping[str, Json],
        said: Said,
    ) -> Outcome:
        body = filled(self.body, {**values_of(said), **prompts}, _expanded)
        content = json.dumps(body).encode()
        sent = {"content-type": "application/json", **headers}
        try:
            async with asyncio.timeout(self.timeout):
                status, text, place = await exchanged(client, self.method, url, content, sent)
        except TimeoutError:
            raise TimeoutError(f"{self.url} did not answer within {self.timeout:g} s") from None
        except transport_errors() as error:
            told = hidden(f"{self.url}: {error}", headers.values())
            raise AgentUnreachable(told) from None
        if text is None:
            return failed(f"{self.url} answered with more than {LONGEST_BODY} bytes", "TooLong")
        if 200 <= status < 300:
            return of_text(text, self.response_path)
        return self._turned_away(status, hidden(_squeezed(text), headers.values()), place)

    def _turned_away(self, status: int, words: str, place: str) -> Outcome:
        told = f"{self.url} answered HTTP {status}{f': {words}' if words else ''}"
        if status in _BUSY:
            raise AgentUnreachable(told)
        if 300 <= status < 400:
            raise ConfigError([_redirect(told, place)])
        return failed(told, "HttpStatus")


def _expanded(text: str) -> str:
    return expand_variables(text, os.environ)


def _squeezed(text: str) -> str:
    squeezed = " ".join(text.split())
    return squeezed if len(squeezed) <= _WORDS else f"{squeezed[:_WORDS]}…"


def _redirect(told: str, place: str) -> Problem:
    return Problem(
        message=f"{told}: redirects are not followed, since credentials are for one host",
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
