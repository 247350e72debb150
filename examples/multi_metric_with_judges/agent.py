"""The agent: a library desk that answers as its prompt asks. It knows nothing of burnish.

A small program stands in for a language model, so that the example runs anywhere in seconds.
"""

import re
from pathlib import Path

PROMPT = Path(__file__).parent / "prompts" / "system.md"

_DAYS = {"dvd": 7, "novel": 28, "laptop": 3, "journal": 14, "map": 5, "game": 10}
_WHY = {
    "dvd": "many wait for it",
    "laptop": "there are only four of them, and each class that comes in needs two",
    "journal": "the next issue comes then, and whoever reads the one reads the other",
}
_LIMIT = re.compile(r"at most (\d+) characters", re.IGNORECASE)


async def call_agent(query: str) -> str:
    """The answer to a question. What the rules ask for is in it, as far as there is room."""
    rules = PROMPT.read_text(encoding="utf-8").lower()
    thing = next((each for each in _DAYS if each in query.lower()), "")
    days = _DAYS.get(thing, 21)
    parts = {
        "number": f"You may keep it {days} days." if "number of days" in rules else "For a while.",
        "next": f"Next: renew the {thing} at the desk." if "what to do next" in rules else "",
        "reason": f"The reason: {_WHY.get(thing, 'it is in demand')}." if "reason" in rules else "",
        "greeting": "Hello, and thank you for asking!" if "greets" in rules else "",
    }
    limit = _LIMIT.search(rules)
    return _fitting([part for part in parts.values() if part], int(limit[1]) if limit else None)


def _fitting(parts: list[str], most: int | None) -> str:
    """All of it; where that is too long, the last parts give way first."""
    while most is not None and len(" ".join(parts)) > most and len(parts) > 1:
        parts = parts[:-1]
    return " ".join(parts)
