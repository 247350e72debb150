"""Finds personal data in texts: e-mail addresses, telephone numbers, numbers of cards."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from burnish.system.patterns import replace_all
from burnish.system.redaction import MARKER, Redactor

_EMAIL = re.compile(r"(?<![\w.%+-])[\w.%+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w-])")
_CARD = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])")
_PHONE = re.compile(
    r"(?<![\w.+-])(?<!\d )(?:\+\d{1,3}[ .-]?)?(?:\(\d{1,5}\)[ .-]?)?"
    r"\d{1,14}(?:[ .-]\d{2,9}){0,5}(?!\w)"
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_GROUPED = re.compile(r"[1-9]\d{0,2}(?: \d{3})+")
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")


def _is_card(text: str) -> bool:
    """Whether the digits have the check sum of a card (Luhn)."""
    digits = [int(each) for each in text if each.isdigit()]
    doubled = [2 * each - 9 * (each > 4) for each in digits[-2::-2]]
    return len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_phone(text: str) -> bool:
    """Whether it is written like a telephone number, not like a date, an amount or an id."""
    digits = sum(each.isdigit() for each in text)
    if text.startswith("+"):
        return 7 <= digits <= 15
    if _DATE.match(text) or _GROUPED.fullmatch(text) or _ADDRESS.fullmatch(text):
        return False
    if not 9 <= digits <= 15 or "." in text or not any(sign in text for sign in " -("):
        return False
    # Pairs of digits are a list of numbers, unless the first one is dialled.
    return text.startswith(("0", "(")) or bool(re.search(r"\d{3}", text))


_KINDS: Mapping[str, tuple[re.Pattern[str], Callable[[str], bool]]] = {
    "email": (_EMAIL, bool),
    "card": (_CARD, _is_card),
    "phone": (_PHONE, _is_phone),
}
PERSONAL = tuple(_KINDS)


@dataclass(frozen=True, kw_only=True)
class DataRedactor:
    """Removes keys, personal data and a user's own patterns from values, and counts them."""

    secrets: Redactor
    personal: tuple[str, ...] = PERSONAL
    """Which kinds of personal data: email, card, phone."""
    patterns: tuple[str, ...] = ()
    counts: Counter[str] = field(default_factory=Counter[str])
    """How many were removed, by kind: keys, patterns, and the kinds of personal data."""

    def json(self, value: JsonValue) -> JsonValue:
        """The value without them; names of fields stay."""
        before = _markers(value)
        clean = self.secrets.json(value)
        self.counts["key"] += max(0, _markers(clean) - before)
        return self._without(clean)

    def _without(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self._without(item) for item in value]
        if isinstance(value, dict):
            return {name: self._without(item) for name, item in value.items()}
        return value

    def _text(self, text: str) -> str:
        for pattern in self.patterns:
            text, found = replace_all(pattern, MARKER, text)
            self.counts["pattern"] += found
        for kind in self.personal:
            text = self._replaced(kind, text)
        return text

    def _replaced(self, kind: str, text: str) -> str:
        pattern, certain = _KINDS[kind]

        def replaced(match: re.Match[str]) -> str:
            if not certain(match[0]):
                return match[0]
            self.counts[kind] += 1
            return f"[{kind}]"

        return pattern.sub(replaced, text)

    def summary(self) -> str:
        """`3 e-mail addresses, 1 key`; empty if nothing was removed."""
        return counts_in_words(self.counts)


_WORDS = {
    "key": ("key", "keys"),
    "pattern": ("match of --redact", "matches of --redact"),
    "email": ("e-mail address", "e-mail addresses"),
    "phone": ("telephone number", "telephone numbers"),
    "card": ("card number", "card numbers"),
}


def counts_in_words(counts: Mapping[str, int]) -> str:
    """What was removed, in words."""
    parts: Iterable[str] = (
        f"{counts[kind]:,} {words[counts[kind] != 1]}"
        for kind, words in _WORDS.items()
        if counts.get(kind)
    )
    return ", ".join(parts)


def _markers(value: JsonValue) -> int:
    if isinstance(value, str):
        return value.count(MARKER)
    if isinstance(value, list):
        return sum(map(_markers, value))
    if isinstance(value, dict):
        return sum(map(_markers, value.values()))
    return 0
