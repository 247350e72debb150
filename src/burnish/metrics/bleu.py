"""Sentence BLEU and chrF, with exactly the numbers of sacrebleu, which would install numpy."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Literal, TypeAlias

import regex

Tokenizer: TypeAlias = Literal["auto", "13a", "intl", "zh", "char", "none"]
"""How BLEU finds the words of a text."""

_Ngrams: TypeAlias = Counter[tuple[str, ...]]

_LONGEST_PHRASE = 4
_LONGEST_RUN = 6
_BETA_SQUARED = 4
"""chrF counts recall twice as much as precision."""
_ESCAPES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_WESTERN = (
    (re.compile(r"([{-~\[-` -&(-+:-@/])"), r" \1 "),  # punctuation and symbols
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),  # full stops and commas, except inside numbers
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)
_INTERNATIONAL = (
    (regex.compile(r"(\P{N})(\p{P})"), r"\1 \2 "),
    (regex.compile(r"(\p{P})(\P{N})"), r" \1 \2"),
    (regex.compile(r"(\p{S})"), r" \1 "),
)
# The original writes code points above U+FFFF with `\u`, which takes four digits, so that all of
# U+2001 to U+2A6D counts. Equal scores need the same ranges.
_SIGNS = re.compile(
    "([\u2001-\u2a6d\u2e80-\u2eff\u2f00-\u2fdf\u2ff0-\u303f\u3100-\u312f\u31a0-\u31bf\u31c0-\u31ef"
    "\u3200-\u33ff\u3400-\u4db5\u4e00-\u9fbb\uf900-\ufa2d\ufa30-\ufa6a\ufa70-\ufad9\ufe10-\ufe1f"
    "\ufe30-\ufe4f\uff00-\uffef])"
)
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def bleu_score(
    reference: str, reply: str, *, tokenize: Tokenizer = "auto", lowercase: bool = False
) -> float:
    """Sentence BLEU with effective order, so that short replies are not scored 0."""
    tokens = _TOKENIZERS[tokenizer_for(reference) if tokenize == "auto" else tokenize]
    expected, actual = (
        tokens((text.lower() if lowercase else text).rstrip()).split()
        for text in (reference, reply)
    )
    matches = [
        _shared(_phrases(actual, size), _phrases(expected, size))
        for size in range(1, _LONGEST_PHRASE + 1)
    ]
    if not any(matches):
        return 0.0
    logarithms = [math.log(each) for each in _precisions(matches, len(actual))]
    brief = len(actual) < len(expected)
    penalty = math.exp(1 - len(expected) / len(actual)) if brief else 1.0
    return _in_unit(penalty * math.exp(sum(logarithms) / len(logarithms)))


def _precisions(matches: Sequence[int], length: int) -> Iterator[float]:
    """In percent, for each size of phrase that the reply is long enough for.

    Instead of 0, a size without matches gets a share that halves each time (NIST smoothing).
    """
    smoothing = 1.0
    for size, count in enumerate(matches, start=1):
        phrases = length - size + 1
        if phrases < 1:
            return
        if count:
            yield 100.0 * count / phrases
        else:
            smoothing *= 2
            yield 100.0 / (smoothing * phrases)


def chrf_score(reference: str, reply: str, *, words: int = 0, lowercase: bool = False) -> float:
    """chrF; `words=2` gives chrF++."""
    if lowercase:
        reference, reply = reference.lower(), reply.lower()
    precision = recall = 0.0
    orders = 0
    for expected, actual in zip(_runs(reference, words), _runs(reply, words), strict=True):
        if expected and actual:
            shared = _shared(actual, expected)
            precision += shared / actual.total()
            recall += shared / expected.total()
            orders += 1
    if not precision + recall:
        return 0.0
    precision, recall = precision / orders, recall / orders
    score = (1 + _BETA_SQUARED) * precision * recall
    return _in_unit(100 * (score / ((_BETA_SQUARED * precision) + recall)))


def tokenizer_for(reference: str) -> Tokenizer:
    """The usual tokenizer, or one by character for scripts without spaces."""
    if reference.isascii():
        return "13a"
    if any("\u3040" <= sign <= "\u30ff" for sign in reference):  # kana
        return "char"
    return "zh" if any("\u3400" <= sign <= "\u9fff" for sign in reference) else "13a"


def _in_unit(percent: float) -> float:
    """A perfect score may be slightly above 100 percent."""
    return min(1.0, max(0.0, percent / 100))


def _shared(one: _Ngrams, other: _Ngrams) -> int:
    return sum(min(count, other[each]) for each, count in one.items() if each in other)


def _phrases(tokens: Sequence[str], size: int) -> _Ngrams:
    return Counter(tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1))


def _runs(text: str, words: int) -> Iterator[_Ngrams]:
    """The runs of one to six characters, and the phrases of up to so many words."""
    signs = "".join(text.split())
    yield from (_phrases(signs, size) for size in range(1, _LONGEST_RUN + 1))
    tokens = list(chain.from_iterable(map(_without_punctuation, text.split() if words else ())))
    yield from (_phrases(tokens, size) for size in range(1, words + 1))


def _without_punctuation(word: str) -> tuple[str, ...]:
    """The word, and a sign at its end or else at its start apart."""
    if len(word) > 1 and word[-1] in _PUNCTUATION:
        return word[:-1], word[-1]
    if len(word) > 1 and word[0] in _PUNCTUATION:
        return word[0], word[1:]
    return (word,)


def _western(text: str) -> str:
    for pattern, replacement in _WESTERN:
        text = pattern.sub(replacement, text)
    return text


@lru_cache(maxsize=1024)
def _mteval(text: str) -> str:
    text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for escape, sign in _ESCAPES:
        text = text.replace(escape, sign)
    return _western(f" {text} ")


@lru_cache(maxsize=1024)
def _international(text: str) -> str:
    for pattern, replacement in _INTERNATIONAL:
        text = pattern.sub(replacement, text)
    return text


@lru_cache(maxsize=1024)
def _chinese(text: str) -> str:
    return _western(_SIGNS.sub(r" \1 ", text.strip()))


_TOKENIZERS: Mapping[Tokenizer, Callable[[str], str]] = {
    "13a": _mteval,
    "intl": _international,
    "zh": _chinese,
    "char": " ".join,
    "none": str,
}
