"""Stems: Porter's examples, and the same stem as nltk for every word of the docs and many more."""

import itertools
import re
from pathlib import Path

import pytest
from nltk.stem.porter import PorterStemmer

from burnish.metrics.rouge import stem

ROOT = Path(__file__).parents[2]
BEGINNINGS = (
    "", "a", "y", "tr", "sky", "hop", "hopp", "control", "commun", "form", "geo", "agr", "conn",
    "depend", "electr", "oper", "toy", "bl", "fizz", "sens", "x1", "b2b", "run", "ox", "enjo",
)  # fmt: skip
ENDINGS = (
    "ational", "tional", "enci", "anci", "izer", "abli", "alli", "ally", "entli", "eli", "ousli",
    "ization", "ation", "ator", "alism", "iveness", "fulness", "ousness", "aliti", "iviti",
    "biliti", "fulli", "fully", "logi", "logy", "icate", "ative", "alize", "iciti", "ical", "ful",
    "ness", "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "sion",
    "tion", "gion", "ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize", "ed", "ing", "s", "es",
    "ies", "ied", "eed", "y", "e", "ll", "sses", "ss", "ated", "bling", "ized", "lling",
)  # fmt: skip


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("caresses", "caress"), ("ponies", "poni"), ("cats", "cat"), ("agreed", "agre"),
        ("plastered", "plaster"), ("motoring", "motor"), ("sing", "sing"), ("hopping", "hop"),
        ("falling", "fall"), ("filing", "file"), ("happy", "happi"), ("relational", "relat"),
        ("digitizer", "digit"), ("hopefulness", "hope"), ("electricity", "electr"),
        ("adjustment", "adjust"), ("adoption", "adopt"), ("probate", "probat"), ("rate", "rate"),
        ("controlling", "control"), ("roll", "roll"), ("Connections", "connect"), ("as", "as"),
        ("dies", "die"), ("skies", "sky"), ("enjoy", "enjoy"), ("", ""), ("b2b", "b2b"),
    ],
)  # fmt: skip
def test_endings_come_off(word: str, expected: str) -> None:
    assert stem(word) == expected


def test_every_word_of_the_docs_has_the_stem_that_nltk_gives() -> None:
    texts = (path.read_text() for path in [*ROOT.glob("docs/**/*.md"), ROOT / "README.md"])
    words = {word for text in texts for word in re.findall("[a-z0-9]+", text.lower())}
    assert len(words) > 1000
    assert_as_nltk(words)


def test_every_ending_has_the_stem_that_nltk_gives() -> None:
    pairs = itertools.product(BEGINNINGS, ENDINGS, ("", "ly", "ing"))
    assert_as_nltk({"".join(parts) for parts in pairs})


def assert_as_nltk(words: set[str]) -> None:
    theirs = PorterStemmer()
    differing = {word: stem(word) for word in words if stem(word) != theirs.stem(word)}  # pyright: ignore[reportUnknownMemberType]
    assert differing == {}
