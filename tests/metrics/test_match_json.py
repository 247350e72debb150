"""JSON agrees tree by tree, and what differs is told path by path."""

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.content import Json
from burnish.core.errors import ConfigError, MissingExtra
from burnish.metrics.document_matching import (
    JsonRule,
    check_schema,
    compare_json,
    compare_json_texts,
)

EXACT = JsonRule()
CITY: dict[str, Json] = {
    "type": "object",
    "required": ["city"],
    "properties": {"city": {"type": "string"}, "heat": {"type": "number"}},
}


@pytest.mark.parametrize(
    ("rule", "expected", "found"),
    [
        (EXACT, {"a": 1, "b": [1, 2]}, {"b": [1.0, 2], "a": 1.0}),
        (EXACT, {"a": 1}, {"a": 1.000001}),
        (EXACT, "caf\u00e9", "cafe\u0301"),
        (EXACT, None, None),
        (JsonRule(number_tolerance=0.1), [0.8], [0.7]),
        (JsonRule(ignore_tree={"id": True}), {"id": 1, "a": 2}, {"a": 2}),
        (
            JsonRule(ignore_tree={"m": {"t": True}}),
            {"m": {"t": 1, "x": 2}},
            {"m": {"t": 9, "x": 2}},
        ),
        (JsonRule(ignore_tree={"id": True}), [{"id": 1}, {"id": 2}], [{"id": 8}, {"id": 9}]),
        (JsonRule(ignore_tree={"l": {"id": True}}), {"l": [{"id": 1}]}, {"l": [{"id": 2}]}),
        (JsonRule(only_tree={"a": True}), {"a": [1], "b": 2}, {"a": [1], "c": 3}),
        (JsonRule(only_tree={"l": {"a": True}}), {"l": [{"a": 1, "b": 2}]}, {"l": [{"a": 1}]}),
        (JsonRule(only_tree={}), {"a": 1}, {"a": 1}),
        (JsonRule(match="skip"), {"a": 1}, {"a": 2}),
        (JsonRule(ignore=True), 1, 2),
        (JsonRule(match="skip", schema=CITY), None, {"city": "Paris"}),
        (JsonRule(match="skip", schema=True), None, 5),
    ],
)
def test_values_that_agree(rule: JsonRule, expected: Json, found: Json) -> None:
    match = compare_json(expected, found, rule)
    assert match == ""


@pytest.mark.parametrize(
    ("rule", "expected", "found", "words"),
    [
        (EXACT, {"a": {"b": [1, 2, 3]}}, {"a": {"b": [1, 2, 4]}}, "$.a.b[2]: expected 3, found 4"),
        (EXACT, {"a": 1}, {}, "$.a: missing, expected 1"),
        (EXACT, {}, {"a b": "x"}, "$['a b']: unexpected, found 'x'"),
        (EXACT, [1, 2], [1], "$: expected a list of 2, found a list of 1"),
        (EXACT, [1, 2], [2, 1], "$[0]: expected 1, found 2"),
        (EXACT, 1, True, "$: expected 1, found true"),
        (EXACT, False, 0, "$: expected false, found 0"),
        (EXACT, 5, "5", "$: expected 5, found the text '5'"),
        (EXACT, {"a": 1}, [1], '$: expected {"a": 1}, found [1]'),
        (EXACT, None, 0, "$: expected null, found 0"),
        (EXACT, 1, 1.0000011, "$: expected 1, found 1.0000011"),
        (JsonRule(number_tolerance=0.0), 1, 1.000001, "found 1.000001"),
        (JsonRule(ignore_tree={"a": True}), {"a": 1, "b": 2}, {"a": 9, "b": 3}, "$.b: expected 2"),
        (JsonRule(ignore_tree={"m": {"t": True}}), {"m": {"x": 2}}, {"m": {"x": 3}}, "$.m.x: exp"),
        (JsonRule(ignore_tree={"a": False}), {"a": 1}, {"a": 2}, "$.a: expected 1, found 2"),
        (JsonRule(only_tree={"a": True}), {"a": 1, "b": 2}, {"b": 2}, "$.a: missing"),
        (JsonRule(schema=CITY), {"city": 5}, {"city": 5}, "$.city: 5 is not of type 'string'"),
        (JsonRule(match="skip", schema=CITY), None, {}, "'city' is a required property"),
        (JsonRule(match="skip", schema=False), None, 5, "$: False schema does not allow 5"),
        (
            JsonRule(match="skip", schema={"type": "oops"}),
            None,
            {},
            "the schema is invalid at $.type",
        ),
        (
            JsonRule(match="skip", schema={"$ref": "http://nowhere.invalid/x"}),
            None,
            {},
            "the schema has a reference that cannot be resolved",
        ),
    ],
)
def test_values_that_do_not(rule: JsonRule, expected: Json, found: Json, words: str) -> None:
    match = compare_json(expected, found, rule)
    assert match
    assert words in match


