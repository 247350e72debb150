"""The first agent: from a question to a note, `weight=3; to=Oslo; speed=express`."""

import re

_WEIGHT = re.compile(r"(\d+) ?(kg|g)\b")
_PLACE = re.compile(r"\bto ([A-Z]\w+)")
_CONVERTS = re.compile(r"grams.*kilogram", re.IGNORECASE)


def read(query: str, prompt: str) -> str:
    """The note. It tells weights as they stand, unless the prompt says what to do with grams."""
    weight, place = _WEIGHT.search(query), _PLACE.search(query)
    if weight is None or place is None:
        raise ValueError(f"no weight or no place in '{query}'")
    number = int(weight[1])
    if weight[2] == "g" and _CONVERTS.search(prompt):
        number = -(-number // 1000)
    speed = "express" if "express" in query else "normal"
    return f"weight={number}; to={place[1]}; speed={speed}"
