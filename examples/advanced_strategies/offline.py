"""A stand-in for the reflection model, served on this machine: no key, no network.

It cannot think. It adds rules that the cases it is shown reveal, and knows no others. Name a real
model in EXAMPLE_MODEL (with EXAMPLE_API_KEY, and EXAMPLE_BASE_URL for another address), and nothing
here is used.

`python offline.py COMMAND …` runs a command with it.
"""

import asyncio
import sys

from rules import layout_rules, word_rules

from burnish.testing.standin import Rewriting, run_beside


def rewrite(request: Rewriting) -> tuple[str, str]:
    """What is wrong, and the text with more rules, or as it was."""
    pairs = [(case.said, case.expected) for case in request.cases]
    # Words as many as there are, marks one at a time.
    found = word_rules(pairs) if request.field == "words" else layout_rules(pairs)[:1]
    new = [rule for rule in found if rule not in request.text]
    told = f"no rule says: {'; '.join(new)}" if new else "nothing here is about this text"
    return told, "\n".join([request.text.rstrip(), *new, ""])


if __name__ == "__main__":
    sys.exit(asyncio.run(run_beside(sys.argv[1:], rewrite)))
