"""Reading the JSON object in an answer: what is read as it was meant, and what is no answer."""

import json
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from burnish.models.answers import (
    LONGEST_GUESS,
    Explanation,
    NotAnObject,
    PlainText,
    UnusableAnswer,
    read_answer,
    read_object,
)

GOOD = {"ok": True, "why": "it's {fine}", "items": [{"id": 1}, {"id": 2}]}
SPELLED = json.dumps(GOOD)


def test_a_valid_object_is_taken_sign_by_sign() -> None:
    read = read_object(f"\n {SPELLED} ")
    assert (read.text, read.mended) == (SPELLED, ())


@pytest.mark.parametrize(
    "answer",
    [
        f"\ufeff{SPELLED}",
        f"```json\n{SPELLED}\n```",
        f"```{SPELLED}```",
        f"Sure! Here it is:\n\n```json\n{SPELLED}\n```\nLet me know if {{name}} helps.",
        f"The answer is {SPELLED} as you can see.",
        f"Fill in {{name}} and {{}}.\n{SPELLED}",
        f"[{SPELLED}]",
        f"```\n[{SPELLED}]\n```",
        f'<think>{{"ok": false}} or not?</think>\n{SPELLED}',
        f'so {{"ok": false}} is wrong\n</think>\n\n{SPELLED}',
        f'For example {{"ok": false}}. Mine:\n~~~json\n{SPELLED}\n~~~',
        f"{SPELLED}\nOnce more:\n{SPELLED}",
    ],
)
def test_what_stands_around_an_object_is_left_out(answer: str) -> None:
    assert json.loads(read_object(answer).text) == GOOD


@pytest.mark.parametrize(
    ("answer", "meant"),
    [
        ('{"a": "one\ntwo\tthree\n"}', {"a": "one\ntwo\tthree\n"}),
        ('{"a": [1, 2,], "b": "end\\n",}', {"a": [1, 2], "b": "end\n"}),
        (r'{"a": "snake\_case, it\'s \d+ C:\dir \\_"}', {"a": r"snake_case, it's \d+ C:\dir \_"}),
        (r'{"a": "\u12 é"}', {"a": r"\u12 é"}),
        ('{"a": True, "b": None, "c": [False]}', {"a": True, "b": None, "c": [False]}),
        ("{'a': 'one', 'b': None}", {"a": "one", "b": None}),
        ('{"a": "None is True,]", "b": 1,}', {"a": "None is True,]", "b": 1}),
        ('{"a": "he said "None" to me", "b": 2}', {"a": 'he said "None" to me', "b": 2}),
        ("{'a': 'the \"True\" one', 'b': 1}", {"a": 'the "True" one', "b": 1}),
    ],
)  # fmt: skip
def test_broken_json_is_read_as_it_was_meant(answer: str, meant: dict[str, Any]) -> None:
    for written in (answer, f"Here:\n```json\n{answer}\n```\nDone."):
        read = read_object(written)
        assert json.loads(read.text) == meant
        assert read.mended, "the record says that it was mended"


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I would rather not.",
        "42",
        "null",
        '"{}"',
        "[]",
        "Use {} or {name} or {'name'}.",
        "{",
        '{"a"',
        '{"a": }',
        '{"a": "use {name} and then',
        '{"a": "use {name}',
        '{"a": {"b": 1}',
        '{"items": [{"a": 1}, {"b": 2}',
        f"```json\n{SPELLED[:-2]}\n```",
        '<think>I should answer {"a": 1}',
        "[" * 100_000,
        f'{{"a": {"1" * 5000},',
        "1" * 5000,
        '{"a":' * 100_000,
        "\ufeff",
    ],
)
def test_nothing_is_made_up(answer: str) -> None:
    with pytest.raises(NotAnObject, match="no whole JSON object"):
        read_object(answer)


