"""Echoes: what small models copy of a request is taken off, and nothing else is."""

import re

import pytest

from burnish.models.echoes import (
    frame_lines,
    is_copied,
    is_unchanged,
    names_only,
    without_frame,
)

FRAME = frame_lines(
    "The text now:\n\n{{ text }}\n\nAnswer with a JSON object:\n- new_text: the text",
    re.compile(r"\{\{.*?\}\}"),
)
RULE = "Answer POS or NEG.\nWrite nothing else."


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
    ],
)
def test_what_is_part_of_a_text_stays(text: str) -> None:
    assert without_frame(text, FRAME) == text


def test_what_the_current_text_begins_and_ends_with_is_its_own() -> None:
    current = "<rules>\nBe brief.\n</rules>"
    changed = "<rules>\nBe brief and kind.\n</rules>"
    assert without_frame(changed, FRAME, current=current) == changed
    assert without_frame(changed, FRAME) == "Be brief and kind."


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
