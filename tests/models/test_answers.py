"""Reading the JSON object in an answer: what is read as it was meant, and what is no answer."""

import json
from typing import Any

import pytest

from burnish.models.answers import LONGEST_GUESS, NotAnObject, read_object

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
