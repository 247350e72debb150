"""Money adds up exactly, and an unknown price stays unknown."""

from decimal import Decimal
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.money import NANO, NOTHING, Spend, to_nano, to_usd, total

amounts = st.integers(0, 10**15)
spends = st.builds(
    Spend,
    metric_calls=amounts,
    calls=amounts,
    tokens_in=amounts,
    tokens_out=amounts,
    nano_usd=amounts,
    unpriced=st.integers(0, 3),
)


@pytest.mark.parametrize(
    ("usd", "nano"),
    [
        (1, NANO),
        (0.1, 100_000_000),
        ("0.000000001", 1),
        ("0.0000000004", 0),
        ("0.0000000016", 2),
        (Decimal("123456789.123456789"), 123_456_789_123_456_789),
        (0.15e-6, 150),
        (0, 0),
    ],
)
def test_dollars_to_nano(usd: float | Decimal | str, nano: int) -> None:
    assert to_nano(usd) == nano


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(0, 10**13))
def test_nano_to_dollars_and_back(nano: int) -> None:
    assert to_nano(to_usd(nano)) == nano


def test_a_tenth_thirty_times_is_exactly_three() -> None:
    assert total([Spend(nano_usd=to_nano(0.1))] * 30).usd == 3.0


def test_an_unknown_price_is_never_zero() -> None:
    known, unknown = Spend(nano_usd=NANO), Spend(unpriced=1)
    assert known.usd == 1.0
    assert unknown.usd is None
    assert (known + unknown).usd is None
    assert NOTHING.usd == 0.0


def test_tokens_go_both_ways() -> None:
    assert Spend(tokens_in=2, tokens_out=3).tokens == 5


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(spends, max_size=5), st.randoms(use_true_random=False))
def test_sums_do_not_depend_on_the_order(parts: list[Spend], random: Random) -> None:
    before = total(parts)
    random.shuffle(parts)
    assert total(parts) == before
    assert before.nano_usd == sum(part.nano_usd for part in parts)
    assert before.tokens == sum(part.tokens for part in parts)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(spends, st.integers(0, 5))
def test_times_is_adding_again_and_again(spend: Spend, n: int) -> None:
    assert spend.times(n) == total([spend] * n)
