"""Reading the JSON object in a model's answer, though the model wrote more, or wrote it badly.

Where no endpoint enforces a schema, models put a fence and prose around the object, think aloud
before it, leave line breaks in its strings and commas at the ends of its lists. All that is read
as it was meant. Nothing is made up: an answer that breaks off, or that holds no object or two
different ones, is no answer.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

LONGEST_GUESS = 20_000
"""Characters beyond which broken quotes are not guessed at: that can take a square of them."""

_START = re.compile(r"\{\s*[\"'}]")
_FENCE = re.compile(r"```|~~~")
_THOUGHTS = re.compile(r"<(think|thinking)>.*?</\1>", re.DOTALL)
_THINKING = re.compile(r"<(think|thinking)>")
_THOUGHT = re.compile(r"</(think|thinking)>")
_TOKENS = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*")|(?P<comma>,)(?=\s*[}\]])|\b(?P<word>True|False|None)\b""",
    re.DOTALL,
)
_WORDS = {"True": "true", "False": "false", "None": "null"}
_ESCAPE = re.compile(r"\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{4}|(?P<bad>.))", re.DOTALL)
_UNREADABLE = (ValueError, RecursionError)
"""What the decoder raises: also for a number of thousands of digits."""
_NEEDLESS = "_'"
"""Signs that some models escape as in Markdown or Python; other bad escapes are backslashes."""


class NotAnObject(Exception):
    """There is no JSON object to read; says why, in words that help the model to mend it."""


@dataclass(frozen=True, kw_only=True)
class _AnswerObject:
    """A JSON object out of an answer."""

    text: str
    """The object alone, as valid JSON."""
    mended: tuple[str, ...] = ()
    """What was wrong with the answer as it was written."""


def read_object(answer: str) -> _AnswerObject:
    """The one JSON object that an answer holds. Raises NotAnObject."""
    whole = answer.strip().removeprefix("\ufeff").strip()
    try:
        value = _DECODER.decode(whole)
    except _UNREADABLE:
        return _read_around(_after_thoughts(whole))
    if isinstance(value, dict):
        return _AnswerObject(text=whole)
    # A list of one object holds one object.
    return _read_around(whole if isinstance(value, list) else "")


def _read_around(text: str) -> _AnswerObject:
    objects = [each for each in _objects(text) if each.value or each.fenced]
    objects = [each for each in objects if each.fenced] or objects
    if not objects:
        raise NotAnObject("there is no whole JSON object in it")
    if any(each.value != objects[0].value for each in objects):
        raise NotAnObject("there is more than one JSON object in it")
    first = objects[0]
    around = () if len(first.source) == len(text) else ("text around the JSON object",)
    spelled = first.source if first.valid else json.dumps(first.value)
    return _AnswerObject(text=spelled, mended=(*around, *first.mended))


# -- finding objects ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Object:
    value: dict[str, Any]
    source: str
    fenced: bool
    mended: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        return not self.mended


def _objects(text: str) -> Iterator[_Object]:
    """The objects that are not inside another one, in order; what cannot be read is left out."""
    at, fences = 0, 0
    while (start := _START.search(text, at)) is not None:
        fences += len(_FENCE.findall(text, at, start.start()))
        read = _valid(text, start.start()) or _broken(text, start.start())
        if read is None:
            return
        value, at, mended = read
        if value is not None:
            source = text[start.start() : at]
            yield _Object(value=value, source=source, fenced=fences % 2 == 1, mended=mended)


_Read = tuple[dict[str, Any] | None, int, tuple[str, ...]]
"""An object, if it can be read; where it ends; what was wrong with it."""


def _valid(text: str, start: int) -> _Read | None:
    for decoder, mended in ((_DECODER, ()), (_LAX_DECODER, ("control characters in its strings",))):
        try:
            value, end = decoder.raw_decode(text, start)
        except _UNREADABLE:
            continue
        return value, end, mended
    return None


def _broken(text: str, start: int) -> _Read | None:
    """What a broken object means; None where nobody can tell where it ends."""
    end = _end(text, start)
    if end is None:
        return None
    return _repaired(text[start:end]), end, ("broken JSON syntax",)


def _end(text: str, start: int) -> int | None:
    """Where the object closes; with a stray quote in it, at the last brace there is."""
    depth, quote, at = 0, "", start
    while at < len(text):
        sign = text[at]
        if sign == "\\":
            at += 1
        elif quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "{}":
            depth += 1 if sign == "{" else -1
            if not depth:
                return at + 1
        at += 1
    last = text.rfind("}", start)
    return last + 1 if quote and last > start else None


def _after_thoughts(text: str) -> str:
    """The answer without what a model thought before it."""
    if _THINKING.match(text):
        thoughts = _THOUGHTS.match(text)
        return "" if thoughts is None else text[thoughts.end() :].strip()
    end = _THOUGHT.search(text)
    if end is None or text[0] in "{[`" or _THINKING.search(text, 0, end.start()):
        return text
    return text[end.end() :].strip()  # The tag that opens it was in the prompt.


# -- reading and repairing ---------------------------------------------------------------------


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    _refuse_twice(name for name in names if names.count(name) > 1)
    return dict(pairs)


def _refuse_twice(names: Iterator[str]) -> None:
    """Of two answers, none is the answer."""
    if name := next(names, ""):
        raise NotAnObject(f"the key '{name}' is there twice in one object")


_DECODER = json.JSONDecoder(object_pairs_hook=_once_each)
_LAX_DECODER = json.JSONDecoder(object_pairs_hook=_once_each, strict=False)


def _repaired(source: str) -> dict[str, Any] | None:
    """The object that broken JSON means; None where a part of it would have to be made up."""
    from json_repair import repair_json

    try:
        # Where this will do, every sign of every string stays as it is: the library trims some.
        return _LAX_DECODER.decode(_TOKENS.sub(_tidied, source))
    except _UNREADABLE:
        pass
    if len(source) > LONGEST_GUESS:
        return None
    try:
        value, log = repair_json(source, skip_json_loads=True, logging=True, strict=True)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    cut_off = any("missed the closing" in entry["text"] for entry in log)
    if cut_off or not isinstance(value, dict):
        return None
    counts = _key_counts(value)
    _refuse_twice(name for name in counts if _written(name, source) > counts[name])
    return value


def _tidied(token: re.Match[str]) -> str:
    """A comma before a bracket is dropped, Python's words are JSON's, bad escapes are mended."""
    if token["text"] is not None:
        return _ESCAPE.sub(_escaped, token["text"])
    return "" if token["comma"] else _WORDS[token["word"]]


def _escaped(escape: re.Match[str]) -> str:
    sign = escape["bad"]
    if sign is None:
        return escape[0]
    return sign if sign in _NEEDLESS else f"\\{escape[0]}"


def _key_counts(value: object) -> dict[str, int]:
    """How often each key is there, at any depth."""
    counts: dict[str, int] = {}
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            pairs = cast("dict[str, object]", here)
            for name in pairs:
                counts[name] = counts.get(name, 0) + 1
            waiting += pairs.values()
        elif isinstance(here, list):
            waiting += cast("list[object]", here)
    return counts


def _written(name: str, source: str) -> int:
    return len(re.findall(rf"([\"']){re.escape(name)}\1\s*:", source))
