"""Cases with their messages, turns, labels and splits, and the outcomes of running them."""

import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from operator import not_
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from burnish.core.content import Json, codec, short_id
from burnish.core.errors import Problem


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Tokens and requests of one or more model calls."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """One use of a tool: its arguments and its result."""

    name: str
    arguments: Mapping[str, Json] = field(default_factory=dict[str, Json])
    result: Json = None
    error: str = ""
    id: str = ""
    """The model's id of this use, if there is one."""
    passages: tuple[str, ...] = ()
    """The passages that a retrieval tool returned."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One step inside a run."""

    id: str
    node: str
    turn: int = 0
    predecessors: tuple[str, ...] = ()
    surfaces: tuple[str, ...] = ()
    """The surfaces whose values were used in this step."""
    input: Json = None
    output: Json = None
    tools: tuple[ToolCall, ...] = ()
    tools_known: Annotated[bool, Field(exclude_if=bool)] = True
    """False for a step that stands for an agent whose tool calls nobody sees."""
    error: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """The steps of a run; predecessors come first."""

    steps: tuple[Step, ...] = ()


class FailureKind(StrEnum):
    """Who caused a failure: this decides between a score of 0 and no score at all."""

    AGENT = "agent"
    """Exception, invalid output, out of time: scores 0, and the proposer sees the error."""
    INFRASTRUCTURE = "infrastructure"
    """Rate limit, connection, judge down: retried, then missing. Never 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Why a run of a case gave no output."""

    kind: FailureKind
    message: str
    error: str = ""
    """The name of the exception class."""
    attempts: int = 1
    mendable: Annotated[bool, Field(exclude_if=not_)] = False
    """Whether a better candidate could avoid it: the answer is of no use, or the edited files do
    not run. What the called code raises is not: it would do so under every candidate."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The result of one run of one case."""

    replies: tuple[str, ...] = ()
    """The agent's replies, one per turn."""
    asked: tuple[str, ...] = ()
    """In a generated conversation, the inputs to the agent, one per turn."""
    data: Json = None
    """The structured answer, if the agent gives one."""
    measures: Mapping[str, float] = field(default_factory=dict[str, float])
    """Numbers that the run reported, in any unit."""
    trace: Trace = Trace()
    usage: Usage = Usage()
    nano_usd: int | None = 0
    """The agent's cost; None when the price is unknown."""
    seconds: float = 0.0
    failure: Failure | None = None
    withheld: Annotated[bool, Field(exclude_if=not_)] = False
    """Whether something that looks like a key was removed before it was stored: metrics saw the
    whole answer, and what is left must not be scored again."""

    @property
    def output(self) -> str:
        """The last reply."""
        return self.replies[-1] if self.replies else ""

    @property
    def failed(self) -> bool:
        """The agent failed: this scores 0."""
        return self.failure is not None and self.failure.kind is FailureKind.AGENT

    @property
    def missing(self) -> bool:
        """The infrastructure failed: there is nothing to score."""
        return self.failure is not None and self.failure.kind is FailureKind.INFRASTRUCTURE


Speaker: TypeAlias = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, kw_only=True)
class ToolUse:
    """A model's request to call a tool."""

    id: str
    name: str
    arguments: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, kw_only=True)
class Image:
    """A picture in a message."""

    media_type: str
    base64: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message of a conversation."""

    role: Speaker
    content: str
    images: tuple[Image, ...] = ()
    uses: tuple[ToolUse, ...] = ()
    """The tool calls that an assistant requests."""
    answers: str = ""
    """In a message of a tool, the id of the tool use that it answers."""
    tool: str = ""
    """The name of the tool that sends the message."""
    verbatim: Json = None
    """An assistant's answer as its provider needs it back, with thoughts and their signatures."""


_Rare = Annotated[str, Field(exclude_if=lambda text: not text)]
"""A text that is left out when empty, so that the hashes of other cases stay the same."""


class Split(StrEnum):
    """Train feeds proposals, holdout decides, test is read once, at the end."""

    TRAIN = "train"
    HOLDOUT = "holdout"
    TEST = "test"


