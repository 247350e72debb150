"""BLEU and chrF are sacrebleu's numbers, in [0, 1]."""

import pytest
import sacrebleu

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


@pytest.mark.parametrize(("reference", "reply"), PAIRS)
def test_bleu_is_that_of_sacrebleu(reference: str, reply: str) -> None:
    theirs = sacrebleu.sentence_bleu(reply, [reference], use_effective_order=True).score / 100
    assert bleu_score(reference, reply) == pytest.approx(min(1.0, theirs), abs=1e-9)
    low = sacrebleu.sentence_bleu(
        reply.lower(), [reference.lower()], use_effective_order=True
    ).score
    assert bleu_score(reference, reply, lowercase=True) == pytest.approx(min(1.0, low / 100))


@pytest.mark.parametrize(("reference", "reply"), PAIRS)
@pytest.mark.parametrize("order", [0, 2])
def test_chrf_is_that_of_sacrebleu(reference: str, reply: str, order: int) -> None:
    theirs = sacrebleu.sentence_chrf(reply, [reference], word_order=order).score / 100
    assert chrf_score(reference, reply, words=order) == pytest.approx(min(1.0, theirs), abs=1e-9)


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
