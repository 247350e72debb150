"""Chunks: the pieces of a source, how a text is cut, and the words it is found by."""

import math
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from burnish.core.cases import squeeze
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem

_CHUNKING_VERSION = 2
"""Raised when the same files and settings produce different chunks."""


@dataclass(frozen=True, kw_only=True)
class SourceSettings:
    """What to read, and how to cut it."""

    source: str
    """A file, a folder or a glob."""
    folder: Path
    """The folder that a relative source starts from."""
    chunking: Literal["structure", "token"] = "token"
    """`structure` cuts Markdown and HTML at their headings first; `token` by length alone."""
    max_chunk_tokens: int = 800
    chunk_overlap: int = 50
    """Tokens that a chunk repeats from the previous one; at most half a chunk."""
    id_field: str = ""
    vector_fields: tuple[str, ...] = ()
    """The fields to search. With them, CSV and JSON are read record by record."""
    meta_fields: tuple[str, ...] = ()
    """The fields returned with a hit."""
    field_separator: str = "\n"
    delimiter: str | None = None
    """What separates the cells of a CSV file; None detects it from the header."""
    record_path: str | None = None
    """Where the records of a JSON file are, such as `payload.items`."""

    def __post_init__(self) -> None:
        if self.max_chunk_tokens < 1 or self.chunk_overlap < 0:
            sizes = f"max_chunk_tokens {self.max_chunk_tokens}, chunk_overlap {self.chunk_overlap}"
            message = f"invalid chunk size: {sizes}"
            raise ConfigError([Problem(where=self.source, message=message)])
        if self.vector_fields and not self.id_field:
            remedy = "name the field that holds each record's id"
            raise ConfigError([Problem(where=self.source, message="no id_field", remedy=remedy)])

    @property
    def cut(self) -> dict[str, Json]:
        """Everything that decides which chunks a file becomes."""
        return {
            "version": _CHUNKING_VERSION,
            "chunking": self.chunking,
            "max_chunk_tokens": self.max_chunk_tokens,
            "chunk_overlap": self.chunk_overlap,
            "id_field": self.id_field,
            "vector_fields": [*self.vector_fields],
            "meta_fields": [*self.meta_fields],
            "field_separator": self.field_separator,
            "delimiter": self.delimiter,
            "record_path": self.record_path,
        }


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A piece of a source: what is searched and returned."""

    id: str
    text: str
    source: str
    """The file, relative to the folder in the settings."""
    place: str = ""
    """Where in the file: its headings, its page, its record, its part."""
    headings: tuple[str, ...] = ()
    """The headings above it, the outermost first."""
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @property
    def passage(self) -> str:
        """The text under its headings: what is searched, and what an answer may be based on."""
        return "\n".join(filter(None, [" > ".join(self.headings), self.text]))


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a file that is cut separately."""

    text: str
    place: str = ""
    headings: tuple[str, ...] = ()
    record: str = ""
    """The id of the record, if it is one."""
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])


