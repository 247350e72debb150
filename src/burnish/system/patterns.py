"""Regular expressions that users and clients write, with limits on their time and size.

Python's own `re` cannot be interrupted: `(a+)+$` on a line of 50 letters takes longer than anyone
waits. So a pattern must be valid for `re`, and the library `regex` (its VERSION0, which follows
`re`) searches with it.
"""

import re
import warnings
from functools import lru_cache, partial
from typing import Any, TypeAlias, cast

_SECONDS = 1.0
"""Of the processor, for one search."""
_LONGEST = 10_000
"""Characters of a pattern."""
_MOST_REPEATS = 10_000
"""Of a count such as `{3,10}`, and of all copies that nested ones make: the library writes them
out in memory."""
_TOKEN = re.compile(
    r"(?P<escape>\\N\{[^}]*\}|\\.)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])"
    r"|\{(?P<least>\d*),?(?P<most>\d*)\}|(?P<other>.)",
    re.DOTALL,
)
_BRACE = re.compile(r"\\N\{[^}]*\}|\\.|\{(?!\d*,?\d*\})", re.DOTALL)

_Compiled: TypeAlias = Any


class BadPattern(ValueError):
    """A text is not a regular expression, or one that is too large."""


class SlowPattern(Exception):
    """A search took too long; the fault of the pattern, not of the text."""


def search(pattern: str, text: str, *, fold: bool = False, lines: bool = False) -> bool:
    """Whether the pattern is somewhere in the text; `lines` lets ^ and $ match at each line.

    Raises BadPattern and SlowPattern.
    """
    return _within_time(_compiled(pattern, fold, lines).search, pattern, text) is not None


def matches_whole(pattern: str, text: str) -> bool:
    """Whether the pattern matches the whole text. Raises BadPattern and SlowPattern."""
    matched = _within_time(_compiled(pattern, False, False).fullmatch, pattern, text)  # noqa: FBT003
    return matched is not None


def replace_all(pattern: str, by: str, text: str) -> tuple[str, int]:
    """The text with every match replaced, and their number. Raises BadPattern and SlowPattern."""
    found = 0

    def replaced(match: _Compiled) -> str:
        nonlocal found
        found += bool(match[0])
        return by if match[0] else ""

    compiled = _compiled(pattern, False, False)  # noqa: FBT003
    clean = _within_time(partial(compiled.sub, replaced), pattern, text)
    return clean, found


def require_pattern(pattern: str) -> str:
    """The pattern if it can be used; raises BadPattern."""
    _compiled(pattern, False, False)  # noqa: FBT003
    return pattern


def _within_time(look: _Compiled, pattern: str, text: str) -> Any:
    try:
        return look(text, timeout=_SECONDS)
    except TimeoutError:
        shown = pattern if len(pattern) <= 60 else f"{pattern[:60]}…"
        raise SlowPattern(
            f"the pattern {shown!r} took more than {_SECONDS:g} s on a text of {len(text):,} "
            "characters: rewrite it without repeats inside repeats, such as (a+)+"
        ) from None


@lru_cache(maxsize=256)
def _compiled(pattern: str, fold: bool, lines: bool) -> _Compiled:  # noqa: FBT001
    import regex

    if len(pattern) > _LONGEST:
        raise BadPattern(f"it has more than {_LONGEST:,} characters")
    try:
        with warnings.catch_warnings():
            # What `re` will read differently one day is no news to a user.
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(pattern)
        if _copies(pattern) > _MOST_REPEATS:
            raise BadPattern(f"its counts repeat something more than {_MOST_REPEATS:,} times")
        flags = regex.VERSION0 | (regex.IGNORECASE if fold else 0) | (regex.M if lines else 0)
        return cast("_Compiled", regex.compile(_as_re_reads(pattern), flags))
    except RecursionError:
        raise BadPattern("it is nested too deeply") from None
    except (re.error, regex.error, OverflowError) as error:
        raise BadPattern(str(error)) from None


def _as_re_reads(pattern: str) -> str:
    """The pattern without what only `regex` knows: `{e<=1}` would let it match with mistakes."""
    return _BRACE.sub(lambda match: r"\{" if match[0] == "{" else match[0], pattern)


def _copies(pattern: str) -> int:
    """How many single matches the counts of a pattern stand for, or the largest count."""
    open_groups, last, largest = [0], 0, 0
    for token in _TOKEN.finditer(pattern):
        if token["other"] == "(":
            open_groups.append(0)
            last = 0
        elif token["other"] == ")" and len(open_groups) > 1:
            last = max(1, open_groups.pop())
            open_groups[-1] += last
        elif token["least"] is not None and (token["least"] or token["most"]):
            least = int(token["least"] or 0)
            largest = max(largest, least, int(token["most"] or 0))
            open_groups[-1] += last * max(0, least - 1)
            last *= max(1, least)
        else:
            open_groups[-1] += 1
            last = 1
    return max(largest, sum(open_groups) if largest else 0)
