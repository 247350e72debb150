"""Cases know themselves by content, and splits that share one are refused."""

import unicodedata

import pytest

from burnish.core.cases import Case, Dataset, Split, Turn, squeeze

CAFE = unicodedata.normalize("NFC", "Où est le café ?")


def messages(dataset: Dataset) -> list[str]:
    return [problem.message for problem in dataset.problems()]


class TestIdentity:
    def test_a_name_is_the_id(self) -> None:
        assert Case.single("q", "a", name="first").id == "first"

    def test_without_a_name_the_content_is(self) -> None:
        one, two = Case.single("q", "a"), Case.single("q", "a")
        assert one.id == two.id == one.content_id
        assert Case.single("q", "b").id != one.id

    def test_a_name_is_no_content(self) -> None:
        named = Case.single("q", "a", name="first")
        assert named.content_id == Case.single("q", "a", name="second").content_id

    @pytest.mark.parametrize(
        "turn",
        [
            Turn(input="Q", expected="a"),
            Turn(input="q", expected="A"),
            Turn(input="q"),
            Turn(input="q", expected="a", context=("c",)),
            Turn(input="q", expected="a", extras={"tools": ["t"]}),
        ],
    )
    def test_all_that_a_metric_sees_is_content(self, turn: Turn) -> None:
        assert Case(turns=(turn,)).content_id != Case.single("q", "a").content_id

    def test_turns_are_content(self) -> None:
        two = Case(turns=(Turn(input="a"), Turn(input="b", expected="x")))
        assert two.content_id != Case(turns=tuple(reversed(two.turns))).content_id
        assert (two.input, two.expected) == ("a", "x")


class TestSplits:
    def test_cases_by_split(self) -> None:
        a, b, c = (Case.single(x) for x in "abc")
        dataset = Dataset(train=(a,), holdout=(b,), test=(c,))
        assert [dataset.cases(split) for split in Split] == [(a,), (b,), (c,)]
        assert messages(dataset) == []

    def test_nothing_to_learn_from(self) -> None:
        assert messages(Dataset(train=())) == ["there are no cases"]

    def test_one_name_twice_in_a_split(self) -> None:
        train = (Case.single("a", name="x"), Case.single("b", name="x"))
        assert messages(Dataset(train=train)) == ["two cases are called 'x'"]

    def test_one_case_twice_in_a_split(self) -> None:
        assert len(messages(Dataset(train=(Case.single("a"), Case.single("a"))))) == 1

    def test_a_question_may_repeat_inside_a_split(self) -> None:
        train = (Case.single("a", name="x"), Case.single("a", name="y"))
        assert messages(Dataset(train=train)) == []

    @pytest.mark.parametrize(
        "twin",
        [
            Case.single(CAFE, "là", name="a"),
            Case.single(CAFE, "là", name="other"),
            Case.single(CAFE, "ailleurs"),
            Case.single(f"  {CAFE}\n".replace(" ", "\u00a0\t")),
            Case.single(CAFE.upper()),
            Case.single(unicodedata.normalize("NFD", CAFE)),
            Case.single(CAFE.replace("?", "\uff1f")),  # a full-width question mark
            Case.single("something else", name="a"),
        ],
    )
    @pytest.mark.parametrize("split", ["holdout", "test"])
    def test_a_case_in_two_splits(self, twin: Case, split: str) -> None:
        train = (Case.single("q"), Case.single(CAFE, "là", name="a"))
        other = (Case.single("r"), twin)
        dataset = Dataset(train=train, **{split: other})
        (found,) = dataset.problems()
        assert found.where == f"train, {split}"
        assert f"case '{twin.id}' is in both" in found.message
        assert ("as 'a'" in found.message) == (twin.id != "a")

    def test_holdout_and_test_are_kept_apart_too(self) -> None:
        shared = Case.single("b")
        dataset = Dataset(train=(Case.single("a"),), holdout=(shared,), test=(shared,))
        assert [problem.where for problem in dataset.problems()] == ["holdout, test"]

    def test_conversations_that_only_start_alike_are_two(self) -> None:
        one = Case(turns=(Turn(input="hi"), Turn(input="a")))
        two = Case(turns=(Turn(input="hi"), Turn(input="b")))
        assert messages(Dataset(train=(one,), holdout=(two,))) == []

    @pytest.mark.parametrize(
        "changed",
        [
            Dataset(train=(Case.single("a", "y"),)),
            Dataset(train=(Case.single("a", "x", name="n"),)),
            Dataset(train=(Case(turns=(Turn(input="a", expected="x"),), labels=("l",)),)),
            Dataset(train=(), holdout=(Case.single("a", "x"),)),
            Dataset(train=(Case.single("a", "x"), Case.single("b"))),
        ],
    )
    def test_the_fingerprint_changes_with_any_case(self, changed: Dataset) -> None:
        base = Dataset(train=(Case.single("a", "x"),))
        assert base.fingerprint == Dataset(train=(Case.single("a", "x"),)).fingerprint
        assert changed.fingerprint != base.fingerprint


@pytest.mark.parametrize("text", ["ΐ", "ΰ", "Straße", "ﬁn", "İ", "ñ"])
def test_squeezing_levels_every_spelling_of_a_text(text: str) -> None:
    forms = ("NFC", "NFD", "NFKC", "NFKD")
    spellings = {unicodedata.normalize(form, t) for form in forms for t in (text, text.upper())}
    assert len({squeeze(spelling) for spelling in spellings} | {squeeze(squeeze(text))}) == 1
