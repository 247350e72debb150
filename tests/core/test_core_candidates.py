"""A candidate is its values: whatever order they came in, whoever proposed them."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.errors import NotJournalable
from burnish.core.surfaces import (
    Candidate,
    Change,
    DemonstratedCall,
    Demonstration,
    Origin,
    Value,
    diff,
    value_key,
)

swift = settings(max_examples=50, deadline=None, derandomize=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
calls = st.lists(st.builds(DemonstratedCall, tool=texts, result=texts), max_size=2).map(tuple)
demo = st.builds(Demonstration, input=texts, output=texts, calls=calls)
demos = st.lists(demo, max_size=2).map(tuple)
values: st.SearchStrategy[Value] = (
    texts
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | demos
)
assignments = st.dictionaries(texts, values, max_size=4)


def same(left: dict[str, Value], right: dict[str, Value]) -> bool:
    """Equal as a user sees it: 1 is 1.0, and True is neither."""

    def kinds(held: dict[str, Value]) -> dict[str, bool]:
        return {name: isinstance(value, bool) for name, value in held.items()}

    return left == right and kinds(left) == kinds(right)


@swift
@given(held=assignments, random=st.randoms(use_true_random=False))
def test_an_id_does_not_depend_on_the_order_of_values(
    held: dict[str, Value], random: Random
) -> None:
    names = list(held)
    random.shuffle(names)
    assert Candidate(values={n: held[n] for n in names}).id == Candidate(values=held).id


@swift
@given(left=assignments, right=assignments)
def test_different_values_have_different_ids(
    left: dict[str, Value], right: dict[str, Value]
) -> None:
    ids = Candidate(values=left).id, Candidate(values=right).id
    assert (ids[0] == ids[1]) == same(left, right)


@swift
@given(held=assignments.filter(bool), other=values, data=st.data())
def test_changing_one_value_changes_the_id(
    held: dict[str, Value], other: Value, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(held)))
    changed = {**held, name: other}
    assert (Candidate(values=held).id == Candidate(values=changed).id) == same(held, changed)


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        ({"n": 1}, {"n": 1.0}, True),
        ({"n": 0.0}, {"n": -0.0}, True),
        ({"n": 1}, {"n": True}, False),
        ({"n": 1}, {"n": "1"}, False),
        ({"n": 0.1}, {"n": 0.1 + 1e-18}, True),
        ({"n": 0.1}, {"n": 0.1 + 1e-15}, False),
        ({"ab": "c"}, {"a": "bc"}, False),
        ({"a": "x", "b": "y"}, {"a": "y", "b": "x"}, False),
        ({"d": ()}, {"d": ""}, False),
        ({}, {"d": ()}, False),
    ],
)
def test_which_values_are_the_same(
    left: dict[str, Value], right: dict[str, Value], equal: bool
) -> None:
    assert (Candidate(values=left).id == Candidate(values=right).id) is equal


def test_the_order_of_demonstrations_is_part_of_the_value() -> None:
    one, two = Demonstration(input="a", output="b"), Demonstration(input="c", output="d")
    assert Candidate(values={"d": (one, two)}).id != Candidate(values={"d": (two, one)}).id


def test_an_id_is_pinned() -> None:
    """Ids are in journals and folders: a change of spelling would orphan them."""
    assert Candidate(values={"prompt": "Hi", "n": 2}).id == PINNED


PINNED = "635a54508ac35d10"


def test_an_id_with_a_demonstration_is_pinned() -> None:
    """It was the same before demonstrations could have calls."""
    shown = Demonstration(input="2+2", output="4", case="sum")
    assert Candidate(values={"d": (shown,)}).id == "1f0075b1bd5c44e5"
    called = replace(shown, calls=(DemonstratedCall(tool="add", result="4"),))
    assert Candidate(values={"d": (called,)}).id != Candidate(values={"d": (shown,)}).id


def test_arguments_are_the_same_in_whatever_order_they_are_spelled() -> None:
    one = DemonstratedCall(tool="add", arguments='{ "b": 2, "a": 1 }')
    assert one == DemonstratedCall.of("add", {"a": 1, "b": 2}, "")
    assert one.given == {"a": 1, "b": 2}


@pytest.mark.parametrize("arguments", ["[1]", '"a"', "a", ""])
def test_arguments_are_a_json_object(arguments: str) -> None:
    with pytest.raises(ValueError, match=r"not a JSON object|Expecting value"):
        DemonstratedCall(tool="add", arguments=arguments)


def test_where_it_came_from_is_not_part_of_the_id() -> None:
    plain = Candidate(values={"t": "x"})
    merged = Candidate(values={"t": "x"}, parents=("a", "b"), origin=Origin(kind="merge", by="r"))
    assert merged.id == plain.id


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_a_value_without_a_spelling_has_no_id(value: Value) -> None:
    with pytest.raises(NotJournalable):
        _ = Candidate(values={"t": value}).id


def test_a_child_has_its_parents_other_values() -> None:
    parent = Candidate(values={"a": "1", "b": "2"}, parents=("root",))
    child = parent.child({"b": "3", "c": "4"}, origin=Origin(by="critic"))
    assert child.values == {"a": "1", "b": "3", "c": "4"}
    assert (child.parents, child.origin.by) == ((parent.id,), "critic")
    assert parent.values == {"a": "1", "b": "2"}


def test_a_diff_lists_what_changed_in_both_directions() -> None:
    old = Candidate(values={"b": "same", "a": "x", "gone": 1, "n": 1})
    new = Candidate(values={"n": 1.0, "a": "ÿ", "b": "same", "new": True})
    assert diff(old, new) == (
        Change(surface="a", before="x", after="ÿ"),
        Change(surface="gone", before=1, after=None),
        Change(surface="new", before=None, after=True),
    )
    assert [(c.surface, c.after, c.before) for c in diff(new, old)] == [
        (c.surface, c.before, c.after) for c in diff(old, new)
    ]
    assert diff(old, old) == ()


def test_a_diff_for_people() -> None:
    change = Change(surface="prompt", before="Hallo\nWelt", after="Hallo\nMünchen ☂")
    assert change.lines() == [
        "--- prompt",
        "+++ prompt",
        "@@ -1,2 +1,2 @@",
        " Hallo",
        "-Welt",
        "+München ☂",
    ]


def test_a_diff_of_demonstrations_shows_input_and_output() -> None:
    one, two = Demonstration(input="2+2", output="4"), Demonstration(input="1+1", output="2")
    lines = Change(surface="d", before=(one,), after=(one, two)).lines()
    assert lines[3:] == [" 2+2 → 4", "+1+1 → 2"]


def test_a_diff_of_demonstrations_shows_the_tools() -> None:
    plain = Demonstration(input="2+2", output="4")
    called = replace(plain, calls=(DemonstratedCall.of("add", {"a": 2, "b": 2}, "4.0"),))
    lines = Change(surface="d", before=(plain,), after=(called,)).lines()
    assert lines[3:] == ["-2+2 → 4", '+2+2 → add({"a":2,"b":2}) = 4.0 → 4']


@pytest.mark.parametrize(
    ("before", "after"), [("a", "a\n"), ("a\u2028b", "a\nb"), ("a", "a\r"), (None, "x"), (1, True)]
)
def test_a_change_is_never_shown_as_nothing(before: Value | None, after: Value) -> None:
    assert Change(surface="s", before=before, after=after).lines()


@swift
@given(left=assignments, right=assignments)
def test_a_diff_is_empty_exactly_when_the_ids_are_equal(
    left: dict[str, Value], right: dict[str, Value]
) -> None:
    old, new = Candidate(values=left), Candidate(values=right)
    assert (diff(old, new) == ()) == (old.id == new.id)
    for change in diff(old, new):
        sides = [value_key(v) for v in (change.before, change.after) if v is not None]
        assert len(set(sides)) == len(sides)
