"""An agent behind an HTTP endpoint."""

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from burnish.core.cases import Outcome
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.protocols import Description
from burnish.core.thoughts import without_thoughts
from burnish.metrics.document_matching import path_problem
from burnish.metrics.text_matching import spelled
from burnish.models.dotenv import require_own_keys
from burnish.system import Redactor, expand_variables
from burnish.system.variables import expanded_secrets, refuse_login, variables_in
from burnish.targets.callables.target import (
    AgentUnreachable,
    CallingTarget,
    Reply,
    TurnInput,
    of_text,
)
from burnish.targets.user_code import agent_failure, current_prompts, is_web_address, web_client

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response


LONGEST_BODY = 8 * 1024 * 1024
_INSTEAD_OF_A_LOGIN = "write a header such as Authorization: Basic ${LOGIN}"


def _text(response: "Response") -> str:
    try:
        return response.content.decode(response.charset_encoding or "utf-8", errors="replace")
    except LookupError:  # no such encoding
        return response.content.decode(errors="replace")


def written_out(name: str, value: str) -> str:
    """Why a header or variable must not be stored in a file; empty if it may."""
    if variables_in(value) or Redactor(secrets=()).json({name: value}) == {name: value}:
        return ""
    return "this looks like a secret, which must not be stored in a file"


_PLACE = re.compile(r"\{\{\s*(prompts\.[^{}]*[^{}\s]|\w+)\s*\}\}")
_PROMPT = re.compile(r"\{\{\s*(prompts\.[^{}]*[^{}\s])\s*\}\}")
_PROMPTS = "prompts."
"""The prefix of the places of prompt fields."""
_NAMES = ("input", "history", "messages", "session")


def _values_of(turn: TurnInput) -> dict[str, Json]:
    """The values of the places in one turn."""
    now: Json = {"role": "user", "content": turn.input}
    return {
        "input": turn.input,
        "history": turn.messages(),
        "messages": [*turn.messages(), now],
        "session": turn.session,
    }


def _filled(template: Json, values: Mapping[str, Json]) -> Json:
    """Fill a template; only its own texts are expanded.

    A text that is a single place becomes the value itself. In a longer text the value is spelled
    out.
    """
    if isinstance(template, str):
        return _filled_text(template, values)
    if isinstance(template, list):
        return [_filled(item, values) for item in template]
    if isinstance(template, dict):
        return {key: _filled(item, values) for key, item in template.items()}
    return template


def _filled_text(text: str, values: Mapping[str, Json]) -> Json:
    alone = _PLACE.fullmatch(text.strip())
    if alone is not None:
        return values[alone[1]]
    # Taken apart first: what is filled in may look like a place, or like a variable.
    parts = _PLACE.split(text)
    pieces = (
        spelled(values[part]) if number % 2 else _expanded(part)
        for number, part in enumerate(parts)
    )
    return "".join(pieces)


def _filled_header(text: str, values: Mapping[str, Json]) -> str:
    """Fill a header with prompts, percent-encoded: a header is one line of ASCII."""
    parts = _PROMPT.split(text)
    pieces = (
        quote(str(values[part])) if number % 2 else _expanded(part)
        for number, part in enumerate(parts)
    )
    return "".join(pieces)


def _places_in(template: Json) -> set[str]:
    """The names of the places in a template."""
    return {name for text in _texts_in(template) for name in _PLACE.findall(text)}


def _texts_in(template: Json) -> Iterator[str]:
    if isinstance(template, str):
        yield template
    elif isinstance(template, list):
        for item in template:
            yield from _texts_in(item)
    elif isinstance(template, dict):
        for item in template.values():
            yield from _texts_in(item)


def _problems_in(template: Json) -> Iterator[Problem]:
    """Unknown places, and a template without the input."""
    names = {name for name in _places_in(template) if not name.startswith(_PROMPTS)}
    for name in sorted(names - set(_NAMES)):
        places = ", ".join(f"{{{{{each}}}}}" for each in _NAMES)
        message = f"unknown placeholder {{{{{name}}}}}"
        yield Problem(where="body", message=message, remedy=f"there are: {places}")
    if not names & {"input", "messages"}:
        remedy = 'put "{{input}}" where the agent reads its input'
        message = "the body does not contain the input"
        yield Problem(where="body", message=message, remedy=remedy)


