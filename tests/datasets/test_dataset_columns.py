"""Which columns of a file are taken for the question, the answer and the name."""

import json
from pathlib import Path

import pytest

from burnish.core.cases import Case
from burnish.core.errors import ConfigError
from burnish.datasets.formats import read_with_columns
from tests.datasets.dataset_files import put


@pytest.mark.parametrize(
    ("header", "rows", "columns"),
    [
        ("question,answer", ["a,b", "c,d"], "input = question, expected = answer"),
        ("question,price", ["a,1", "c,2"], "input = question, expected = price"),
        ("id,body,queue,when", ["1,a b,x,9", "2,c d,y,8"],
         "input = body, expected = queue, name = id"),
        ("words,mood,n", ["a b c,up,1", "d e f,up,2", "g,down,3", "h i,up,4"],
         "input = words, expected = mood"),
        ("message,user_id", ["a b,7", "c d,7"], "input = message"),
        ("id,text", ["1,a", "1,b"], "input = text"),
    ],
)  # fmt: skip
def test_the_likely_columns(tmp_path: Path, header: str, rows: list[str], columns: str) -> None:
    path = put(tmp_path, "x.csv", "\n".join([header, *rows, ""]))
    assert str(read_with_columns(path)[1]) == columns


def test_columns_that_the_user_names(tmp_path: Path) -> None:
    row = {"utterance": "hi", "intent": "greet", "reply": "hello"}
    path = put(tmp_path, "x.jsonl", json.dumps(row))
    file, _ = read_with_columns(path, input="utterance", expected="reply")
    assert file.cases[0].turns[0].expected == "hello"
    assert file.cases[0].turns[0].settings == {"intent": "greet"}
    with pytest.raises(ConfigError, match="has no column 'uterance' — did you mean 'utterance'"):
        read_with_columns(path, input="uterance")


def test_a_row_without_a_question_is_named(tmp_path: Path) -> None:
    path = put(tmp_path, "x.csv", "ticket,category\na,x\n,y\n")
    with pytest.raises(ConfigError, match="row 2 has nothing in the column 'ticket' — fill it in"):
        read_with_columns(path)


def test_a_file_without_columns_is_read_as_it_is(tmp_path: Path) -> None:
    path = put(tmp_path, "x.yaml", "- {input: a, ground_truth: b}\n")
    file, columns = read_with_columns(path)
    assert columns is None
    assert file.cases[0].turns[0].expected == "b"
    assert isinstance(file.cases[0], Case)
