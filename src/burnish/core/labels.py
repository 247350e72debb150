"""Labels: expected answers that belong to the task, not to one case.

A classifier's prompt has to name its labels, and an extractor's its formats. What many cases
expect is such a thing; what a single case expects is that case's answer.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from burnish.core.cases import Case, squeeze
from burnish.core.content import Json

_WORD = re.compile(r"[\w./:+#&@-]{1,64}")
"""One word as identifiers and class names are written: no spaces, quotes or brackets."""

_Answers: TypeAlias = Mapping[str, set[str]]
"""Answers, squeezed, with the questions that each is the answer to."""


def labels_of(cases: Iterable[Case]) -> frozenset[str]:
    """The expected answers of these cases, squeezed, that are labels or formats.

    An answer is one when two questions have it, when it is one word where most one-word answers
    recur (in a closed set some label is bound to turn up once), or when it is JSON in which every
    value is a label of its place.
    """
    whole: dict[str, set[str]] = {}
    places: dict[str, dict[str, set[str]]] = {}
    structured: dict[str, list[tuple[str, str]]] = {}
    for case in cases:
        for turn in case.turns:
            answer = squeeze(turn.expected or "")
            # A case that is there twice under two names is still one case.
            whole.setdefault(answer, set()).add(case.question_id)
            structured[answer] = leaves = list(_leaves(turn.expected or ""))
            for place, value in leaves:
                places.setdefault(place, {}).setdefault(value, set()).add(case.question_id)
    of_place = {place: _labels(answers) for place, answers in places.items()}
    made_of_labels = {
        answer
        for answer, leaves in structured.items()
        if leaves and all(value in of_place[place] for place, value in leaves)
    }
    return frozenset((_labels(whole) | made_of_labels) - {""})


def is_word(text: str) -> bool:
    """Whether a text is one word of modest length, as labels are."""
    return _WORD.fullmatch(text) is not None


def _labels(answers: _Answers) -> set[str]:
    recurring = {answer for answer, questions in answers.items() if len(questions) > 1}
    words = {answer for answer in answers if is_word(answer)}
    again, once = words & recurring, words - recurring
    # Most of the cases must have one, and more than a handful of words: many `yes` and `no`
    # beside many serial numbers make no closed set of the numbers.
    closed = sum(len(answers[word]) for word in again) > len(once) <= 2 * len(again)
    return recurring | words if closed else recurring


def _leaves(text: str) -> Iterator[tuple[str, str]]:
    """The values of a JSON object or list with their places; nothing for any other text."""
    if not text.lstrip().startswith(("{", "[")):
        return
    try:
        found: Json = json.loads(text)
    except (ValueError, RecursionError):
        return
    yield from _walk(found, "")


def _walk(value: Json, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _walk(item, f"{place}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from _walk(item, f"{place}[]")
    else:
        yield place, squeeze(value if isinstance(value, str) else json.dumps(value))
