"""The leak watch: held-out text that no proposer may see, found and withheld."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from pydantic import BaseModel

from burnish.core.cases import Case, Dataset, labels_of, squeeze
from burnish.core.content import Json

WITHHELD = "[withheld: held-out text]"
"""What a proposer sees in place of held-out text."""
_RUN = 10
"""Words in a row that two texts do not share by chance."""
CODE_RUN = 20
"""The same for code, which is made of set phrases."""
_MIN_SENTENCE = 6
"""Words of a sentence that is secret by itself; shorter ones are set phrases."""
_MIN_CHARS = 24
"""Shorter texts occur anywhere by chance."""
_LABEL = re.compile(r"[\w./:+#&@-]{1,64}")
"""One word, as in identifiers and class names: no spaces, quotes or brackets."""
_NO_SPACES = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
"""Scripts without spaces between words: each of their characters counts as a word."""
_WORD = re.compile(rf"[{_NO_SPACES}]|(?:(?![{_NO_SPACES}_])\w)+")
_CHUNK = re.compile(rf"[{_NO_SPACES}]|[^\s{_NO_SPACES}]+")
"""What stands between two spaces, in a text as it is written."""
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters that nobody sees, such as zero-width spaces and marks of direction."""
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s*|\n+")

_Words = tuple[str, ...]
_Value = TypeVar("_Value")


@dataclass(frozen=True, kw_only=True)
class HeldText:
    """A text beside the cases that no proposer may see, such as a file of the holdout."""

    name: str
    text: str
    run: int | None = None
    """So many words in a row give it away; None means the rule for the texts of cases."""


@dataclass(frozen=True, kw_only=True)
class HeldTexts:
    """The texts of a target that are held out, and those that proposers see anyway."""

    secret: tuple[HeldText, ...] = ()
    public: tuple[str, ...] = ()


@runtime_checkable
class HoldsTexts(Protocol):
    """A target with held-out texts that are in no case."""

    @property
    def held_texts(self) -> HeldTexts:
        """What is held out, and what is not."""
        ...


