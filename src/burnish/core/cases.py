"""Cases, the turns they are made of, and the splits that keep them apart."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from burnish.core.content import Json, short_id
from burnish.core.errors import Problem


class Split(StrEnum):
    """Train feeds proposals, holdout decides, test is looked at once, at the end."""

    TRAIN = "train"
    HOLDOUT = "holdout"
    TEST = "test"


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One thing said to the agent, and what is expected back."""

    input: str
    expected: str | None = None
    context: tuple[str, ...] = ()
    """Passages the answer should rest on."""
    extras: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What only some metrics read: expected tools, grader settings."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """An input with what is expected: one turn, or several in one conversation."""

    turns: tuple[Turn, ...]
    name: str = ""
    labels: tuple[str, ...] = ()

    @property
    def input(self) -> str:
        """The first thing said to the agent."""
        return self.turns[0].input

    @property
    def expected(self) -> str | None:
        """What the last turn should give."""
        return self.turns[-1].expected

    @cached_property
    def id(self) -> str:
        """The name, or for a case without one a hash of its content."""
        return self.name or self.content_id

    @cached_property
    def content_id(self) -> str:
        """A hash of everything an agent or a metric can see of this case."""
        return short_id(
            [[t.input, t.expected, list(t.context), dict(t.extras)] for t in self.turns]
        )

    @cached_property
    def question_id(self) -> str:
        """A hash of what is asked, blind to spacing, letter case and Unicode spelling.

        Two cases that ask the same are the same case when splits are compared, whatever
        they are called and whatever answer they expect.
        """
        return short_id([squeeze(turn.input) for turn in self.turns])

    @classmethod
    def single(cls, input: str, expected: str | None = None, *, name: str = "") -> "Case":  # noqa: A002
        """A case of one turn."""
        return cls(name=name, turns=(Turn(input=input, expected=expected),))


def squeeze(text: str) -> str:
    """Text with spacing, letter case and Unicode spelling levelled out, for comparing."""
    # Folding the case of some Greek letters takes them apart again: hence twice.
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """The cases of a run by split. Holdout and test may be empty."""

    train: tuple[Case, ...]
    holdout: tuple[Case, ...] = ()
    test: tuple[Case, ...] = ()

    def cases(self, split: Split) -> tuple[Case, ...]:
        """The cases of one split."""
        return {Split.TRAIN: self.train, Split.HOLDOUT: self.holdout, Split.TEST: self.test}[split]

    @cached_property
    def fingerprint(self) -> str:
        """A hash that changes when any case does."""
        return short_id(
            [[[c.id, c.content_id, list(c.labels)] for c in self.cases(s)] for s in Split]
        )

    def problems(self) -> list[Problem]:
        """What makes these splits unfit: nothing to learn from, one name twice, leaks."""
        found = [] if self.train else [Problem(where="train", message="there are no cases")]
        for split in Split:
            found += _repeated_names(split, self.cases(split))
        return found + list(dict.fromkeys(_leaks(self)))


def _repeated_names(split: Split, cases: Sequence[Case]) -> Iterator[Problem]:
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            yield Problem(
                where=split.value,
                message=f"two cases are called '{case.id}'",
                remedy="give each case a name of its own, or remove the repetition",
            )
        seen.add(case.id)


def _leaks(dataset: Dataset) -> Iterator[Problem]:
    home: dict[str, tuple[Split, Case]] = {}
    for split in Split:
        for key, case in _identities(dataset.cases(split)):
            first = home.setdefault(key, (split, case))
            if first[0] is not split:
                yield Problem(
                    where=f"{first[0].value}, {split.value}",
                    message=f"case '{case.id}' is in both"
                    + ("" if first[1].id == case.id else f" (as '{first[1].id}')"),
                    remedy="a case may be in one split only: remove it from one of them",
                )


def _identities(cases: Iterable[Case]) -> Iterator[tuple[str, Case]]:
    for case in cases:
        yield f"question:{case.question_id}", case
        if case.name:
            yield f"name:{case.name}", case
