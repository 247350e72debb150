"""A worker that is a program, such as the command line of a coding agent.

It gets its instructions in a file, works in the workspace, and may say what it used. What it did
counts: the files that it left.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from burnish.core.content import Json, short_id
from burnish.core.errors import FileTrouble
from burnish.core.money import Spend, to_nano
from burnish.system.workspaces import read_contents, shown
from burnish.targets.artifacts.workspace import own_place
from burnish.targets.delegation.desk import Desk, Job, Worked
from burnish.targets.delegation.showing import bullets, defect_lines
from burnish.targets.delegation.words import WorkerResult

_TASK, _USAGE = "TASK.md", "usage.json"
_MOST_SAID = 4000


@dataclass(frozen=True, kw_only=True)
class CommandWorker:
    """Runs a program of the user's own for every job."""

    command: str
    timeout_seconds: float = 900.0
    env: tuple[str, ...] = ()
    """Names of variables that it may see, such as that of its key."""
    network: bool = True
    """Whether it may use the network, to talk to its model."""
    usd_per_run: float | None = None
    """What a run costs; None where that is not known, which is not 0."""

    @property
    def fingerprint(self) -> str:
        """A hash of the command; what program it is, is not seen."""
        return short_id([self.command, self.timeout_seconds, [*self.env], self.network])

    @property
    def label(self) -> str:
        """The command."""
        return self.command

    @property
    def price(self) -> Spend:
        """One call."""
        if self.usd_per_run is None:
            return Spend(calls=1, unpriced=1)
        return Spend(calls=1, nano_usd=to_nano(self.usd_per_run))

    async def work(self, job: Job, desk: Desk) -> Worked:
        """Run the program to its end."""
        before = desk.workspace.state
        if reason := desk.tally.no_more_calls():
            told = WorkerResult(summary=f"the budget is used up: {reason}", status="failed")
            return Worked(result=told, before=before, after=before)
        request: dict[str, Json] = {
            "command": self.fingerprint,
            "instructions": _brief(job),
            "by": [job.worker_id, job.iteration, job.attempt],
        }
        said = await desk.workspace.step(
            "worker", request, lambda: self._run(job, desk), price=self.price
        )
        ended = cast("dict[str, Any]", said)
        desk.tally.seconds = max(desk.tally.seconds, desk.workspace.seconds)
        desk.tally.tokens_told += int(ended["tokens"])
        desk.tally.tool_calls += int(ended["tool_calls"])
        made = desk.workspace.made(before)
        result = WorkerResult(
            summary=ended["summary"],
            outputs=[shown(path) for path in made],
            status="failed" if ended["failed"] else "done",
        )
        return Worked(result=result, before=before, after=desk.workspace.state)

    async def _run(self, job: Job, desk: Desk) -> Json:
        commands = desk.commands
        allow = (*commands.sandbox.allow, *self.env)
        sandbox = replace(commands.sandbox, allow=allow, network=self.network)
        async with own_place() as place:
            (place / _TASK).write_text(_brief(job), encoding="utf-8")
            env = {
                "BURNISH_TASK_FILE": str(place / _TASK),
                "BURNISH_USAGE_FILE": str(place / _USAGE),
            }
            own = replace(commands, sandbox=sandbox)
            try:
                ran = await own.run(self.command, seconds=self.timeout_seconds, env=env, also=place)
            except FileTrouble as error:
                return _ended(error.message, failed=True)
            used = _usage(place)
        if not ran.ok:
            return _ended(f"the program failed: {own.why(ran)}", used, failed=True)
        said = own.plain(ran.stdout.strip(), _MOST_SAID)
        return _ended(said or "(the program said nothing)", used, failed=False)


def _brief(job: Job) -> str:
    """What the program reads."""
    if not job.defects:
        return job.instructions
    defects = bullets(defect_lines(job.defects))
    return f"{job.instructions}\n\n## Defects of the last attempt, to be mended now\n\n{defects}\n"


def _ended(summary: str, used: Mapping[str, int] | None = None, *, failed: bool) -> Json:
    counted = used or {}
    return {
        "summary": summary,
        "failed": failed,
        "tokens": counted.get("tokens", 0),
        "tool_calls": counted.get("tool_calls", 0),
    }


def _usage(place: Path) -> dict[str, int]:
    """What the program says that it used; what is no number counts as not said."""
    try:
        told = json.loads(read_contents(place, [_USAGE]).get(_USAGE, b"{}"))
    except ValueError:
        return {}
    if not isinstance(told, dict):
        return {}
    numbers = cast("dict[str, Any]", told)
    return {
        name: int(value)
        for name in ("tokens", "tool_calls")
        if isinstance(value := numbers.get(name), int | float)
        and math.isfinite(value)
        and value >= 0
    }
