"""The agent: sorts messages to a help desk into queues, as its prompt says.

It knows nothing of burnish. A small program stands in for a language model, so that the tutorial
runs anywhere in seconds.
"""

import re
from pathlib import Path

PROMPT = Path(__file__).parent / "prompt.md"
_RULE = re.compile(r'^- "([^"]+)" goes to (\w+)$', re.MULTILINE)


async def call_agent(message: str) -> str:
    """The queue of a message. The prompt is read anew for each: it may have changed."""
    rules = _RULE.findall(PROMPT.read_text(encoding="utf-8"))
    return next((queue for word, queue in rules if word in message.lower()), "front")
