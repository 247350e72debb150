"""Differences by words: what people see before they adopt, and after a run."""

import pytest

from burnish.core.formatting import changes_words, word_diff
from burnish.core.surfaces import Change, Value

BEFORE = ["You sort tickets.\n", "Be short.\n", "Answer with one of: a, b.\n", "Goodbye.\n"]
AFTER = [
    "You sort the tickets.\n",
    "Be short.\n",
    "Answer with one of: a, b, c.\n",
    "In one word.\n",
]


def test_a_line_that_changed_in_part_is_shown_once() -> None:
    assert word_diff(BEFORE, AFTER, "x.md") == [
        "--- x.md",
        "+++ x.md",
        "@@ line 1 @@",
        "~You sort {+the +}tickets.",
        " Be short.",
        "~Answer with one of: a, b{+, c+}.",
        "-Goodbye.",
        "+In one word.",
    ]


def test_numbers_are_words() -> None:
    lines = word_diff(["temperature: 0.35\n"], ["temperature: 0.7\n"], "x")
    assert lines[-1] == "~temperature: [-0.35-]{+0.7+}"


def test_without_a_difference_there_is_nothing_to_show() -> None:
    assert word_diff(BEFORE, BEFORE, "x") == []


def test_only_the_lines_around_a_change_are_shown() -> None:
    lines = [f"line {n}\n" for n in range(40)]
    shown = word_diff(lines, [*lines[:20], "new\n", *lines[20:]], "x")
    assert shown[2:] == [
        "@@ line 18 @@",
        *(f" line {n}" for n in (17, 18, 19)),
        "+new",
        *(f" line {n}" for n in (20, 21, 22)),
    ]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("Sort it.", "Sort it. In one word.", "s: 3 words added: “In one word.”"),
        ("Sort it now.", "Sort it.", "s: 1 word added, 2 removed: “it.”"),
        ("Sort it.\n", "Sort it.", "s: only spaces and line ends differ"),
        (0.8, 0.25, "s: 0.8 → 0.25"),
        ("polite", "plain", "s: polite → plain"),
    ],
)
def test_one_change_in_a_few_words(before: Value, after: Value, words: str) -> None:
    assert changes_words([Change(surface="s", before=before, after=after)]) == [words]


def test_of_many_changes_three_are_shown() -> None:
    changes = [Change(surface=f"n{n}", before=1, after=2) for n in range(5)]
    assert changes_words(changes) == ["n0: 1 → 2", "n1: 1 → 2", "n2: 1 → 2", "and 2 more"]
