"""Reads a model's answer as the type that was asked for, even with text around it or broken syntax.

If no endpoint enforces a schema, models add fences, prose and thoughts, line breaks in strings and
trailing commas, and leave fields out. All of that is read as it was meant, and what was repaired is
reported. Nothing that matters is invented: an answer that breaks off, or that contains no object
or two different ones, is no answer.

Echoes: what a model repeats of its request, around a rewritten text or in place of one.

Small models copy what stands around a text: a line of the prompt, a tag, the name of the field, a
fence. That is taken off here, before anybody judges the text.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeAlias, TypeVar, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from burnish.core.cases import squeeze
from burnish.core.content import Json, short_id
from burnish.core.thoughts import without_thoughts

_TAG = re.compile(r"</?[A-Za-z_][\w-]*>")
_FENCE_SIGN = re.compile(r"(?:```|~~~)[\w-]*")
_QUOTES = (('"""', '"""'), ('"', '"'), ("“", "”"))
_PREAMBLE = re.compile(
    r"(?:sure\b.{0,3})?(?:here(?:'s| is| are)|below is)\b.{0,80}:", re.IGNORECASE
)
_REPLY = re.compile(
    r"(?:(?:sure|certainly|of course|absolutely|okay|ok)\b\W{1,3})?"
    r"(?:I(?:'d| would) be (?:glad|happy) to|I(?:'m| am) (?:sorry|an AI)|I apologi[sz]e"
    r"|I can(?:not|'t)? (?:help|assist)|how can I (?:help|assist)"
    r"|I understand (?:that )?you(?:'re| are| want| need))\b",
    re.IGNORECASE,
)
_ABOUT_IT = re.compile(
    r"\b(?:the (?:new|current|revised|updated) (?:text|prompt)|the text now|now,? the text)\b"
    r",?\s+(?:\w+ly |also )?"
    r"(?:will|should|must|needs|now|only|does|is|has|lists|states|says|includes)\b"
    r"|\bhere(?: is|'s) (?:a|the|your) (?:new|revised|updated) (?:text|prompt) (?:that|which)\b",
    re.IGNORECASE,
)
_BLANK_LINES = re.compile(r"\n\s*\n\s*\n")
_SHORTEST_ECHO = 24
"""Characters of the request that an answer does not share with it by chance."""
_LABEL_WORDS = 3


def without_frame(text: str, frame: Collection[str], *, current: str = "", cases: str = "") -> str:
    """A rewritten text without what its model copied from around the current text.

    `frame` has the lines of the request that are the prompt's own, and `cases` is what it shows of
    cases: their lines are no rules, and go wherever they stand. What the current text begins or
    ends with is its own, and stays.
    """
    own = {line.strip() for line in current.splitlines()}
    shown = {line.strip() for line in cases.splitlines()} - own - {""}
    labels = tuple(label for label in _labels(shown) if label not in current)
    bare = _without_phrases(text, frame, current)
    lines = [
        line
        for line in bare.strip().splitlines()
        if line.strip() not in shown and not line.strip().startswith(labels)
    ]
    while lines and (_is_frame(lines[0], frame, own) or _is_preamble(lines, own)):
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
    return text if inner == text.strip() else _BLANK_LINES.sub("\n\n", inner)


def _labels(shown: Iterable[str]) -> Iterator[str]:
    """What lines about cases begin with, such as `The agent's answer:`.

    Short ones, such as `Input:`, also stand in examples that belong into a text.
    """
    for line in shown:
        label, colon, _ = line.partition(": ")
        if colon and len(label.split()) >= _LABEL_WORDS and len(label) < _SHORTEST_ECHO:
            yield f"{label}:"


def _is_preamble(lines: Sequence[str], own: Collection[str]) -> bool:
    """Whether a text begins as a chat does: `Here is the new text:`."""
    first = lines[0].strip()
    return len(lines) > 1 and first not in own and bool(_PREAMBLE.fullmatch(first))


def _without_phrases(text: str, frame: Collection[str], current: str) -> str:
    """The text without lines of the prompt that its model put inside of its own."""
    phrases = [line for line in frame if len(line) >= _SHORTEST_ECHO and line not in current]
    for phrase in sorted(phrases, key=len, reverse=True):
        text = text.replace(phrase, "")
    return text


def _is_frame(line: str, frame: Collection[str], own: Collection[str]) -> bool:
    bare = line.strip()
    if bare in own and bare:
        return False
    is_sign = _TAG.fullmatch(bare) or _FENCE_SIGN.fullmatch(bare)
    return not bare or bool(is_sign) or bare in frame


def names_only(text: str, names: Iterable[str]) -> bool:
    """Whether a text is nothing but the name of a part of the request or of the answer."""
    bare = squeeze(re.sub(r"[<>{}\[\]():*`'\".…/\\-]+", " ", text))
    return not bare or bare in {squeeze(name) for name in (*names, *_spaced(names))}


def _spaced(names: Iterable[str]) -> Iterable[str]:
    return [name.replace("_", " ") for name in names]


def is_unchanged(text: str, current: str) -> bool:
    """Whether a text is the current one; `yes` and `YES` may make a difference, blanks do not."""
    return text.split() == current.split()


def text_mark(text: str) -> str:
    """A short hash of a text, the same for texts that differ in blanks only."""
    return short_id(list[Json](text.split()))


def is_reply(text: str, current: str) -> bool:
    """Whether a text is what a chat model says to its user: `Sure, I can help you with that.`"""
    return bool(_REPLY.match(text.strip())) and not _REPLY.match(current.strip())


def is_about_itself(text: str, current: str) -> bool:
    """Whether a text says what a new text is like, and is none: `The new text should list …`"""
    return bool(_ABOUT_IT.search(text)) and not _ABOUT_IT.search(current)


def continues_cases(text: str, cases: str, current: str) -> bool:
    """Whether a text goes on with the list of cases, as with `Case 18` where `Case 17` is shown."""
    heading = cases.strip().partition("\n")[0].strip()
    parts = re.split(r"\d+", heading)
    if len(parts) == 1:  # names without numbers look like any other line
        return False
    alike = r"\d+".join(map(re.escape, parts))
    another = re.compile(rf"^[ \t]*{alike}[ \t]*$", re.MULTILINE)
    return bool(another.search(text)) and not another.search(current)


def is_copied(text: str, request: str, *, current: str = "") -> bool:
    """Whether a text is a piece of its request, such as the question of a case.

    The current text is a piece of the request too: to shorten it is no copy.
    """
    bare = squeeze(text)
    return len(bare) >= _SHORTEST_ECHO and bare in squeeze(request) and bare not in squeeze(current)


LONGEST_GUESS = 20_000
"""Above this many characters broken quotes are not repaired: the time grows with the square."""

_START = re.compile(r"\{\s*[\"'}]")
_FENCE = re.compile(r"```|~~~")
_TOKENS = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*")|(?P<comma>,)(?=\s*[}\]])|\b(?P<word>True|False|None)\b""",
    re.DOTALL,
)
_WORDS = {"True": "true", "False": "false", "None": "null"}
_ESCAPE = re.compile(r"\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{4}|(?P<bad>.))", re.DOTALL)
_UNREADABLE = (ValueError, RecursionError)
"""What the decoder raises: also for a number of thousands of digits."""


