"""A stand-in for the model that rewrites texts, served on this machine: no key, no network.

It states the rule that the failures reveal. Name a real model in EXAMPLE_MODEL (with
EXAMPLE_API_KEY, and EXAMPLE_BASE_URL for another address), and nothing here is used.

`python offline.py COMMAND …` runs a command with it.
"""

import asyncio
import sys
from collections.abc import Iterator

from burnish.testing.standin import Rewriting, ShownCase, one_more_rule, run_beside


def rewrite(request: Rewriting) -> tuple[str, str]:
    """The text with one more rule, if the cases reveal one."""
    diagnosis, text = one_more_rule(request, _rules)
    return diagnosis, text.rstrip("\n")


def _rules(case: ShownCase) -> Iterator[str]:
    if case.expected.endswith("euros") and not case.said.endswith("euros"):
        yield " State the amount in euros."


if __name__ == "__main__":
    sys.exit(asyncio.run(run_beside(sys.argv[1:], rewrite, protocol="anthropic")))
