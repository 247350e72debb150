"""Names of apps: they are parts of addresses and of paths."""

import re

from burnish.core.errors import ConfigError, Problem

NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$"
_NAME = re.compile(NAME)


def is_plain(name: str) -> bool:
    """Whether a name can be part of a path and means nothing more there."""
    return bool(_NAME.match(name)) and not name.endswith("\n")


def check_app_name(name: str) -> str:
    """The name, trimmed; refused where it could be mistaken for a path."""
    trimmed = name.strip()
    if not is_plain(trimmed):
        raise ConfigError(
            [
                Problem(
                    where="app",
                    message=f"'{trimmed}' cannot name an app",
                    remedy="use letters, digits, '.', '-' and '_', and begin with none of "
                    "'.' and '-'",
                )
            ]
        )
    return trimmed