@dataclass(frozen=True)
class Otherwise:
    """Marks a field of an answer that a model may leave out: the value that it then has.

    A default would change the schema, and models would be asked for less.
    """

    value: Json = ""


@dataclass(frozen=True)
class PlainText:
    """Marks the field of an answer that a plain text in a Markdown fence stands for."""


Explanation: TypeAlias = Annotated[str, Otherwise()]
"""Why a model answers as it does: good to have, but nothing depends on it."""
_Answer = TypeVar("_Answer", bound=BaseModel)


class UnusableAnswer(ValueError):
    """An answer that cannot be read as its type; the message helps the model to correct it."""


class NotAnObject(UnusableAnswer):
    """There is no JSON object to read."""


@dataclass(frozen=True, kw_only=True)
class ReadAnswer(Generic[_Answer]):
    """An answer, and what was wrong with how it was written."""

    value: _Answer
    mended: tuple[str, ...] = ()


def read_answer(text: str, kind: type[_Answer]) -> ReadAnswer[_Answer]:
    """The answer that a text holds. Raises UnusableAnswer."""
    try:
        read = read_object(text)
        return _validated(read, kind)
    except ValidationError as error:
        unusable = UnusableAnswer(_faults(error))
    except NotAnObject as error:
        unusable = error
    try:
        return _from_plain_text(text, kind)
    except (UnusableAnswer, ValidationError):
        raise unusable from None


