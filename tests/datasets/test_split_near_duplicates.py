"""Which questions count as nearly the same."""

import random
import time

import pytest

from burnish.core.cases import Attachment, Case, Message, Scenario, Turn
from burnish.datasets.splits import groups

FILLER = [
    "Which river runs through the old town of Prague and its castle",
    "Name a fruit that grows on trees in Norway, please",
    "Why did the treaty of Westphalia matter to small states",
    "Write a haiku about the first snow on a railway bridge",
    "How many legs does a spider have compared with an ant",
    "Explain photosynthesis to a curious child of primary school age",
]


def near(one: str, other: str, share: float = 0.8) -> bool:
    cases = [Case.single(text) for text in (one, *FILLER, other)]
    found = groups(cases, near=share)
    assert sorted(place for group in found for place in group) == list(range(len(cases)))
    return (0, len(cases) - 1) in found


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("What is the capital of France?", "what is the  CAPITAL of france", True),
        ("What is the capital of France?", "What is the capital of France, please?", True),
        ("What is the capital of France?", "What is the capital of Spain?", False),
        ("What is the total of 12 and 5?", "What is the total of 12 and 6?", False),
        ("What is the total of 12 and 5?", "what is the total of 12 and 5 ?", True),
        ("Is it 3.5 or 4 in this long question?", "Is it 35 or 4 in this long question?", False),
        ("What does the keyword const do in C?", "What does the keyword const do in C++?", False),
        ("What is 3 - 4 as a whole number?", "What is 3 + 4 as a whole number?", False),
        ("Who wrote the well-known poem here?", "Who wrote the well known poem here", True),
        ("yes please", "yes please!", False),
        ("Hello there", "hello   THERE", True),
        ("一二三四五六七八九十。", "一二三四五六七八九十！", True),
        ("how do i reset my password", "what is the weather like today", False),
    ],
)
def test_pairs(one: str, other: str, expected: bool) -> None:
    assert near(one, other) is expected
    assert near(other, one) is expected


def test_the_share_can_be_set() -> None:
    one, other = "please tell me how to reset my password", "tell me how to reset my password now"
    assert not near(one, other)
    assert near(one, other, 0.6)


def test_it_holds_across_steps() -> None:
    words = [f"word{chr(97 + i)}" for i in range(24)]
    steps = [" ".join(words[i : i + 20]) for i in range(5)]
    cases = [Case.single(text) for text in steps]
    more = [Case.single(f"{question} {i}") for i, question in enumerate(FILLER * 3)]
    assert groups([*cases, *more])[0] == (0, 1, 2, 3, 4)
    assert groups([cases[0], cases[4], *more])[:2] == ((0,), (1,))


def test_the_same_words_are_no_template_however_many_ask_them() -> None:
    cases = [Case.single("How do I reset my password" + "?" * i) for i in range(8)]
    assert groups(cases) == (tuple(range(8)),)


def test_what_every_question_has_is_a_template_and_tells_nothing() -> None:
    template = "Classify the sentiment of this product review as positive or negative: {}"
    slots = ["loved it", "broke at once", "arrived late again", "my kids adore these",
             "never buying here", "loved it !", "does what it says", "smells"]  # fmt: skip
    found = groups([Case.single(template.format(slot)) for slot in slots])
    assert sorted(len(group) for group in found) == [1] * 6 + [2]
    assert (0, 5) in found


def test_one_question_with_other_files_is_another() -> None:
    def with_file(path: str, text: str) -> Case:
        return Case(turns=(Turn(input=text, attachments=(Attachment(kind="pdf", path=path),)),))

    text = "Summarise the attached page in one sentence"
    cases = [with_file("a.pdf", text), with_file("b.pdf", text), with_file("a.pdf", text + "!")]
    assert groups(cases) == ((0, 2), (1,))


def test_what_was_said_before_and_the_plan_are_part_of_the_question() -> None:
    def case(said: str, plan: str) -> Case:
        return Case(
            turns=(Turn(input="and what about the second one"),),
            history=(Message(role="user", content=said),),
            scenario=Scenario(plan=plan),
        )

    cases = [case("tell me about cats and dogs", "wants a cat that is calm and old"),
             case("tell me about cats and dogs", "wants a cat that is calm and old!"),
             case("list all ships in the harbour", "wants a cat that is calm and old"),
             case("tell me about cats and dogs", "is in a hurry, needs a taxi now")]  # fmt: skip
    assert groups(cases) == ((0, 1), (2,), (3,))


def test_equal_questions_and_equal_words_are_together() -> None:
    cases = [Case.single(text, name=str(i)) for i, text in enumerate(["a", "b", " A ", "c"])]
    assert groups(cases) == ((0, 2), (1,), (3,))


def test_thousands_of_cases_take_little_time() -> None:
    rng = random.Random(7)
    words = [f"w{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(400)]
    texts = [" ".join(rng.choices(words, k=30)) for _ in range(1000)]
    texts += [f"{text} again" for text in texts[:500]]
    started = time.perf_counter()
    found = groups([Case.single(text) for text in texts])
    assert time.perf_counter() - started < 120
    assert sorted(map(len, found)) == [1] * 500 + [2] * 500
