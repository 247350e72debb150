"""Comparing XML documents."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from xml.parsers import expat

from burnish.metrics.json_matching import FENCE
from burnish.metrics.text_matching import cut, quoted


@dataclass(frozen=True, kw_only=True)
class _XmlMark:
    """A start tag, an end tag or a text."""

    kind: Literal["start", "end", "text"]
    name: str
    """The tag with its namespace, or the stripped text."""
    attributes: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        if self.kind == "text":
            return f"the text {quoted(self.name)}"
        attributes = "".join(f" {name}={quoted(value, 40)}" for name, value in self.attributes)
        return f"</{self.name}>" if self.kind == "end" else f"<{self.name}{attributes}>"


class _NotXml(ValueError):
    """The text is not acceptable XML; the message says why."""


def _parse_xml(text: str) -> list[_XmlMark]:
    """Parse the whole text as one document; raises _NotXml."""
    stripped = text.strip()
    if not stripped:
        raise _NotXml("expected XML, found nothing")
    if stripped.startswith(FENCE):
        raise _NotXml(f"the answer is inside a {FENCE} fence: ask for bare XML")
    marks: list[_XmlMark] = []
    texts: list[str] = []

    def end_text() -> None:
        inner = "".join(texts).strip()
        texts.clear()
        if inner:
            marks.append(_XmlMark(kind="text", name=inner))

    def start(name: str, attributes: dict[str, str]) -> None:
        end_text()
        pairs = tuple(sorted(attributes.items()))
        marks.append(_XmlMark(kind="start", name=name, attributes=pairs))

    def end(name: str) -> None:
        end_text()
        marks.append(_XmlMark(kind="end", name=name))

    def doctype(*_: object) -> None:
        raise _NotXml("it declares a DOCTYPE, which is not accepted: ask for XML without one")

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = texts.append
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(stripped, True)  # noqa: FBT003 - expat takes it by place only
    except (expat.ExpatError, UnicodeEncodeError) as error:
        problem = f"found {quoted(stripped)}, which is not well-formed XML ({error})"
        raise _NotXml(f"{problem}: ask for one root with nothing around it") from error
    return marks


def _xml_path(marks: Sequence[_XmlMark]) -> str:
    """The path of the last mark: `/order/item[2]`."""
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


@dataclass(frozen=True, kw_only=True)
class XmlRule:
    """Whether an answer must be well-formed XML, and match the expected document."""

    match: Literal["exact", "skip"] = "skip"
    valid: bool = True
    """Require well-formed XML even if nothing is compared."""
    ignore: bool = False

    @property
    def needs_reference(self) -> bool:
        return not self.ignore and self.match != "skip"


def compare_xml(expected: str | None, actual: str, rule: XmlRule) -> str:
    """Why a text breaks the rule; comments, prefixes and surrounding space are ignored."""
    if rule.ignore or not (rule.valid or rule.needs_reference):
        return ""
    try:
        reference = _parse_xml(expected or "") if rule.needs_reference else []
    except _NotXml as error:
        return f"the expected answer is not XML ({error}): fix the case"
    try:
        answer = _parse_xml(actual)
    except _NotXml as error:
        return str(error)
    # Neither document can be the beginning of the other: each ends with its root.
    for index, (one, other) in enumerate(zip(reference, answer, strict=False)):
        if one != other:
            path = cut(_xml_path(reference[: index + 1]))
            return f"at {path}: expected {one}, found {other}"
    return ""
