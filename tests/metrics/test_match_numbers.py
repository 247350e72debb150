"""Numbers agree within tolerances, however they are written; a text that is none says why."""

import decimal
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.metrics.text_matching import NumberRule, compare_numbers, same_number

PLAIN = NumberRule()
PERCENT = NumberRule(accept_percent=True)
GROUPS = NumberRule(accept_thousands_separators=True)
BOTH = NumberRule(accept_percent=True, accept_thousands_separators=True)
NEAR = NumberRule(relative_tolerance=0.01)


@pytest.mark.parametrize(
    ("rule", "expected", "found"),
    [
        (PLAIN, "31903.6", " 31903.60\n"),
        (PLAIN, "1", "1.000001"),
        (PLAIN, "0.5", ".5"),
        (PLAIN, "5", "5."),
        (PLAIN, "-3", "\u22123"),
        (PLAIN, "1e3", "1000"),
        (PLAIN, "0", "-0.0"),
        (PLAIN, "007", "7"),
        (PLAIN, "1" * 5_000, "1" * 5_000),
        (PLAIN, "1e999999", "1e999999"),
        (NumberRule(absolute_tolerance=0.1), "0.8", "0.7"),
        (NumberRule(absolute_tolerance=0.0), "0.3", "0.3"),
        (NEAR, "200", "202"),
        (NEAR, "-200", "-198"),
        (PERCENT, "0.12", "12%"),
        (PERCENT, "12%", "0.12"),
        (PERCENT, "12%", "12 %"),
        (PERCENT, "14.14%", "0.1414"),
        (GROUPS, "31903.6", "31,903.6"),
        (GROUPS, "1234567", "1_234_567"),
        (GROUPS, "1234567", "12,34,567"),
        (GROUPS, "31903.6", "31\u202f903.6"),
        (GROUPS, "31903.6", "31 903.6"),
        (GROUPS, "31,903.6", "31'903.6"),
        (BOTH, "12.5", "+1,250.0%"),
    ],
)
def test_the_same_number(rule: NumberRule, expected: str, found: str) -> None:
    match = compare_numbers(expected, found, rule)
    assert match == ""


@pytest.mark.parametrize(
    ("rule", "expected", "found", "words"),
    [
        (PLAIN, "31903.6", "31903", "found '31903': off by 0.6, more than the allowed 1e-06"),
        (PLAIN, "1", "1.0000011", "off by"),
        (NEAR, "200", "203", "off by 3, more than the allowed 1e-06 or 0.01 of it"),
        (PLAIN, "5", "-5", "(the sign is wrong)"),
        (PLAIN, "31.9036", "31903.6", "10^3 times the expected: check the unit"),
        (PLAIN, "25", "0.25", "10^-2 times the expected"),
        (PLAIN, "0", "5", "expected '0', found '5'"),
        (PERCENT, "12", "12%", "one is a percentage and the other is not"),
        (PERCENT, "12%", "12", "one is a percentage and the other is not"),
        (PERCENT, "12%", "0.12%", "10^-2 times the expected"),
        (PLAIN, "31903.6", "31,903.6", "set accept_thousands_separators or ask for a bare number"),
        (PLAIN, "0.12", "12%", "a percent sign is not accepted; set accept_percent"),
        (GROUPS, "15", "1,5", "contains 2 numbers"),
        (GROUPS, "1234567", "1,234_567", "which contains"),
        (PLAIN, "5", "The answer is 5.", "ask for a bare number, with nothing around the 5."),
        (PLAIN, "5", "$5", "with nothing around the 5"),
        (PLAIN, "5", "5 or 6", "contains 2 numbers: ask for one bare number"),
        (PLAIN, "5", "five", "found 'five', which contains no number"),
        (PLAIN, "5", "", "expected the number '5', found nothing"),
        (PLAIN, "5", "NaN", "found 'NaN', which is not a finite number"),
        (PLAIN, "5", "-inf", "is not a finite number"),
        (PLAIN, "5", "٥", "contains no number"),
        (PLAIN, "NaN", "NaN", "the expected answer is not a number"),
        (PLAIN, "five", "5", "fix the case, or compare with equality"),
        (PLAIN, "1e999999", "1", "off by"),
        (PLAIN, "5", "1e9999999", "ask for"),
    ],
)
def test_another_number_or_none(rule: NumberRule, expected: str, found: str, words: str) -> None:
    match = compare_numbers(expected, found, rule)
    assert match
    assert words in match


def test_reasons_stay_short() -> None:
    for found in ("9" * 100_000, "9" * 100_000 + "x", "blah 1 " * 20_000, "1," * 50_000):
        match = compare_numbers("5", found, NumberRule())
        assert match
        assert len(match) < 300


def test_no_setting_of_the_user_changes_what_a_number_is() -> None:
    with decimal.localcontext() as context:
        context.prec = 3
        context.traps[decimal.Inexact] = True
        assert compare_numbers("1.000001", "1", NumberRule()) == ""
        assert compare_numbers("1.0001", "1", NumberRule())


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (1, 1.000001, True),
        (10**400, 10**400, True),
        (10**400, 1.5, False),
        (float("nan"), float("nan"), False),
        (float("inf"), float("inf"), False),
        (10**30, 10**30 + 1, False),
    ],
)
def test_numbers_as_values(one: float, other: float, same: bool) -> None:
    assert same_number(one, other, 1e-6) is same


numbers = st.decimals(
    min_value=Decimal("-1e12"), max_value=Decimal("1e12"), places=4, allow_nan=False
)
tolerances = st.sampled_from([0.0, 1e-6, 0.01, 0.5, 3.0])


class TestLaws:
    @given(number=numbers, tolerance=tolerances)
    @settings(max_examples=50, deadline=None, derandomize=True)
    def test_a_number_is_itself(self, number: Decimal, tolerance: float) -> None:
        rule = NumberRule(absolute_tolerance=tolerance)
        assert compare_numbers(str(number), str(number), rule) == ""

    @given(one=numbers, off=st.integers(-40_000, 40_000), tolerance=tolerances)
    @settings(max_examples=50, deadline=None, derandomize=True)
    def test_the_bound_is_exact_and_the_same_both_ways(
        self, one: Decimal, off: int, tolerance: float
    ) -> None:
        rule = NumberRule(absolute_tolerance=tolerance)
        other = one + Decimal(off) / 10_000
        held = not compare_numbers(str(one), str(other), rule)
        assert held == (not compare_numbers(str(other), str(one), rule))
        assert held == (abs(Decimal(off) / 10_000) <= Decimal(str(tolerance)))

    @given(number=numbers)
    @settings(max_examples=50, deadline=None, derandomize=True)
    def test_how_it_is_written_does_not_count(self, number: Decimal) -> None:
        plain = f"{number:f}"
        for written in (
            f"{number:,f}",
            f"{number:,f}".replace(",", "_"),
            f"{number * 100:,f} %",
            f" {number:.6f} ",
        ):
            assert compare_numbers(plain, written, BOTH) == ""
        assert compare_numbers(plain, plain, NumberRule()) == ""

    @given(text=st.text(max_size=30))
    @settings(max_examples=50, deadline=None, derandomize=True)
    def test_no_text_is_an_error(self, text: str) -> None:
        compare_numbers("5", text, BOTH)
