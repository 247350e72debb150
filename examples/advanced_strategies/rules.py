"""What an edited notice reveals beside the unedited one: rules that the agent understands."""

import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher


def word_rules(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """One word written for another, in what was said beside what was wanted."""
    found = (rule for said, wanted in pairs for rule in _replaced(said, wanted))
    return list(dict.fromkeys(found))


def layout_rules(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """What every notice begins and ends with and was not there."""
    edges = [_edges(said, wanted) for said, wanted in pairs]
    first = {before for before, _ in edges}
    last = {after for _, after in edges}
    rules = [f"- begin with '{first.pop()}'"] if len(first) == 1 and first != {""} else []
    return rules + ([f"- end with '{last.pop()}'"] if len(last) == 1 and last != {""} else [])


def _replaced(said: str, wanted: str) -> Iterator[str]:
    old, new = (re.findall(r"\w+", text) for text in (said, wanted))
    for kind, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "replace" and j - i == m - k:
            yield from (f"- write '{b}' for '{a}'" for a, b in zip(old[i:j], new[k:m], strict=True))


def _edges(said: str, wanted: str) -> tuple[str, str]:
    """What was wanted before the first word that was said, and behind the last."""
    old, new = said.split(), wanted.split()
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()[:-1]
    if not blocks:
        return "", ""
    first, last = blocks[0], blocks[-1]
    before = new[: max(0, first.b - first.a)]
    after = new[last.b + last.size + len(old) - last.a - last.size :]
    return " ".join(before), " ".join(after)
