"""The settings of the artifact loop."""

from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import Field, JsonValue, model_validator

from burnish.core.content import AboveZero, AtLeastOne, NotNegative
from burnish.core.strict_gate import Direction
from burnish.strategies.settings import PruningSettings
from burnish.system.settings import Access, Door, Text

_PROGRAM = (
    *("command", "recipe", "arguments", "home", "timeout_seconds", "env", "network"),
    "usd_per_edit",
)
RecipeName: TypeAlias = Literal["claude", "codex", "aider", "gemini"]


class EditsSettings(PruningSettings):
    """How the loop works."""

    task: Annotated[str, Door(file=False)] = ""
    """What the files are for, in the words of the task; the editor reads it."""
    primary: Annotated[str, Door(file=False)] = "score"
    """The number that counts."""
    direction: Annotated[Direction, Door(file=False)] = "maximize"
    tolerance: Annotated[NotNegative, Door(file=False)] = 0.0
    """Primary numbers that are no further apart than this are a tie."""
    accept_sigma: Annotated[NotNegative, Door(flag="*", http=Access.CLIENT)] = 1.0
    """A difference within so many times its noise is a tie; without repeats there is no noise."""
    max_files: AtLeastOne | None = None
    """Files that one edit may touch."""
    max_changed_lines: AtLeastOne | None = None
    """Lines added and lines removed, together, in one edit."""
    candidates_per_iteration: AtLeastOne = 1
    """Edits that are made and run side by side, and decided on in order."""
    incumbents: AtLeastOne = 1
    """States of the files that edits start from: the leader, and the next best that ran."""
    max_failures: AtLeastOne | None = None
    """Crashes after which the loop ends."""
    target_score: float | None = None
    """The loop ends when the primary number of the best is as good as this, in its own unit."""
    on_failure: Literal["discard", "stop"] = "discard"
    """What a crash does besides losing the candidate: nothing, or end the run."""
    keep_if: Literal["better_primary"] = "better_primary"
    """What is kept."""
    mode: Literal["direct_edit", "command"] = "direct_edit"
    """`direct_edit` asks a model for an edit; `command` lets a program edit a copy."""
    command: Text | None = None
    """The program of mode `command`, such as the command line of a coding agent."""
    recipe: RecipeName | None = None
    """A coding agent whose command line is known: no `command` is needed."""
    arguments: str = ""
    """More arguments for the recipe's program, such as its model."""
    home: Text | None = None
    """A folder whose copy is the program's HOME, with its login and settings."""
    timeout_seconds: AboveZero = 900.0
    """The time limit of that program."""
    env: tuple[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")], ...] = ()
    """Names of environment variables that the program may see, such as its API key."""
    network: bool = True
    """Whether the program may use the network, to talk to its model."""
    usd_per_edit: NotNegative | None = None
    """What an edit by the program costs in US dollars; unknown if not set."""

    @model_validator(mode="before")
    @classmethod
    def _implied(cls, data: Any) -> Any:
        """A recipe is a program, without saying so again."""
        if not isinstance(data, dict):
            return data
        fields = cast("dict[str, Any]", data)
        implied = fields.get("recipe") is not None and "mode" not in fields
        return {**fields, "mode": "command"} if implied else fields

    @model_validator(mode="after")
    def _whole(self) -> "EditsSettings":
        if self.mode == "command" and self.command is None and self.recipe is None:
            raise ValueError("mode: command needs a command or a recipe")
        if self.command is not None and self.recipe is not None:
            raise ValueError("a recipe has its own command: set one of the two")
        if self.arguments and self.recipe is None:
            raise ValueError("arguments are for a recipe: write them into the command")
        unused = [name for name in sorted(_PROGRAM) if name in self.model_fields_set]
        if self.mode == "direct_edit" and unused:
            raise ValueError(f"{', '.join(unused)} can only be set with mode: command")
        return self

    def deciding(self) -> dict[str, JsonValue]:
        """The settings that decide what is kept: neither limits nor who edits."""
        limits = {"max_failures", "on_failure", "target_score"}
        newer = set[str]() if self.incumbents > 1 else {"incumbents"}
        return self.fingerprinted(free={*limits, *_PROGRAM, *newer, "mode", "keep_if"})
