"""Every reason to turn a candidate away before a call is paid."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from burnish.core.cases import Case, Turn, answer_form, closed_labels, has_form, keeps_form
from burnish.core.surfaces import (
    Candidate,
    Demonstration,
    DemosSurface,
    NumberSurface,
    Origin,
    Surface,
    TextSurface,
    Value,
)
from burnish.core.trials import screen

SURFACES: dict[str, Surface] = {
    "prompt": TextSurface(
        id="prompt", max_chars=300, placeholders=("{question}",), frozen=("Be polite.",)
    ),
    "heat": NumberSurface(id="heat", low=0, high=1),
    "demos": DemosSurface(id="demos"),
}
PARENT = Candidate(values={"prompt": "Be polite. {question}", "heat": 0.5, "demos": ()})
LONG = Case.single("Capital?", "The capital city is Ouagadougou.", name="long")
SHORT = Case.single("What is the capital of Burkina Faso?", "Ouagadougou", name="short")


def turned_away(changes: Mapping[str, Value], *, training: tuple[Case, ...] = ()) -> list[str]:
    candidate = PARENT.child(changes, origin=Origin())
    found = screen(candidate, parent=PARENT, surfaces=SURFACES, seen=(), training=training)
    return [problem.message for problem in found]


def prompt(text: str) -> dict[str, Value]:
    return {"prompt": f"Be polite. {{question}} {text}"}


def test_a_candidate_worth_paying_for() -> None:
    assert turned_away({**prompt("Think first."), "heat": 0.7}, training=(LONG, SHORT)) == []


def test_unchanged() -> None:
    assert turned_away({}) == ["the candidate changes nothing"]
    assert turned_away({"heat": 0.5, "demos": ()}) == ["the candidate changes nothing"]


def test_space_around_a_text_is_no_change_of_it() -> None:
    changed = {"prompt": "\nBe polite. {question}  \n"}
    assert turned_away(changed) == ["the candidate changes nothing"]
    assert turned_away({**changed, "heat": 0.7}) == []


def test_seen_before() -> None:
    candidate = PARENT.child({"heat": 0.7}, origin=Origin())
    found = screen(candidate, parent=PARENT, surfaces=SURFACES, seen={candidate.id})
    assert [p.message for p in found] == [f"the same candidate ({candidate.id}) was tried before"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"heat": 1.5}, "1.5 is outside [0, 1]"),
        ({"heat": "hot"}, "expected a number"),
        ({"prompt": "Be polite."}, "the placeholder '{question}' is gone"),
        ({"prompt": "Be polite. {{question}}"}, "the placeholder '{question}' is gone"),
        ({"prompt": "Be rude. {question}"}, "the frozen part 'Be polite.' is gone"),
        ({"prompt": f"Be polite. {{question}} {'x' * 300}"}, "300 are allowed"),
        ({"tone": "x"}, "no such surface"),
    ],
)
def test_out_of_bounds(changes: dict[str, Value], words: str) -> None:
    (message,) = turned_away(changes)
    assert words in message


LABELS = ("card_payment_fee_charged", "balance_not_updated_after_transfer", "lost_or_stolen_card")


def classified(*answers: str) -> tuple[Case, ...]:
    return tuple(
        Case.single(f"A customer of the bank writes, number {n:03d}", answer, name=f"c{n}")
        for n, answer in enumerate(answers)
    )


class TestLabels:
    def listed(self, *labels: str) -> dict[str, Value]:
        return prompt(f"Answer with one of: {', '.join(labels)}.")

    def test_labels_that_recur_belong_in_the_text(self) -> None:
        cases = classified(*LABELS, *LABELS)
        assert turned_away(self.listed(*LABELS), training=cases) == []

    def test_they_are_compared_as_texts_are(self) -> None:
        cases = classified("Card Payment  Fee charged", "card payment fee\nCHARGED ")
        assert turned_away(self.listed("card payment fee charged"), training=cases) == []

    def test_a_label_of_a_closed_set_may_occur_once(self) -> None:
        cases = classified(*LABELS[:2] * 6, LABELS[2])
        assert turned_away(self.listed(*LABELS), training=cases) == []

    def test_with_the_question_a_label_is_copied_too(self) -> None:
        cases = classified(*LABELS, *LABELS)
        text = f"{cases[0].input} -> {cases[0].expected}"
        assert turned_away(prompt(text), training=cases) == [
            "the text contains the answer to training case 'c0'"
        ]

    def test_serial_numbers_are_no_labels_beside_many_yes_and_no(self) -> None:
        numbers = [f"INV-2024-000{n:02d}-XYZ" for n in range(20)]
        cases = classified(*["yes", "no"] * 20, *numbers)
        assert turned_away(self.listed(numbers[3]), training=cases) == [
            "the text contains the answer to training case 'c43'"
        ]

    def test_a_sentence_that_occurs_once_is_no_label(self) -> None:
        cases = (*classified(*LABELS * 4), LONG)
        assert turned_away(prompt(LONG.expected or ""), training=cases) == [
            "the text contains the answer to training case 'long'"
        ]

    def test_one_case_under_two_names_is_still_one_case(self) -> None:
        again = Case.single(LONG.input, LONG.expected, name="again")
        assert len(turned_away(prompt(LONG.expected or ""), training=(LONG, again))) == 2

    def test_labels_are_shown_as_they_are_first_spelled_unless_there_are_too_many(self) -> None:
        cases = classified("NEG", "POS", *["neg", "POS", "NEG"] * 3)
        assert closed_labels(cases) == ("NEG", "POS")
        many = [f"kind {letter}{other}" for letter in "abcdefgh" for other in "abcdefgh"]
        assert len(closed_labels(classified(*many[:60] * 9))) == 60
        assert closed_labels(classified(*many[:61] * 9)) == ()

    @pytest.mark.parametrize(
        "labels",
        [
            ("true", "false"), ("yes", "no"), ("A", "B", "C", "D"), ("P0", "P1", "P2"),
            ("level 1", "level 2"),
            ("A1", "B2"), ("neither of them", "both of them"),
            ('{"spam": true}', '{"spam": false}'),
            ("may", "must"), ("Sunday", "Monday"),
            tuple(f"intent_{n}" for n in "abcdefghijklmnopqrst"),
        ],
    )  # fmt: skip
    def test_a_set_is_closed_if_each_label_recurs(self, labels: tuple[str, ...]) -> None:
        assert closed_labels(classified(*labels * 4)) == tuple(sorted(labels))
        assert closed_labels(classified(*(each for each in labels for _ in range(4)))), (
            "in any order"
        )
        assert closed_labels((*classified(*labels * 4), LONG)) == (), "one answer stands alone"

    @pytest.mark.parametrize(
        "answers",
        [
            ("10", "11", "13"), ("1,000", "3.5"), ("-2", "\u22122"), ("50%", "5 %"), ("$3", "3 €"),
            ("1e5", "2.5E-3"), ("1/2", "½"), ("\u0663", "\uff13"),
            ("2024-05-01", "01/02/2024"),
            ("10:30", "3 pm"), ("May 12, 2024", "12th of May 2024"),
            ("2024-05-01T10:00:00Z", "1.2.2024"),
            ("yes", "no", "7"), ("5 km", "10k"), ('{"amount": 1}', '{"amount": 2}'),
            ("1, 2", "3, 4"),
            ("Paris, France", "Rome, Italy"), ("one\ntwo", "two\none"), ("x" * 65, "y" * 65),
            ("2024年5月1日", "2024年5月2日"), ("#### 18", "#### 20"),
            ("one", "two", "three"), ("one hundred", "twenty-one"), ("minus 2", "about 5"),
            ("R$ 5", "Rs. 50"), ("Answer: 200", "No. 7"), ("x=5", r"\boxed{7}"), ("五", "六"),
        ],
    )  # fmt: skip
    def test_numbers_dates_times_and_texts_are_no_labels(self, answers: tuple[str, ...]) -> None:
        assert closed_labels(classified(*answers * 9)) == ()

    def test_answers_that_come_two_or_three_times_are_no_closed_set(self) -> None:
        cities = ("Paris", "Rome", "Oslo", "Bern", "Riga", "Bonn")
        assert closed_labels(classified(*cities * 2)) == ()
        assert closed_labels(classified(*cities * 3)) == ()
        assert closed_labels(classified(*["unknown"] * 20, *cities * 2)) == ()
        one = classified("yes", "no")
        again = [replace(case, name=f"{case.name}-{n}") for n in range(4) for case in one]
        assert closed_labels(again) == (), "one question under several names counts once"
        assert closed_labels(()) == ()

    def test_a_form_is_shown_by_an_answer_that_no_case_has(self) -> None:
        answers = ("LYON|3|blue pens", "PORTO|12|stamps", "GRAZ|7|labels", "CORK|40|tea towels")
        form = answer_form(classified(*answers))
        assert form == "LYON|12|labels"
        assert turned_away(prompt(f"Write {form}."), training=classified(*answers)) == []

    @pytest.mark.parametrize(
        "answers",
        [
            ("2021/09/21", "2025/07/03", "2020/11/03"),  # too few to call it a form
            ("LYON|3", "no order", "GRAZ|7", "two of them", "CORK|4"),
            ("It is well-known, yes.", "A so-so day.", "He is half-way.", "An all-in one."),
            ("|", "||", "/", "-", "::"),
            ("", "  ", "x", "y"),
        ],
    )
    def test_what_is_no_form(self, answers: tuple[str, ...]) -> None:
        assert answer_form(classified(*answers)) == ""

    def test_a_form_is_stated_with_its_digits_and_capitals(self) -> None:
        assert has_form("Write dates like 1999/12/31.", "2021/07/03")
        assert not has_form("Write dates as YYYY/MM/DD.", "2021/07/03")
        assert has_form("such as OSLO|5|red cups", "LYON|12|labels")
        assert not has_form("city|amount|goods", "LYON|12|labels")

    @pytest.mark.parametrize(
        ("answer", "labels", "form", "keeps"),
        [
            (" POS ", ("NEG", "POS"), "", True),
            ("POS.", ("NEG", "POS"), "", False),
            ("OSLO|5|red cups", (), "LYON|12|labels", True),
            ("The order: OSLO|5|cups", (), "LYON|12|labels", False),
            ("anything", (), "", True),
        ],
    )
    def test_an_answer_is_a_label_or_has_the_form_as_a_whole(
        self, answer: str, labels: tuple[str, ...], form: str, keeps: bool
    ) -> None:
        assert keeps_form(answer, labels=labels, form=form) is keeps

    def test_json_whose_values_are_labels_of_their_place_is_a_format(self) -> None:
        answers = [
            f'{{"intent": "{intent}", "urgent": {"true" if n % 2 else "false"}}}'
            for n, intent in enumerate((*LABELS[:2] * 3, LABELS[2]))
        ]
        cases = classified(*answers)
        assert turned_away(prompt(answers[-1]), training=cases) == []

    def test_json_with_a_value_of_its_own_is_an_answer(self) -> None:
        answers = [f'{{"intent": "{LABELS[0]}", "amount": {n}.5}}' for n in range(4)]
        assert turned_away(prompt(answers[1]), training=classified(*answers)) == [
            "the text contains the answer to training case 'c1'"
        ]

    def test_what_is_part_of_a_label_comes_with_it(self) -> None:
        cases = classified(*["fee of a card payment, charged"] * 2, "fee of a card payment")
        assert turned_away(self.listed("fee of a card payment, charged"), training=cases) == []

    @pytest.mark.parametrize("odd", ["{", "[[[", '{"a": NaN}', "[" * 100_000, "", "  ", "{}"])
    def test_odd_answers_are_just_answers(self, odd: str) -> None:
        assert turned_away(prompt("Think first."), training=classified(odd, odd, "x")) == []


class TestCopiedAnswers:
    gives_long = "the text contains the answer to training case 'long'"
    gives_short = "the text contains the answer to training case 'short'"

    @pytest.mark.parametrize(
        "text",
        [
            "The capital city is Ouagadougou.",
            "Note: THE CAPITAL  city\nis ouagadougou. Remember.",
        ],
    )
    def test_a_long_answer_alone(self, text: str) -> None:
        assert turned_away(prompt(text), training=(LONG, SHORT)) == [self.gives_long]

    def test_a_short_answer_with_its_question(self) -> None:
        text = "What is the capital of Burkina Faso? Ouagadougou"
        assert turned_away(prompt(text), training=(LONG, SHORT)) == [self.gives_short]

    def test_a_short_answer_alone_may_be_chance(self) -> None:
        assert turned_away(prompt("Ouagadougou"), training=(SHORT,)) == []

    def test_a_question_alone_gives_nothing_away(self) -> None:
        text = "What is the capital of Burkina Faso?"
        assert turned_away(prompt(text), training=(SHORT,)) == []

    def test_a_case_without_an_answer_has_nothing_to_copy(self) -> None:
        asked = Case.single("What is the capital of Burkina Faso?")
        assert turned_away(prompt(asked.input), training=(asked,)) == []

    def test_demonstrations_are_the_place_for_answers(self) -> None:
        demo = Demonstration(input=LONG.input, output=LONG.expected or "")
        assert turned_away({"demos": (demo,)}, training=(LONG,)) == []

    def test_what_the_parent_had_is_no_copy(self) -> None:
        parent = PARENT.child(prompt("The capital city is Ouagadougou."), origin=Origin())
        child = parent.child(prompt("The capital city is Ouagadougou. Hi!"), origin=Origin())
        found = screen(child, parent=parent, surfaces=SURFACES, seen=(), training=(LONG,))
        assert found == []

    def test_each_turn_counts_on_its_own(self) -> None:
        turns = (
            Turn(input="a", expected="the first of the answers"),
            Turn(input="b", expected="the second of the answers"),
        )
        talk = Case(turns=turns, name="talk")
        parent = PARENT.child(prompt("the first of the answers"), origin=Origin())
        child = parent.child(
            prompt("the first of the answers, the second of the answers"), origin=Origin()
        )
        found = screen(child, parent=parent, surfaces=SURFACES, seen=(), training=(talk,))
        assert [p.message for p in found] == [
            "the text contains the answer to training case 'talk'"
        ]


def test_a_candidate_that_leaves_a_surface_out_is_turned_away() -> None:
    parent = Candidate(values={"text": "hello", "number": 1})
    candidate = Candidate(values={"text": "hello there"})
    surfaces: dict[str, Surface] = {
        "text": TextSurface(id="text"),
        "number": NumberSurface(id="number", low=0, high=2),
    }
    found = screen(candidate, parent=parent, surfaces=surfaces, seen=())
    assert [str(problem) for problem in found] == ["number: the value is gone"]


def test_a_value_that_has_no_json_form_is_turned_away() -> None:
    parent = Candidate(values={"text": "hello"})
    candidate = Candidate(values={"text": "half \ud83d"})
    found = screen(candidate, parent=parent, surfaces={"text": TextSurface(id="text")}, seen=())
    assert "cannot be kept as JSON" in str(found[0])
