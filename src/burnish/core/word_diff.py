"""Differences between two texts by words: as lines for people, and in a few words."""

import difflib
import re
from collections.abc import Iterator, Sequence

from burnish.core.formatting import counted, shorten
from burnish.core.surfaces import Change

CHANGED = "~"
"""What a line begins with that is partly the same before and after."""
_ALIKE = 0.4
"""From this share of common words on, two lines are shown as one."""
_CONTEXT, _QUOTED = 3, 70


def word_diff(before: Sequence[str], after: Sequence[str], name: str) -> list[str]:
    """A diff for people, with unchanged lines around each change.

    A line that changed in part is shown once, with `[-old-]` and `{+new+}` words.
    """
    old, new = ([line.rstrip("\r\n") for line in lines] for lines in (before, after))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    lines: list[str] = []
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        lines.append(f"@@ line {group[0][3] + 1} @@")
        for tag, start, end, new_start, new_end in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[start:end]]
            else:
                lines += _block(old[start:end], new[new_start:new_end])
    return [f"--- {name}", f"+++ {name}", *lines] if lines else []


def _block(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Lines that differ: those that are alike as one, in order, the others as they are."""
    paired = 0
    for line in old:
        partner = next((i for i in range(paired, len(new)) if _share(line, new[i]) >= _ALIKE), None)
        if partner is None:
            yield f"-{line}"
            continue
        yield from (f"+{other}" for other in new[paired:partner])
        yield f"{CHANGED}{_marked(line, new[partner])}"
        paired = partner + 1
    yield from (f"+{line}" for line in new[paired:])


def _share(old: str, new: str) -> float:
    """How much of two lines is the same, spaces aside."""
    words = ([word for word in _words(text) if not word.isspace()] for text in (old, new))
    return difflib.SequenceMatcher(None, *words, autojunk=False).ratio()


def _words(text: str) -> list[str]:
    """Numbers, words, signs and the spaces between them."""
    return re.findall(r"\d+(?:[.,]\d+)*|\w+|\s+|[^\w\s]", text)


def _marked(old: str, new: str) -> str:
    before, after = _words(old), _words(new)
    parts: list[str] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            parts.append("".join(before[start:end]))
            continue
        if end > start:
            parts.append(f"[-{''.join(before[start:end])}-]")
        if new_end > new_start:
            parts.append(f"{{+{''.join(after[new_start:new_end])}+}}")
    return "".join(parts)


def change_words(change: Change) -> str:
    """What changed in one surface, in a few words."""
    before, after = change.before, change.after
    if before is None and isinstance(after, str):
        before = ""  # A new file.
    if isinstance(before, str) and isinstance(after, str) and not _single(before, after):
        return f"{change.surface}: {_text_words(before, after)}"
    if isinstance(before, tuple) or isinstance(after, tuple):
        sizes = (len(value) if isinstance(value, tuple) else 0 for value in (before, after))
        return f"{change.surface}: {' → '.join(map(str, sizes))} examples"
    values = ("—" if value is None else str(value) for value in (before, after))
    return f"{change.surface}: {' → '.join(shorten(value, 40) for value in values)}"


def _single(*texts: str) -> bool:
    """Whether these are values of one word each, such as a choice."""
    return all(len(text.split()) == 1 for text in texts)


def _text_words(before: str, after: str) -> str:
    old, new = before.split(), after.split()
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    removed = [old[i] for tag, start, end, *_ in codes if tag != "equal" for i in range(start, end)]
    runs = [new[start:end] for tag, _, _, start, end in codes if tag != "equal" and end > start]
    added = sum(map(len, runs))
    counts = [f"{counted(added, 'word')} added" if added else ""]
    counts.append(f"{len(removed)} removed" if added and removed else "")
    counts.append(f"{counted(len(removed), 'word')} removed" if removed and not added else "")
    told = ", ".join(filter(None, counts)) or "only spaces and line ends differ"
    longest = max(runs, key=len, default=removed)
    return f"{told}: “{shorten(' '.join(longest), _QUOTED)}”" if longest else told


def changes_words(changes: Sequence[Change], most: int = 3) -> list[str]:
    """What changed, a line for each surface."""
    shown = [change_words(change) for change in changes[:most]]
    more = len(changes) - most
    return [*shown, f"and {more} more"] if more > 0 else shown
