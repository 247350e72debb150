"""Takes the thoughts off a model's answer that some models write into it."""

import re
from collections.abc import Iterator

_OPENED = re.compile(r"\s*<(?P<tag>think|thinking)(?:\s[^<>]*)?>", re.IGNORECASE)
_MARK = re.compile(
    r"^[ \t]*(?:(?P<fence>```|~~~)|<(?P<tag>think|thinking)(?:\s[^<>]*)?>)",
    re.IGNORECASE | re.MULTILINE,
)
"""A fence, or a thought that begins a line. In the middle of one, an answer speaks of the tag."""
_CLOSED = re.compile(
    r"^[ \t]*</(?:think|thinking)\s*>[ \t]*$|</(?:think|thinking)\s*>[ \t]*\r?\n[ \t]*\r?$",
    re.IGNORECASE | re.MULTILINE,
)
_CLOSING = re.compile(r"</(?:think|thinking)\s*>", re.IGNORECASE)


def without_thoughts(text: str, *, to_be_json: bool = False) -> str:
    """The answer alone, without the white space between the two; unchanged if it has no thoughts.

    Of a thought that does not end, nobody knows where it should have: only its tag leaves. If the
    answer should be JSON, there is none. Where the tag that opens a thought was in the prompt, the
    answer begins after the tag that closes it, which ends a line.
    """
    if _OPENED.match(text) is None:
        closed = (_CLOSING if to_be_json else _CLOSED).search(text)
        if closed and "<think" not in text[: closed.start()].lower() and text[0] not in "{[`":
            return text[closed.end() :].strip()
    answer, after = "", 0
    for begin, end in _thoughts(text):
        answer += text[after:begin]
        after = end
    if after:
        return f"{answer}{text[after:]}".strip()
    opened = _OPENED.match(text)
    if opened is None:
        return text
    return "" if to_be_json else text[opened.end() :].strip()


def _thoughts(text: str) -> Iterator[tuple[int, int]]:
    """Where each thought begins and ends, with the white space after it."""
    place, endless = 0, set[str]()
    mark = _OPENED.match(text) or _MARK.search(text)
    while mark is not None:
        fence, tag = mark.groupdict().get("fence"), mark["tag"]
        name = fence or tag.lower()
        end = None
        if name not in endless:
            pattern = rf"^[ \t]*{fence}" if fence else rf"</{tag}\s*>\s*"
            end = re.compile(pattern, re.IGNORECASE | re.MULTILINE).search(text, mark.end())
        if end is None:
            endless.add(name)
        elif not fence:
            yield mark.start(), end.end()
        if end is None and fence:
            return
        place = mark.end() if end is None else end.end()
        # Right after a thought comes another one, or the answer.
        again = _OPENED.match(text, place) if end is not None and not fence else None
        mark = again or _MARK.search(text, place)
