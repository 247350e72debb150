"""Echoes: what a model repeats of its request, around a rewritten text or in place of one.

Small models copy what stands around a text: a line of the prompt, a tag, the name of the field, a
fence. That is taken off here, before anybody judges the text.
"""

import re
from collections.abc import Collection, Iterable

from burnish.core.cases import squeeze

_TAG = re.compile(r"</?[A-Za-z_][\w-]*>")
_FENCE = re.compile(r"(?:```|~~~)[\w-]*")
_QUOTES = (('"""', '"""'), ('"', '"'), ("“", "”"))
_SHORTEST_ECHO = 24
"""Characters of the request that an answer does not share with it by chance."""


def without_frame(text: str, frame: Collection[str], *, current: str = "") -> str:
    """A rewritten text without what its model copied from around the current text.

    `frame` has the lines of the prompt that are the same in every request. What the current text
    begins or ends with is its own, and stays.
    """
    own = {line.strip() for line in current.splitlines()}
    lines = text.strip().splitlines()
    while lines and _is_frame(lines[0], frame, own):
        lines.pop(0)
    while lines and _is_frame(lines[-1], frame, own):
        lines.pop()
    inner = "\n".join(lines).strip()
    for begin, end in _QUOTES:
        quoted = len(inner) > len(begin + end) and inner.startswith(begin) and inner.endswith(end)
        body = inner[len(begin) : -len(end)] if quoted else ""
        if quoted and begin not in body and not current.strip().startswith(begin):
            return body.strip()
    # As it was written, if nothing had to go: the end of a file may be a line of its own.
    return text if inner == text.strip() else inner


def _is_frame(line: str, frame: Collection[str], own: Collection[str]) -> bool:
    bare = line.strip()
    if bare in own and bare:
        return False
    is_sign = _TAG.fullmatch(bare) or _FENCE.fullmatch(bare)
    return not bare or bool(is_sign) or bare in frame


def frame_lines(template: str, placeholder: re.Pattern[str]) -> frozenset[str]:
    """The lines of a template that every request has: those without a placeholder."""
    lines = (line.strip() for line in template.splitlines())
    return frozenset(line for line in lines if line and not placeholder.search(line))


def names_only(text: str, names: Iterable[str]) -> bool:
    """Whether a text is nothing but the name of a part of the request or of the answer."""
    bare = squeeze(re.sub(r"[<>{}\[\]():*`'\".…/\\-]+", " ", text))
    return not bare or bare in {squeeze(name) for name in (*names, *_spaced(names))}


def _spaced(names: Iterable[str]) -> Iterable[str]:
    return [name.replace("_", " ") for name in names]


def is_unchanged(text: str, current: str) -> bool:
    """Whether a text is the current one; `yes` and `YES` may make a difference, blanks do not."""
    return text.split() == current.split()


def is_copied(text: str, request: str, *, current: str = "") -> bool:
    """Whether a text is a piece of its request, such as the question of a case.

    The current text is a piece of the request too: to shorten it is no copy.
    """
    bare = squeeze(text)
    return len(bare) >= _SHORTEST_ECHO and bare in squeeze(request) and bare not in squeeze(current)
