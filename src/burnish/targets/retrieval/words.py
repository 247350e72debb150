"""Texts and queries as the full-text index sees them."""

import re
from collections.abc import Iterator
from itertools import pairwise

from burnish.core.cases import squeeze

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u30ff\u3100-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Thai, Lao, Burmese, Khmer, Chinese, Japanese, Korean: a space says little there of where a word
ends, so each sign stands for itself and pairs of them are looked for."""

TOKENIZER = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
"""Words by their English stems, without accents; marks belong to their word."""

_SIGN = re.compile(f"([{UNSPACED}])")
_RUN = re.compile(f"[{UNSPACED}]+|[^{UNSPACED}]+")
_QUOTED = re.compile(r'["“„«]([^"“”„«»]+)["”“»]')
_AROUND = " \t\n.,;:!?¿¡…。、！？'\"“”„«»()[]{}"
_MOST_TERMS = 256


def indexed(text: str) -> str:
    """A text as it goes into the full-text index."""
    return _SIGN.sub(r" \1 ", squeeze(text))


def terms_of(query: str) -> list[str]:
    """A full-text query for each word of what was asked. Whatever that says, it is no syntax."""
    terms = list(dict.fromkeys(_terms(squeeze(query))))[:_MOST_TERMS]
    return [_literal(term) for term in terms]


def whole_phrase(phrase: str) -> str:
    """A full-text query for words that follow each other."""
    return _literal(indexed(phrase))


def phrases(query: str) -> list[str]:
    """What the query wants word for word: what stands in quotes, else all of it."""
    wanted = _QUOTED.findall(query) or [query]
    found = (squeeze(phrase).strip(_AROUND) for phrase in wanted)
    return list(dict.fromkeys(filter(None, found)))


def occurrences(phrase: str, text: str) -> int:
    """How often a phrase, as `phrases` gives it, stands in a text; part of a word is none."""
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
