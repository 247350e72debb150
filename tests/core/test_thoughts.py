"""Thoughts in a model's answer are no part of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.core.thoughts import without_thoughts


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>a</think>\n200", "200"),
        ("<think>\na\n\nb</think>\n\n 200 \n", "200"),
        (" <thinking mode='x'>a</thinking>200", "200"),
        ("<THINK>a</THINK>\r\n\r\n200", "200"),
        ("<think></think>200", "200"),
        ("<think>a</think>\n<think>b</think>\n200", "200"),
        ("<think>a</think><think>b</think>200", "200"),
        ("<think>a</think> <think> is a tag", "<think> is a tag"),
        ("One.\n<think>hm</think>\nTwo.", "One.\nTwo."),
        ("200\n<think>right?</think>", "200"),
        ("<think>200", "200"),
        ("It is 200.\n</think>\n\n200", "200"),
        ("It is 200.</think>\n\n200", "200"),
        ("<think>a</think>\nUse <think> to reason.", "Use <think> to reason."),
        ("<think>a</think>\n```\n<think>b</think>\n```", "```\n<think>b</think>\n```"),
    ],
)
def test_the_answer_is_what_is_left(text: str, answer: str) -> None:
    assert without_thoughts(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        " 200 \n",
        "Use <think>…</think> for reasoning.",
        "The tag </think> ends it.",
        "It begins with `<think>` and never ends",
        "```\n<think>a</think>\n```\nis how it looks",
        "<thinker>a</thinker>",
        '{"text": "a\n</think>\nb"}',
        "",
    ],
)
def test_an_answer_that_speaks_of_thoughts_stays(text: str) -> None:
    assert without_thoughts(text) == text


def test_where_json_is_asked_for_a_thought_without_an_end_is_no_answer() -> None:
    assert without_thoughts('<think>{"a": 1}', to_be_json=True) == ""
    assert without_thoughts('hm</think>{"a": 1}', to_be_json=True) == '{"a": 1}'


@pytest.mark.parametrize(
    "text", ["<think>\n" * 40_000, "<think>a</think>\n" * 40_000, "```\n<thinking>\n" * 40_000]
)
def test_the_time_grows_with_the_length_alone(text: str) -> None:
    without_thoughts(f"{text}</thinking> 7")


@given(st.text(), st.text(alphabet=st.characters(exclude_characters="<`~")))
def test_a_thought_before_an_answer_changes_nothing(thought: str, answer: str) -> None:
    thought = thought.replace("<", "").replace("`", "").replace("~", "")
    assert without_thoughts(f"<think>{thought}</think>\n{answer}") == answer.strip()
