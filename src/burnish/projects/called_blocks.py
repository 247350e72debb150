"""How a file describes an agent that is called: a Python function, an endpoint or a command."""

import os
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, JsonValue

from burnish.core.content import AboveZero, NotNegative
from burnish.projects.evaluation_setup import User
from burnish.system.settings import Settings, Text
from burnish.targets.callables import CallableTarget, CallingTarget, CommandTarget, HttpTarget


class CalledBlock(Settings):
    """Settings that all called agents have."""

    version: str = ""
    """Change it when the agent changed in a way that burnish cannot see."""
    usd_per_call: NotNegative | None = None
    """The price of a call; unknown by default."""

    def _common(self, user: User | None) -> dict[str, Any]:
        return {"version": self.version, "usd_per_call": self.usd_per_call, "user": user}


class PythonBlock(CalledBlock):
    """A Python function. `module:function` alone is short for `{call: module:function}`."""

    short: ClassVar[str] = "call"
    call: Text
    """`module:function`, importable from the folder of the file."""

    def made(self, folder: Path, user: User | None) -> CallingTarget:
        return CallableTarget.load(self.call, folder, **self._common(user))


class HttpBlock(CalledBlock):
    """An HTTP endpoint. An address alone is short for `{url: …}`."""

    short: ClassVar[str] = "url"
    url: Text
    """The address of the endpoint."""
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    """The HTTP method."""
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    """Values may contain `${VAR}`, which is expanded when a request is sent."""
    body: JsonValue = Field(default_factory=lambda: {"input": "{{input}}"})
    """What is sent: `{{input}}`, `{{history}}`, `{{messages}}` and `{{session}}` are filled in."""
    response_path: str = ""
    """Where the reply is in the JSON of the response; empty means the whole response."""
    timeout: AboveZero = 60.0
    """Seconds for one turn."""

    def made(self, folder: Path, user: User | None) -> CallingTarget:
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
    """How it receives the input; `json` passes the whole conversation on stdin."""
    cwd: str = ""
    """Where it runs, relative to the folder of the file."""
    env: dict[str, str] = Field(default_factory=dict[str, str])
    """Additional environment variables; values may contain `${VAR}`."""
    response_path: str = ""
    """Where the reply is in the JSON on stdout; empty means all of stdout."""
    timeout: AboveZero = 60.0
    """Seconds for one turn."""

    def made(self, folder: Path, user: User | None) -> CallingTarget:
        return CommandTarget(
            command=self.command,
            input=self.input,
            cwd=Path(os.path.normpath(folder.resolve() / self.cwd)),
            env=self.env,
            response_path=self.response_path,
            timeout=self.timeout,
            **self._common(user),
        )