def plain_text_field(kind: type[BaseModel]) -> str:
    """The field of an answer that a fenced text stands for; empty if it has none."""
    fields = kind.model_fields.items()
    return next((name for name, info in fields if _marked(info, PlainText) is not None), "")


def _validated(read: "_AnswerObject", kind: type[_Answer]) -> ReadAnswer[_Answer]:
    """The object as its type, with what may be left out."""
    try:
        return ReadAnswer(value=kind.model_validate_json(read.text), mended=read.mended)
    except ValidationError as error:
        missing = [fault["loc"] for fault in error.errors() if fault["type"] == "missing"]
        data, absent = json.loads(read.text), list[str]()
        for place in missing:
            if (mark := _mark_at(kind, place)) is None:
                raise
            _put(data, place, mark.value)
            absent.append(".".join(map(str, place)))
        if not absent:
            raise
    value = kind.model_validate_json(json.dumps(data))
    return ReadAnswer(value=value, mended=(*read.mended, f"missing: {', '.join(absent)}"))


def _mark_at(kind: Any, place: Sequence[str | int]) -> Otherwise | None:
    """The mark of the field at a place, through objects and lists of them."""
    step, rest = place[0], place[1:]
    if isinstance(step, int):
        inside = get_args(kind)
        return _mark_at(inside[0], rest) if get_origin(kind) in (list, tuple) and rest else None
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return None
    fields = kind.model_fields
    info = fields.get(step) or next((each for each in fields.values() if each.alias == step), None)
    if info is None:
        return None
    return _mark_at(info.annotation, rest) if rest else _marked(info, Otherwise)


_Mark = TypeVar("_Mark")


def _marked(info: FieldInfo, kind: type[_Mark]) -> _Mark | None:
    return next((each for each in info.metadata if isinstance(each, kind)), None)


def _put(data: Any, place: Sequence[str | int], value: Json) -> None:
    for step in place[:-1]:
        data = data[step]
    data[place[-1]] = value


def _faults(error: ValidationError) -> str:
    faults = [
        f"{'.'.join(map(str, fault['loc'])) or 'the answer'}: {fault['msg']}"
        for fault in error.errors()
    ]
    return "; ".join(faults[:5])


def _from_plain_text(text: str, kind: type[_Answer]) -> ReadAnswer[_Answer]:
    """The answer whose text stands in a fence, as gepa asks for it."""
    field, block = plain_text_field(kind), _fenced_text(text)
    if not field or block is None:
        raise UnusableAnswer
    marks = {name: _marked(info, Otherwise) for name, info in kind.model_fields.items()}
    others = {name: mark.value for name, mark in marks.items() if mark is not None}
    value = kind.model_validate({**others, field: block})
    return ReadAnswer(value=value, mended=("a fenced text instead of a JSON object",))


_FENCE_LINE = re.compile(r"^(?P<mark>`{3,}|~{3,})(?P<tag>[^\n`]*)$", re.MULTILINE)


def _fenced_text(answer: str) -> str | None:
    """The text between the only fence of an answer, or inside the one around all of it.

    None if there is none, if it is not closed, or if JSON stands in it: that is another answer.
    """
    text = without_thoughts(answer.strip(), to_be_json=True)
    fences = list(_FENCE_LINE.finditer(text))
    if len(fences) < 2:
        return None
    first, second, last = fences[0], fences[1], fences[-1]
    nested = bool(second["tag"].strip()) or len(second["mark"]) < len(first["mark"])
    around = nested and first.start() == 0 and last.end() == len(text)
    if last["tag"].strip() or not (len(fences) == 2 or around):
        return None
    block = text[first.end() + 1 : last.start()].removesuffix("\n")
    is_json = first["tag"].strip().lower() == "json" or _START.match(block.lstrip())
    return None if is_json or not block.strip() else block


@dataclass(frozen=True, kw_only=True)
class _AnswerObject:
    text: str
    """The object alone, as valid JSON."""
    mended: tuple[str, ...] = ()
    """What was wrong with the original answer."""


