"""Comparing texts: exactly, by what they contain, by pattern, by length.

Space around both sides never counts, and neither does how Unicode spells a character: an é
is an é, whether it is one code point or two.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from burnish.evaluation.matching.excerpts import WIDTH, quoted, quoted_at
from burnish.evaluation.matching.lengths import LengthRule, check_length
from burnish.evaluation.matching.match import HELD, Match, all_of


@dataclass(frozen=True, kw_only=True)
class TextRule:
    """How a text should agree with the expected one."""

    match: Literal["exact", "contains", "regex", "skip"] = "exact"
    """`regex` takes the expected text as a pattern, found anywhere in the other.

    A pattern with nested repeats can take forever on some texts: Python sets no limit.
    """
    case_insensitive: bool = False
    length: LengthRule | None = None
    ignore: bool = False
    """Holds whatever is there."""

    @property
    def needs_reference(self) -> bool:
        """Whether there must be an expected text."""
        return not self.ignore and self.match != "skip"


EXACT = TextRule()


def compare_texts(expected: str | None, found: str, rule: TextRule = EXACT) -> Match:
    """Whether a text is as the rule asks."""
    if rule.ignore:
        return HELD
    checks = [] if rule.length is None else [check_length(found, rule.length)]
    if rule.match != "skip":
        checks.append(_compare(expected, found, rule))
    return all_of(checks)


def levelled(text: str, *, fold: bool = False) -> str:
    """Text in one Unicode spelling, and in one letter case where `fold` says so."""
    one = unicodedata.normalize("NFC", text)
    return unicodedata.normalize("NFC", one.casefold()) if fold else one


def pattern_problem(pattern: str) -> str:
    """Why a pattern is no regular expression; empty where it is one."""
    try:
        re.compile(pattern)
    except RecursionError:
        told = "it is nested too deeply"
    except (re.error, OverflowError) as error:
        told = str(error)
    else:
        return ""
    return f"the pattern {quoted(pattern)} is not a valid regular expression ({told})"


def difference(expected: str, found: str) -> str:
    """What was expected and found, where two texts part, and what is the same in them."""
    if not found:
        return f"expected {quoted(expected)}, found nothing"
    if len(expected) <= WIDTH and len(found) <= WIDTH:
        told = f"expected {quoted(expected)}, found {quoted(found)}"
    else:
        place = _parting(expected, found)
        told = (
            f"expected {quoted_at(expected, place)}, found {quoted_at(found, place)} "
            f"(they part at character {place + 1})"
        )
    nearly = _likeness(expected, found)
    return f"{told}: {nearly}" if nearly else told


def _compare(expected: str | None, found: str, rule: TextRule) -> Match:
    if expected is None:
        return Match.missed("there is no expected text to compare with: add one to the case")
    if rule.match == "regex":
        return _search(expected.strip(), found.strip(), fold=rule.case_insensitive)
    wanted = levelled(expected.strip(), fold=rule.case_insensitive)
    given = levelled(found.strip(), fold=rule.case_insensitive)
    if rule.match == "contains":
        if wanted in given:
            return HELD
        told = f"expected text that contains {quoted(wanted)}, found {quoted(given)}"
        only_case = wanted.casefold() in given.casefold()
        return Match.missed(f"{told}: only the letter case differs" if only_case else told)
    return HELD if wanted == given else Match.missed(difference(wanted, given))


def _search(pattern: str, found: str, *, fold: bool) -> Match:
    problem = pattern_problem(pattern)
    if problem:
        return Match.missed(f"{problem}: mend the case")
    # The flag, rather than lower case on both sides: a \D must not become a \d.
    if re.search(pattern, found, re.IGNORECASE if fold else re.NOFLAG):
        return HELD
    told = f"expected text that matches the pattern {quoted(pattern)}"
    return Match.missed(f"{told}, found {quoted(found) if found else 'nothing'}")


def _parting(expected: str, found: str) -> int:
    pairs = enumerate(zip(expected, found, strict=False))
    alike = min(len(expected), len(found))
    return next((place for place, (one, other) in pairs if one != other), alike)


def _likeness(expected: str, found: str) -> str:
    if expected.casefold() == found.casefold():
        return "only the letter case differs"
    if expected.split() == found.split():
        return "only the spacing differs"
    if expected and expected in found:
        return "the expected text is there with more around it, ask for it alone"
    return ""
