"""A stand-in for the reflection model and the judge, served on this machine: no key, no network.

It cannot think. It can only state a rule that the failures it is shown reveal, one a time, and
check a reply by three simple rules. Name a real model in EXAMPLE_MODEL (with EXAMPLE_API_KEY, and
EXAMPLE_BASE_URL for another address), and nothing here is used.

`python offline.py COMMAND …` runs a command with it.
"""

import asyncio
import re
import sys
from collections.abc import Iterator, Mapping

from burnish.testing.standin import Judging, Rewriting, ShownCase, one_more_rule, run_beside

_NUMBER = re.compile(r"(\d+)(?: g)?$")


def rewrite(request: Rewriting) -> tuple[str, str]:
    """The text with one more rule, if the cases reveal one."""
    reveal = _of_system if request.field == "system_prompt" else _of_skill
    return one_more_rule(request, reveal)


def _of_system(case: ShownCase) -> Iterator[str]:
    label = case.expected.partition(":")[0]
    if f"{label}:" not in case.said:
        yield f"Begin the last line with '{label}:'."
    if "working" in case.failed_rubrics:
        yield "Show the working before the result."


def _of_skill(case: ShownCase) -> Iterator[str]:
    if "unit" in case.failed_rubrics:
        yield "Write the unit after the number."
    wanted, said = _number(case.expected), _number(case.said)
    if wanted != said and wanted % 5 == 0:
        yield "Round the result to the nearest 5."


def judge(request: Judging) -> Mapping[str, str]:
    """What is wrong by each rubric."""
    reply = request.reply
    checks = {
        "value": _number(reply) == _number(request.reference),
        "unit": reply.endswith(" g"),
        "working": "=" in reply,
    }
    return {name: "" if holds else "it is not so" for name, holds in checks.items()}


def _number(text: str) -> int:
    found = _NUMBER.search(text)
    return int(found[1]) if found else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(run_beside(sys.argv[1:], rewrite, judge)))
