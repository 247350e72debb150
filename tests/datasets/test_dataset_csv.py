"""CSV: quotes, newlines, Unicode and spreadsheets' habits; the user's columns stay theirs."""

from pathlib import Path

import pytest

from burnish.core.cases import Case, Turn
from burnish.datasets.formats import read_cases
from tests.datasets.dataset_files import again, problems, put

FILE = """id,question,answer,context,labels,topic
1,"Où est\nle ""café"", là ?",ici,"[""un"", ""deux""]",fr; place,cafés
2,plain,,one passage,,
3,"a, b",[1] is no list,[1] is no list,one,
"""


def test_cells_of_every_kind(tmp_path: Path) -> None:
    path = put(tmp_path, "cases.csv", FILE)
    file = read_cases(path)
    assert file.cases == (
        Case(
            name="1",
            turns=(
                Turn(
                    input='Où est\nle "café", là ?',
                    expected="ici",
                    context=("un", "deux"),
                    settings={"topic": "cafés"},
                ),
            ),
            labels=("fr", "place"),
        ),
        Case(name="2", turns=(Turn(input="plain", context=("one passage",)),)),
        Case(
            name="3",
            turns=(Turn(input="a, b", expected="[1] is no list", context=("[1] is no list",)),),
            labels=("one",),
        ),
    )
    assert again(file.cases) == file.cases


@pytest.mark.parametrize(
    "content",
    [
        "\ufeffinput,expected\nq,a\n".encode(),
        b"input,expected\r\nq,a\r\n",
        b"input,expected\nq,a",
        b'"input","expected"\n"q","a"\n\n',
    ],
    ids=["BOM", "CRLF", "no end", "all quoted"],
)
def test_what_spreadsheets_write(tmp_path: Path, content: bytes) -> None:
    assert read_cases(put(tmp_path, "cases.csv", content)).cases == (Case.single("q", "a"),)


def test_a_cell_may_be_longer_than_a_book(tmp_path: Path) -> None:
    text = "word " * 50_000
    assert read_cases(put(tmp_path, "cases.csv", f"input\n{text}\n")).cases[0].input == text


@pytest.mark.parametrize("sign", [";", "\t"])
def test_a_spreadsheet_may_separate_its_cells_otherwise(tmp_path: Path, sign: str) -> None:
    header, row = sign.join(["input", '"a, b"', "expected"]), sign.join(["x, y", "1", "2,5"])
    file = read_cases(put(tmp_path, "cases.csv", f"{header}\n{row}\n"))
    assert file.cases == (
        Case(turns=(Turn(input="x, y", expected="2,5", settings={"a, b": "1"}),)),
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [": the file is empty — write a header with a column 'input'"]),
        ("a,b\n1,2\n", [": no column is plainly the question: ids, numbers and dates are none —"
                        ' name it: --input COLUMN, or input="COLUMN" in Python; there are:'
                        " 'a' (1), 'b' (2)"]),
        ("input,a,a\n1,2,3\n", [":1: two columns have the name 'a' — rename one"]),
        ("input,,a\n1,2,3\n", [":1: column 2 has no name — name it"]),
        ("id,input\n1,a\n2\n3,b,c\n4,\n1,d\n",
         [":3: expected 2 cells, found 1 — put a cell with a comma in quotes",
          ":4: expected 2 cells, found 3 — put a cell with a comma in quotes",
          ":5: the input is missing",
          ":6: two cases have the name '1'; the first is at bad.csv:2 — give each case its"
          " own name"]),
        ('input,a\n"x\ny",1\nz\n',
         [":4: expected 2 cells, found 1 — put a cell with a comma in quotes"]),
        ('input\na\n"b\nc\n', [":3: not valid CSV: unexpected end of data — check its quotes"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(tmp_path: Path, text: str, found: list[str]) -> None:
    assert problems(put(tmp_path, "bad.csv", text)) == [f"bad.csv{one}" for one in found]
