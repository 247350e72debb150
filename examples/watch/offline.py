"""A stand-in for the model that rewrites prompts, served on this machine: no key, no network.

`python offline.py COMMAND` runs a command beside it. It cannot think: it reads the cases that it
is shown, and for each that went to the wrong queue it writes a rule with the longest word that
only messages of that queue have. Name a real model in EXAMPLE_MODEL, and it is not used.
"""

import asyncio
import re
import sys
from collections.abc import Iterator

from burnish.testing.standin import Rewriting, ShownCase, run_beside


def rewrite(request: Rewriting) -> tuple[str, str]:
    """What is wrong, and the text with the rules that the cases reveal."""
    new = [rule for rule in dict.fromkeys(_rules(request)) if rule not in request.text]
    if not new:
        return "nothing here is about this text", request.text
    return f"no rule says: {'; '.join(new)}", "\n".join([request.text.rstrip(), *new, ""])


def _rules(request: Rewriting) -> Iterator[str]:
    for case in request.cases:
        if case.said == case.expected:
            continue
        others = [each for each in request.cases if each.expected != case.expected]
        own = _words(case) - {word for other in others for word in _words(other)}
        if own:
            word = min(own, key=lambda each: (-len(each), each))
            yield f'- "{word}" goes to {case.expected}'


def _words(case: ShownCase) -> set[str]:
    return {word for word in re.findall(r"[a-z]+", case.asked.lower()) if len(word) > 4}


if __name__ == "__main__":
    sys.exit(asyncio.run(run_beside(sys.argv[1:], rewrite)))
