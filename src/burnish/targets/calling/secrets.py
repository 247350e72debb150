"""Secrets of agents that are called: written as `${VAR}`, and never shown."""

import re
from collections.abc import Iterable

from burnish.system import Redactor

_SHORTEST = 8
_VARIABLE = re.compile(r"\$\{[A-Za-z_]\w*\}")


def hidden(text: str, secrets: Iterable[str]) -> str:
    """The text without secrets, these values and parts of them after a space included."""
    values = {part for value in secrets for part in (value, value.rpartition(" ")[2])}
    known = [value for value in values if len(value) >= _SHORTEST]
    return Redactor.from_environment(extra=known).text(text)


def written_out(name: str, value: str) -> str:
    """Why a header or a variable may not be kept in a file; empty where it may."""
    if _VARIABLE.search(value) or Redactor(secrets=()).json({name: value}) == {name: value}:
        return ""
    return "this looks like a secret, which does not belong into a file"
