"""ROUGE agrees with the rouge-score package, and sees other scripts, which that one does not."""

from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from burnish.core.errors import ConfigError
from burnish.metrics.rouge import Rouge, latin_words, rouge_score

KINDS = ("rouge1", "rouge2", "rouge3", "rougeL", "rougeLsum")

TABLE = [
    ("The quick brown fox jumps over the lazy dog", "The quick brown dog jumps on the log."),
    ("The cat sat.", "The cat sat."),
    ("a b c d e", "e d c b a"),
    ("the the the", "the"),
    ("the", "the the the"),
    ("one", ""),
    ("one two", "three four"),
    ("Totals are relational, hopefully.", "total: relation hopeful"),
    ("first line here\nsecond line there", "second line there\nfirst line here"),
    ("a b c\nb c d\n\nx", "b c\na d x\nc"),
    ("w1 w2 w3 w4 w5", "w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5"),
    ("3.14 is π, 42% of it", "about 42 % or 3,14"),
    ("naïve café déjà", "naive cafe deja"),
    ("ΑΒΓ and Ω", "and"),
]

words = st.lists(
    st.sampled_from(["the", "cat", "cats", "running", "runs", "12", "é", "-", "\n", "hopeful"]),
    max_size=24,
).map(" ".join)


@cache
def scorer(*, stem: bool) -> Any:
    return RougeScorer(list(KINDS), use_stemmer=stem)  # pyright: ignore[reportUnknownVariableType]


def assert_as_rouge_score(reference: str, reply: str, *, stem: bool) -> None:
    for kind, theirs in scorer(stem=stem).score(reference, reply).items():
        ours = rouge_score(reference, reply, kind=kind, stem=stem)
        assert (ours.precision, ours.recall, ours.f1) == pytest.approx(tuple(theirs), abs=1e-9)


@pytest.mark.parametrize("stem", [False, True])
@pytest.mark.parametrize(("reference", "reply"), TABLE)
def test_a_table_agrees(reference: str, reply: str, stem: bool) -> None:
    assert_as_rouge_score(reference, reply, stem=stem)
    assert_as_rouge_score(reply or "nothing", reference, stem=stem)


@given(
    reference=words | st.text(max_size=40), reply=words | st.text(max_size=40), stem=st.booleans()
)
@settings(max_examples=50)
def test_any_texts_agree(reference: str, reply: str, stem: bool) -> None:
    assume(latin_words(reference))
    assert_as_rouge_score(reference, reply, stem=stem)


@pytest.mark.parametrize(
    ("reference", "reply", "f1"),
    [
        ("今天天气很好", "今天天气不好", 5 / 6),
        ("こんにちは", "こんばんは", 3 / 5),
        ("Привет, мир!", "привет мир", 1.0),
        ("नमस्ते दुनिया", "नमस्ते", 2 / 3),
        ("مرحبا بالعالم", "hello world", 0.0),
        ("?!", "?!", 0.0),
    ],
)
def test_other_scripts_are_compared_where_the_reference_has_no_latin_word(
    reference: str, reply: str, f1: float
) -> None:
    assert rouge_score(reference, reply, kind="rougeL").f1 == pytest.approx(f1)


def test_the_script_can_be_said() -> None:
    reference, reply = "Ответ: API", "API"
    assert rouge_score(reference, reply).f1 == 1.0
    assert rouge_score(reference, reply, script="unicode").recall == 0.5
    assert rouge_score("привет", "привет", script="latin") == Rouge(precision=0, recall=0, f1=0)


def test_sentences_end_at_full_stops_where_asked() -> None:
    reference, reply = "We ship today. You pay later.", "You pay later. We ship today."
    assert rouge_score(reference, reply, kind="rougeLsum").f1 == 0.5
    assert rouge_score(reference, reply, kind="rougeLsum", split_summaries=True).f1 == 1.0


@pytest.mark.parametrize("kind", ["rouge0", "rouge", "rouge-1", "ROUGEL", "rougeLsum2"])
def test_an_unknown_kind_is_refused(kind: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown kind of ROUGE: '{kind}'.*rouge1"):
        rouge_score("a", "a", kind=kind)
