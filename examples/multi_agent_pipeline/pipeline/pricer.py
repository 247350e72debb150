"""The second agent: from the reader's note to a price. It takes the weight for kilograms."""

import re

ABROAD = {"Oslo", "Bern", "Leeds"}
_PER_KILOGRAM = re.compile(r"(\d+) euros? (?:a|per) kilogram")
_EXPRESS = re.compile(r"[Ee]xpress costs (\d+)")


def price(note: str, prompt: str) -> int:
    """Whole euros, by the tariff that the prompt states."""
    told = dict(part.split("=", 1) for part in note.split("; "))
    per_kilogram, express = _PER_KILOGRAM.search(prompt), _EXPRESS.search(prompt)
    if per_kilogram is None:
        raise LookupError("the tariff has no price for a kilogram")
    euros = int(told["weight"]) * int(per_kilogram[1])
    if told["speed"] == "express" and express is not None:
        euros += int(express[1])
    return euros
