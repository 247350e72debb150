"""Errors of AgentOptimizer that are also those that Python has for a wrong argument."""

from collections.abc import Generator
from contextlib import contextmanager

from burnish.core.errors import ConfigError


class WrongInput(ConfigError, ValueError):
    """An argument, or a file that one names, has a wrong value."""


class WrongKind(ConfigError, TypeError):
    """An argument is of the wrong kind."""


@contextmanager
def as_wrong_input() -> Generator[None, None, None]:
    """What is wrong with a file is a ValueError too, as programs for AgentOptimizer expect."""
    try:
        yield
    except (WrongInput, WrongKind):
        raise
    except ConfigError as error:
        raise WrongInput(error.problems, remedy=error.remedy) from error
