"""Lines of text files: an edit carried over to another spelling, and hunks that can be undone."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

_AFTER_NEWLINE = re.compile(r"(?<=\n)")


@dataclass(frozen=True, kw_only=True)
class Hunk:
    """Lines that took the place of others."""

    line: int
    """Where they begin in the new text, from 0."""
    before: tuple[str, ...]
    after: tuple[str, ...]


def hunks(before: str, after: str) -> tuple[Hunk, ...]:
    """What makes the new text from the old one, with nothing of what stayed."""
    old, new = lines_of(before), lines_of(after)
    return tuple(
        Hunk(line=j1, before=tuple(old[i1:i2]), after=tuple(new[j1:j2]))
        for i1, i2, j1, j2 in _edits(old, new)
    )


def without(after: str, done: Sequence[Hunk]) -> str:
    """The old text, given the new one."""
    lines = lines_of(after)
    for hunk in reversed(done):
        lines[hunk.line : hunk.line + len(hunk.after)] = hunk.before
    return "".join(lines)


def carried_over(original: str, plain: str, edited: str) -> str | None:
    """The edit from `plain` to `edited`, done to the original, which is `plain` in other spelling.

    So what a YAML writer would only spell differently stays as the user has it. None where the
    edit touches lines that the two spell differently.
    """
    if original == plain:
        return edited
    lines, levelled, new = lines_of(original), _levelled(plain), lines_of(edited)
    places = _places(levelled, _levelled(original))
    for i1, i2, j1, j2 in reversed(_edits(levelled, _levelled(edited))):
        start, end = _place(places, i1), _end(places, i1, i2)
        if start is None or end is None or end - start != i2 - i1:
            return None
        lines[start:end] = new[j1:j2]
    return _joined(lines)


def _places(plain: list[str], original: list[str]) -> dict[int, int]:
    """Where each line of `plain`, and its end, stands in the original, if it is the same there."""
    matcher = difflib.SequenceMatcher(None, plain, original, autojunk=False)
    blocks = matcher.get_matching_blocks()
    same = {block.a + n: block.b + n for block in blocks for n in range(block.size)}
    return {**same, len(plain): len(original)}


def _place(places: dict[int, int], line: int) -> int | None:
    if line in places:
        return places[line]
    above = places.get(line - 1)
    if above is None:
        return 0 if line == 0 else None
    return above + 1


def _end(places: dict[int, int], start: int, end: int) -> int | None:
    if start == end:
        return _place(places, start)
    last = places.get(end - 1)
    return None if last is None else last + 1


def _edits(old: list[str], new: list[str]) -> list[tuple[int, int, int, int]]:
    """Which lines become which: from, to, in the old and in the new."""
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [code[1:] for code in codes if code[0] != "equal"]


def _levelled(text: str) -> list[str]:
    return [line.rstrip("\r\n") for line in lines_of(text)]


def lines_of(text: str) -> list[str]:
    """The lines with their ends. Only a newline ends one: U+2028 and the like are text."""
    return [line for line in _AFTER_NEWLINE.split(text) if line]


def _joined(lines: list[str]) -> str:
    """The text; a last line that had no end gets one when something now follows it."""
    ended = (line if line.endswith("\n") else f"{line}\n" for line in lines[:-1])
    return "".join([*ended, *lines[-1:]])
