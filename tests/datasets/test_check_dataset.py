"""What a check of a dataset finds, in words."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.cases import Case, Dataset, Outcome, Rubric, Scenario, Split, Turn
from burnish.datasets.checks import Finding, Severity, check

LONG = "Which of the many rivers of the north is the longest one"


def found(severity: Severity, **splits: Sequence[Case]) -> list[tuple[str, str]]:
    """Where and what, without what the size of a split alone says."""
    return [
        (finding.where, finding.message)
        for finding in check(splits).of(severity)
        if not about_size(finding)
    ]


def about_size(finding: Finding) -> bool:
    return "of the pass rate" in finding.message or "told from chance" in finding.message


def errors(**splits: Sequence[Case]) -> list[tuple[str, str]]:
    return found(Severity.ERROR, **splits)


def warnings(**splits: Sequence[Case]) -> list[tuple[str, str]]:
    return found(Severity.WARNING, **splits)


def case(text: str, expected: str | None = "…", name: str = "", *labels: str) -> Case:
    return Case(turns=(Turn(input=text, expected=expected),), name=name, labels=labels)


A, B, C = (case(text, text, text) for text in ("alpha", "beta", "gamma"))


class TestErrors:
    def test_none_where_all_is_well(self) -> None:
        assert errors(train=[A], test=[B, C]) == []

    def test_a_case_in_two_splits_by_content(self) -> None:
        other = case(" ALPHA", "x", "other")
        assert errors(train=[A, B], holdout=[C], test=[other]) == [
            ("train, test", "asked in both: alpha = other")
        ]

    def test_one_name_twice_in_a_split(self) -> None:
        assert errors(train=[A, B, case("delta", "x", "alpha")]) == [
            ("train", "several cases have the same name: 'alpha' (2 times)")
        ]

    def test_one_name_for_different_cases_in_two_splits(self) -> None:
        assert errors(train=[A], test=[case("delta", "x", "alpha")]) == [
            ("train, test", "one name for different cases: 'alpha'")
        ]

    def test_each_says_what_to_do(self) -> None:
        seen = check({"train": [A, A], "test": [A, case("delta", "x", "alpha")]})
        assert len(seen.errors) == 4
        assert all(finding.remedy for finding in seen.errors)

    def test_many_are_counted_not_listed(self) -> None:
        cases = [case(f"word {chr(97 + i)}", "x", f"n{i}") for i in range(9)]
        ((_, message),) = errors(train=cases, test=[case(c.input, "y") for c in cases])
        assert message.count("=") == 5
        assert message.endswith("and 4 more")


texts = st.sampled_from(["a", "A ", "b", "c", LONG, LONG + "!"])
names = st.sampled_from(["", "", "x", "y"])
some = st.lists(st.builds(case, texts, st.just("r"), names), max_size=4)


@given(train=some, holdout=some, test=some)
@settings(max_examples=40)
def test_errors_are_what_a_run_would_refuse(
    train: list[Case], holdout: list[Case], test: list[Case]
) -> None:
    dataset = Dataset(train=tuple(train), holdout=tuple(holdout), test=tuple(test))
    problems = [p for p in dataset.problems() if p.message != "there are no cases"]
    seen = check({name.value: dataset.cases(name) for name in Split})
    assert bool(seen.errors) == bool(problems)


class TestWarnings:
    def test_a_question_asked_twice(self) -> None:
        again = case("Alpha", "alpha", "again")
        more = case("delta", "delta", "delta")
        assert warnings(train=[A, B, C, more, again]) == [
            ("train", "asked more than once: alpha = again")
        ]

    def test_one_question_with_two_answers(self) -> None:
        again = case("Alpha", "omega", "again")
        assert ("train", "one question, different references: alpha = again") in warnings(
            train=[A, B, C, again]
        )

    def test_nearly_the_same_in_two_splits(self) -> None:
        one, two = case(LONG, "x", "one"), case(LONG + ", please?", "y", "two")
        assert warnings(train=[A, one], test=[B, two]) == [
            ("train, test", "nearly the same questions: one ~ two")
        ]
        assert warnings(train=[A, one, two], test=[B]) == []
        assert found(Severity.NOTE, train=[A, one, two], test=[B]) == [
            ("train", "nearly the same questions: one ~ two")
        ]

    def test_empty_inputs_and_references(self) -> None:
        blank = case(" \n", "x", "blank")
        hollow = case("delta", "  ", "hollow")
        assert warnings(train=[A, B, blank, hollow]) == [
            ("train", "1 of 4 cases have an empty input: blank"),
            ("train", "1 of 4 cases have an empty reference: hollow"),
        ]

    def test_nothing_expected(self) -> None:
        nothing = case("delta", None, "nothing")
        judged = Case(turns=(Turn(input="eps"),), name="j", rubrics=(Rubric(id="r", text="kind"),))
        assert warnings(train=[A, B, nothing, judged]) == [
            ("train", "1 of 4 cases have no reference, no tools and no rubric: nothing")
        ]
        assert found(Severity.NOTE, train=[A, B, nothing, judged]) == [
            ("train", "2 of 4 cases have no reference: metrics that compare skip them")
        ]

    def test_a_constant_answer(self) -> None:
        cases = [case(f"item {chr(97 + i)}", "Yes" if i < 6 else "no", f"n{i}") for i in range(8)]
        assert warnings(train=cases) == [
            ("train", "75% of the references are 'yes': always giving that answer scores 0.75")
        ]
        assert warnings(train=[A, B]) == []

    def test_labels_that_a_split_lacks(self) -> None:
        train = [case("one", "1", "n1", "a"), case("two", "2", "n2", "b")]
        test = [case("three", "3", "n3", "a")]
        assert warnings(train=train, test=test) == [
            ("test", "no case has a label that other splits have: 'b'")
        ]

    def test_inputs_that_are_far_too_long(self) -> None:
        long = case("word " * 2000, "x", "long")
        assert warnings(train=[A, B, C, long]) == [
            ("train", "inputs far longer than the usual 5 characters: long (10,000)")
        ]


class TestNotes:
    def test_recorded_cases_and_scenarios(self) -> None:
        recorded = Case(turns=(Turn(input="d", expected="d"),), name="d", recorded=Outcome())
        played = Case(turns=(Turn(input="e", expected="e"),), name="e", scenario=Scenario(plan="p"))
        assert found(Severity.NOTE, train=[A, recorded, played]) == [
            (
                "train",
                "1 of 3 cases are recorded: they are scored as they are, whatever the candidate",
            ),
            ("train", "1 of 3 cases are scenarios: a model plays the user"),
        ]

    def test_uneven_labels(self) -> None:
        cases = [case(f"item {chr(97 + i)}", chr(97 + i), "", "a" if i else "b") for i in range(6)]
        assert found(Severity.NOTE, train=cases) == [("train", "labels are uneven: 'a' 5, 'b' 1")]

    @pytest.mark.parametrize(
        ("count", "severity", "message"),
        [
            (0, Severity.WARNING, "no difference between two versions can be told from chance "
             "with no cases"),
            (2, Severity.WARNING, "no difference between two versions can be told from chance "
             "with 2 cases"),
            (20, Severity.WARNING, "20 cases: each counts for 0.050 of the pass rate, and a "
             "difference below 0.46 will probably go unnoticed"),
            (100, Severity.NOTE, "100 cases: each counts for 0.010 of the pass rate, and a "
             "difference below 0.20 will probably go unnoticed"),
        ],
    )  # fmt: skip
    def test_what_a_set_of_this_size_can_show(
        self, count: int, severity: Severity, message: str
    ) -> None:
        cases = [case(f"{chr(97 + i % 26)} {i}", str(i), f"n{i}") for i in range(count)]
        (seen,) = [finding for finding in check({"train": cases}).found if about_size(finding)]
        assert (seen.severity, seen.message) == (severity, message)
        assert bool(seen.remedy) == (severity is Severity.WARNING)


def test_facts_of_each_split() -> None:
    two = Case(turns=(Turn(input="x"), Turn(input="y", expected="Alpha")), labels=("l", "l"))
    train, test = check({"train": [A, two], "test": [B]}).splits
    assert (train.name, train.cases, train.turns, train.labels) == ("train", 2, 3, {"l": 1})
    assert (train.usual_answer, train.usual_count, train.usual_share) == ("alpha", 2, 1.0)
    assert (test.cases, test.without_reference, test.usual_share) == (1, 0, 1.0)
    assert check({"train": []}).splits[0].usual_share is None


def test_the_worst_comes_first() -> None:
    seen = check({"train": [A, A, case("delta", " ", "d")], "test": [A]})
    severities = [finding.severity for finding in seen.found]
    assert severities == sorted(severities, key=list(Severity).index)
    assert seen.warnings == seen.of(Severity.WARNING)
