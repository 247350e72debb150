"""A rule as a metric of task_metrics.yaml: the parts of a skill are there, nothing is stuffed."""

import re
from collections import Counter

from burnish.metrics.graders import GraderContext, GraderResult

REQUIRED = ("When to use", "Steps", "Limits")
MOST_USES = 9
"""Of a word of four letters and more."""


def structure(ctx: GraderContext) -> GraderResult:
    """1 where the header and every section are there, and no word stands there too often."""
    text = ctx.agent_response
    wrong = [f"no section {name}" for name in REQUIRED if f"\n## {name}\n" not in text]
    if not text.startswith("---\n"):
        wrong.append("no header")
    words = Counter(re.findall(r"[a-z]{4,}", text.lower()))
    wrong += [f"'{word}' {count} times" for word, count in words.items() if count > MOST_USES]
    return GraderResult(score=0.0 if wrong else 1.0, reason="; ".join(wrong) or "all is there")
