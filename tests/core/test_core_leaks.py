"""Which texts of held out cases are secret."""

import base64
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from burnish.core.cases import Case, Dataset, Message, Scenario, Turn
from burnish.core.leaks import CODE_RUN, WITHHELD, HeldText, HeldTexts, LeakWatch

SENTENCE = "The transfer will arrive within three working days."
LABEL = "balance_not_updated_after_transfer"


def asked(number: int, answer: str) -> Case:
    return Case.single(f"Letter {number} of a customer", answer, name=f"c{number}")


def test_a_sentence_is_secret_even_where_two_held_out_cases_expect_it() -> None:
    held = (asked(1, SENTENCE), asked(2, SENTENCE))
    watch = LeakWatch(Dataset(train=(asked(0, "x"),), holdout=held))
    assert watch.leaked(f"Say: {SENTENCE}") == "c2"


def test_a_label_is_no_secret_but_the_question_that_has_it_is() -> None:
    held = (asked(1, LABEL), asked(2, LABEL))
    watch = LeakWatch(Dataset(train=(asked(0, "x"),), test=held))
    assert watch.leaked(f"One of: {LABEL}") is None
    assert watch.leaked("Letter 2 of a customer") is None  # shorter than 24 characters
    long = Case.single("Letter 3 of a customer of the bank", LABEL, name="c3")
    watch = LeakWatch(Dataset(train=(asked(0, "x"),), test=(*held, long)))
    assert watch.leaked(f"{long.input}: {LABEL}") == "c3"


def test_one_word_of_a_single_case_is_secret() -> None:
    watch = LeakWatch(Dataset(train=(asked(0, "x"),), holdout=(asked(1, LABEL),)))
    assert watch.leaked(f"One of: {LABEL}") == "c1"


LETTER = "I bought a lamp on 3 March, and it broke after two days. Can I get my money back?"


@pytest.mark.parametrize(
    "text",
    [
        LETTER.upper(),
        LETTER.replace(" ", "  \n"),
        LETTER.replace(",", ";").replace(".", " -"),
        "For “I bought a lamp on 3 March and it broke after two days” say yes.",
        "a lamp on 3 March, and it broke after two days",
    ],
)
def test_other_case_spacing_punctuation_or_a_sentence_alone_is_found(text: str) -> None:
    watch = LeakWatch(Dataset(train=(asked(0, "x"),), holdout=(Case.single(LETTER, name="h"),)))
    assert watch.leaked({"records": [text]}) == "h"


def test_what_train_says_too_and_set_phrases_are_no_secret() -> None:
    train = (Case.single(f"{LETTER} It was red.", name="t"),)
    held = Case.single(f"{LETTER} Thank you for your help.", name="h")
    watch = LeakWatch(Dataset(train=train, holdout=(held,)))
    assert watch.leaked(LETTER) is None
    assert watch.leaked("Thank you for your help.") is None
    assert watch.leaked(held.input) == "h"


def test_scripts_without_spaces_are_watched() -> None:
    held = Case.single(
        "你好，请问这个灯多少钱，可以便宜一点吗？我想买两个，谢谢你的帮助。", name="zh"
    )
    watch = LeakWatch(Dataset(train=(asked(0, "x"),), holdout=(held,)))
    assert watch.leaked("他说：请问这个灯多少钱，可以便宜一点吗") == "zh"


@pytest.mark.parametrize(
    "text",
    [
        LETTER.replace("broke", "bro\u200bke").replace("money", "mo\u00adney"),
        LETTER.replace(" ", " \u2066\ufeff"),
        "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in LETTER),
        LETTER.replace("fi", "\ufb01").replace("'", "’"),
    ],
    ids=["zero width", "direction", "full width", "ligatures"],
)
def test_other_forms_of_unicode_are_found(text: str) -> None:
    watch = LeakWatch(Dataset(train=(asked(0, "x"),), holdout=(Case.single(LETTER, name="h"),)))
    assert watch.leaked(text) == "h"


