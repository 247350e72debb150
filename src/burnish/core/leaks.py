"""Law 3: text of holdout and test cases that would reach a proposer."""

from collections.abc import Iterable

from burnish.core.cases import Case, Dataset, squeeze
from burnish.core.content import Json
from burnish.core.labels import is_word, labels_of

TELLING = 24
"""Shorter texts turn up anywhere by chance."""


class LeakWatch:
    """Knows the text of the cases that no proposer may see."""

    def __init__(self, dataset: Dataset) -> None:
        everyone = (*dataset.train, *dataset.holdout, *dataset.test)
        # A prompt that lists every label of a classifier gives no case away, wherever its cases
        # fell. Longer answers that recur stay secret.
        labels = {label for label in labels_of(everyone) if is_word(label)}
        public = "\n".join(_texts(dataset.train))
        self._secret = {
            text: case.id
            for case in (*dataset.holdout, *dataset.test)
            for text in _texts([case])
            if len(text) >= TELLING and text not in labels and text not in public
        }

    def leaked(self, request: Json) -> str | None:
        """The id of a holdout or test case whose text is in this request."""
        if not self._secret:
            return None
        seen = squeeze("\n".join(_strings(request)))
        return next((case for text, case in self._secret.items() if text in seen), None)


def _texts(cases: Iterable[Case]) -> list[str]:
    turns = (turn for case in cases for turn in case.turns)
    return [squeeze(text) for turn in turns for text in (turn.input, turn.expected or "")]


def _strings(value: Json) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)