@dataclass(frozen=True, kw_only=True)
class ExpectedTool:
    """A tool that should be used in a turn, its arguments, and the least number of uses."""

    name: str
    """The tool's name or a part of it."""
    arguments: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """A value each, or `{fuzzy: text}`, or `{regex: pattern}`."""
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """A file that goes to the agent with the input."""

    kind: str
    """image, pdf, text, excel, word, powerpoint or csv."""
    path: str = ""
    url: str = ""
    data: _Rare = field(default="", repr=False)
    """The file in base64, instead of a path or a URL."""
    name: _Rare = ""
    """The file name, if the file comes as data."""
    description: str = ""
    options: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Which part of it: pages, sheet, range, cache."""
    content: str = ""
    """A hash of the file, once it was read: another content is another case."""


@dataclass(frozen=True, kw_only=True)
class Rubric:
    """One requirement of an answer that a judge can say yes or no to."""

    id: str
    text: str
    description: str = ""
    """For people: judges do not see it."""
    kind: str = ""
    metric: str = ""
    """For a rubric of a case, the metric that it extends; empty means every rubric metric."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A conversation whose user is played by a model."""

    plan: str
    """What the user wants, withholds, and is satisfied with."""
    stop_signal: str = ""
    """What the played user says to end the conversation; empty means the default."""
    max_turns: int | None = None


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One input to the agent and what is expected back."""

    input: str
    expected: str | None = None
    context: tuple[str, ...] = ()
    """Passages that the answer should be based on."""
    expected_tools: tuple[ExpectedTool, ...] | None = None
    """An empty list means that no tool may be used; None, that tools are not checked."""
    expected_calls: tuple[ToolCall, ...] | None = None
    """The calls of a model trajectory, in order, compared one by one. An empty list means no
    calls; None, that calls are not checked."""
    attachments: tuple[Attachment, ...] = ()
    metrics: tuple[str, ...] = ()
    """The metrics that score this turn; empty means all of them."""
    settings: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Settings of graders for this turn."""
    extras: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Other keys of the file, kept so that they can be written again."""

    @property
    def input_value(self) -> Json:
        """The input as what it was before it was spelled as JSON; most are text."""
        return json.loads(self.input) if self._was_data("input") else self.input

    @property
    def expected_value(self) -> Json:
        """The expected answer as what it was before it was spelled as JSON; most are text."""
        if self.expected is None or not self._was_data("expected"):
            return self.expected
        return json.loads(self.expected)

    def _was_data(self, part: str) -> bool:
        parts = self.extras.get(AS_JSON)
        return isinstance(parts, list) and part in parts

    @property
    def expects_no_tool(self) -> bool:
        """Whether there is a list of expected tools or calls, and it is empty."""
        lists = [each for each in (self.expected_tools, self.expected_calls) if each is not None]
        return bool(lists) and not any(lists)


def _strings(value: Json) -> Iterator[str]:
    """Every text in a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (text for item in value for text in _strings(item))
    elif isinstance(value, dict):
        for key, item in value.items():
            if key != "attachments":
                yield key
                yield from _strings(item)


@dataclass(frozen=True, kw_only=True)
class Case:
    """An input with the expected answer: one turn, or several in one conversation."""

    turns: tuple[Turn, ...]
    name: str = ""
    labels: tuple[str, ...] = ()
    history: tuple[Message, ...] = ()
    """The messages before the first turn."""
    rubrics: tuple[Rubric, ...] = ()
    scenario: Scenario | None = None
    """Generates the conversation after the first turn."""
    recorded: Outcome | None = None
    """A recorded outcome: such a case is scored, but never run."""
    extras: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Other keys of the file, kept so that they can be written again."""

    @property
    def input(self) -> str:
        """The input of the first turn."""
        return self.turns[0].input

    @property
    def expected(self) -> str | None:
        """The expected answer of the last turn."""
        return self.turns[-1].expected

    @cached_property
    def text(self) -> str:
        """All that the case says itself, without attached files and a recorded outcome."""
        return "\n".join(_strings(codec(Case).encode(replace(self, recorded=None))))

    @cached_property
    def id(self) -> str:
        """The name, or a hash of the content for a case without one."""
        return self.name or self.content_id

    @cached_property
    def content_id(self) -> str:
        """A hash of everything an agent or a metric can see of this case."""
        data = codec(Case).encode(self)
        assert isinstance(data, dict)
        assert isinstance(data["turns"], list)
        for turn in data["turns"]:
            assert isinstance(turn, dict)
            # None hashes like the empty list that it was in old journals; an empty list differs.
            for name in ("expected_tools", "expected_calls"):
                turn[name] = turn[name] or ([] if turn[name] is None else "none")
        return short_id({k: value for k, value in data.items() if k not in ("name", "labels")})

    @cached_property
    def question_id(self) -> str:
        """A hash of the question that ignores spacing, letter case and Unicode spelling.

        Cases with the same question are the same case when splits are compared, whatever
        their names and expected answers.
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
        """Create a case of one turn."""
        return cls(name=name, turns=(Turn(input=input, expected=expected),))