@pytest.mark.parametrize(
    "text",
    [
        "Somebody purchased a light in spring. It stopped working, and they want a refund.",
        base64.b64encode(LETTER.encode()).decode(),
        LETTER[::-1],
    ],
    ids=["paraphrase", "base64", "reversed"],
)
def test_what_is_not_promised(text: str) -> None:
    watch = LeakWatch(Dataset(train=(asked(0, "x"),), holdout=(Case.single(LETTER, name="h"),)))
    assert watch.leaked(text) is None


def test_what_users_say_before_and_what_a_played_user_wants_is_watched_too() -> None:
    said = Message(role="user", content="My order 4711 has not arrived for three weeks now.")
    plan = "You want a refund for order 4711 and accept nothing else."
    held = Case(name="h", turns=(Turn(input="?"),), history=(said,), scenario=Scenario(plan=plan))
    watch = LeakWatch(Dataset(train=(asked(0, "x"),), holdout=(held,)))
    assert watch.leaked(said.content) == "h"
    assert watch.leaked(plan) == "h"


@dataclass(frozen=True, kw_only=True)
class Told:
    name: str
    lines: tuple[str, ...]


class Asked(BaseModel):
    topic: str
    records: dict[str, list[Told]]


def test_only_the_held_out_part_is_withheld_wherever_it_stands() -> None:
    watch = LeakWatch(Dataset(train=(asked(0, "x"),), holdout=(Case.single(LETTER, name="h"),)))
    told = Told(name="q1", lines=("asked: why?", f"replied: he said, “{LETTER.upper()}”, so there"))
    request = Asked(topic="lamps", records={"runs": [told]})
    clean = watch.withhold(request)
    assert watch.leaks(request.model_dump(mode="json")) == ("h",)
    assert watch.leaks(clean.model_dump(mode="json")) == ()
    assert clean.records["runs"][0] == replace(
        told, lines=("asked: why?", f"replied: he said, {WITHHELD} so there")
    )
    assert watch.withhold(clean) == clean


def test_of_a_script_without_spaces_only_the_held_out_part_is_withheld() -> None:
    held = Case.single("你好，请问这个灯多少钱，可以便宜一点吗？我想买两个。", name="zh")
    watch = LeakWatch(Dataset(train=(asked(0, "x"),), holdout=(held,)))
    assert watch.withhold("他说：请问这个灯多少钱，可以便宜一点吗。") == f"他说：{WITHHELD}。"


ODD = ["and", "か\u3099", "（", "\u200b", "x_y", "."]


@given(st.lists(st.sampled_from([LETTER, *ODD]), max_size=9))
def test_nothing_is_left_of_what_is_withheld(parts: list[str]) -> None:
    watch = LeakWatch(Dataset(train=(asked(0, "x"),), holdout=(Case.single(LETTER, name="h"),)))
    assert watch.leaked(watch.withhold("".join(parts))) is None
    assert watch.leaked(watch.withhold(" ".join(parts))) is None


def held_file(text: str, *, run: int | None = None, public: str = "") -> LeakWatch:
    secret = HeldText(name="held/cases.json", text=text, run=run)
    held = HeldTexts(secret=(secret,), public=(public,))
    return LeakWatch(Dataset(train=(asked(0, "x"),)), held=held)


def test_a_held_out_file_is_watched_except_for_what_stands_elsewhere() -> None:
    assert held_file(LETTER).leaked(f"> {LETTER}") == "held/cases.json"
    assert held_file(LETTER, public=f"As in: {LETTER}").leaked(LETTER) is None


def test_code_is_given_away_by_longer_runs_only() -> None:
    words = [f"word{n}" for n in range(30)]
    watch = held_file(" ".join(words), run=CODE_RUN)
    assert watch.leaked(" ".join(words[: CODE_RUN - 1])) is None
    assert watch.leaked(" ".join(words[3 : CODE_RUN + 3])) == "held/cases.json"
