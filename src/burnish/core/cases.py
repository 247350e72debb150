"""Cases, their messages, turns and labels, and the splits that keep them apart."""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from burnish.core.content import Json, codec, short_id
from burnish.core.errors import Problem
from burnish.core.outcomes import Outcome, ToolCall

Speaker: TypeAlias = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, kw_only=True)
class ToolUse:
    """A model's wish to use a tool."""

    id: str
    name: str
    arguments: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, kw_only=True)
class Image:
    """A picture that goes with what is said."""

    media_type: str
    base64: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Message:
    """One thing said."""

    role: Speaker
    content: str
    images: tuple[Image, ...] = ()
    uses: tuple[ToolUse, ...] = ()
    """The tools an assistant wants to use."""
    answers: str = ""
    """The id of the tool use that this answers, where a tool speaks."""
    tool: str = ""
    """The tool that speaks."""
    verbatim: Json = None
    """An assistant's answer as its provider wants it back: thoughts and their signatures too."""


# -- Cases, the turns they are made of ------------------------------------------------------------


def _empty(value: str) -> bool:
    return not value


_Rare = Annotated[str, Field(exclude_if=_empty)]
"""A text that is left out where there is none, so that the hashes of other cases stay the same."""


class Split(StrEnum):
    """Train feeds proposals, holdout decides, test is looked at once, at the end."""

    TRAIN = "train"
    HOLDOUT = "holdout"
    TEST = "test"


@dataclass(frozen=True, kw_only=True)
class ExpectedTool:
    """A tool that should be used in a turn, with which arguments, and how often at least."""

    name: str
    """Part of the tool's name is enough."""
    arguments: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """A value each, or `{fuzzy: text}`, or `{regex: pattern}`."""
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """A file that goes to the agent with what is said."""

    kind: str
    """image, pdf, text, excel, word, powerpoint or csv."""
    path: str = ""
    url: str = ""
    data: _Rare = field(default="", repr=False)
    """The file itself in base64, in the place of a path or an address."""
    name: _Rare = ""
    """What it is called, where it comes as data."""
    description: str = ""
    options: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Which part of it: pages, sheet, range, cache."""
    content: str = ""
    """A hash of what is in it, once somebody has looked: another content is another case."""


@dataclass(frozen=True, kw_only=True)
class Rubric:
    """One thing that an answer must fulfil, which a judge can say yes or no to."""

    id: str
    text: str
    description: str = ""
    """For people: a judge is not shown it."""
    kind: str = ""
    metric: str = ""
    """The metric it adds to, where it belongs to a case; empty for every rubric metric."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A conversation whose user is played by a model."""

    plan: str
    """What the user wants, holds back, and is content with."""
    stop_signal: str = ""
    """What the played user says when the talk is over; empty takes the usual one."""
    max_turns: int | None = None


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One thing said to the agent, and what is expected back."""

    input: str
    expected: str | None = None
    context: tuple[str, ...] = ()
    """Passages the answer should rest on."""
    expected_tools: tuple[ExpectedTool, ...] | None = None
    """An empty list says that no tool may be used; None, that nobody asks."""
    expected_calls: tuple[ToolCall, ...] | None = None
    """The calls of a model trajectory, in order, to be compared one by one. An empty list says
    that there are none; None, that nobody asks."""
    attachments: tuple[Attachment, ...] = ()
    metrics: tuple[str, ...] = ()
    """The metrics that look at this turn; empty means all of them."""
    settings: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What graders are told about this turn."""
    extras: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What a file says beyond all this, kept so that it can be written again."""

    @property
    def expects_no_tool(self) -> bool:
        """Whether a list of expected tools or calls is there, and empty."""
        lists = [each for each in (self.expected_tools, self.expected_calls) if each is not None]
        return bool(lists) and not any(lists)


@dataclass(frozen=True, kw_only=True)
class Case:
    """An input with what is expected: one turn, or several in one conversation."""

    turns: tuple[Turn, ...]
    name: str = ""
    labels: tuple[str, ...] = ()
    history: tuple[Message, ...] = ()
    """What was said before the first turn."""
    rubrics: tuple[Rubric, ...] = ()
    scenario: Scenario | None = None
    """The rest of the talk is made up from here; the first turn opens it."""
    recorded: Outcome | None = None
    """What the agent gave once: such a case is scored as it stands, never run."""
    extras: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What a file says beyond all this, kept so that it can be written again."""

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
        data = codec(Case).encode(self)
        assert isinstance(data, dict)
        assert isinstance(data["turns"], list)
        data["turns"] = [_hashed(turn) for turn in data["turns"]]
        extras = {key: value for key, value in self.extras.items() if key != AS_WRITTEN}
        seen = {key: value for key, value in data.items() if key not in _ABOUT}
        return short_id({**seen, "extras": extras})

    @cached_property
    def question_id(self) -> str:
        """A hash of what is asked, blind to spacing, letter case and Unicode spelling.

        Two cases that ask the same are the same case when splits are compared, whatever
        they are called and whatever answer they expect.
        """
        questions: list[Json] = [squeeze(turn.input) for turn in self.turns]
        files: list[Json] = [
            a.content or [a.path, a.url, *([a.data] if a.data else [])]
            for turn in self.turns
            for a in turn.attachments
        ]
        history: list[Json] = [squeeze(message.content) for message in self.history]
        plan = squeeze(self.scenario.plan) if self.scenario else ""
        more: list[Json] = [files, history, plan] if files or history or plan else []
        return short_id([*questions, *more])

    @classmethod
    def single(cls, input: str, expected: str | None = None, *, name: str = "") -> "Case":  # noqa: A002
        """A case of one turn."""
        return cls(name=name, turns=(Turn(input=input, expected=expected),))


