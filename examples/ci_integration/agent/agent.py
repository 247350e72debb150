"""The agent: sorts messages into queues, as its two prompts say. It knows nothing of burnish.

A small program stands in for a language model, so that the example runs anywhere in seconds.
"""

import re
from pathlib import Path

PROMPTS = Path(__file__).parent / "prompts"

_RULE = re.compile(r'^- "([^"]+)" goes to (\w+)$', re.MULTILINE)
_OPENING = re.compile(r"Begin the answer with '([^']*)'")


async def call_agent(query: str) -> str:
    """The queue of a message. The prompts are read anew for each: they may have changed."""
    system, skill = _text("system"), _text("skill")
    fitting = (queue for word, queue in _RULE.findall(skill) if word in query.lower())
    opening = _OPENING.search(system)
    return f"{opening[1] if opening else ''}{next(fitting, 'front')}"


def _text(name: str) -> str:
    return (PROMPTS / f"{name}.md").read_text(encoding="utf-8")
