"""The third agent: from note and price to the reply that the customer reads."""

import re

from pipeline.pricer import ABROAD

_FORM = re.compile(r"abroad.*customs form", re.IGNORECASE)


def reply(note: str, euros: int, prompt: str) -> str:
    """One line."""
    place = note.partition("to=")[2].partition(";")[0]
    form = " Please bring a customs form." if place in ABROAD and _FORM.search(prompt) else ""
    return f"{euros} euros to {place}.{form}"