@pytest.mark.parametrize(
    ("rule", "expected", "found", "words"),
    [
        (EXACT, '{"a": 1}', ' {"a": 1.0} ', ""),
        (EXACT, '{"a": 1}', "{'a': 1}", "which is not JSON: expecting property name"),
        (EXACT, '{"a": 1}', 'Sure! {"a": 1}', "ask for JSON with nothing around it"),
        (EXACT, '{"a": 1}', '{"a": 1} Done.', "there is more text after it"),
        (EXACT, '{"a": 1}', '```json\n{"a": 1}\n```', "inside a ``` fence: ask for bare JSON"),
        (EXACT, '{"a": 1}', "", "expected JSON, found nothing"),
        (EXACT, "[1]", "[NaN]", "NaN is not valid JSON"),
        (EXACT, "[1]", "[1e999]", "the number 1e999 is too large"),
        (EXACT, "[1]", "[" + "9" * 5000 + "]", "not JSON"),
        (EXACT, "[1]", "[" * 100_000, "nested too deeply"),
        (EXACT, "nope", "[1]", "the expected answer is not JSON (found 'nope'"),
        (EXACT, None, "[1]", "the expected answer is not JSON (expected JSON, found nothing"),
        (JsonRule(match="skip"), None, "no JSON at all", ""),
        (JsonRule(match="skip", valid=True), None, "[1]", ""),
        (JsonRule(match="skip", valid=True), None, "no", "'no', which is not JSON"),
        (JsonRule(match="skip", schema=CITY), None, "no", "which is not JSON"),
        (JsonRule(ignore=True, valid=True), None, "no", ""),
    ],
)
def test_texts(rule: JsonRule, expected: str | None, found: str, words: str) -> None:
    match = compare_json_texts(expected, found, rule)
    assert bool(match) == bool(words)
    assert words in match
    assert len(match) < 400


def test_defect_001_3_14_one_is_one_point_zero() -> None:
    assert compare_json_texts('{"n": 1}', '{"n": 1.0}') == ""


def test_defect_001_3_14_two_texts_that_are_no_json_do_not_match() -> None:
    match = compare_json_texts("not json", "not json")
    assert match
    assert "the expected answer is not JSON" in match


def test_defect_001_3_14_an_empty_rule_compares() -> None:
    assert compare_json_texts("{}", "{}", JsonRule()) == ""
    assert compare_json_texts("{}", "[]", JsonRule())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_schema_reads_no_other_file(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"type": "string"}')
    match = compare_json(None, "text", JsonRule(match="skip", schema={"$ref": other.as_uri()}))
    assert "the schema has a reference that cannot be resolved" in match


def test_both_trees_are_refused() -> None:
    with pytest.raises(ConfigError, match="cannot have both an ignore tree and an only tree"):
        JsonRule(ignore_tree={"a": True}, only_tree={"b": True})


def test_five_differences_are_told_and_no_more() -> None:
    match = compare_json(list(range(50)), [n + 1 for n in range(50)])
    assert match.count("expected") == 5
    assert match.endswith("; and more")


def test_large_values_keep_the_reason_short() -> None:
    match = compare_json({"k" * 5000: "x" * 100_000}, {"k" * 5000: list(range(10_000))})
    assert match
    assert len(match) < 400


def test_deep_trees_are_walked() -> None:
    one, other = "[" * 900 + "1" + "]" * 900, "[" * 900 + "2" + "]" * 900
    assert compare_json_texts(one, one) == ""
    assert "expected 1, found 2" in compare_json_texts(one, other)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**6), 10**6),
    st.floats(-1e6, 1e6).map(lambda number: round(number, 3)),
    st.text(max_size=5),
)
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abcd"), trees, max_size=4)


def with_floats(value: Any) -> Any:
    """The same value, whole numbers written as floats."""
    if isinstance(value, dict):
        return {key: with_floats(inner) for key, inner in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [with_floats(inner) for inner in value]  # pyright: ignore[reportUnknownVariableType]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


class TestLaws:
    @given(tree=trees)
    @settings(max_examples=50, deadline=None, derandomize=True)
    def test_a_tree_is_itself(self, tree: Json) -> None:
        assert compare_json(tree, tree) == ""
        assert compare_json(tree, with_floats(tree)) == ""

    @given(one=trees, other=trees)
    @settings(max_examples=50, deadline=None, derandomize=True)
    def test_both_ways_are_the_same(self, one: Json, other: Json) -> None:
        match = compare_json(one, other)
        assert bool(match) == bool(compare_json(other, one))

    @given(tree=objects, key=st.sampled_from("abcd"), change=trees)
    @settings(max_examples=50, deadline=None, derandomize=True)
    def test_ignoring_a_key_hides_any_change_under_it(
        self, tree: dict[str, Json], key: str, change: Json
    ) -> None:
        rule = JsonRule(ignore_tree={key: True})
        without = {name: value for name, value in tree.items() if name != key}
        assert compare_json(tree, {**tree, key: change}, rule) == ""
        assert compare_json(tree, without, rule) == ""
        inner = JsonRule(ignore_tree={"in": {key: True}})
        assert compare_json({"in": [tree]}, {"in": [without]}, inner) == ""

    @given(
        one=objects, other=objects, chosen=st.sets(st.sampled_from("abcd"), min_size=1, max_size=3)
    )
    @settings(max_examples=50, deadline=None, derandomize=True)
    def test_only_some_keys_is_ignoring_the_rest(
        self, one: dict[str, Json], other: dict[str, Json], chosen: set[str]
    ) -> None:
        only = JsonRule(only_tree=dict.fromkeys(chosen, True))
        rest = JsonRule(ignore_tree=dict.fromkeys(set("abcd") - chosen, True))
        assert compare_json(one, other, only) == compare_json(one, other, rest)

    @given(flag=st.booleans(), number=st.one_of(st.integers(0, 1), st.floats(0, 1)))
    @settings(max_examples=30, deadline=None, derandomize=True)
    def test_true_is_never_a_number(self, flag: bool, number: float) -> None:
        assert compare_json(flag, number)
        assert compare_json(number, flag, JsonRule(number_tolerance=5.0))


def test_without_jsonschema_a_schema_is_refused_before_any_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(MissingExtra, match=r"pip install .*\[schema\]"):
        JsonRule(schema=CITY)
    with pytest.raises(MissingExtra, match="not installed"):
        check_schema({}, CITY)
    assert compare_json({"a": 1}, {"a": 1}) == ""
    assert JsonRule(schema=CITY, ignore=True).reads is False
