"""A path into JSON finds its value, or says in words where it ends too early."""

import pytest

from burnish.core.content import Json
from burnish.metrics.document_matching import path_problem, read_path

TREE: Json = {
    "answer": 5,
    "a": {"b": [{"c": "deep"}, None], "x y": True},
    "0": "zero",
    "text": "t",
    "empty": {},
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("answer", 5),
        ("$.answer", 5),
        (" $answer ", 5),
        ("a.b[0].c", "deep"),
        ("$.a.b[0].c", "deep"),
        ("a.b.0.c", "deep"),
        ("a.b[-2].c", "deep"),
        ("a.b[1]", None),
        ("a['x y']", True),
        ('a["x y"]', True),
        ("['0']", "zero"),
        ("0", "zero"),
        ("$", TREE),
    ],
)
def test_a_path_finds(path: str, value: Json) -> None:
    found = read_path(TREE, path)
    assert found.problem == ""
    assert found.value == value
    assert path_problem(path) == ""


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (
            "missing",
            "nothing at 'missing': $ is an object with the keys answer, a, 0, text, empty",
        ),
        ("a.b[7]", "$.a.b is a list of 2 and has no item '7'"),
        ("a.b.c", "$.a.b is a list of 2 and has no item 'c'"),
        ("a.b[99999999999999]", "has no item"),
        ("text.more", "$.text is a text, which has no keys or items"),
        ("a.b[1].c", "$.a.b[1] is null, which has no keys or items"),
        ("empty.x", "$.empty is an object without keys"),
        ("", "is not a path: write it like a.b[0].c"),
        ("a..b", "is not a path"),
        ("a.", "is not a path"),
        ("a[b]", "is not a path"),
        (".a", "is not a path"),
        ("a.x y", "is not a path"),
        ("a[", "is not a path"),
    ],
)
def test_a_path_that_leads_nowhere(path: str, words: str) -> None:
    found = read_path(TREE, path)
    assert words in found.problem
    assert found.value is None


def test_a_large_object_is_not_listed_whole() -> None:
    found = read_path({f"key{n}": n for n in range(5000)}, "x" * 5000)
    assert "key5, …" in found.problem
    assert len(found.problem) < 400


@pytest.mark.parametrize(
    ("path", "value"),
    [("$", '{"a": [1, {"b-c": null}]}'), ("$.a[0]", 1), ("$.a[1].b-c", None), ("$.a[-2]", 1)],
)
def test_a_text_is_read_as_json_where_the_path_leads_into_it(path: str, value: Json) -> None:
    assert read_path('{"a": [1, {"b-c": null}]}', path, into_texts=True).value == value


@pytest.mark.parametrize(
    ("text", "words"),
    [("plain words", "$ is a text that is not JSON"), ('"7"', "$ is a text, which has no keys")],
)
def test_a_text_that_is_no_json_has_nothing_inside(text: str, words: str) -> None:
    assert words in read_path(text, "$.a", into_texts=True).problem
