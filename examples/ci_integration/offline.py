"""A stand-in for the reflection model, served on this machine: no key, no network.

It cannot think. It reads the cases that it is shown and states a rule that they reveal, or nothing.
Name a real model in EXAMPLE_MODEL (with EXAMPLE_API_KEY, and EXAMPLE_BASE_URL for another address),
and nothing here is used.
"""

import re
from collections.abc import Sequence

from burnish.testing.standin import Rewriting, ShownCase


def rewrite(request: Rewriting) -> tuple[str, str]:
    """What is wrong, and the text with the rules that the cases reveal."""
    reveal = _of_skill if request.field == "skill" else _of_system
    new = [rule for rule in reveal(request.cases) if rule not in request.text]
    if not new:
        return "nothing here is about this text", request.text
    return f"no rule says: {'; '.join(new)}", "\n".join([request.text.rstrip(), *new, ""])


def _of_skill(cases: Sequence[ShownCase]) -> list[str]:
    """A rule for each message that went to the wrong queue and has a word of its own."""
    rules: list[str] = []
    for case in cases:
        queue = _last_word(case.expected)
        others = [other for other in cases if _last_word(other.expected) != queue]
        telling = _words(case) - {word for other in others for word in _words(other)}
        if telling and _last_word(case.said) != queue:
            word = min(telling, key=lambda each: (-len(each), each))
            rules.append(f'- "{word}" goes to {queue}')
    return list(dict.fromkeys(rules))


def _of_system(cases: Sequence[ShownCase]) -> list[str]:
    """What every answer should begin with and some do not."""
    openings = {case.expected.removesuffix(_last_word(case.expected)) for case in cases}
    opening = openings.pop() if len(openings) == 1 else ""
    if not opening or all(case.said.startswith(opening) for case in cases):
        return []
    return [f"Begin the answer with '{opening}'."]


def _last_word(answer: str) -> str:
    return (answer.split() or [""])[-1]


def _words(case: ShownCase) -> set[str]:
    """The words of a message that could mean something."""
    return {word for word in re.findall(r"[a-z]+", case.asked.lower()) if len(word) > 4}
