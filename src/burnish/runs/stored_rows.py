"""The trials of a run as pages and reports read them: what few of them look at is read late."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from pydantic_core import from_json

from burnish.core.content import codec
from burnish.core.trials import TrialRow
from burnish.journal.journal import JournalReader
from burnish.journal.sqlite_store import reading

_SCORES = b'"scores":{"'
_CUT = b'"scores":0'
_SPLITS = ("holdout", "train")
"""In the order in which a stored trial has them."""


class StoredScores(Mapping[str, Mapping[str, list[float | None]]]):
    """The scores of the cases of a trial, as they were written, read when they are looked at."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def __getitem__(self, case: str) -> Mapping[str, list[float | None]]:
        return self._scores[case]

    def __iter__(self) -> Iterator[str]:
        return iter(self._scores)

    def __len__(self) -> int:
        return len(self._scores)

    def __repr__(self) -> str:
        return repr(self._scores)

    @cached_property
    def _scores(self) -> dict[str, dict[str, list[float | None]]]:
        return from_json(self._text)


def rows_to_show(reader: JournalReader, *, since: int = 0) -> Iterator[TrialRow]:
    """The recorded trials from a number on.

    The scores of cases are most of a long run, and a page looks at those of a few trials.
    """
    with reading(reader.path):
        for body in reader.trials(since=since):
            data, scores = _without_scores(body)
            row = codec(TrialRow).decode(data)
            trial = row.trial
            parts = {
                split: replace(result, scores=scores[split])
                for split, result in (("holdout", trial.holdout), ("train", trial.train))
                if result is not None and split in scores
            }
            yield replace(row, trial=replace(trial, **parts)) if parts else row


def _without_scores(body: bytes) -> tuple[Any, dict[str, StoredScores]]:
    """A stored trial without the scores of its cases, and these.

    The first `}}` after `"scores":{` ends them, unless it is inside a name. Cutting there would
    leave half a string and so no JSON. Whatever is not as expected is read as a whole.
    """
    head, *rest = body.split(_SCORES)
    pieces = [each.partition(b"}}") for each in rest]
    try:
        data = from_json(head + b"".join(_CUT + after for _, _, after in pieces))
        results = {split: data["trial"][split] for split in _SPLITS}
        cut = [split for split, each in results.items() if each and each["scores"] == 0]
    except (ValueError, KeyError, TypeError):
        return json.loads(body), {}
    if len(cut) != len(pieces):  # a proposer was shown scores, too
        return json.loads(body), {}
    for split in cut:
        results[split]["scores"] = {}
    texts = (b'{"' + before + end for before, end, _ in pieces)
    return data, dict(zip(cut, map(StoredScores, texts), strict=True))
