"""Rules for how long a text may be."""

from dataclasses import dataclass
from typing import Literal

from burnish.evaluation.matching.excerpts import counted
from burnish.evaluation.matching.match import HELD, Match

Unit = Literal["characters", "words"]


@dataclass(frozen=True, kw_only=True)
class LengthRule:
    """How long a text may be, both ends included; space around it does not count."""

    min: int | None = None
    max: int | None = None
    unit: Unit = "characters"
    """Characters are Unicode code points; words are what stands between spaces."""

    def allows(self, length: int) -> bool:
        """Whether a length is within the rule."""
        return (self.min is None or length >= self.min) and (self.max is None or length <= self.max)

    def __str__(self) -> str:
        if self.min is not None and self.max is not None:
            return f"{self.min} to {self.max}"
        if self.max is not None:
            return f"at most {self.max}"
        return "any number of" if self.min is None else f"at least {self.min}"


def length_of(text: str, unit: Unit = "characters") -> int:
    """How long a text is, without the space around it."""
    return len(text.split()) if unit == "words" else len(text.strip())


def check_length(text: str, rule: LengthRule) -> Match:
    """Whether a text is as long as the rule asks; else by how much it is not."""
    length = length_of(text, rule.unit)
    return HELD if rule.allows(length) else Match.missed(off_length(length, rule))


def off_length(length: int, rule: LengthRule) -> str:
    """What a length that the rule does not allow is, should be, and needs."""
    thing = rule.unit.removesuffix("s")
    told = f"{counted(length, thing)}, expected {rule}"
    if rule.max is not None and length > rule.max:
        return f"too long: {told}; cut {counted(length - rule.max, thing)}"
    return f"too short: {told}; add {counted((rule.min or 0) - length, thing)}"
