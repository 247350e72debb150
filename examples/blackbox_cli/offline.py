"""A stand-in for the reflection model, served on this machine: no key, no network.

It cannot think. It can only state a rule that the failures it is shown reveal, one a time. Name a
real model in EXAMPLE_MODEL (with EXAMPLE_API_KEY, and EXAMPLE_BASE_URL for another address), and
nothing here is used.

`python offline.py COMMAND …` runs a command with it.
"""

import asyncio
import re
import sys
from collections.abc import Iterator

from burnish.testing.standin import Rewriting, ShownCase, one_more_rule, run_beside


def rewrite(request: Rewriting) -> tuple[str, str]:
    """The file with one more rule, if the cases reveal one."""
    reveal = _of_house if request.field == "house" else _of_skill
    return one_more_rule(request, reveal)


def _of_house(case: ShownCase) -> Iterator[str]:
    if re.search(r"#\d+", case.said) and "#" not in case.expected:
        yield "Leave out issue numbers."


def _of_skill(case: ShownCase) -> Iterator[str]:
    wanted, said = (line.partition(": ")[0] for line in (case.expected, case.said))
    if "no kind" in case.error:
        yield f"Write a note without a kind as '{wanted}'."
    elif wanted != said:
        yield f"Write '{said}' as '{wanted}'."


if __name__ == "__main__":
    sys.exit(asyncio.run(run_beside(sys.argv[1:], rewrite)))
