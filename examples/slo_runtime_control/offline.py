"""A stand-in for the reflection model, served on this machine: no key, no network.

It notes down the times that the cases it is shown expect, and knows no others. Name a real model
in EXAMPLE_MODEL (with EXAMPLE_API_KEY, and EXAMPLE_BASE_URL for another address), and nothing here
is used.
"""

import re

from burnish.testing.standin import Rewriting


def rewrite(request: Rewriting) -> tuple[str, str]:
    """What is wrong, and the notes with what the failures reveal."""
    lines = re.findall(r"\d+", " ".join(case.asked for case in request.cases))
    times = [case.expected for case in request.cases]
    rules = [f"- line {line}: {time}" for line, time in zip(lines, times, strict=True)]
    new = [rule for rule in rules if rule not in request.text]
    return f"{len(new)} times are not in the notes", "\n".join([request.text.rstrip(), *new, ""])
