"""Agents that are called, as files describe them: a Python function, an endpoint, a command."""

import os
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, JsonValue

from burnish.core.content import AboveZero, NotNegative
from burnish.core.protocols import Role
from burnish.metrics.turns import NextRemark, TalkSoFar
from burnish.system.settings import Settings
from burnish.targets.callables import CallableTarget, CallingTarget, CommandTarget, HttpTarget

_Text = Annotated[str, Field(min_length=1)]
User = Role[TalkSoFar, NextRemark]


class CalledBlock(Settings):
    """What every agent that is called may say."""

    version: str = ""
    """Change it when the agent changed in a way that burnish cannot see."""
    usd_per_call: NotNegative | None = None
    """What a call costs; not known unless it is said."""

    def _common(self, user: User | None) -> dict[str, Any]:
        return {"version": self.version, "usd_per_call": self.usd_per_call, "user": user}


class PythonBlock(CalledBlock):
    """A Python function. `module:function` alone is short for `{call: module:function}`."""

    short: ClassVar[str] = "call"
    call: _Text
    """`module:function`, importable from the folder of the file."""

    def made(self, folder: Path, user: User | None) -> CallingTarget:
        """The target."""
        return CallableTarget.load(self.call, folder, **self._common(user))


class HttpBlock(CalledBlock):
    """An HTTP endpoint. An address alone is short for `{url: …}`."""

    short: ClassVar[str] = "url"
    url: _Text
    """Where requests go."""
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    """How they are sent."""
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    """Values may hold `${VAR}`, which is expanded when a request is made."""
    body: JsonValue = Field(default_factory=lambda: {"input": "{{input}}"})
    """What is sent: `{{input}}`, `{{history}}`, `{{messages}}` and `{{session}}` are filled in."""
    response_path: str = ""
    """Where in the answer's JSON the reply stands; empty takes the whole answer."""
    timeout: AboveZero = 60.0
    """Seconds for one turn."""

    def made(self, folder: Path, user: User | None) -> CallingTarget:
        """The target."""
        del folder
        return HttpTarget(
            url=self.url,
            method=self.method,
            headers=self.headers,
            body=self.body,
            response_path=self.response_path,
            timeout=self.timeout,
            **self._common(user),
        )


class CommandBlock(CalledBlock):
    """A command. A list alone is short for `{command: […]}`."""

    short: ClassVar[str] = "command"
    command: list[str] = Field(min_length=1)
    """The program and its arguments; `{input}` and `{session}` are filled in. No shell."""
    input: Literal["stdin", "argument", "json"] | None = None
    """How it gets what is asked; `json` brings the whole conversation on stdin."""
    cwd: str = ""
    """Where it runs, from the folder of the file."""
    env: dict[str, str] = Field(default_factory=dict[str, str])
    """Variables beside those of burnish; values may hold `${VAR}`."""
    response_path: str = ""
    """Where in the JSON on stdout the reply stands; empty takes all of stdout."""
    timeout: AboveZero = 60.0
    """Seconds for one turn."""

    def made(self, folder: Path, user: User | None) -> CallingTarget:
        """The target."""
        return CommandTarget(
            command=self.command,
            input=self.input,
            cwd=Path(os.path.normpath(folder.resolve() / self.cwd)),
            env=self.env,
            response_path=self.response_path,
            timeout=self.timeout,
            **self._common(user),
        )
