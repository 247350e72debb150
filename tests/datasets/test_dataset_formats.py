"""Which format a file has, files that are none, and folders of EvalSets."""

import json
from pathlib import Path

import pytest

from burnish.core.cases import Case
from burnish.core.errors import BurnishError, ConfigError, FileTrouble
from burnish.datasets.formats import read_cases, read_folder, write_cases
from tests.datasets.dataset_files import problems, put, said

ROW = '{"input": "q"}'
EVALSET = json.dumps(
    {
        "eval_set_id": "x",
        "eval_cases": [{"eval_id": "a", "conversation": [{"user_content": said("q")}]}],
    }
)
WRITTEN = {
    "evalset": ("a.evalset.json", EVALSET),
    "test_cases": ("a.yml", "- input: q"),
    "jsonl": ("a.JSONL", ROW),
    "json": ("a.json", f"[{ROW}]"),
    "csv": ("a.csv", "input\nq\n"),
}


@pytest.mark.parametrize("format", WRITTEN)
def test_the_name_tells_the_format(tmp_path: Path, format: str) -> None:  # noqa: A002
    name, text = WRITTEN[format]
    assert read_cases(put(tmp_path, name, text)).cases[0].input == "q"


@pytest.mark.parametrize("format", WRITTEN)
def test_a_format_may_be_named(tmp_path: Path, format: str) -> None:  # noqa: A002
    path = put(tmp_path, "cases.txt", WRITTEN[format][1])
    assert read_cases(path, format=format).cases[0].input == "q"


def test_a_name_that_stands_for_no_format(tmp_path: Path) -> None:
    assert problems(put(tmp_path, "cases.txt", "q")) == [
        "the name 'cases.txt' does not tell the format of the cases — name a file that ends in"
        " .evalset.json, .test.json, .yaml, .yml, .jsonl, .ndjson, .json, .csv, or a format:"
        " evalset, test_cases, jsonl, json, csv"
    ]


@pytest.mark.parametrize(
    ("format", "remedy"),
    [("jsonn", "did you mean 'json'?"),
     ("parquet", "known formats: evalset, test_cases, jsonl, json, csv")],
)  # fmt: skip
def test_a_format_that_is_none(tmp_path: Path, format: str, remedy: str) -> None:  # noqa: A002
    with pytest.raises(ConfigError) as caught:
        read_cases(put(tmp_path, "a.csv", ""), format=format)
    assert str(caught.value) == f"unknown format '{format}' — {remedy}"


@pytest.mark.parametrize("name", ["a.evalset.json", "a.yaml", "a.jsonl", "a.json", "a.csv"])
class TestFilesThatAreNone:
    def test_an_empty_file(self, tmp_path: Path, name: str) -> None:
        (problem,) = problems(put(tmp_path, name, ""))
        assert problem.startswith(f"{name}: the file is empty")

    def test_a_folder(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).mkdir()
        assert problems(tmp_path / name) == [
            f"{tmp_path / name}: this is a folder — name one of its files"
        ]

    def test_a_file_that_is_not_there(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(FileTrouble, match="it does not exist"):
            read_cases(tmp_path / name)

    def test_bytes_that_are_no_text(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(BurnishError, match="not UTF-8 text"):
            read_cases(put(tmp_path, name, b'{"input": "\xff"}'))


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.json", "{oops", ":1:2: not valid JSON: Expecting property name enclosed in double"
         " quotes"),
        ("a.evalset.json", '{"a": 1\n}}', ":2:2: not valid JSON: Extra data"),
        ("a.json", '{"a": 1}', ": expected cases, found a mapping — write an EvalSet with"
         " 'eval_cases', or a list of rows with an 'input' each"),
        ("a.evalset.json", "[]", ": expected an EvalSet with 'eval_cases', found a list"),
        ("a.evalset.json", '{"eval_set_id": "x", "eval_cases": {}}',
         ":1 eval_cases: expected a list, found a mapping"),
    ],
)  # fmt: skip
def test_json_that_holds_no_cases(tmp_path: Path, name: str, text: str, problem: str) -> None:
    assert problems(put(tmp_path, name, text)) == [f"{name}{problem}"]


@pytest.mark.parametrize("depth", [101, 400, 100_000])
@pytest.mark.parametrize(
    ("name", "text"),
    [("a.jsonl", '{"input": "q", "x": %s}'), ("a.json", '[{"input": "q", "x": %s}]'),
     ("a.evalset.json", '{"eval_set_id": "x", "eval_cases": [{"eval_id": "a", "rubrics": %s}]}')],
)  # fmt: skip
def test_values_without_end(tmp_path: Path, name: str, text: str, depth: int) -> None:
    (problem,) = problems(put(tmp_path, name, text % ("[" * depth + "]" * depth)))
    assert ": its values are nested too deeply" in problem


class TestFolders:
    def test_every_evalset_in_order(self, tmp_path: Path) -> None:
        (tmp_path / "app").mkdir()
        names = ["b.test.json", "app/z.evalset.json", "a.evalset.json", "test_config.json"]
        for name in names:
            put(tmp_path, name, EVALSET)
        found = read_folder(tmp_path)
        assert [str(path.relative_to(tmp_path)) for path in found] == [
            "a.evalset.json",
            "app/z.evalset.json",
            "b.test.json",
        ]
        assert {file.eval_set_id for file in found.values()} == {"x"}

    def test_the_problems_of_all_files_are_said_together(self, tmp_path: Path) -> None:
        put(tmp_path, "a.evalset.json", "[]")
        put(tmp_path, "b.evalset.json", "")
        with pytest.raises(ConfigError) as caught:
            read_folder(tmp_path)
        assert [problem.where for problem in caught.value.problems] == [
            "a.evalset.json",
            "b.evalset.json",
        ]

    def test_a_folder_without_any(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"the folder has no \*\.evalset\.json or \*\.test"):
            read_folder(tmp_path)


def test_cases_of_one_name_are_not_written(tmp_path: Path) -> None:
    cases = [Case.single("q", name="a"), Case.single("r", name="a")]
    with pytest.raises(ConfigError, match="two cases have the name 'a'"):
        write_cases(tmp_path / "a.jsonl", cases)
    assert not (tmp_path / "a.jsonl").exists()