def test_an_answer_that_is_cut_is_told_so() -> None:
    with pytest.raises(NotAnObject, match="it begins, and breaks off before its end"):
        read_object('{"rationale": "shorter", "files": [{"path": "a.py", "content": "x')
    with pytest.raises(NotAnObject, match=r"in it$"):
        read_object("I would rather not.")


def test_an_answer_that_breaks_off_anywhere_is_no_answer() -> None:
    whole = json.dumps({"why": 'the "text", it\'s {x}', "new_text": "a {b}\nc: d, e\n", "n": [{}]})
    for length in range(len(whole)):
        for broken in (whole[:length], f"Sure:\n```json\n{whole[:length]}\n```"):
            with pytest.raises(NotAnObject):
                read_object(broken)


def test_of_two_answers_none_is_the_answer() -> None:
    with pytest.raises(NotAnObject, match="more than one JSON object"):
        read_object('{"a": 1}\n{"a": 2}')
    for twice in ('{"a": 1, "a": 2}', '{"a": 1, "a": 2,}', "{'a': 1, 'a': 2}"):
        with pytest.raises(NotAnObject, match="the key 'a' is there twice"):
            read_object(twice)


def test_a_long_answer_is_read_and_only_its_quotes_are_not_guessed_at() -> None:
    long = "x" * LONGEST_GUESS
    assert json.loads(read_object(f'{{"a": "{long}\n",}}').text) == {"a": f"{long}\n"}
    with pytest.raises(NotAnObject):
        read_object(f'{{"a": "a "quoted" word {long}"}}')


class Item(BaseModel):
    """A part of an answer."""

    number: int
    reason: Explanation


class Judged(BaseModel):
    """An answer with what may be left out, and what may not."""

    items: list[Item]
    score: float
    reason: Explanation


class Written(BaseModel):
    """An answer that is a text."""

    reason: Explanation
    new_text: Annotated[str, PlainText()]


def test_a_reason_may_be_missing_and_that_is_reported() -> None:
    read = read_answer('{"items": [{"number": 1}], "score": 0.5,}', Judged)
    assert read.value == Judged(items=[Item(number=1, reason="")], score=0.5, reason="")
    assert read.mended == ("broken JSON syntax", "missing: items.0.reason, reason")


def test_what_the_answer_is_about_may_not_be_missing() -> None:
    with pytest.raises(UnusableAnswer, match="score: Field required"):
        read_answer('{"items": []}', Judged)


def test_a_mark_changes_nothing_about_the_schema() -> None:
    assert Written.model_json_schema()["required"] == ["reason", "new_text"]
    plain = {"title": "Reason", "type": "string"}
    assert Written.model_json_schema()["properties"]["reason"] == plain


@pytest.mark.parametrize(
    "answer",
    [
        "```\nSay 7.\n```",
        "Sure:\n\n```text\nSay 7.\n```\nDone.",
        "<think>Hm.</think>\n~~~\nSay 7.\n~~~",
    ],
)
def test_a_text_in_a_fence_is_an_answer(answer: str) -> None:
    read = read_answer(answer, Written)
    assert read.value == Written(reason="", new_text="Say 7.")
    assert read.mended == ("a fenced text instead of a JSON object",)


def test_a_text_with_fences_inside_a_fence() -> None:
    inner = 'Answer so:\n```json\n{"a": 1}\n```\nand stop.'
    assert read_answer(f"```\n{inner}\n```", Written).value.new_text == inner


@pytest.mark.parametrize(
    "answer",
    [
        "Say 7.",
        "```\nSay 7.",
        "```\n\n```",
        "```\nbefore\n```\nbecomes\n```\nafter\n```",
        '```json\n{"text": "Say 7."}\n```',
        '```\n{"reason": "x"}\n```',
    ],
)
def test_what_is_no_text_in_a_fence(answer: str) -> None:
    with pytest.raises(UnusableAnswer):
        read_answer(answer, Written)


def test_where_an_answer_is_no_text_a_fence_does_not_make_it_one() -> None:
    with pytest.raises(UnusableAnswer):
        read_answer("```\nSay 7.\n```", Judged)
