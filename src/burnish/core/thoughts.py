"""Takes the thoughts off a model's answer that some models write into it."""

import re

_OPENED = re.compile(r"\s*<(think|thinking)(?:\s[^<>]*)?>", re.IGNORECASE)
_THOUGHT = re.compile(
    r"^[ \t]*<(?P<tag>think|thinking)(?:\s[^<>]*)?>.*?</(?P=tag)\s*>\s*",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
"""A thought that begins a line. In the middle of one, an answer speaks of the tag."""
_CLOSED = re.compile(
    r"^[ \t]*</(?:think|thinking)\s*>[ \t]*$|</(?:think|thinking)\s*>[ \t]*\r?\n[ \t]*\r?$",
    re.IGNORECASE | re.MULTILINE,
)
_CLOSING = re.compile(r"</(?:think|thinking)\s*>", re.IGNORECASE)
_CODE = re.compile(r"(?:^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z))", re.DOTALL | re.MULTILINE)


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
    answer, rest, changed = "", text, False
    while (thought := _THOUGHT.search(rest)) is not None:
        code = _CODE.search(rest)
        if code is not None and code.start() < thought.start() < code.end():
            answer, rest = answer + rest[: code.end()], rest[code.end() :]
            continue
        answer, rest, changed = answer + rest[: thought.start()], rest[thought.end() :], True
    whole = answer + rest
    opened = None if answer.strip() else _OPENED.match(whole)
    if opened is not None:
        if to_be_json:
            return ""
        return whole[opened.end() :].strip()
    return whole.strip() if changed else text
