"""Agents that are only measured: those that are called, and recorded replies."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, JsonValue

from burnish.core.cases import Case, Dataset
from burnish.core.content import AboveZero, NotNegative
from burnish.core.errors import Problem
from burnish.core.surfaces import Surface
from burnish.datasets.formats import read_some_cases
from burnish.datasets.labels import read_labelled
from burnish.projects.file_kinds import RECORDED_METRICS
from burnish.projects.measures import (
    User,
    measured_cases,
    metric_blocks,
    read_metrics,
    simulated_user,
)
from burnish.runs.plugins import Building, StrategyPlugin, TargetParts, TargetPlugin
from burnish.runs.spec import TargetSpec
from burnish.system.settings import Settings, Text
from burnish.targets.callables import CallableTarget, CallingTarget, CommandTarget, HttpTarget
from burnish.targets.callables.target import notes_for, price_notes
from burnish.targets.recorded import RecordedTarget


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


class PythonSpec(TargetSpec):
    """An agent that is a Python function."""

    kind: str = "python"
    agent: PythonBlock


class HttpSpec(TargetSpec):
    """An agent behind an HTTP endpoint."""

    kind: str = "http"
    agent: HttpBlock


class CommandSpec(TargetSpec):
    """An agent that is a command."""

    kind: str = "command"
    agent: CommandBlock


class CalledPlugin(TargetPlugin):
    """Builds an agent that is called; nothing in it can be changed."""

    surfaces: ClassVar[tuple[type[Surface], ...]] = ()
    unsearched: ClassVar[str] = (
        f"{TargetPlugin.unsearched}; to rewrite prompts of an agent: kind: prompts"
    )
    replies_only: ClassVar[bool] = True
    """Whether nobody can know which tools the agent used."""

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        del strategy
        cases = measured_cases(building, "cases")
        user = simulated_user(building, cases)
        block: PythonBlock | HttpBlock | CommandBlock = building.spec.target.agent
        target = building.problems.in_block(
            "target.agent", block, lambda: block.made(building.folder, user)
        )
        metrics = read_metrics(building, cases, replies_only=self.replies_only)
        if target is None or building.problems.found:
            return None
        return TargetParts(
            target=target,
            dataset=Dataset(train=cases),
            metrics=metrics,
            notes=(*notes_for(target, cases), *price_notes(target), *metric_blocks(building).notes),
        )


class PythonPlugin(CalledPlugin):
    """A Python function: the steps of supported libraries are visible."""

    kind: ClassVar[str] = "python"
    Spec: ClassVar[type[TargetSpec]] = PythonSpec
    replies_only: ClassVar[bool] = False


class HttpPlugin(CalledPlugin):
    """An HTTP endpoint."""

    kind: ClassVar[str] = "http"
    Spec: ClassVar[type[TargetSpec]] = HttpSpec


class CommandPlugin(CalledPlugin):
    """A command."""

    kind: ClassVar[str] = "command"
    Spec: ClassVar[type[TargetSpec]] = CommandSpec


class RecordedSpec(TargetSpec):
    """Replies that were recorded: the cases of the file contain them."""

    kind: str = "recorded"
    labelled: bool = False
    """Whether the cases also have labels, to check judges against."""


class RecordedPlugin(TargetPlugin):
    """Builds recorded cases; nothing is run, and only judges cost money."""

    kind: ClassVar[str] = "recorded"
    Spec: ClassVar[type[TargetSpec]] = RecordedSpec
    surfaces: ClassVar[tuple[type[Surface], ...]] = ()

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        del strategy
        path, problems = Path(building.spec.source.file), building.problems
        spec: RecordedSpec = building.spec.target

        def read() -> tuple[Case, ...]:
            if spec.labelled:
                return tuple(reply.case for reply in read_labelled(path))
            return read_some_cases(path)

        cases = problems.as_raised(read, ())
        if problems.found:
            return None  # what is wrong with the file comes first
        file = building.path(building.spec.metrics.file or RECORDED_METRICS)
        problems.found += _unfit(building, path, cases, file)
        if problems.found:
            return None
        metrics = read_metrics(building, cases, folder=file.resolve().parent)
        notes = list(metric_blocks(building).notes)
        if building.spec.strategy.settings.repeats > 1:
            same = "recorded replies do not vary"
            notes.append(f"{same}: every repeat gives the same result, without noise")
        return TargetParts(
            target=RecordedTarget(),
            dataset=Dataset(train=cases),
            metrics=metrics,
            notes=tuple(notes),
        )


def _unfit(
    building: Building, path: Path, cases: tuple[Case, ...], metric_file: Path
) -> Iterator[Problem]:
    bare = [case.id for case in cases if case.recorded is None]
    if bare:
        message = f"{len(bare)} of {len(cases)} cases have no recorded reply"
        remedy = "name the agent that should answer them: burnish eval AGENT --cases FILE"
        yield Problem(
            where=path.name, message=f"{message} ({', '.join(bare[:3])}, …)", remedy=remedy
        )
    if building.spec.data.cases or building.cases is not None:
        message = f"{path.name} contains recorded cases itself, so --cases has no effect"
        yield Problem(where="--cases", message=message)
    if not metric_file.exists():
        remedy = f"name a metrics file: --metrics FILE, or put {RECORDED_METRICS} beside the cases"
        message = f"there are no metrics: {metric_file} does not exist"
        yield Problem(where=path.name, message=message, remedy=remedy)
