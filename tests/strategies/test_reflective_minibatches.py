"""Minibatches: every case once a pass, none twice in one minibatch, in an order of its own."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.cases import Case
from burnish.core.content import stream
from burnish.strategies.partial_evaluations import minibatch

lawful = settings(max_examples=50, deadline=None, derandomize=True)


def shuffle(number: int) -> random.Random:
    return stream(7, "minibatches", number)


def cases(count: int) -> list[Case]:
    return [Case.single(f"question {n}", "yes", name=f"q{n}") for n in range(count)]


@lawful
@given(count=st.integers(1, 12), size=st.integers(1, 15), passes=st.integers(1, 3))
def test_every_case_comes_in_every_pass_and_none_twice_at_once(
    count: int, size: int, passes: int
) -> None:
    train, in_a_pass = cases(count), -(-count // min(size, count))
    for number_of_pass in range(passes):
        numbers = range(number_of_pass * in_a_pass, (number_of_pass + 1) * in_a_pass)
        batches = [minibatch(train, size, number, shuffle) for number in numbers]
        assert {case.id for batch in batches for case in batch} == {case.id for case in train}
        for batch in batches:
            assert len(batch) == min(size, count)
            assert len({case.id for case in batch}) == len(batch)
        # All but the last bring only cases that the pass has not shown yet.
        shown = [case.id for batch in batches[:-1] for case in batch]
        assert len(shown) == len(set(shown))


def test_the_last_is_filled_up_from_the_beginning_of_its_pass() -> None:
    train = cases(7)
    first, _, last = (minibatch(train, 3, number, shuffle) for number in range(3))
    assert last[1:] == first[:2]


def test_each_pass_has_an_order_of_its_own_that_is_always_the_same() -> None:
    train = cases(9)

    def order(number_of_pass: int) -> list[str]:
        numbers = range(number_of_pass * 3, number_of_pass * 3 + 3)
        return [case.id for n in numbers for case in minibatch(train, 3, n, shuffle)]

    assert order(0) == order(0)
    assert order(0) != order(1)
