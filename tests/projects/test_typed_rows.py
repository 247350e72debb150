"""Rows of a program whose inputs and answers are no texts: functions get them as what they are."""

from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from burnish import Case, evaluate, optimize
from burnish.core.errors import ConfigError
from burnish.datasets.columns import cases_of_rows
from burnish.datasets.formats import jsonl_of, read_cases

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
VALUES: list[Any] = [{"a": 2, "b": [3, None]}, [1, "x"], 7, 0, 2.5, True, False, {}, "7", "true"]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.chdir(tmp_path)


def same(first: object, second: object) -> bool:
    """Equal, and of the same type: True is no 1."""
    return type(first) is type(second) and first == second


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_function_and_metric_get_what_the_row_has(value: Any) -> None:
    seen: list[Any] = []

    def echo(question: Any, instructions: str) -> Any:
        seen.append(question)
        return {"echo": question, "by": instructions}

    def right(output: Any, expected: Any, input: Any) -> bool:  # noqa: A002
        return same(output["echo"], expected) and same(input, expected)

    found = evaluate(echo, {"instructions": "."}, cases=[(value, value)], metric=right)
    assert found.passed
    assert len(seen) == 1
    assert same(seen[0], value)


class Row(NamedTuple):
    numbers: tuple[int, ...]
    total: int


def test_columns_of_any_name_tuples_and_functions_without_texts() -> None:
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    rows = [Row((1, 2), 3), Row((4, 5, 6), 15)]
    found = evaluate(
        total,
        cases=rows,
        metric=lambda output, expected: output == expected,
        input="numbers",
        expected="total",
    )
    assert found.passed


def test_a_metric_of_texts_compares_spellings() -> None:
    found = evaluate(lambda x: {"sum": x["a"]}, cases=[({"a": 2}, {"sum": 2})], metric="equality")
    assert found.passed


def test_a_search_over_dicts_is_paid_once(tmp_path: Path) -> None:
    asked: list[Any] = []

    def add(numbers: dict[str, int], instructions: str) -> int:
        asked.append(numbers)
        return numbers["a"] + numbers["b"] if "add" in instructions else 0

    def right(output: int, expected: int) -> tuple[bool, str]:
        return output == expected, f"expected {expected + 0}"

    def search() -> Any:
        return optimize(
            add,
            {"instructions": "Answer."},
            cases=[({"a": a, "b": b}, a + b) for a in range(2, 8) for b in range(2, 10)],
            metric=right,
            reflector=lambda messages: "Please add.",
            budget=120,
            folder=tmp_path / "run",
            progress=False,
        )

    first, paid = search(), len(asked)
    assert first.best == {"instructions": "Please add."}
    assert all(type(each) is dict for each in asked)
    assert search().best == first.best
    assert len(asked) == paid


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_case_that_was_stored_is_the_same_case(value: Any, tmp_path: Path) -> None:
    file = cases_of_rows([{"input": value, "expected": value, "unit": "cm"}])
    (tmp_path / "cases.jsonl").write_text(jsonl_of(file.cases), encoding="utf-8")
    (stored,) = read_cases(tmp_path / "cases.jsonl").cases
    assert stored.content_id == file.cases[0].content_id
    assert same(stored.turns[0].input_value, value)
    assert same(stored.turns[0].expected_value, value)


def test_a_text_is_another_case_than_the_number_it_spells() -> None:
    (number,), (text,) = (cases_of_rows([(each, "x")]).cases for each in (7, "7"))
    assert number.input == text.input
    assert number.content_id != text.content_id
    assert text.content_id == Case.single("7", "x").content_id


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"input": timedelta(1), "expected": "x"}, r"cases\[1\]\['input'\]: timedelta is neither"),
        ({"input": "x", "expected": {1, 2}}, r"cases\[1\]\['expected'\]: set is neither"),
        ({"input": {"at": [b"x"]}, "expected": "x"}, r"cases\[1\]\['input'\]: bytes is neither"),
        ({"input": "x", "expected": "y", "extra": Case}, r"\['extra'\]: type is neither text nor"),
    ],
)
def test_what_is_no_json_is_one_error_with_row_and_column(row: Any, words: str) -> None:
    def never(question: Any) -> str:
        raise AssertionError("nothing may be called")

    rows = [("a", "b"), row, row]
    with pytest.raises(ConfigError, match=words) as raised:
        evaluate(never, cases=rows, metric="equality")
    assert len(raised.value.problems) == 1
