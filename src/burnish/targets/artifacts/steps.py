"""The two steps of a run: the runner, then the scorer, each in the sandbox."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from burnish.core.content import Json
from burnish.core.outcomes import Failure, FailureKind, Outcome
from burnish.system.sandbox import CommandResult, Limits, Sandbox
from burnish.system.workspaces import read_contents
from burnish.targets.artifacts.numbers import RUNTIME, Numbers, numbers_of, read_numbers
from burnish.targets.artifacts.task import Runner, Scoring, Task
from burnish.targets.artifacts.workspace import Workspace, own_place

_PLUGIN = Path(__file__).with_name("plugin.py")
_ANSWER = "score.json"
_LAST = 12
"""Lines of a log that a failure quotes."""
TAMPERING = "Tampering"


class StepFailed(Exception):
    """A step gave nothing to go on with; the failure says why, the log what was said."""

    def __init__(self, message: str, *, error: str = "Crash") -> None:
        super().__init__(message)
        self.failure = Failure(kind=FailureKind.AGENT, message=message, error=error)


@dataclass(kw_only=True)
class Steps:
    """Runs one candidate in its workspace."""

    task: Task
    sandbox: Sandbox
    workspace: Workspace
    case: str
    said: dict[str, Json]
    """What each step printed."""
    seconds: float = 0.0
    """How long the runner ran."""

    async def outcome(self) -> Outcome:
        """Run, score, and look whether anything was touched that must be left alone."""
        try:
            ran = await self._run()
            scored = await self._score(ran)
            text = self._text()
        except StepFailed as failed:
            return Outcome(failure=failed.failure, data=self.said, seconds=self.seconds)
        measures = {} if ran is None else {RUNTIME: ran.seconds}
        if scored.feedback:
            self.said["scorer"] = {**_as_dict(self.said.get("scorer")), "feedback": scored.feedback}
        return Outcome(
            replies=(text,),
            measures={**measures, **scored.measures},
            data=self.said,
            seconds=self.seconds,
        )

    async def _run(self) -> CommandResult | None:
        runner = self.task.runner_of(self.case)
        if runner is None:
            return None
        ran = await self._command(runner.command, runner, {})
        self.seconds = ran.seconds
        self._note("runner", ran)
        if not ran.ok:
            raise StepFailed(f"the runner failed: {self._why(ran)}")
        await self._untouched("runner")
        await self.workspace.without_caches()
        return ran

    async def _score(self, ran: CommandResult | None) -> Numbers:
        scoring = self.task.scoring_of(self.case)
        if scoring.kind == "metrics":
            return Numbers(measures={})
        async with own_place() as place:
            scored = await self._scored(scoring, place, _given(place, ran))
        await self._untouched("scorer")
        return scored

    async def _scored(self, scoring: Scoring, place: Path, given: dict[str, str]) -> Numbers:
        step = Runner(command=scoring.command, timeout_seconds=scoring.timeout_seconds)
        primary = self.task.primary
        if scoring.kind == "command":
            ran = await self._command(step.command, step, given, also=place)
            self._ended_well(ran)
            return _usable(lambda: read_numbers(ran.stdout, scoring, primary))
        # -P: modules beside the plugin must not stand for modules of Python.
        argv = [sys.executable, "-P", str(_PLUGIN), scoring.function, str(place / _ANSWER)]
        self._ended_well(await self._command(argv, step, given, also=place))
        answer = read_contents(place, [_ANSWER]).get(_ANSWER, b"")
        if not answer:
            raise StepFailed("the scorer ended without an answer: its process was left early")
        return _usable(lambda: numbers_of(json.loads(answer), scoring, primary))

    def _ended_well(self, ran: CommandResult) -> None:
        self._note("scorer", ran)
        if not ran.ok:
            raise StepFailed(f"the scorer failed: {self._why(ran)}")

    async def _command(
        self,
        command: str | list[str],
        step: Runner,
        env: dict[str, str],
        *,
        also: Path | None = None,
    ) -> CommandResult:
        limits: Limits = replace(self.task.limits, seconds=step.timeout_seconds)
        folder = self.workspace.folder
        cwd = (folder / step.cwd).resolve()
        writable = [folder] if also is None else [folder, also]
        return await self.sandbox.run(command, cwd=cwd, writable=writable, env=env, limits=limits)

    async def _untouched(self, step: str) -> None:
        if found := await self.workspace.tampering():
            told = "; ".join(str(each) for each in found[:5])
            raise StepFailed(f"tampering, seen after the {step}: {told}", error=TAMPERING)

    def _note(self, step: str, ran: CommandResult) -> None:
        self.said[step] = {
            "exit_code": ran.exit_code,
            "seconds": round(ran.seconds, 3),
            "stdout": self._plain(ran.stdout),
            "stderr": self._plain(ran.stderr),
        }

    def _why(self, ran: CommandResult) -> str:
        """The reason, then what was said last: the last line first, for those who read one."""
        said = self._plain(ran.stderr.strip() or ran.stdout.strip()).split("\n")[-_LAST:]
        return "\n".join([f"{ran.reason}: {said[-1]}" if said[-1] else ran.reason, *said[:-1]])

    def _plain(self, text: str) -> str:
        """Without the name of the workspace, which is another one each time."""
        folder = str(self.workspace.folder)
        return text.replace(f"{folder}/", "").replace(folder, ".")

    def _text(self) -> str:
        """What metrics score: the file that the task names."""
        reads = self.task.scoring_of(self.case).reads
        if not reads:
            return ""
        content = read_contents(self.workspace.folder, [reads]).get(reads)
        if content is None:
            raise StepFailed(f"there is no file {reads} to score")
        return content.decode(errors="replace")


def _given(place: Path, ran: CommandResult | None) -> dict[str, str]:
    """What a scorer is told of the run, outside of the workspace that the run could write."""
    if ran is None:
        return {}
    (place / "stdout.txt").write_text(ran.stdout, encoding="utf-8")
    (place / "stderr.txt").write_text(ran.stderr, encoding="utf-8")
    return {
        "BURNISH_RUNNER_STDOUT": str(place / "stdout.txt"),
        "BURNISH_RUNNER_STDERR": str(place / "stderr.txt"),
        "BURNISH_RUNTIME_SECONDS": f"{ran.seconds:.6f}",
        "BURNISH_RUNNER_EXIT_CODE": str(ran.exit_code),
    }


def _usable(read: Callable[[], Numbers]) -> Numbers:
    try:
        return read()
    except (ValueError, RecursionError) as error:
        raise StepFailed(f"the scorer's answer cannot be used: {error}") from error


def _as_dict(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}