@dataclass(frozen=True, kw_only=True)
class HttpTarget(CallingTarget):
    """Sends a JSON body for each turn and reads the reply from the answer.

    `${VAR}` in the address, the headers and the body is expanded when a request is made, and not
    stored.
    """

    url: str
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Json = field(default_factory=lambda: {"input": "{{input}}"})
    """A template with places such as {{input}}."""
    response_path: str = ""
    """Where the reply is in the answer's JSON; empty takes the whole answer."""
    timeout: float = 60.0
    """Seconds for one turn; after that the agent was too slow."""

    @property
    def description(self) -> Description:
        """The address and the request, with `${VAR}` unexpanded."""
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
    def reply_source(self) -> str:
        """Where replies are read: the address, and the part of its answers."""
        return f"{self.url}, in {self.response_path or 'the whole answer'}"

    @property
    def remembers(self) -> bool:
        return bool(_places_in(self.body) & {"history", "messages", "session"})

    def problems(self) -> Sequence[Problem]:
        problems = list(_problems_in(self.body))
        problems += [
            Problem(where=f"headers.{name}", message=message, remedy="write it as ${NAME}")
            for name, value in self.headers.items()
            if (message := written_out(name, value))
        ]
        if self.response_path and (cause := path_problem(self.response_path)):
            problems.append(Problem(where="response_path", message=cause))
        try:
            self.request_parts()
        except ConfigError as error:
            problems += [replace(p, where=p.where or "variables") for p in error.problems]
        return problems

    def request_parts(self) -> tuple[str, dict[str, str]]:
        """The address and the headers, with variables expanded."""
        texts = [*_texts_in(self.body), *self.headers.values()]
        for text in texts:
            _expanded(text)
        require_own_keys(self.url, texts)
        url = _expanded(self.url)
        refuse_login(url, "url", _INSTEAD_OF_A_LOGIN)
        if not is_web_address(url) or not url.isprintable() or " " in url:
            message = f"'{self.url}' is not a web address"
            remedy = "write it as https://host/path or http://host:port/path"
            raise ConfigError([Problem(where="url", message=message, remedy=remedy)])
        return url, {name: _expanded(value) for name, value in self.headers.items()}

    def secrets(self) -> Sequence[str]:
        """What variables bring into the address, the headers and the body."""
        return [*expanded_secrets([self.url, [*self.headers.values()], self.body])]

    @property
    def sent_prompts(self) -> set[str]:
        """The prompt fields that an endpoint is sent: `{{prompts.NAME}}` in body or headers."""
        texts = [*_texts_in(self.body), *self.headers.values()]
        places = {name for text in texts for name in _PROMPT.findall(text)}
        return {name.removeprefix(_PROMPTS) for name in places}

    def _prompts(self) -> dict[str, Json]:
        """The values of the places of prompts; raises a ConfigError if one is missing."""
        current = current_prompts()
        texts: Mapping[str, str] = {} if current is None else current.texts
        if missing := sorted(self.sent_prompts - set(texts)):
            places = ", ".join(f"{{{{{_PROMPTS}{name}}}}}" for name in missing)
            message = f"there are no texts for {places}"
            remedy = "run this agent with its prompts as fields to optimise"
            raise ConfigError([Problem(where="body", message=message, remedy=remedy)])
        return {f"{_PROMPTS}{name}": texts[name] for name in self.sent_prompts}

    @asynccontextmanager
    async def conversation(self) -> AsyncGenerator[Reply, None]:
        """One connection for the conversation."""
        import httpx2

        url, headers = self.request_parts()
        prompts = self._prompts()
        headers = {name: _filled_header(self.headers[name], prompts) for name in headers}
        # For opening a connection; the whole exchange is under the agent's own limit.
        timeout = httpx2.Timeout(None, connect=15.0)
        async with web_client(url, most_bytes=LONGEST_BODY, timeout=timeout) as client:
            yield partial(self._reply, client, url, headers, prompts)

    def request_body(self, turn: TurnInput, prompts: Mapping[str, Json]) -> Json:
        """What is sent for a turn."""
        return _filled(self.body, {**_values_of(turn), **prompts})

    def outcome_of(self, text: str) -> Outcome:
        """What an answer says."""
        outcome = of_text(without_thoughts(text), self.response_path)
        return replace(outcome, replies=tuple(map(without_thoughts, outcome.replies)))

    async def _reply(
        self,
        client: "AsyncClient",
        url: str,
        headers: Mapping[str, str],
        prompts: Mapping[str, Json],
        turn: TurnInput,
    ) -> Outcome:
        import httpx2

        from burnish.models.answer_limits import AnswerTooLarge

        content = json.dumps(self.request_body(turn, prompts)).encode()
        sent = {"content-type": "application/json", **headers}
        try:
            async with asyncio.timeout(self.timeout):
                response = await client.request(self.method, url, content=content, headers=sent)
        except AnswerTooLarge:
            # Not the endpoint's failure: a candidate could lose its worst cases like this.
            message = f"{self.url} answered with more than {LONGEST_BODY} bytes"
            return agent_failure(message, "TooLong", mendable=True)
        except TimeoutError:
            raise TimeoutError(f"{self.url} did not answer within {self.timeout:g} s") from None
        except (httpx2.TransportError, OSError) as error:
            message = self._hidden(f"{self.url}: {error}")
            raise AgentUnreachable(message) from None
        text = _text(response)
        if response.is_success:
            return self.outcome_of(text)
        # Before it is cut: half a key is in no list.
        squeezed = self._hidden(" ".join(text.split()))
        words = squeezed if len(squeezed) <= 300 else f"{squeezed[:300]}…"
        place = self._hidden(response.headers.get("location", ""))
        return self._rejection(response.status_code, words, place)

    def _hidden(self, text: str) -> str:
        return Redactor.from_environment(extra=self.secrets()).text(text)

    def _rejection(self, status: int, words: str, place: str) -> Outcome:
        message = f"{self.url} answered HTTP {status}{f': {words}' if words else ''}"
        if status in {429, 503}:
            raise AgentUnreachable(message, status=status)
        if 300 <= status < 400:
            cause = f"{message}: redirects are not followed, because credentials are for one host"
            remedy = f"use the final address{f': {place}' if place else ''}"
            raise ConfigError([Problem(message=cause, remedy=remedy)])
        return agent_failure(message, "HttpStatus")


def _expanded(text: str) -> str:
    return expand_variables(text, os.environ)
