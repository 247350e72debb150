"""METEOR: nltk's numbers where words come once, never less where they come more often."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate.meteor_score import single_meteor_score

from burnish.metrics.overlap import align, count_runs, meteor_score, synonyms_in


@dataclass(frozen=True)
class Named:
    word: str

    def name(self) -> str:
        return self.word


@dataclass(frozen=True)
class Meaning:
    words: tuple[str, ...]

    def lemmas(self) -> Sequence[Named]:
        return [Named(word) for word in self.words]


@dataclass(frozen=True)
class SmallWordNet:
    """Meanings by word, in the shape of nltk's corpus."""

    meanings: Mapping[str, tuple[str, ...]]

    def synsets(self, word: str, /) -> Sequence[Meaning]:
        return [Meaning(self.meanings[word])] if word in self.meanings else []


NOTHING = SmallWordNet({})
SMALL = SmallWordNet({"car": ("car", "auto", "motor_car"), "big": ("large", "Great")})


def nltk_meteor(reference: str, reply: str, wordnet: SmallWordNet = NOTHING) -> float:
    stub = cast("Any", wordnet)
    return single_meteor_score(reference.split(), reply.split(), wordnet=stub)


ONCE = [
    ("the cat sat on a mat", "the cat sat on a mat"),
    ("the cat sat on a mat", "on a mat sat the cat"),
    ("one", "one"),
    ("one two three", "four five"),
    ("it is a guide to action", "action guides it"),
    ("cats run quickly home", "a cat runs home quick"),
    ("w1 w2 w3 w4 w5 w6", "w1 w2 x w4 y w6 w5"),
    ("Capital Letters Count Not", "capital letters count not"),
]


@pytest.mark.parametrize(("reference", "reply"), ONCE)
def test_words_that_come_once_score_as_in_nltk(reference: str, reply: str) -> None:
    ours = meteor_score(reference, reply).value
    assert ours == pytest.approx(nltk_meteor(reference, reply), abs=1e-9)


vocabulary = st.sampled_from(["the", "a", "cat", "cats", "run", "runs", "sat"])
texts = st.lists(vocabulary, min_size=1, max_size=14).map(" ".join)


@given(reference=texts, reply=texts)
@settings(max_examples=50)
def test_fewest_chunks_never_score_less_than_nltk(reference: str, reply: str) -> None:
    assert meteor_score(reference, reply).value >= nltk_meteor(reference, reply) - 1e-9


def test_fewer_chunks_than_matching_from_one_end_finds() -> None:
    found = meteor_score("the cat and the dog", "the dog and the cat")
    assert (found.matches, found.chunks) == (5, 3)
    greedy = meteor_score("a b a c", "a c")
    assert (greedy.matches, greedy.chunks) == (2, 1)


short = st.lists(st.sampled_from("abc"), max_size=5)


@given(reference=short, reply=short)
@settings(max_examples=50)
def test_alignments_have_most_pairs_in_fewest_runs(reference: list[str], reply: list[str]) -> None:
    pairs = align(reference, reply)
    assert all(reply[i] == reference[j] for i, j in pairs.items())
    assert len(set(pairs.values())) == len(pairs)
    assert (len(pairs), count_runs(pairs)) == best_by_trying_all(reference, reply)


def best_by_trying_all(reference: list[str], reply: list[str]) -> tuple[int, int]:
    most = sum(min(reference.count(word), reply.count(word)) for word in set(reply))
    every = (
        dict(zip(places, partners, strict=True))
        for places in combinations(range(len(reply)), most)
        for partners in permutations(range(len(reference)), most)
    )
    fitting = (p for p in every if all(reply[i] == reference[j] for i, j in p.items()))
    return most, min(map(count_runs, fitting))


def test_a_text_that_repeats_itself_is_aligned_in_time() -> None:
    assert meteor_score("ha " * 120, "ha " * 150).matches == 120


SYNONYMS = [
    ("an auto stopped", "one car stopped", 2),
    ("great large houses", "big houses", 2),
    ("the car", "the car", 2),
    ("a motor", "a car", 1),
]


@pytest.mark.parametrize(("reference", "reply", "matches"), SYNONYMS)
def test_synonyms_match_what_stems_left(reference: str, reply: str, matches: int) -> None:
    found = meteor_score(reference, reply, synonyms=synonyms_in(SMALL))
    assert found.matches == matches


@pytest.mark.parametrize(("reference", "reply"), [(a, b) for a, b, _ in SYNONYMS[:1]])
def test_synonyms_score_as_in_nltk(reference: str, reply: str) -> None:
    ours = meteor_score(reference, reply, synonyms=synonyms_in(SMALL)).value
    assert ours == pytest.approx(nltk_meteor(reference, reply, SMALL), abs=1e-9)
    assert ours > meteor_score(reference, reply).value


def test_nothing_in_common_and_nothing_at_all_score_zero() -> None:
    for reference, reply in (("a", "b"), ("a", ""), ("", "a"), ("", "")):
        assert meteor_score(reference, reply).value == 0