def _hashed(turn: Json) -> Json:
    """A turn as it is hashed: no list of tools as an empty one always was, so that old journals
    stay in force, and an empty one as something else."""
    assert isinstance(turn, dict)
    for name in ("expected_tools", "expected_calls"):
        turn[name] = turn[name] or ([] if turn[name] is None else "none")
    return turn


AS_WRITTEN = "as_written"
"""The extra that keeps how a file spells a case; it says nothing that the case does not."""
_ABOUT = ("name", "labels", "extras")
"""What is said about a case, rather than in it."""


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
        problems = [] if self.train else [Problem(where="train", message="there are no cases")]
        for split in Split:
            problems += _repeated_names(split, self.cases(split))
        return problems + list(dict.fromkeys(_leaks(self)))


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


# -- Labels ---------------------------------------------------------------------------------------


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


def _is_word(text: str) -> bool:
    """Whether a text is one word of modest length, as labels are."""
    return _WORD.fullmatch(text) is not None


def _labels(answers: _Answers) -> set[str]:
    recurring = {answer for answer, questions in answers.items() if len(questions) > 1}
    words = {answer for answer in answers if _is_word(answer)}
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
        document: Json = json.loads(text)
    except (ValueError, RecursionError):
        return
    yield from _walk(document, "")


def _walk(value: Json, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _walk(item, f"{place}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from _walk(item, f"{place}[]")
    else:
        yield place, squeeze(value if isinstance(value, str) else json.dumps(value))


_MIN_LEAK_CHARS = 24
"""Shorter texts turn up anywhere by chance."""


# -- Law 3 ----------------------------------------------------------------------------------------


class LeakWatch:
    """Knows the text of the cases that no proposer may see."""

    def __init__(self, dataset: Dataset) -> None:
        everyone = (*dataset.train, *dataset.holdout, *dataset.test)
        # A prompt that lists every label of a classifier gives no case away, wherever its cases
        # fell. Longer answers that recur stay secret.
        labels = {label for label in labels_of(everyone) if _is_word(label)}
        public = "\n".join(_texts(dataset.train))
        self._secret = {
            text: case.id
            for case in (*dataset.holdout, *dataset.test)
            for text in _texts([case])
            if len(text) >= _MIN_LEAK_CHARS and text not in labels and text not in public
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
