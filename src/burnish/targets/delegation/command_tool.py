"""The tool that runs a command in the workspace, in the sandbox."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from burnish.core.content import Json
from burnish.core.errors import FileTrouble
from burnish.evaluation.matching.excerpts import without_middle
from burnish.models.chat import ToolSpec
from burnish.system.sandbox import CommandResult, Limits, Sandbox
from burnish.targets.delegation.tools import ToolRefused, readable, schema, text_of

MOST_SAID = 20_000
"""Characters of what a command printed that come back."""
_SPEC = ToolSpec(
    name="run_command",
    description="Run one line of sh in the workspace; its output and exit code come back.",
    parameters=schema(["command"], command="a line for sh; the workspace is the current folder"),
)


@dataclass(frozen=True, kw_only=True)
class Commands:
    """Runs commands in one workspace, within limits and behind walls where there are any."""

    sandbox: Sandbox
    folder: Path
    limits: Limits
    seconds_left: Callable[[], float]
    """What is left of the run's time: no command may take more."""

    async def run(
        self,
        command: str | list[str],
        *,
        seconds: float | None = None,
        env: Mapping[str, str] | None = None,
        also: Path | None = None,
    ) -> CommandResult:
        """Run a command to its end; `also` is a second folder that it may write."""
        most = min(seconds or self.limits.seconds, max(1.0, self.seconds_left()))
        limits = replace(self.limits, seconds=most)
        writable = [self.folder] if also is None else [self.folder, also]
        return await self.sandbox.run(
            command, cwd=self.folder, writable=writable, env=env, limits=limits
        )

    def plain(self, text: str, most: int = MOST_SAID) -> str:
        """What was printed, without the name of the workspace, which is another one each time."""
        folder = str(self.folder)
        told = readable(text).replace(f"{folder}/", "").replace(folder, ".")
        return without_middle(told, most)

    def why(self, ran: CommandResult) -> str:
        """Why a command is not ok, with what it said last."""
        said = self.plain(ran.stderr.strip() or ran.stdout.strip(), 800)
        return f"{ran.reason}: {said}" if said else ran.reason


@dataclass(frozen=True, kw_only=True)
class CommandTool:
    """`run_command`."""

    commands: Commands
    spec: ToolSpec = _SPEC
    only_looks: bool = False

    async def use(self, arguments: Mapping[str, Json]) -> str:
        """What the command printed; that it failed is an answer too."""
        try:
            ran = await self.commands.run(text_of(arguments, "command"))
        except FileTrouble as error:
            raise ToolRefused(error.message) from error
        parts = [f"exit code {ran.exit_code}" + (f" ({ran.reason})" if ran.reason else "")]
        for name, text in (("stdout", ran.stdout), ("stderr", ran.stderr)):
            if text.strip():
                parts.append(f"{name}:\n{self.commands.plain(text.rstrip())}")
        return "\n".join(parts)
