"""Texts agree exactly, by what they contain, by pattern or by length, and say why they do not."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.metrics.text_matching import (
    LengthRule,
    TextRule,
    check_length,
    compare_texts,
    length_of,
)

EXACT = TextRule()
ANY_CASE = TextRule(case_insensitive=True)
CONTAINS = TextRule(match="contains")
REGEX = TextRule(match="regex")
E_ACUTE = "caf\u00e9"
E_COMBINED = "cafe\u0301"
FAMILY = "👨\u200d👩\u200d👧"
PEACE = "שלום עולם"


@pytest.mark.parametrize(
    ("rule", "expected", "found"),
    [
        (EXACT, "Paris", "  Paris\n"),
        (EXACT, "", "   "),
        (EXACT, E_ACUTE, E_COMBINED),
        (EXACT, FAMILY, FAMILY),
        (EXACT, PEACE, f" {PEACE} "),
        (ANY_CASE, "STRASSE", "straße"),
        (ANY_CASE, E_ACUTE.upper(), E_COMBINED),
        (CONTAINS, "Paris", "It is Paris."),
        (CONTAINS, "", "anything"),
        (TextRule(match="contains", case_insensitive=True), "PARIS", "in paris"),
        (REGEX, r"^\d+ °C$", "\n18 °C\n"),
        (REGEX, "\n\\d+\n", "18"),
        (REGEX, "ari", "Paris"),
        (TextRule(match="regex", case_insensitive=True), "P[A-Z]+s", "paris"),
        (TextRule(match="skip"), None, "anything"),
        (TextRule(ignore=True), "x", "y"),
        (TextRule(ignore=True, match="regex"), "(", "y"),
        (TextRule(match="skip", length=LengthRule(max=3)), None, " abc "),
    ],
)
def test_texts_that_agree(rule: TextRule, expected: str | None, found: str) -> None:
    match = compare_texts(expected, found, rule)
    assert match == ""


@pytest.mark.parametrize(
    ("rule", "expected", "found", "words"),
    [
        (EXACT, "Paris", "London", "expected 'Paris', found 'London'"),
        (EXACT, "Paris", "", "expected 'Paris', found nothing"),
        (EXACT, "", "Paris", "expected '', found 'Paris'"),
        (EXACT, "Paris", "paris", "only the letter case differs"),
        (EXACT, "a b", "a\n b", "found 'a\\n b': only the spacing differs"),
        (EXACT, "Paris", "It is Paris.", "more around it, ask for it alone"),
        (EXACT, "👨", FAMILY, "more around it"),
        (EXACT, "e", "\u0301e", "expected 'e'"),
        (EXACT, None, "Paris", "no expected text to compare with: add one"),
        (CONTAINS, "Paris", "Lyon", "expected text that contains 'Paris', found 'Lyon'"),
        (CONTAINS, "Paris", "in paris", "only the letter case differs"),
        (CONTAINS, "cafe", E_COMBINED, "contains 'cafe'"),
        (REGEX, r"^\d+$", "18 °C", r"matches the pattern '^\d+$', found '18 °C'"),
        (REGEX, "x", " ", "found nothing"),
        (REGEX, "(a", "a", "'(a' is not a valid regular expression (missing )"),
        (REGEX, "a{99999999999999999999}", "a", "not a valid regular expression"),
        (REGEX, "(" * 3000 + ")" * 3000, "a", "it is nested too deeply"),
        (TextRule(length=LengthRule(max=3)), "London", "London", "too long: 6 characters"),
    ],
)
def test_texts_that_do_not(rule: TextRule, expected: str | None, found: str, words: str) -> None:
    match = compare_texts(expected, found, rule)
    assert match
    assert words in match


def test_a_text_may_fail_for_two_reasons() -> None:
    match = compare_texts("ab", "xyz", TextRule(length=LengthRule(max=2)))
    assert "too long" in match
    assert "expected 'ab', found 'xyz'" in match


def test_defect_001_3_14_a_pattern_keeps_its_letters_whatever_the_case() -> None:
    rule = TextRule(match="regex", case_insensitive=True)
    assert compare_texts(r"^\D+$", "ABC", rule) == ""
    assert compare_texts(r"^\D+$", "123", rule)
    assert compare_texts(r"^\S$", "x", rule) == ""


def test_long_texts_are_quoted_where_they_part() -> None:
    same = "lorem ipsum " * 5_000
    match = compare_texts(f"{same}left{same}", f"{same}right{same}")
    assert f"they differ from character {len(same) + 1}" in match
    assert "left" in match
    assert "right" in match
    assert len(match) < 400


@pytest.mark.parametrize("rule", [EXACT, ANY_CASE, CONTAINS, REGEX])
def test_reasons_stay_short(rule: TextRule) -> None:
    match = compare_texts("x" * 100_000, "y" * 100_000, rule)
    assert match
    assert len(match) < 400


@pytest.mark.parametrize(
    ("rule", "text", "reason"),
    [
        (LengthRule(min=2, max=4), "abc", ""),
        (LengthRule(min=3, max=3), " abc ", ""),
        (LengthRule(), "", ""),
        (
            LengthRule(max=5),
            "x" * 7,
            "too long: 7 characters, expected at most 5; cut 2 characters",
        ),
        (LengthRule(min=2), "a", "too short: 1 character, expected at least 2; add 1 character"),
        (
            LengthRule(min=2, max=3),
            "",
            "too short: 0 characters, expected 2 to 3; add 2 characters",
        ),
        (
            LengthRule(max=2, unit="words"),
            "one two\nthree",
            "too long: 3 words, expected at most 2; cut 1 word",
        ),
        (LengthRule(max=1), "👍", ""),
        (
            LengthRule(max=1),
            "e\u0301",
            "too long: 2 characters, expected at most 1; cut 1 character",
        ),
    ],
)
def test_lengths(rule: LengthRule, text: str, reason: str) -> None:
    assert check_length(length_of(text, rule.unit), rule) == reason


class TestLaws:
    @given(text=st.text())
    @settings(max_examples=50, deadline=None, derandomize=True)
    def test_a_text_agrees_with_itself(self, text: str) -> None:
        assert compare_texts(text, text) == ""
        assert compare_texts(text, text, ANY_CASE) == ""
        assert compare_texts(text, f"before {text} after", CONTAINS) == ""

    @given(text=st.text(), form=st.sampled_from(["NFC", "NFD"]))
    @settings(max_examples=50, deadline=None, derandomize=True)
    def test_unicode_spelling_does_not_count(self, text: str, form: str) -> None:
        spelled = unicodedata.normalize(form, text)  # pyright: ignore[reportArgumentType]
        assert compare_texts(text, spelled) == ""

    @given(one=st.text(), other=st.text())
    @settings(max_examples=50, deadline=None, derandomize=True)
    def test_what_does_not_hold_has_a_short_reason(self, one: str, other: str) -> None:
        match = compare_texts(one, other)
        assert bool(match) == bool(compare_texts(other, one))
        assert match == "" or 0 < len(match) < 500
