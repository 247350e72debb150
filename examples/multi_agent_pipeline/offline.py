"""A stand-in for the reflection model, served on this machine: no key, no network.

It cannot think. It can only state a rule that the failures it is shown reveal, one a time, and all
it is shown is the end of the pipeline: what the clerk said and what was expected. Name a real model
in EXAMPLE_MODEL (with EXAMPLE_API_KEY, and EXAMPLE_BASE_URL for another address), and nothing here
is used.
"""

import re
from collections.abc import Iterator

from burnish.testing.standin import Rewriting, ShownCase, one_more_rule


def rewrite(request: Rewriting) -> tuple[str, str]:
    """The prompt with one more rule, if the cases reveal one."""
    reveal = {"reader": _of_reader, "pricer": _of_pricer, "clerk": _of_clerk}[request.field]
    return one_more_rule(request, reveal)


def _of_reader(case: ShownCase) -> Iterator[str]:
    """A price that is far too high, and a weight in grams in the question."""
    if re.search(r"\d ?g\b", case.asked) and _euros(case.said) > 100 * _euros(case.expected):
        yield "Turn grams into kilograms, and round up."


def _of_pricer(case: ShownCase) -> Iterator[str]:
    """What an express parcel lacks."""
    lacking = _euros(case.expected) - _euros(case.said)
    if "express" in case.asked and lacking > 0:
        yield f"Express costs {lacking} euros more."


def _of_clerk(case: ShownCase) -> Iterator[str]:
    """A sentence that was expected and not said."""
    if "customs form" in case.expected and "customs form" not in case.said:
        yield "For places abroad ask for a customs form."


def _euros(text: str) -> int:
    found = re.match(r"\d+", text)
    return int(found[0]) if found else 0
