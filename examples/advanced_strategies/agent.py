"""The agent: edits notices as its two prompts say. It knows nothing of burnish.

A small program stands in for a language model, so that the example runs anywhere in seconds.
"""

import re
from pathlib import Path

PROMPTS = Path(__file__).parent / "prompts"
FIELDS = ("words", "layout")

_WORD = re.compile(r"^- write '(\w+)' for '(\w+)'$", re.MULTILINE)
_FIRST = re.compile(r"^- begin with '([^']+)'$", re.MULTILINE)
_LAST = re.compile(r"^- end with '([^']+)'$", re.MULTILINE)


async def call_agent(query: str) -> str:
    """The notice as the house wants it. The prompts are read anew for each."""
    words, layout = ((PROMPTS / f"{name}.md").read_text(encoding="utf-8") for name in FIELDS)
    plain = query
    for new, old in _WORD.findall(words):
        plain = re.sub(rf"\b{old}\b", new, plain)
    return " ".join([*_FIRST.findall(layout), plain, *_LAST.findall(layout)])
