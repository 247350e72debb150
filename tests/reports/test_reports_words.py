"""Numbers and short texts as people read them."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from burnish.core.formatting import (
    counted,
    duration,
    gain_words,
    money,
    number,
    padded,
    shorten,
    sparkline,
    spending,
    visible,
)
from burnish.core.money import Spend
from burnish.core.statistics import Interval
from burnish.runs.claims import sealed_words
from burnish.runs.events import SealedResult


@pytest.mark.parametrize(
    ("usd", "told"),
    [
        (None, "$?"),
        (0, "$0.00"),
        (0.00000001, "<$0.0001"),
        (0.00005, "$0.0001"),
        (0.0123, "$0.0123"),
        (0.5544, "$0.5544"),
        (1, "$1.00"),
        (1234.5, "$1,234.50"),
    ],
)
def test_money(usd: float | None, told: str) -> None:
    assert money(usd) == told


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0.0s"),
        (0.44, "0.4s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.4, "59s"),
        (59.6, "1m 00s"),
        (200, "3m 20s"),
        (3599.6, "1h 00m"),
        (7500, "2h 05m"),
        (360_000, "100h 00m"),
    ],
)
def test_duration(seconds: float, told: str) -> None:
    assert duration(seconds) == told


@pytest.mark.parametrize(
    ("spend", "told"),
    [
        (Spend(), "0 calls · $0.00"),
        (Spend(calls=1, nano_usd=400_000), "1 call · $0.0004"),
        (Spend(calls=1234, tokens_in=1000, tokens_out=1), "1,234 calls · 1,001 tokens · $0.00"),
        (Spend(calls=2, unpriced=1, nano_usd=9), "2 calls · $?"),
    ],
)
def test_spending(spend: Spend, told: str) -> None:
    assert spending(spend) == told


def test_spending_without_tokens() -> None:
    assert spending(Spend(calls=3, tokens_in=5), tokens=False) == "3 calls · $0.00"


def test_counted() -> None:
    assert [counted(n, "case") for n in (0, 1, 2000)] == ["0 cases", "1 case", "2,000 cases"]


@pytest.mark.parametrize(
    ("value", "told"),
    [(None, "—"), (True, "—"), ("x", "—"), (0, "0.000"), (0.12345, "0.123"), (-0.0001, "0.000")],
)
def test_number(value: Any, told: str) -> None:
    assert number(value) == told


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([], ""),
        ([None], ""),
        ([0.5], "▁"),
        ([0.5, 0.5], "▁▁"),
        ([1.0, None, 0.0], "█ ▁"),
        ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"),
    ],
)
def test_sparkline(values: list[float | None], told: str) -> None:
    assert sparkline(values) == told


@pytest.mark.parametrize(
    ("gain", "bar", "told"),
    [
        (0.0341, 0.013, "▼0.034 > bar 0.013"),
        (0.010, 0.014, "▼0.010 < bar 0.014"),
        (0.01011, 0.01014, "▼0.01011 < bar 0.01014"),
        (0.02, 0.02, "▼0.020 = bar 0.020"),
        (0.02, 0.0, "▼0.020 > bar 0.000"),
        (-0.017, 0.01, "▲0.017"),
        (-0.00002, 0.01, "▲0.00002"),
        (0.0, 0.0, "no change"),
        (-1e-17, 0.02, "no change"),
    ],
)
def test_gain_words_never_contradict_their_sign(gain: float, bar: float, told: str) -> None:
    assert gain_words({"train_improvement": gain, "noise_bar": bar}) == told


def test_gain_words_of_another_gate() -> None:
    assert gain_words({"score_delta": 0.1}) == ""


def sealed(
    before: float | None, after: float | None, gain: Interval | None, missing: int = 0
) -> SealedResult:
    return SealedResult(baseline_score=before, best_score=after, gain=gain, missing=missing)


def interval(low: float, mean: float, high: float) -> Interval:
    return Interval(low=low, mean=mean, high=high, cases=8)


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (
            sealed(0.1, 0.9, interval(0.7, 0.8, 0.9)),
            "score 0.100 → 0.900   gain 0.800 [0.700, 0.900], improved",
        ),
        (
            sealed(0.4, 0.5, interval(-0.1, 0.1, 0.3)),
            "score 0.400 → 0.500   gain 0.100 [-0.100, 0.300], not distinguishable from noise",
        ),
        (
            sealed(0.5, 0.3, interval(-0.3, -0.2, -0.1)),
            "score 0.500 → 0.300   gain -0.200 [-0.300, -0.100], worse than the baseline",
        ),
        (
            sealed(0.0, 1.0, interval(1.0, 1.0, 1.0)),
            "score 0.000 → 1.000   gain 1.000 [0.265, 1.000], improved",
        ),
        (sealed(0.5, 0.5, None), "score 0.500, baseline and best alike"),
        (
            sealed(0.5, 1.0, None),
            "score 0.500 → 1.000, not sure: one case that is run once shows no spread",
        ),
        (sealed(None, None, None, 3), "score —, baseline and best alike, 3 cases missing"),
        (
            sealed(0.1, 0.9, interval(0.7, 0.8, 0.9), 1),
            "score 0.100 → 0.900   gain 0.800 [0.700, 0.900], 1 case missing, improved",
        ),
    ],
)
def test_sealed_words(result: SealedResult, told: str) -> None:
    assert sealed_words(result) == f"sealed test, looked at once: {told}"


def test_control_characters_become_visible() -> None:
    assert visible("a\x1b[31mb\x07\x7f\x9bc\n\td") == "a␛[31mb␇␡\ufffdc\n\td"


_JOINED = st.text(st.sampled_from("a 中👩🏽\u200d\ufe0f\u0301\u200b\u0600\u1160\x00\n"))
"""Characters that change the width of their neighbours."""


def test_joiners_of_nothing_are_left_out() -> None:
    assert visible("\u200d\u200d👩 \u200da\u200d") == "👩 a"
    assert visible("👩\u200d👧") == "👩\u200d👧"
    many = "a" + 1_000_000 * "\u200d" + "b"  # takes forever if every one of them is tried
    assert visible(many) == many


@given(_JOINED, st.integers(1, 12))
def test_any_text_can_be_shown_in_a_narrow_table(text: str, width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    table = Table("name", Column("text", no_wrap=True, overflow="ellipsis"))
    table.add_row(Text(visible(text)), Text(visible(text * 5)))
    console.print(table, Text(visible(text)))


@given(st.text() | _JOINED, st.integers(1, 60))
def test_a_short_text_is_one_line_that_fits(text: str, width: int) -> None:
    short = shorten(text, width)
    assert cell_len(short) <= width
    assert len(short.splitlines()) <= 1
    assert not any(ord(letter) < 32 or 126 < ord(letter) < 160 for letter in short)


@given(st.text() | _JOINED, st.integers(2, 60))
def test_a_padded_text_fills_its_columns(text: str, width: int) -> None:
    assert cell_len(padded(text, width)) == width


@given(st.text(alphabet=st.characters(categories=("L", "N", "P")), max_size=20))
def test_a_text_with_room_is_untouched(text: str) -> None:
    assert shorten(text, 200) == text
