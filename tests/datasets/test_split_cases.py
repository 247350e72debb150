"""Splitting: sizes by shares, labels spread, near-duplicates together, the seed decides."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.cases import Case, Dataset, Split, Turn
from burnish.core.errors import ConfigError
from burnish.datasets.splits import SHARES, groups, largest_remainder, split

WORDS = [f"{a}{b}{c}" for a in "bdfg" for b in "aeiou" for c in "klmn"]


def question(number: int) -> str:
    return " ".join(random.Random(number).sample(WORDS, 12))


def make(count: int, *labels: str) -> list[Case]:
    """So many different cases; labels are given in turn."""
    return [
        Case(
            turns=(Turn(input=question(i)),),
            name=f"case-{i}",
            labels=(labels[i % len(labels)],) if labels else (),
        )
        for i in range(count)
    ]


def sizes(dataset: Dataset) -> list[int]:
    return [len(dataset.cases(name)) for name in Split]


def home(dataset: Dataset) -> dict[str, Split]:
    return {case.id: name for name in Split for case in dataset.cases(name)}


@pytest.mark.parametrize(
    ("count", "expected"),
    [(100, [50, 30, 20]), (10, [5, 3, 2]), (7, [4, 2, 1]), (3, [1, 1, 1]), (2, [1, 1, 0]),
     (1, [1, 0, 0])],
)  # fmt: skip
def test_sizes_follow_the_shares(count: int, expected: list[int]) -> None:
    assert sizes(split(make(count), seed=1).dataset) == expected
    assert list(largest_remainder(count, SHARES).values()) == expected


@given(
    total=st.integers(1, 500),
    weights=st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(0, 9)),
)
@settings(max_examples=40)
def test_remainders(total: int, weights: tuple[int, int, int]) -> None:
    shares = {name: weight / sum(weights) for name, weight in zip(Split, weights, strict=True)}
    found = largest_remainder(total, shares)
    assert sum(found.values()) == total
    assert found[Split.TRAIN] >= 1
    off = [abs(found[name] - total * shares[name]) for name in Split]
    assert max(off) < 1 or total * shares[Split.TRAIN] < 1


def test_the_seed_decides_and_the_order_of_the_list_does_not() -> None:
    cases = make(60, "a", "b", "b")
    mixed = random.Random(3).sample(cases, k=len(cases))
    first = split(cases, seed=1)
    assert home(split(cases, seed=1).dataset) == home(first.dataset)
    assert home(split(mixed, seed=1).dataset) == home(first.dataset)
    assert home(split(cases, seed=2).dataset) != home(first.dataset)


def test_inside_a_split_the_order_of_the_list_is_kept() -> None:
    cases = make(30)
    for name in Split:
        kept = split(cases, seed=1).dataset.cases(name)
        assert list(kept) == [case for case in cases if case in kept]


def test_labels_are_spread() -> None:
    cases = [*make(80, "a", "a", "a", "b")]
    found = split(cases, seed=5)
    counts = {name: Counter(c.labels[0] for c in found.dataset.cases(name)) for name in Split}
    for name, share in SHARES.items():
        assert counts[name]["a"] == pytest.approx(60 * share, abs=1)
        assert counts[name]["b"] == pytest.approx(20 * share, abs=1)
    assert found.notes == ()


def test_labels_that_come_once_do_not_all_go_to_train() -> None:
    cases = make(40, *(f"label {i}" for i in range(40)))
    found = split(cases, seed=5)
    assert sizes(found.dataset) == [20, 12, 8]
    assert found.notes[0].startswith("labels in only one split, with the number of cases: 'label")
    assert found.notes[0].endswith("and 35 more")


def test_near_duplicates_stay_together() -> None:
    cases = [case for i in range(20) for case in copies(i)]
    found = split(cases, seed=2)
    homes = home(found.dataset)
    assert all(homes[f"{i}"] is homes[f"{i} again"] for i in range(20))
    assert sizes(found.dataset) == [20, 12, 8]
    assert found.notes == ("40 cases in 20 groups belong together; each group stays in one split",)


def copies(number: int) -> list[Case]:
    text = question(number)
    return [Case.single(text, name=f"{number}"), Case.single(f"{text} now", name=f"{number} again")]


def test_a_group_that_is_too_large_is_said() -> None:
    same = [Case.single(question(0) + "!" * i, name=f"same-{i}") for i in range(8)]
    found = split([*same, *make(4)[2:]], seed=1)
    assert sorted(sizes(found.dataset)) in ([0, 2, 8], [1, 1, 8])
    assert len({home(found.dataset)[case.id] for case in same}) == 1
    assert any("instead of" in note and "same-0, same-1, same-2" in note for note in found.notes)


def test_one_group_alone_goes_to_train() -> None:
    same = [Case.single(question(0) + "!" * i, name=f"same-{i}") for i in range(6)]
    shares = {Split.TRAIN: 0.2, Split.HOLDOUT: 0.8}
    assert sizes(split(same, seed=1, shares=shares).dataset) == [6, 0, 0]


def test_repetitions_are_left_out_and_said() -> None:
    case = Case.single(question(1), "a", name="twice")
    found = split([case, *make(10)[2:], case], seed=1)
    assert sum(sizes(found.dataset)) == 9
    assert found.notes == ("left out as repetitions: twice",)


@pytest.mark.parametrize(
    ("cases", "shares", "near", "words"),
    [
        ([], SHARES, 0.8, "there are no cases to split"),
        (make(3), {Split.TRAIN: 0.5, Split.TEST: 0.2}, 0.8, "add up to 1"),
        (make(3), {Split.TRAIN: 1.5, Split.TEST: -0.5}, 0.8, "invalid shares"),
        (make(3), {Split.TEST: 1.0}, 0.8, "train gets no cases"),
        (make(3), SHARES, 0.0, "'near' is 0"),
        (
            [Case.single("a", name="x"), Case.single("b", name="x")],
            SHARES,
            0.8,
            "different cases have the name 'x'",
        ),
    ],
)
def test_what_cannot_be_split_is_refused(
    cases: list[Case], shares: dict[Split, float], near: float, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        split(cases, seed=1, shares=shares, near=near)


some_cases = st.lists(
    st.tuples(
        st.integers(0, 8),
        st.sampled_from(["", "!", " now", " so"]),
        st.sampled_from(["a", "b", ""]),
    ),
    min_size=1,
    max_size=30,
)


@given(made=some_cases, seed=st.integers(0, 99))
@settings(max_examples=30)
def test_no_question_is_ever_in_two_splits(made: list[tuple[int, str, str]], seed: int) -> None:
    cases = [
        Case(turns=(Turn(input=question(n) + end),), labels=(label,) if label else ())
        for n, end, label in made
    ]
    found = split(cases, seed=seed).dataset
    assert found.problems() == []
    everything = [case for name in Split for case in found.cases(name)]
    assert {case.content_id for case in everything} == {case.content_id for case in cases}
    homes = [name for name in Split for _ in found.cases(name)]
    assert all(len({homes[place] for place in group}) == 1 for group in groups(everything))