class LeakWatch:
    """Finds held-out text, whatever its case, spacing, punctuation, quotes and Unicode form.

    Secret are the whole text of an input or an expected answer, each of its sentences of six words
    or more, and every ten words in a row. What a train case says too, or is a label, is not.
    """

    def __init__(self, dataset: Dataset, *, held: HeldTexts | None = None) -> None:
        held = held or HeldTexts()
        self._secrets: dict[_Words, str] = {}
        """Runs of words that are secret, each with the name of its case or file."""
        self._lengths: dict[str, list[int]] = {}
        if dataset.holdout or dataset.test or held.secret:
            self._hold_out(dataset, held)
        self._shortest = min((len(" ".join(run)) for run in self._secrets), default=0)

    def _hold_out(self, dataset: Dataset, held: HeldTexts) -> None:
        """Collect what is secret: what is held out, without what may be seen anyway."""
        everyone = (*dataset.train, *dataset.holdout, *dataset.test)
        # A prompt may list every label of a classifier. Longer answers that recur stay secret.
        labels = {label for label in labels_of(everyone) if _LABEL.fullmatch(label)}
        for case in (*dataset.holdout, *dataset.test):
            for text in _texts(case):
                if squeeze(text) not in labels:
                    self._secrets |= dict.fromkeys(_pieces(text), case.id)
        for each in held.secret:
            pieces = _pieces(each.text) if each.run is None else _stretches(each.text, each.run)
            self._secrets |= dict.fromkeys(pieces, each.name)
        self._lengths = self._by_first_word()
        shown = (text for case in dataset.train for text in _texts(case))
        public = {run for text in (*shown, *held.public) for run, _ in self._hits(_words(text))}
        for run in public:
            del self._secrets[run]
        self._lengths = self._by_first_word()

    @property
    def empty(self) -> bool:
        """Whether nothing is held out."""
        return not self._secrets

    def leaked(self, value: Json) -> str | None:
        """The name of a case or file whose text is in this value; one of them, if there are any."""
        return next(self._names_in(value), None)

    def leaks(self, value: Json) -> tuple[str, ...]:
        """All of them."""
        return tuple(dict.fromkeys(self._names_in(value)))

    def withhold(self, value: _Value) -> _Value:
        """The same value with a marker in place of held-out text, wherever a string has it."""
        return _with_texts(value, self._without)

    def _without(self, text: str) -> str:
        if self.leaked(text) is None:
            return text
        places = [(word, chunk) for chunk in _CHUNK.finditer(text) for word in _words(chunk[0])]
        words = tuple(word for word, _ in places)
        stretches: list[tuple[int, int]] = []
        for run, start in self._hits(words):
            begin, end = places[start][1].start(), places[start + len(run) - 1][1].end()
            if stretches and begin <= stretches[-1][1]:
                begin, end = stretches[-1][0], max(end, stretches.pop()[1])
            stretches.append((begin, end))
        for begin, end in reversed(stretches):
            text = f"{text[:begin]}{WITHHELD}{text[end:]}"
        # Where the words of a part are not those of the whole, nothing of it is shown.
        return text if self.leaked(text) is None else WITHHELD

    def _names_in(self, value: Json) -> Iterator[str]:
        if self._secrets:
            for text in _strings(value):
                # Most strings are keys and short values. Other letters may grow when normalized.
                if len(text) >= self._shortest or not text.isascii():
                    yield from (self._secrets[run] for run, _ in self._hits(_words(text)))

    def _hits(self, words: _Words) -> Iterator[tuple[_Words, int]]:
        """The secret runs among these words, each with its place."""
        for start, word in enumerate(words):
            for length in self._lengths.get(word, ()):
                run = words[start : start + length]
                if run in self._secrets:
                    yield run, start

    def _by_first_word(self) -> dict[str, list[int]]:
        """How long the secret runs are that begin with a word, the longest first."""
        lengths: dict[str, set[int]] = {}
        for run in self._secrets:
            lengths.setdefault(run[0], set()).add(len(run))
        return {word: sorted(sizes, reverse=True) for word, sizes in lengths.items()}


def _texts(case: Case) -> Iterator[str]:
    for turn in case.turns:
        yield turn.input
        yield turn.expected or ""
    yield from (message.content for message in case.history if message.role == "user")
    if case.scenario is not None:
        yield case.scenario.plan


def _pieces(text: str) -> Iterator[_Words]:
    """The runs of words that give a text away."""
    yield from _stretches(text, _RUN)
    for sentence in _SENTENCE_END.split(text):
        if len(_words(sentence)) >= _MIN_SENTENCE:
            yield from _stretches(sentence, _RUN)


def _stretches(text: str, length: int) -> Iterator[_Words]:
    """Every run of so many words; of a shorter text, all of it."""
    words = _words(text)
    if len(" ".join(words)) >= _MIN_CHARS:
        length = min(len(words), length)
        yield from (words[start : start + length] for start in range(len(words) - length + 1))


def _words(text: str) -> _Words:
    return tuple(_WORD.findall(squeeze(_INVISIBLE.sub("", text))))


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _with_texts(value: _Value, change: Callable[[str], str]) -> _Value:
    """A copy of a value with every text in it changed: models, dataclasses, lists, mappings."""
    new: Any = value
    if isinstance(value, str):
        new = change(value)
    elif isinstance(value, BaseModel):
        old = {name: getattr(value, name) for name in type(value).model_fields}
        new = value.model_copy(update=_changed(old, change))
    elif is_dataclass(value) and not isinstance(value, type):
        old = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        new = replace(value, **_changed(old, change))
    elif isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        new = {_with_texts(key, change): _with_texts(item, change) for key, item in items}
    elif isinstance(value, list | tuple | AbstractSet):
        items = cast("Iterable[Any]", value)
        new = type(value)(_with_texts(item, change) for item in items)  # pyright: ignore
    return cast("_Value", new)


def _changed(old: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    new = {name: _with_texts(item, change) for name, item in old.items()}
    return {name: item for name, item in new.items() if item != old[name]}
