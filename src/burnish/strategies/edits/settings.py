"""The settings of the artifact loop."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from burnish.core.content import AboveZero, AtLeastOne, NotNegative
from burnish.core.strict_gate import Direction
from burnish.runs.spec import StrategySettings
from burnish.system.settings import Door, Text

_PROGRAM = ("command", "timeout_seconds", "env", "network", "usd_per_edit")


class EditsSettings(StrategySettings):
    """How the loop goes about it."""

    task: Annotated[str, Door(file=False)] = ""
    """What the files are for, as the task says it; the editor reads it."""
    primary: Annotated[str, Door(file=False)] = "score"
    """The number that counts."""
    direction: Annotated[Direction, Door(file=False)] = "maximize"
    tolerance: Annotated[NotNegative, Door(file=False)] = 0.0
    """Two primary numbers that are no further apart are a tie."""
    accept_sigma: Annotated[NotNegative, Door(flag="*", http=True)] = 1.0
    """Within so many times its noise a difference is a tie; without repeats there is no noise."""
    max_files: AtLeastOne | None = None
    """Files that one edit may touch."""
    max_changed_lines: AtLeastOne | None = None
    """Lines added and lines removed, together, in one edit."""
    candidates_per_iteration: AtLeastOne = 1
    """Edits that are made and run side by side; they are decided on in order."""
    max_failures: AtLeastOne | None = None
    """Crashes after which the loop ends."""
    on_failure: Literal["discard", "stop"] = "discard"
    """What a crash does beside losing the candidate: nothing, or ending the run."""
    keep_if: Literal["better_primary"] = "better_primary"
    """What is kept."""
    mode: Literal["direct_edit", "command"] = "direct_edit"
    """`direct_edit` asks a model for an edit; `command` lets a program edit a copy."""
    command: Text | None = None
    """The program of mode `command`, such as the command line of a coding agent."""
    timeout_seconds: AboveZero = 900.0
    """For that program."""
    env: tuple[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")], ...] = ()
    """Names of variables that it may see, such as that of its key."""
    network: bool = True
    """Whether it may use the network, to talk to its model."""
    usd_per_edit: NotNegative | None = None
    """What an edit of it costs; not known unless it is said."""

    @model_validator(mode="after")
    def _whole(self) -> "EditsSettings":
        if self.mode == "command" and self.command is None:
            raise ValueError("mode: command needs the command that edits")
        unused = [name for name in sorted(_PROGRAM) if name in self.model_fields_set]
        if self.mode == "direct_edit" and unused:
            raise ValueError(f"{', '.join(unused)} goes with mode: command")
        return self

    def deciding(self) -> dict[str, object]:
        """The settings that decide what is kept: neither limits nor who edits."""
        limits = {"max_failures", "on_failure"}
        return self.model_dump(exclude={*limits, *_PROGRAM, "mode", "keep_if"})
