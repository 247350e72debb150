"""Comparing XML: whether it is well formed, and whether two documents say the same."""

from dataclasses import dataclass
from typing import Literal

from burnish.evaluation.matching.excerpts import cut
from burnish.evaluation.matching.match import HELD, Match
from burnish.evaluation.matching.xml_texts import XmlReading, parse_xml, xml_path


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


def compare_xml(expected: str | None, found: str, rule: XmlRule = WELL_FORMED) -> Match:
    """Whether a text is XML as the rule asks.

    Attributes have no order; space around a text, comments and prefixes do not count.
    """
    if rule.ignore or not (rule.valid or rule.needs_reference):
        return HELD
    wanted = parse_xml(expected or "") if rule.needs_reference else XmlReading()
    if wanted.problem:
        return Match.missed(f"the expected answer is no XML ({wanted.problem}): mend the case")
    given = parse_xml(found)
    if given.problem:
        return Match.missed(given.problem)
    return _compare(wanted, given) if rule.needs_reference else HELD


def _compare(wanted: XmlReading, given: XmlReading) -> Match:
    # Neither document can be the beginning of the other: each ends with its root.
    for index, (one, other) in enumerate(zip(wanted.marks, given.marks, strict=False)):
        if one != other:
            path = cut(xml_path(wanted.marks[: index + 1]))
            return Match.missed(f"at {path}: expected {one}, found {other}")
    return HELD
