"""A stand-in for the reflection model, served on this machine: no key, no network.

It cannot think. It can only state a rule that the failures it is shown reveal, one a time. Name a
real model in EXAMPLE_MODEL (with EXAMPLE_API_KEY, and EXAMPLE_BASE_URL for another address), and
nothing here is used.
"""

from collections.abc import Iterator

from burnish.testing.standin import Rewriting, ShownCase, one_more_rule


def rewrite(request: Rewriting) -> tuple[str, str]:
    """The prompt with one more rule, if the cases reveal one."""
    return one_more_rule(request, _revealed)


def _revealed(case: ShownCase) -> Iterator[str]:
    """What the expected answer has and the given one lacks."""
    if "extension" in case.expected and "extension" not in case.said:
        yield "When a person is named, add the extension."
    if "+" in case.expected and "+" not in case.said:
        yield "For callers from abroad write the country code and leave out the first zero."
    if "night desk" in case.expected and "night desk" not in case.said:
        yield "At night give the number of the night desk instead."
