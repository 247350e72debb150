"""Law 7: every reason to turn a candidate away before a call is paid."""

from collections.abc import Mapping

import pytest

from burnish.core.candidates import Candidate, Origin
from burnish.core.cases import Case, Turn
from burnish.core.screening import screen
from burnish.core.surfaces import (
    Demonstration,
    DemosSurface,
    NumberSurface,
    Surface,
    TextSurface,
    Value,
)

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
