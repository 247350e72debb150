"""BLEU and chrF are exactly sacrebleu's numbers, in [0, 1]."""

import random
from functools import cache

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from burnish.metrics.overlap import Tokenizer, bleu_score, chrf_score, tokenizer_for

PAIRS = [
    ("The cat sat on the mat.", "The cat is on the mat."),
    ("The cat sat on the mat.", "The cat sat on the mat."),
    ("yes", "yes"),
    ("yes", "no"),
    ("Two words", "two words"),
    ("One long answer with many words in it", "answer"),
    ("answer", ""),
    ("A", "A B C D E F"),
    ("It costs 3.50 €, he said.", "it costs 3,50 €"),
]


TOKENIZERS: tuple[Tokenizer, ...] = ("13a", "intl", "zh", "char", "none")
PIECES = [
    *("the", "cat", "sat", "on", "a", "mat.", ",", "-", "'", "(", ")", "&", "&lt;", "&quot;"),
    *("<skipped>", "-\n", "\n", "3.50", "2-3", "10,", "x", "3-4,", "don't", "(hi)", "é", "今天"),
    *("天气", "は", "ー", "€", "！", "\u2002", "\u2a6d", "\u2fa1", "\U00020000", "一", "②", "☀"),
]
"""What the tokenizers treat differently."""


@cache
def _bleu(tokenize: Tokenizer, lowercase: bool) -> BLEU:
    return BLEU(tokenize=tokenize, lowercase=lowercase, effective_order=True)


def _texts() -> list[tuple[str, str]]:
    stream = random.Random(7)

    def text() -> str:
        return stream.choice((" ", "")).join(stream.choices(PIECES, k=stream.randrange(12)))

    return [(text(), text()) for _ in range(300)]


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("tokenize", TOKENIZERS)
def test_bleu_is_that_of_sacrebleu(tokenize: Tokenizer, lowercase: bool) -> None:
    for reference, reply in [*PAIRS, *_texts()]:
        score = _bleu(tokenize, lowercase).sentence_score(reply, [reference]).score
        assert bleu_score(reference, reply, tokenize=tokenize, lowercase=lowercase) == min(
            1.0, score / 100
        ), (reference, reply)


@pytest.mark.parametrize("order", [0, 2])
def test_chrf_is_that_of_sacrebleu(order: int) -> None:
    original = CHRF(word_order=order)
    for reference, reply in [*PAIRS, *_texts()]:
        score = original.sentence_score(reply, [reference]).score
        assert chrf_score(reference, reply, words=order) == min(1.0, score / 100)


@pytest.mark.parametrize(
    ("reference", "tokenizer"),
    [("plain text", "13a"), ("café", "13a"), ("今天天气很好", "zh"), ("東京はよい", "char")],
)
def test_scripts_without_spaces_are_read_sign_by_sign(reference: str, tokenizer: Tokenizer) -> None:
    assert tokenizer_for(reference) == tokenizer
    given = bleu_score(reference, reference[:-1], tokenize=tokenizer)
    assert bleu_score(reference, reference[:-1]) == given


def test_one_sign_of_many_keeps_most_of_the_score() -> None:
    assert bleu_score("今天天气很好", "今天天气不好") > 0.5
    assert bleu_score("今天天气很好", "今天天气不好", tokenize="13a") == 0


def test_equal_texts_score_one_and_no_more() -> None:
    for text in ("a b c d e f g", "x", "The total is 42 euros, due in March."):
        for value in (bleu_score(text, text), chrf_score(text, text)):
            assert value == pytest.approx(1)
            assert value <= 1