AS_JSON = "as_json"
"""The extra of a turn with those of `input` and `expected` that were no text: theirs is JSON."""


def squeeze(text: str) -> str:
    """Normalize spacing, letter case and Unicode spelling, for comparing."""
    # Case folding decomposes some Greek letters again: hence twice.
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
        """No training cases, repeated names, and cases that are in two splits."""
        problems = [] if self.train else [Problem(where="train", message="there are no cases")]
        for split in Split:
            seen: set[str] = set()
            for case in self.cases(split):
                if case.id in seen:
                    problems.append(
                        Problem(
                            where=split.value,
                            message=f"two cases are called '{case.id}'",
                            remedy="give each case a unique name, or remove the duplicate",
                        )
                    )
                seen.add(case.id)
        if self.holdout or self.test:
            problems += dict.fromkeys(self._leaks())
        return problems

    def _leaks(self) -> Iterator[Problem]:
        homes: dict[str, tuple[Split, str]] = {}
        for split in Split:
            for case in self.cases(split):
                keys = [f"question:{case.question_id}"] + [f"name:{case.name}"] * bool(case.name)
                for key in keys:
                    home, name = homes.setdefault(key, (split, case.id))
                    if home is not split:
                        alias = "" if name == case.id else f" (as '{name}')"
                        yield Problem(
                            where=f"{home.value}, {split.value}",
                            message=f"case '{case.id}' is in both{alias}",
                            remedy="a case may be in one split only: remove it from one of them",
                        )


_WORD = re.compile(r"[\w./:+#&@-]{1,64}")
"""One word, as in identifiers and class names: no spaces, quotes or brackets."""

_PARTS = re.compile(r"([^\w\s]+)")
_SIGN = re.compile(r"[|/;:=#@+*~^<>-]+")
"""Signs between the parts of a form, which sentences have no use for."""
_WORDS_OF_A_PART, _FEWEST_OF_A_FORM = 4, 4
_ALIKE = 0.8
"""The share of answers with one form that makes it the form of all."""
_MOST_LABELS, _LONGEST_LABEL, _OFTEN_NEW = 60, 64, 0.05
"""A closed set has at most so many labels of so many characters, and brings a new one at most once
in so many cases."""
_NAMES_OF_DATES = re.compile(
    r"\b(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
    r"|(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?"
    r"|am|pm|utc|gmt|of|at|us|usd|eur|gbp|jpy|chf|cny|inr)\b|(?<=\d)(?:st|nd|rd|th|t(?=\d)|[年月日时時分秒])"
)
"""Words of dates, times and amounts of money."""
_UNITS = 2
"""Words that may follow a number without making more of it: units."""
_AROUND_NUMBERS = frozenset((
    "about", "answer", "around", "boxed", "kr", "minus", "no", "plus", "r", "result", "rs", "x",
))  # fmt: skip
"""Words before a number that make no more of it."""
_NUMBER_WORDS = frozenset((
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
    "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety", "hundred",
    "thousand", "million",
))  # fmt: skip


def labels_of(cases: Iterable[Case]) -> frozenset[str]:
    """The expected answers of these cases, squeezed, that are labels or formats.

    These are answers that two questions share, single words where most one-word answers recur
    (even a closed set has labels that occur once), and JSON in which every value is a label of
    its place.
    """
    whole: dict[str, set[str]] = {}
    places: dict[str, dict[str, set[str]]] = {}
    structured: dict[str, list[tuple[str, str]]] = {}
    for case in cases:
        for turn in case.turns:
            answer = squeeze(turn.expected or "")
            # The same case under two names counts once.
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


def closed_labels(cases: Iterable[Case]) -> tuple[str, ...]:
    """The expected answers as they are first spelled, sorted, if new cases have no others.

    None if one of them is no label (a number, a date, a time, or a long text), or stands in a
    single case, or if they are too many, or come too seldom: a half of the cases, chosen by chance,
    would leave too many of them to the other half.
    """
    spellings: dict[str, str] = {}
    questions: defaultdict[str, set[str]] = defaultdict(set)
    for case in cases:
        for turn in case.turns:
            if turn.expected:
                label = squeeze(turn.expected)
                spellings.setdefault(label, turn.expected.strip())
                # The same case under two names counts once.
                questions[label].add(case.question_id)
    counts = [len(each) for each in questions.values()]
    is_closed = (
        0 < len(counts) <= _MOST_LABELS
        and min(counts) > 1
        and sum(2.0**-count for count in counts) <= _OFTEN_NEW * sum(counts) / 2
        and all(map(_is_label, spellings.values()))
    )
    return tuple(sorted(spellings.values())) if is_closed else ()


