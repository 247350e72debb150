"""Exit codes of commands that tell a wrong configuration from a failure.

0 is for what went well, 1 for what failed, 2 for what was interrupted and can go on; each type of
error knows its own. A command whose 1 has a meaning, such as `eval` with its failing cases, has a
code of its own for a configuration or a command line that is wrong.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from typer.core import TyperCommand

from burnish.core.errors import (
    BurnishError,
    ConfigError,
    MissingExtra,
    PriceUnknown,
    ResumeRefused,
    RunNotFound,
    TargetMismatch,
)
from burnish.models.errors import ModelRefused

_CONFIGURATION: tuple[type[BurnishError], ...] = (
    ConfigError,
    MissingExtra,
    ModelRefused,
    PriceUnknown,
    ResumeRefused,
    RunNotFound,
    TargetMismatch,
)
"""The errors that say: change a file, a flag, a key or an installation, and start again."""


class CodedCommand(TyperCommand):
    """A command with an exit code of its own for what is wrong with its configuration."""

    usage_exit = 1

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; flags may come from a file that is wrong."""
        with self._coded():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run it; an error of configuration leaves with the command's own code."""
        with self._coded():
            return super().invoke(ctx)

    @contextmanager
    def _coded(self) -> Generator[None, None, None]:
        try:
            yield
        except _CONFIGURATION as error:
            error.exit_code = self.usage_exit
            raise
