"""Reads a role's request back out of the message that its shipped prompt makes of it."""

import re
from collections.abc import Iterator
from functools import cache

from burnish.models.roles import read_prompt, shipped

_MARK = re.compile(r"\{\{\s*(#|/)?\s*(\w+)\s*\}\}(\n?)")


def read_role_request(role: str, message: str) -> dict[str, str] | None:
    """The fields of a request to a role, by name; None if the message is for another role.

    A field that the message leaves out is empty. What a second request adds at its end is ignored.
    """
    match = _pattern(role).match(message)
    return None if match is None else {name: text or "" for name, text in match.groupdict().items()}


@cache
def _pattern(role: str) -> re.Pattern[str]:
    return re.compile("".join(_pieces(read_prompt(shipped()[role]).user.rstrip())), re.DOTALL)


def _pieces(template: str) -> Iterator[str]:
    """The template as a regular expression: sections are optional, fields are groups."""
    seen: set[str] = set()
    end = 0
    for mark in _MARK.finditer(template):
        yield re.escape(template[end : mark.start()])
        end = mark.end()
        if mark[1]:
            yield "(?:" if mark[1] == "#" else ")?"
        else:
            yield f"(?P={mark[2]})" if mark[2] in seen else f"(?P<{mark[2]}>.*?)"
            seen.add(mark[2])
            end -= len(mark[3])
    yield re.escape(template[end:])