def _is_label(answer: str) -> bool:
    """Whether an answer can be one to choose from: a few words in one line, no number or date."""
    values = [value for _, value in _leaves(answer)] or [answer]
    is_short = 0 < len(answer) <= _LONGEST_LABEL and len(answer.splitlines()) == 1
    return is_short and ", " not in answer and not any(map(is_quantity, values))


def is_quantity(text: str) -> bool:
    """Whether a text is a number, an amount, a date or a time, however it is spelled."""
    words = re.findall(r"[^\W_]+", _NAMES_OF_DATES.sub(" ", squeeze(text)))
    numbers = [word for word in words if word[0].isnumeric() or word in _NUMBER_WORDS]
    others = [word for word in words if word not in numbers]
    comes_first = words[:1] == numbers[:1] and len(others) <= _UNITS
    return bool(numbers) and (comes_first or _AROUND_NUMBERS.issuperset(others))


def answer_form(cases: Iterable[Case]) -> str:
    """An answer in the form that four of five answers have, such as dates; empty if none has.

    It is put together from parts of several, so that it gives none of them away. Answers that come
    again are values to choose from, and their signs no form.
    """
    answers = [turn.expected.strip() for case in cases for turn in case.turns if turn.expected]
    distinct = list(dict.fromkeys(answers))
    once = sum(count == 1 for count in Counter(answers).values())
    if once <= (1 - _ALIKE) * len(answers):
        return ""
    forms = Counter(_separators(answer) for answer in distinct)
    signs, count = forms.most_common(1)[0] if forms else ((), 0)
    if not signs or count < max(_FEWEST_OF_A_FORM, _ALIKE * len(distinct)):
        return ""
    alike = [_PARTS.split(answer)[::2] for answer in distinct if _separators(answer) == signs]
    for first in range(len(alike)):
        parts = [alike[(first + place) % len(alike)][place] for place in range(len(signs) + 1)]
        made = "".join(f"{part}{sign}" for part, sign in zip(parts, (*signs, ""), strict=True))
        if made not in answers:
            return made
    return ""


def has_form(text: str, form: str) -> bool:
    """Whether a text shows an answer in this form: the same signs, capitals and digits."""
    return re.search(_form_pattern(form), text) is not None


def keeps_form(answer: str, *, labels: Collection[str], form: str) -> bool:
    """Whether an answer is written as those of train: a label, or exactly in their form."""
    answer = answer.strip()
    if labels:
        return answer in labels
    return not form or re.fullmatch(_form_pattern(form), answer) is not None


def parts_in_capitals(form: str) -> list[int]:
    """The numbers of the parts of a form that are written in capitals, from 1."""
    return [number for number, part in enumerate(_PARTS.split(form)[::2], 1) if part.isupper()]


def _form_pattern(form: str) -> str:
    parts = [
        r"\d+" if part.isdigit() else r"[^\W\da-z]+" if part.isupper() else r"\w[\w ]*"
        for part in _PARTS.split(form)[::2]
    ]
    signs = [*map(re.escape, _separators(form)), ""]
    return "".join(f"{part}{sign}" for part, sign in zip(parts, signs, strict=True))


def _separators(answer: str) -> tuple[str, ...]:
    """The signs between the parts of an answer; none if it is prose, or not made of short parts."""
    parts = _PARTS.split(answer)
    short = all(0 < len(part.split()) <= _WORDS_OF_A_PART for part in parts[::2])
    signs = tuple(parts[1::2])
    return signs if short and all(_SIGN.fullmatch(sign) for sign in signs) else ()


def _labels(answers: Mapping[str, set[str]]) -> set[str]:
    """The labels among squeezed answers, each with the questions that it answers."""
    recurring = {answer for answer, questions in answers.items() if len(questions) > 1}
    words = {answer for answer in answers if _WORD.fullmatch(answer)}
    again, once = words & recurring, words - recurring
    # Many `yes` and `no` do not turn many serial numbers beside them into a closed set.
    closed = sum(len(answers[word]) for word in again) > len(once) <= 2 * len(again)
    return recurring | words if closed else recurring


def _leaves(text: str) -> Iterator[tuple[str, str]]:
    """The values of a JSON object or list with their places; none for any other text."""
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
