"""A stand-in for the reflection model, served on this machine: no key, no network.

It cannot think. It can only state a rule that the failures it is shown reveal, one a time. Name a
real model in EXAMPLE_MODEL (with EXAMPLE_API_KEY, and EXAMPLE_BASE_URL for another address), and
nothing here is used.
"""

import re
from collections.abc import Iterator

from burnish.testing.standin import Rewriting, ShownCase, one_more_rule


def rewrite(request: Rewriting) -> tuple[str, str]:
    """The prompt with one more rule, if the cases reveal one."""
    return one_more_rule(request, _revealed)


def _revealed(case: ShownCase) -> Iterator[str]:
    """How times are written, and what is added for one kind of appointment."""
    if re.search(r"[ap]m\.", case.said) and not re.search(r"[ap]m\.", case.expected):
        yield "Write times on the 24-hour clock."
    _, _, wanted = case.expected.partition(". ")
    what = re.match(r"Your ([\w ]+) is on", case.expected)
    if wanted and wanted not in case.said and what:
        yield f"For each {what[1]} add: {wanted}"