_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u30ff\u3100-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Thai, Lao, Burmese, Khmer, Chinese, Japanese, Korean: spaces do not mark word ends there, so each
character is a word and pairs of characters are searched."""

TOKENIZER = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
"""English stems without accents; marks belong to their word."""

_SIGN = re.compile(f"([{_UNSPACED}])")
_RUN = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_QUOTED = re.compile(r'["“„«]([^"“”„«»]+)["”“»]')
_AROUND = " \t\n.,;:!?¿¡…。、！？'\"“”„«»()[]{}"
_MOST_TERMS = 256


def indexed(text: str) -> str:
    """Prepare a text for the full-text index."""
    return _SIGN.sub(r" \1 ", squeeze(text))


def terms_of(query: str) -> list[str]:
    """A full-text query for each word of the question, quoted so that nothing is read as syntax."""
    terms = list(dict.fromkeys(_terms(squeeze(query))))[:_MOST_TERMS]
    return [_literal(term) for term in terms]


def whole_phrase(phrase: str) -> str:
    """A full-text query for consecutive words."""
    return _literal(indexed(phrase))


def phrases(query: str) -> list[str]:
    """The phrases to find word for word: those in quotes, else the whole query."""
    quoted = _QUOTED.findall(query) or [query]
    squeezed = (squeeze(phrase).strip(_AROUND) for phrase in quoted)
    return list(dict.fromkeys(filter(None, squeezed)))


def occurrences(phrase: str, text: str) -> int:
    """Count a phrase from `phrases` in a text; parts of words do not count."""
    before = "" if _ends_anywhere(phrase[0]) else r"(?<!\w)"
    after = "" if _ends_anywhere(phrase[-1]) else r"(?!\w)"
    return len(re.findall(before + re.escape(phrase) + after, squeeze(text)))


def _ends_anywhere(sign: str) -> bool:
    return not sign.isalnum() or _SIGN.match(sign) is not None


def _terms(query: str) -> Iterator[str]:
    for run in (run for word in query.split() for run in _RUN.findall(word)):
        if _SIGN.match(run) and len(run) > 1:
            yield from (f"{one} {two}" for one, two in pairwise(run))
        else:
            yield run


def _literal(term: str) -> str:
    clean = term.replace('"', " ").replace("\0", " ")
    return f'"{clean}"'


_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]{{1,32}}")
_A_WORD, _A_CHARACTER = 4 / 3, 1 / 4
_LATE = 0.75
"""A cut is moved back to a better place within the last quarter of a piece."""


class _Word(NamedTuple):
    start: int
    end: int
    tokens: float


def count_tokens(text: str) -> int:
    """Estimate the number of tokens without a tokenizer.

    A word is 4/3 of a token, or a quarter of its characters where it is long; a character of a
    script without spaces is one token.
    """
    return round(math.fsum(word.tokens for word in _words(text)))


def pieces(text: str, *, most: int, overlap: int) -> Iterator[str]:
    """Yield pieces of at most `most` tokens; each repeats the end of the previous one."""
    repeated = min(overlap, most / 2)
    held: deque[_Word] = deque()
    size, fresh = 0.0, 0
    for word in _words(text):
        if held and size + word.tokens > most:
            count = _cut(text, held, size)
            yield text[held[0].start : held[count - 1].end]
            fresh = len(held) - count
            size = _forget(held, fresh, repeated)
        held.append(word)
        size += word.tokens
        fresh += 1
    if fresh:
        yield text[held[0].start : held[-1].end]


def _words(text: str) -> Iterator[_Word]:
    for match in _WORD.finditer(text):
        length = match.end() - match.start()
        alone = length == 1 and match[0] >= "\u0e00"
        tokens = 1.0 if alone else max(_A_WORD, length * _A_CHARACTER)
        yield _Word(match.start(), match.end(), tokens)


def _cut(text: str, held: deque[_Word], size: float) -> int:
    """How many words to yield: up to the end of a paragraph, line or sentence."""
    best, rank, left = len(held), 0, size
    for count in range(len(held), 0, -1):
        if left < size * _LATE:
            break
        after = held[count].start if count < len(held) else None
        ending = _ending(text, held[count - 1].end, after)
        if ending > rank:
            best, rank = count, ending
        left -= held[count - 1].tokens
    return best


def _ending(text: str, end: int, after: int | None) -> int:
    """How good it is to stop here: 3 paragraph, 2 line, 1 sentence, 0 in the middle."""
    gap = text[end : end + 8 if after is None else after]
    blank = gap[: len(gap) - len(gap.lstrip())]
    if "\n" in blank:
        return 3 if blank.count("\n") > 1 else 2
    return int(text[end - 1] in ".!?。！？…")


def _forget(held: deque[_Word], fresh: int, repeated: float) -> float:
    """Drop the words already yielded, except the last ones, which the next piece repeats."""
    keep, tokens = fresh, 0.0
    while keep < len(held):
        tokens += held[len(held) - 1 - keep].tokens
        if tokens > repeated:
            break
        keep += 1
    while len(held) > keep:
        held.popleft()
    return math.fsum(word.tokens for word in held)
