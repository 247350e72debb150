"""Gates on texts: l0 looks at deliverables for what no reader should see, placeholder at all."""

import json
import re
from collections.abc import Iterator
from itertools import groupby

from burnish.evaluation.matching.excerpts import cut
from burnish.targets.delegation.gates.completion import (
    CODE,
    MARKDOWN,
    Completion,
    Finding,
    suffix,
)

_WORDS = re.compile(
    r"\b(TODO|TBD|FIXME)\b|\?\?\?|\bXX+%|<placeholder>|\{\{\s*\w+\s*\}\}|(?i:lorem ipsum)"
)
_MORE_WORDS = re.compile(rf"{_WORDS.pattern}|(?i:\[?\bplaceholder\b\]?)|^\s*N/A\s*$", re.MULTILINE)
_COMMENT = re.compile(r"(#|//|/\*|--).*$", re.MULTILINE)
_HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$", re.MULTILINE)
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LOOPED = 8
"""Equal lines in a row that nobody writes on purpose."""
_SHRUNK = 0.5
_LARGE = 400
"""Bytes below which losing half is no sign of anything."""


def l0(completion: Completion) -> Iterator[Finding]:
    """Deliverables: stand-ins, text in circles, files that shrank, headings twice, broken JSON."""
    for path, text in completion.delivered_texts.items():
        yield from _stand_ins(path, text, "no_placeholder", _WORDS)
        yield from _loops(path, text)
        yield from _shrunk(path, text, completion)
        if suffix(path) in MARKDOWN:
            yield from _headings(path, text)
        if suffix(path) in CODE:
            yield from _unbalanced(path, text)
        if suffix(path) == ".json":
            yield from _json(path, text)


def placeholder(completion: Completion) -> Iterator[Finding]:
    """Stand-ins anywhere: in what is reported, and in every text that was made."""
    yield from _stand_ins("", completion.result, "final_result", _MORE_WORDS)
    for path, text in completion.texts.items():
        yield from _stand_ins(path, text, "placeholder", _MORE_WORDS)


def _stand_ins(path: str, text: str, check: str, words: re.Pattern[str]) -> Iterator[Finding]:
    code = suffix(path) in CODE
    # What a comment leaves for later is the programmer's; templates have braces of their own.
    looked_at = _COMMENT.sub("", text) if code else text
    found = (_WORDS if code else words).search(looked_at)
    if found and not (code and found[0].startswith(("{{", "<"))):
        detail = f"found placeholder token '{cut(found[0].strip(), 40)}'"
        yield Finding(file=path, detail=detail, check=check)


def _loops(path: str, text: str) -> Iterator[Finding]:
    lines = [line.strip() for line in text.splitlines() if len(line.strip()) > 3]
    longest = max((len(list(same)) for _, same in groupby(lines)), default=0)
    if longest >= _LOOPED and suffix(path) not in (".csv", ".tsv", ".json"):
        detail = f"the same line stands {longest} times in a row"
        yield Finding(file=path, detail=detail, check="no_text_loop")


def _shrunk(path: str, text: str, completion: Completion) -> Iterator[Finding]:
    before, now = completion.earlier_sizes.get(path, 0), len(text.encode())
    if before >= _LARGE and now < before * _SHRUNK:
        detail = f"it has {now} bytes, and had {before} before"
        yield Finding(file=path, detail=detail, check="file_size_delta")


def _headings(path: str, text: str) -> Iterator[Finding]:
    found = [(len(level), title.lower()) for level, title in headings(text) if len(level) <= 2]
    twice = next((title for level, title in found if found.count((level, title)) > 1), "")
    if twice:
        detail = f"the heading '{cut(twice, 60)}' stands there twice"
        yield Finding(file=path, detail=detail, check="no_duplicate_headings")


def _unbalanced(path: str, text: str) -> Iterator[Finding]:
    """Brackets outside of quotes and comments; Python is left to its own parser."""
    if suffix(path) in (".py", ".sh", ".sql"):
        return
    bare = re.sub(r"'(\\.|[^'\\\n])*'|\"(\\.|[^\"\\\n])*\"|`[^`]*`", "", _COMMENT.sub("", text))
    for opening, closing in ("()", "[]", "{}"):
        if (more := bare.count(opening) - bare.count(closing)) != 0:
            side = f"{abs(more)} '{opening if more > 0 else closing}' too many"
            yield Finding(file=path, detail=side, check="balanced_delimiters")
            return


def _json(path: str, text: str) -> Iterator[Finding]:
    try:
        json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        yield Finding(file=path, detail=f"not valid JSON: {error}", check="json_valid_if_claimed")


def _refused(name: str) -> None:
    raise ValueError(f"{name} has no JSON form")


def headings(text: str) -> list[tuple[str, str]]:
    """The headings of a Markdown text, each with its level as it is written."""
    found = _HEADING.findall(_FENCED.sub("", text))
    return [(str(level), str(title)) for level, title in found]
