"""Comparing XML, and the criteria of EvalSet and PromptIter metrics."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from xml.parsers import expat

from burnish.metrics.json_matching import FENCE
from burnish.metrics.text_matching import HELD, Match, cut, quoted

_Kind = Literal["start", "end", "text"]


@dataclass(frozen=True, kw_only=True)
class _XmlMark:
    """A start tag, an end tag or a text."""

    kind: _Kind
    name: str
    """The tag with its namespace, or the text without the space around it."""
    attributes: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        if self.kind == "text":
            return f"the text {quoted(self.name)}"
        attributes = "".join(f" {name}={quoted(value, 40)}" for name, value in self.attributes)
        return f"</{self.name}>" if self.kind == "end" else f"<{self.name}{attributes}>"


@dataclass(frozen=True, kw_only=True)
class _XmlReading:
    """The marks of a document in order, or what kept it from being read."""

    marks: tuple[_XmlMark, ...] = ()
    problem: str = ""


class _Refused(Exception):
    """A document declares a DOCTYPE."""


class _Marks:
    """Gathers marks while a document is read."""

    def __init__(self) -> None:
        self.marks: list[_XmlMark] = []
        self._text: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._end_text()
        pairs = tuple(sorted(attributes.items()))
        self.marks.append(_XmlMark(kind="start", name=name, attributes=pairs))

    def end(self, name: str) -> None:
        self._end_text()
        self.marks.append(_XmlMark(kind="end", name=name))

    def text(self, text: str) -> None:
        self._text.append(text)

    def refuse(self, *_: object) -> None:
        raise _Refused

    def _end_text(self) -> None:
        text = "".join(self._text).strip()
        self._text.clear()
        if text:
            self.marks.append(_XmlMark(kind="text", name=text))


def _parse_xml(text: str) -> _XmlReading:
    """The document that the whole text is: one root, and nothing outside of it."""
    stripped = text.strip()
    if not stripped:
        return _XmlReading(problem="found nothing where XML should be")
    if stripped.startswith(FENCE):
        return _XmlReading(problem=f"the answer is inside a {FENCE} fence: ask for bare XML")
    marks = _Marks()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = marks.start
    parser.EndElementHandler = marks.end
    parser.CharacterDataHandler = marks.text
    parser.StartDoctypeDeclHandler = marks.refuse
    try:
        parser.Parse(stripped, True)  # noqa: FBT003 - expat takes it by place only
    except _Refused:
        return _XmlReading(problem="it declares a DOCTYPE, which is not accepted: ask for none")
    except (expat.ExpatError, UnicodeEncodeError) as error:
        problem = f"found {quoted(stripped)}, which is not well-formed XML ({error})"
        return _XmlReading(problem=f"{problem}: ask for one root with nothing around it")
    return _XmlReading(marks=tuple(marks.marks))


def _xml_path(marks: Sequence[_XmlMark]) -> str:
    """Where the last of some marks from the start of a document stands: `/order/item[2]`."""
    steps: list[str] = []
    seen = [Counter[str]()]
    for mark in marks:
        if mark.kind == "start":
            seen[-1][mark.name] += 1
            nth = seen[-1][mark.name]
            steps.append(f"{mark.name}[{nth}]" if nth > 1 else mark.name)
            seen.append(Counter())
        elif mark.kind == "end" and mark is not marks[-1]:
            steps.pop()
            seen.pop()
    return f"/{'/'.join(steps)}"


# -- Comparing XML --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class XmlRule:
    """What an XML answer must be: well formed, and as expected where `match` says so."""

    match: Literal["exact", "skip"] = "skip"
    valid: bool = True
    """It must be well formed, also where nothing is compared."""
    ignore: bool = False
    """Holds whatever is there."""

    @property
    def needs_reference(self) -> bool:
        """Whether there must be an expected document."""
        return not self.ignore and self.match != "skip"


WELL_FORMED = XmlRule()


def compare_xml(expected: str | None, actual: str, rule: XmlRule = WELL_FORMED) -> Match:
    """Whether a text is XML as the rule asks.

    Attributes have no order; space around a text, comments and prefixes do not count.
    """
    if rule.ignore or not (rule.valid or rule.needs_reference):
        return HELD
    reference = _parse_xml(expected or "") if rule.needs_reference else _XmlReading()
    if reference.problem:
        return Match.missed(f"the expected answer is no XML ({reference.problem}): mend the case")
    answer = _parse_xml(actual)
    if answer.problem:
        return Match.missed(answer.problem)
    return _compare(reference, answer) if rule.needs_reference else HELD


def _compare(expected: _XmlReading, actual: _XmlReading) -> Match:
    # Neither document can be the beginning of the other: each ends with its root.
    for index, (one, other) in enumerate(zip(expected.marks, actual.marks, strict=False)):
        if one != other:
            path = cut(_xml_path(expected.marks[: index + 1]))
            return Match.missed(f"at {path}: expected {one}, found {other}")
    return HELD
