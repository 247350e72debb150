"""A kitchen assistant: cups and spoons as grams, said in the way that its two prompts ask for.

A few lines of Python stand for the model that your agent calls. They do what the prompts say, and
nothing that they do not say.
"""

import re
from pathlib import Path

PROMPTS = Path(__file__).parent / "prompts"
GRAMS = {
    ("cup", "flour"): 120,
    ("cup", "sugar"): 200,
    ("cup", "oats"): 90,
    ("cup", "butter"): 227,
    ("spoon", "honey"): 21,
    ("spoon", "cocoa"): 7,
    ("spoon", "salt"): 18,
}
_ASKED = re.compile(r"(\d+) (cup|spoon)s? of (\w+)")
_LABEL = re.compile(r"last line with '([^']+)'")
_STEP = re.compile(r"nearest (\d+)")


async def call_agent(query: str) -> str:
    """Answer one question. Both prompts are read again each time: a new text counts at once."""
    system = (PROMPTS / "system.md").read_text(encoding="utf-8")
    skill = (PROMPTS / "skill.md").read_text(encoding="utf-8")
    asked = _ASKED.search(query)
    if asked is None:
        raise ValueError(f"nothing to convert in '{query}'")
    count, measure, food = int(asked[1]), asked[2], asked[3]
    return _reply(count, GRAMS[measure, food], system, skill)


def _reply(count: int, each: int, system: str, skill: str) -> str:
    label, step = _LABEL.search(system), _STEP.search(skill)
    grams = count * each
    rounded = round(grams / int(step[1])) * int(step[1]) if step else grams
    unit = " g" if "unit" in skill else ""
    result = f"{label[1] if label else ''} {rounded}{unit}".strip()
    working = f"{count} x {each} g = {grams} g\n" if "working" in system else ""
    return f"{working}{result}"
