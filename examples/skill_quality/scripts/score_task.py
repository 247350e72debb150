"""The scorer: the rubric point by point, the rules of structure, and one JSON object on stdout."""

# ruff: noqa: T201

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from run_task import SKILL

REQUIRED = ("When to use", "Steps", "Limits")
VERBS = {"Read", "Write", "Sort", "Keep", "Leave", "Put", "Name", "Check", "Group"}
MOST_WORDS, MOST_SENTENCES = 22, 2
MOST_SHARE, FREE_USES = 0.06, 5
"""A word of four letters and more may be used so often, or make up so much of the text."""

Parts = Mapping[str, str]


def sentences(text: str) -> list[str]:
    return [each.strip() for each in re.split(r"(?<=[.!?])\s+|\n+", text) if each.strip()]


def steps(parts: Parts) -> list[str]:
    return re.findall(r"^\d+\. (.+)$", parts.get("Steps", ""), flags=re.MULTILINE)


def says(parts: Parts, section: str, *words: str) -> bool:
    text = parts.get(section, "").lower()
    return all(word in text for word in words)


CLARITY: Mapping[str, Callable[[Parts], bool]] = {
    "short sentences": lambda parts: all(
        len(each.split()) <= MOST_WORDS for body in parts.values() for each in sentences(body)
    ),
    "steps that say what to do": lambda parts: all(
        step.split()[0] in VERBS for step in steps(parts)
    ),
    "one thing a step": lambda parts: all(
        len(sentences(step)) <= MOST_SENTENCES for step in steps(parts)
    ),
}
COVERAGE: Mapping[str, Callable[[Parts], bool]] = {
    "when": lambda parts: says(parts, "When to use", "when"),
    "order": lambda parts: says(parts, "Steps", "sort", "first"),
    "format": lambda parts: says(parts, "Output format", "heading"),
    "example": lambda parts: says(parts, "Example", "change:", "line:"),
    "limits": lambda parts: says(parts, "Limits", "not", "breaks"),
}


def violations(text: str, parts: Parts) -> list[str]:
    """The rules of structure that are broken."""
    missing = [f"there is no section '{name}'" for name in REQUIRED if name not in parts]
    empty = [f"the section '{name}' is empty" for name, body in parts.items() if not body]
    words = re.findall(r"[a-z]{4,}", text.lower())
    most = max(FREE_USES, MOST_SHARE * len(words))
    stuffed = [f"'{word}' stands there {n} times" for word, n in Counter(words).items() if n > most]
    lines = Counter(line.strip() for line in text.splitlines() if line.strip(" -"))
    twice = [f"this line stands there {n} times: {line}" for line, n in lines.items() if n > 1]
    return [*missing, *empty, *stuffed, *twice]


def main() -> None:
    """Print the six numbers, and for the editor which points are not met."""
    text = SKILL.read_text(encoding="utf-8")
    parts: Parts = json.loads(Path("work/parts.json").read_text(encoding="utf-8"))
    clear = {point: check(parts) for point, check in CLARITY.items()}
    covered = {point: check(parts) for point, check in COVERAGE.items()}
    broken = violations(text, parts)
    clarity = sum(clear.values()) / len(clear)
    coverage = sum(covered.values()) / len(covered)
    obedience = 1 / (1 + len(broken))
    unmet = [point for point, holds in {**clear, **covered}.items() if not holds]
    metrics = {
        "clarity": clarity,
        "coverage": coverage,
        "constraint_obedience": obedience,
        "violation_count": len(broken),
        "length_tokens": len(re.findall(r"\w+|[^\w\s]", text)),
    }
    score = round(0.4 * clarity + 0.4 * coverage + 0.2 * obedience, 4)
    feedback = f"points not met: {', '.join(unmet) or 'none'}; rules broken: {broken or 'none'}"
    print(json.dumps({"primary_score": score, "metrics": metrics, "feedback": feedback}))


if __name__ == "__main__":
    main()