def read_object(answer: str) -> _AnswerObject:
    """The only JSON object in an answer. Raises NotAnObject."""
    whole = answer.strip().removeprefix("\ufeff").strip()
    try:
        value = _DECODER.decode(whole)
    except _UNREADABLE:
        return _read_around(without_thoughts(whole, to_be_json=True))
    if isinstance(value, dict):
        return _AnswerObject(text=whole)
    # A list of one object holds one object.
    return _read_around(whole if isinstance(value, list) else "")


def _read_around(text: str) -> _AnswerObject:
    objects = [each for each in _objects(text) if each.value or each.fenced]
    objects = [each for each in objects if each.fenced] or objects
    if not objects:
        begun = _START.search(text)
        cut = begun is not None and _end(text, begun.start()) is None
        where = ": it begins, and breaks off before its end" if cut else ""
        raise NotAnObject(f"there is no whole JSON object in it{where}")
    if any(each.value != objects[0].value for each in objects):
        raise NotAnObject("there is more than one JSON object in it")
    first = objects[0]
    around = () if len(first.source) == len(text) else ("text around the JSON object",)
    spelled = json.dumps(first.value) if first.mended else first.source
    return _AnswerObject(text=spelled, mended=(*around, *first.mended))


@dataclass(frozen=True, kw_only=True)
class _Object:
    value: dict[str, Any]
    source: str
    fenced: bool
    mended: tuple[str, ...] = ()


def _objects(text: str) -> Iterator[_Object]:
    """The outermost objects, in order; unreadable ones are left out."""
    at, fences = 0, 0
    while (start := _START.search(text, at)) is not None:
        fences += len(_FENCE.findall(text, at, start.start()))
        if (read := _valid(text, start.start())) is not None:
            value, at, mended = read
        elif (end := _end(text, start.start())) is not None:
            value, at, mended = _repaired(text[start.start() : end]), end, ("broken JSON syntax",)
        else:
            return
        if value is not None:
            source = text[start.start() : at]
            yield _Object(value=value, source=source, fenced=fences % 2 == 1, mended=mended)


def _valid(text: str, start: int) -> tuple[dict[str, Any], int, tuple[str, ...]] | None:
    """An object, where it ends, and what was wrong with it."""
    for decoder, mended in ((_DECODER, ()), (_LAX_DECODER, ("control characters in its strings",))):
        try:
            value, end = decoder.raw_decode(text, start)
        except _UNREADABLE:
            continue
        return value, end, mended
    return None


def _end(text: str, start: int) -> int | None:
    """Where the object closes; if it contains a stray quote, at the last brace."""
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


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    _refuse_twice(name for name in names if names.count(name) > 1)
    return dict(pairs)


def _refuse_twice(names: Iterator[str]) -> None:
    """Two values for one key are no answer."""
    if name := next(names, ""):
        raise NotAnObject(f"the key '{name}' is there twice in one object")


_DECODER = json.JSONDecoder(object_pairs_hook=_once_each)
_LAX_DECODER = json.JSONDecoder(object_pairs_hook=_once_each, strict=False)


def _repaired(source: str) -> dict[str, Any] | None:
    """The object that broken JSON means; None if a part of it would have to be invented."""
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
    """Removes trailing commas, and fixes Python's literals and bad escapes."""
    if token["text"] is not None:
        return _ESCAPE.sub(_escaped, token["text"])
    return "" if token["comma"] else _WORDS[token["word"]]


def _escaped(escape: re.Match[str]) -> str:
    sign = escape["bad"]
    if sign is None:
        return escape[0]
    # Some models escape these as in Markdown or Python; other bad escapes are backslashes.
    return sign if sign in "_'" else f"\\{escape[0]}"


def _key_counts(value: object) -> Counter[str]:
    """How often each key is there, at any depth."""
    counts: Counter[str] = Counter()
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            pairs = cast("dict[str, object]", here)
            counts.update(pairs.keys())
            waiting += pairs.values()
        elif isinstance(here, list):
            waiting += cast("list[object]", here)
    return counts


def _written(name: str, source: str) -> int:
    return len(re.findall(rf"([\"']){re.escape(name)}\1\s*:", source))
