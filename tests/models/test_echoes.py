"""Echoes: what small models copy of a request is taken off, and nothing else is."""

import pytest

from burnish.models.answers import (
    continues_cases,
    is_about_itself,
    is_copied,
    is_reply,
    is_unchanged,
    names_only,
    without_frame,
)

FRAME = {
    "The text now:",
    "How it went with this text, case by case:",
    "Answer with a JSON object:",
    "- new_text: the text",
}
RULE = "Answer POS or NEG.\nWrite nothing else."
SHOWN = "Case desk-017\nInput: It is broken.\nThe agent's answer: sales"


@pytest.mark.parametrize(
    "answer",
    [
        f"<current_text>\n{RULE}\n</current_text>",
        f"The text now:\n\n{RULE}\n\nAnswer with a JSON object:",
        f"```\n{RULE}\n```",
        f"```text\n{RULE}\n```\n",
        f'"{RULE}"',
        f'"""\n{RULE}\n"""',
        f"<new_text>\n```\n{RULE}\n```",
        f"Here is a new text that meets the requirements:\n\n{RULE}",
        f"Sure! Here's the improved version:\n```\n{RULE}\n```",
    ],
)
def test_what_stands_around_a_text_is_taken_off(answer: str) -> None:
    assert without_frame(answer, FRAME) == RULE


@pytest.mark.parametrize(
    "text",
    [
        RULE,
        f"{RULE}\n",
        "Write <b>bold</b> words.",
        'Say "yes" or "no".',
        '"yes" is right, and so is "no"',
        "Use this form:\n```\nname: value\n```\nand no other.",
        "Here is what to do, with The text now: in it.",
        "Here is what you answer:",
    ],
)
def test_what_is_part_of_a_text_stays(text: str) -> None:
    assert without_frame(text, FRAME) == text


def test_what_the_current_text_begins_and_ends_with_is_its_own() -> None:
    current = "<rules>\nBe brief.\n</rules>"
    changed = "<rules>\nBe brief and kind.\n</rules>"
    assert without_frame(changed, FRAME, current=current) == changed
    assert without_frame(changed, FRAME) == "Be brief and kind."


CASES = "Case lamp-1\nInput: The lamp flickers.\nExpected answer: NEG\nThe agent's answer: bad"


def test_lines_of_cases_go_wherever_they_stand() -> None:
    answer = f"{RULE}\n\n{CASES}\n\nBe brief."
    assert without_frame(answer, FRAME, cases=CASES) == f"{RULE}\n\nBe brief."
    own = f"{RULE}\nExpected answer: NEG"
    assert without_frame(own, FRAME, current=own, cases=CASES) == own


def test_lines_that_begin_as_those_of_cases_do_go_and_examples_stay() -> None:
    cases = "Input: 3 lamps\nThe agent's answer: three lamps"
    text = f"{RULE}\nThe agent's answer: It is 'three'.\nInput: 2 pens means 2."
    assert without_frame(text, FRAME, cases=cases) == f"{RULE}\nInput: 2 pens means 2."
    own = f"{RULE}\nThe agent's answer: short"
    assert without_frame(own, FRAME, current="The agent's answer: long", cases=cases) == own


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("Sure, I can help you with that. Which review is it?", True),
        ("I'm sorry, but I cannot see the text.", True),
        ("Of course! I'd be happy to improve the text.", True),
        ("How can I help you today?", True),
        ("Certainty matters: answer only if you are sure.", False),
        ("I understand that you are seeking an instruction. Please provide a text.", True),
        ("I want you to answer POS or NEG.", False),
        ("I understand English only: answer in it.", False),
        ("Say that you can help, then ask for the order.", False),
        (RULE, False),
    ],
)
def test_what_a_chat_model_says_to_its_user_is_no_text(text: str, reply: bool) -> None:
    assert is_reply(text, "Classify the review.") is reply
    assert not is_reply(text, text), "an agent may begin so itself"


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("The new text should list the teams, and say when each is right.", True),
        ("Now, the text will only include the right answer for each input.", True),
        ("Name the team. The text now lists these answers: billing, legal.", True),
        ("Here is a new text that meets the requirements and provides the answers.", True),
        ("The text should be summarised in two sentences.", False),
        ("Write the new text in capitals.", False),
        ("Here is a new text. Classify it.", False),
        ("Correct the text now and then say what was wrong.", False),
        (RULE, False),
    ],
)
def test_what_speaks_about_a_text_is_no_text(text: str, about: bool) -> None:
    assert is_about_itself(text, "Classify the review.") is about
    assert not is_about_itself(text, text), "an agent may have to do with texts"


@pytest.mark.parametrize(
    ("text", "cases", "goes_on"),
    [
        ("Case desk-018\nInput: My screen is dark.\nExpected answer: repairs", SHOWN, True),
        ("Name the team.\n\n  Case desk-4\nInput: Where is it?", SHOWN, True),
        ("Case desk-017 is for repairs.", SHOWN, False),
        ("Case sensitive: write the labels as they are.", SHOWN, False),
        (RULE, SHOWN, False),
        (RULE, "", False),
        ("Case laptop\nInput: It is slow.", "Case lamp\nInput: It is broken.", False),
    ],
)
def test_further_cases_are_no_text(text: str, cases: str, goes_on: bool) -> None:
    assert continues_cases(text, cases, "Name the team.") is goes_on
    assert not continues_cases(text, cases, text), "an agent may have to do with cases"


def test_a_line_of_the_prompt_inside_of_another_goes_and_short_ones_stay() -> None:
    answer = f"Answer POS or NEG. How it went with this text, case by case:\n{CASES}"
    assert without_frame(answer, FRAME, cases=CASES) == "Answer POS or NEG."
    assert without_frame("Say it. The text now: so.", FRAME) == "Say it. The text now: so."


def test_nothing_is_left_of_a_text_that_is_only_an_echo() -> None:
    assert without_frame(f"The text now:\n\n{CASES}", FRAME, cases=CASES) == ""


def test_the_name_of_a_part_is_no_text() -> None:
    names = ("current_text", "new_text")
    for text in ("<current_text>", "new_text", "**New text:**", "...", ""):
        assert names_only(text, names), text
    assert not names_only("new_text: be brief", names)


def test_other_capitals_are_a_change_and_other_blanks_are_none() -> None:
    assert is_unchanged("Say yes\n or no. ", "Say yes or no.")
    assert not is_unchanged("Say YES or NO.", "Say yes or no.")


def test_a_piece_of_the_request_is_a_copy_unless_it_is_a_piece_of_the_text() -> None:
    request = "The text now: Be brief and always be kind. Input: The lamp flickers every evening."
    current = "Be brief and always be kind."
    assert is_copied("the lamp  flickers every evening.", request, current=current)
    assert not is_copied("brief and always be kind.", request, current=current)
    assert not is_copied("The lamp", request, current=current)
