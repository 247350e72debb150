"""Which columns of a table are taken for the question, the answer and the name."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from burnish.core.cases import Case
from burnish.core.errors import ConfigError
from burnish.datasets.agent_cases import CaseFile
from burnish.datasets.columns import cases_of_rows
from burnish.datasets.formats import read_cases
from tests.datasets.dataset_files import put

Row = dict[str, Any]


def taken(file: CaseFile) -> str:
    return str(file.columns)


def written(folder: Path, rows: Sequence[Row], ending: str) -> Path:
    """The same rows as a file of this format."""
    lines = io.StringIO()
    if ending == "csv":
        table = csv.DictWriter(lines, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    elif ending == "jsonl":
        lines.write("\n".join(map(json.dumps, rows)))
    else:
        lines.write(json.dumps(rows if ending == "json" else {"test_cases": rows}))
    return put(folder, f"table-{ending}.{ending.removeprefix('wrapped.')}", lines.getvalue())


FORMATS = ("csv", "jsonl", "json", "wrapped.json")


@pytest.mark.parametrize(
    ("header", "rows", "columns"),
    [
        ("question,answer", ["a,b", "c,d"], "input = question, expected = answer"),
        ("question,price", ["a,1", "c,2"], "input = question, expected = price"),
        ("prompt,completion,tone", ["a,b,x", "c,d,y"], "input = prompt, expected = completion"),
        ("id,body,queue,when", ["1,a b,x,9", "2,c d,y,8"],
         "input = body, expected = queue, name = id"),
        ("words,mood,n", ["a b c,up,1", "d e f,up,2", "g,down,3", "h i,up,4"],
         "input = words, expected = mood, name = n"),
        ("message,user_id", ["a b,7", "c d,7"], "input = message"),
        ("id,text", ["1,a", "1,b"], "input = text"),
        ("Ticket No,Message,Queue", ["0,Where is it?,x", "1,Pay me,y"],
         "input = Message, expected = Queue, name = Ticket No"),
        ("Ticket #,Ticket type,Ticket text", ["17,bug,It is broken again", "9,bug,I cannot log in",
         "12,wish,Make it blue please", "3,wish,Send more of them"],
         "input = Ticket text, expected = Ticket type, name = Ticket #"),
        ("Message Nr,Message body", ["0,a b", "1,c d", "2,e f"],
         "input = Message body, name = Message Nr"),
        ("Ticket,Text", ["T-1,where is it", "T-2,no answer yet"], "input = Text, name = Ticket"),
        ("Email,Description", ["a@x.org,it fails", "b@x.org,it works"], "input = Description"),
        ("Created,Request", ["2026-01-02 10:00,a b", "2026-01-03 11:00,c d"], "input = Request"),
        ("user,Message body", ["ann,where is my parcel", "bob,why is it late"],
         "input = Message body"),
        ("frage,antwort", ["Wann ist das?,Das ist morgen um zehn Uhr", "Wo ist das?,Im Haus"],
         "input = frage, expected = antwort"),
        ("betreff,nachricht,art", ["Hallo ihr da,Wo ist mein Paket denn nur?,a",
         "Guten Tag zusammen,Ich will mein Geld gern zurück,a", "Eine Frage dazu,Habt ihr auch "
         "andere Farben?,b", "Noch etwas anderes,Kann ich das umtauschen bitte?,b"],
         "input = nachricht, expected = art"),
        ("Customer ID,Case ID,Text", ["c1,k1,a b c", "c2,k2,d e f"],
         "input = Text, name = Case ID"),
        ("Problem,Result", ["12 + 7,19", "3 * 4,12"], "input = Problem, expected = Result"),
        ("text,response time,label", ["a b,3 min,x", "c d,9 min,y"],
         "input = text, expected = label"),
        ("工单,类别", ["我的包裹在哪里", "请退款"], "input = 工单"),
    ],
)  # fmt: skip
def test_the_likely_columns(tmp_path: Path, header: str, rows: list[str], columns: str) -> None:
    if header.isascii() or "," in rows[0]:
        lines = [header, *rows, ""]
    else:
        lines = [header, *(f"{row}," for row in rows), ""]
    assert taken(read_cases(put(tmp_path, "x.csv", "\n".join(lines)))) == columns


AWKWARD = [
    {
        "Ticket No": number,
        "Received": f"2026-01-{number % 28 + 1:02d} 10:05",
        "Sender": f"jo{number}@example.org",
        "Message body": f"My parcel {number} is not here, where can it be?",
        "Queue": ("billing", "delivery", "returns")[number % 3],
    }
    for number in range(12)
]


def test_every_format_is_read_to_the_same_cases(tmp_path: Path) -> None:
    files = [read_cases(written(tmp_path, AWKWARD, ending)) for ending in FORMATS]
    files.append(cases_of_rows(AWKWARD))
    for file in files:
        assert taken(file) == "input = Message body, expected = Queue, name = Ticket No"
        assert [case.id for case in file.cases] == [str(number) for number in range(12)]
        assert file.cases == files[0].cases
    assert files[0].cases[1].turns[0].settings == {
        "Received": "2026-01-02 10:05",
        "Sender": "jo1@example.org",
    }


@pytest.mark.parametrize("ending", FORMATS)
def test_columns_that_the_user_names(tmp_path: Path, ending: str) -> None:
    row = {"utterance": "hi", "intent": "greet", "reply": "hello"}
    path = written(tmp_path, [row], ending)
    file = read_cases(path, input="utterance", expected="reply")
    assert file.cases[0].turns[0].expected == "hello"
    assert file.cases[0].turns[0].settings == {"intent": "greet"}
    with pytest.raises(ConfigError, match="has no column 'uterance' — did you mean 'utterance'"):
        read_cases(path, input="uterance")
    with pytest.raises(ConfigError, match="cannot be the question and the answer"):
        read_cases(path, input="reply", expected="reply")


@pytest.mark.parametrize("ending", FORMATS)
def test_a_number_is_a_question_if_the_user_says_so(tmp_path: Path, ending: str) -> None:
    rows = [{"n": 17, "prime": True, "note": "odd one"}, {"n": 18, "prime": False, "note": "even"}]
    file = read_cases(written(tmp_path, rows, ending), input="n", expected="prime")
    assert [case.input for case in file.cases] == ["17", "18"]
    assert [str(case.expected).lower() for case in file.cases] == ["true", "false"]


@pytest.mark.parametrize("ending", FORMATS)
def test_another_column_than_the_usual_one(tmp_path: Path, ending: str) -> None:
    rows = [{"input": "short", "output": "a", "body": "the long one", "kind": "k"}]
    file = read_cases(written(tmp_path, rows, ending), input="body", expected="kind")
    assert file.cases[0].turns[0].settings == {"input": "short", "output": "a"}
    assert (file.cases[0].input, file.cases[0].expected) == ("the long one", "k")


@pytest.mark.parametrize("ending", FORMATS)
def test_nothing_is_guessed_beside_the_usual_question(tmp_path: Path, ending: str) -> None:
    rows = [{"input": f"q {n}", "category": "ab"[n % 2], "Ticket No": n} for n in range(4)]
    file = read_cases(written(tmp_path, rows, ending))
    assert taken(file) == "input = input"
    assert {(case.expected, case.name) for case in file.cases} == {(None, "")}
    assert [*file.cases[0].turns[0].settings] == ["category", "Ticket No"]


@pytest.mark.parametrize("ending", FORMATS)
def test_ids_numbers_and_dates_are_no_questions(tmp_path: Path, ending: str) -> None:
    rows = [{"Ticket No": n, "When": f"2026-02-0{n + 1}", "Text": f"A-{n}7"} for n in range(4)]
    with pytest.raises(ConfigError) as refused:
        read_cases(written(tmp_path, rows, ending))
    words = str(refused.value)
    assert "no column is plainly the question: ids, numbers and dates are none" in words
    assert 'name it: --input COLUMN, or input="COLUMN" in Python' in words
    assert "'Ticket No' (0), 'When' (2026-02-01), 'Text' (A-07)" in words


@pytest.mark.parametrize(
    ("ending", "place"), [("csv", ":3:"), ("jsonl", ":2:"), ("json", ":1 [1]:")]
)
def test_a_row_without_a_question_is_named(tmp_path: Path, ending: str, place: str) -> None:
    rows = [{"ticket": text, "category": "x"} for text in ("it is broken", "", "it is late")]
    path = written(tmp_path, rows, ending)
    with pytest.raises(ConfigError) as refused:
        read_cases(path)
    problem = "there is nothing in the column 'ticket' — fill it in, or remove the row"
    assert str(refused.value) == f"{path.name}{place} {problem}"


def test_a_problem_names_the_column_of_the_file(tmp_path: Path) -> None:
    path = put(tmp_path, "x.jsonl", '{"body": "a b", "reply": "x"}\n{"body": "c", "reply": ["y"]}')
    with pytest.raises(ConfigError, match=r"x\.jsonl:2 reply: expected text, found a list"):
        read_cases(path, expected="reply")


def test_lines_that_cannot_be_read_come_before_the_guess(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^x\.jsonl:2: not valid JSON"):
        read_cases(put(tmp_path, "x.jsonl", '{"nr": 1}\noops\n'))


def test_a_file_without_columns_is_read_as_it_is(tmp_path: Path) -> None:
    path = put(tmp_path, "x.yaml", "- {input: a, ground_truth: b}\n")
    file = read_cases(path)
    assert file.columns is None
    assert file.cases == (Case.single("a", "b"),)
    with pytest.raises(ConfigError, match="there is no column 'a': only CSV, JSONL and lists"):
        read_cases(path, input="a")


def test_conversations_are_read_as_they_are(tmp_path: Path) -> None:
    row = {"turns": [{"input": "a"}, {"input": "b"}], "Message": "c d"}
    (case,) = read_cases(put(tmp_path, "x.jsonl", json.dumps(row))).cases
    assert [turn.input for turn in case.turns] == ["a", "b"]


def test_a_sample_of_each_column_fits_the_screen() -> None:
    file = cases_of_rows(AWKWARD)
    assert file.columns is not None
    lines = file.columns.sampled(file.cases).splitlines()
    assert lines == [
        'input = "Message body" ("My parcel 0 is not here…"),',
        'expected = "Queue" ("billing"), name = "Ticket No" ("0")',
    ]
    long = [{"a very long name of a column " * 4: "it is broken " * 40}]
    file = cases_of_rows(long)
    assert file.columns is not None
    assert all(len(line) <= 78 for line in file.columns.sampled(file.cases).splitlines())
    assert "no expected answers" in file.columns.sampled(file.cases)


# -- Rows of a program -----------------------------------------------------------------------------


class Question(NamedTuple):
    input: str
    expected: str


class Number:
    """A number of NumPy, as frames have it."""

    def __init__(self, value: float) -> None:
        self.value = value

    def tolist(self) -> float:
        return self.value


class Frame:
    """What is common to frames of pandas."""

    columns = ("text", "label")

    def to_dict(self, how: str) -> list[Row]:
        assert how == "records"
        return [
            {"text": "it is broken", "label": Number(1), "note": float("nan")},
            {"text": "it is late", "label": Number(0), "note": "twice"},
        ]


class Polars:
    """What is common to frames of polars."""

    def to_dicts(self) -> list[Row]:
        return Frame().to_dict("records")


def stream() -> Iterator[Row]:
    yield from Frame().to_dict("records")


@pytest.mark.parametrize("rows", [Frame(), Polars(), stream()])
def test_frames_and_streams(rows: Any) -> None:
    file = cases_of_rows(rows)
    assert taken(file) == "input = text, expected = label"
    assert [(case.input, case.expected) for case in file.cases] == [
        ("it is broken", "1"),
        ("it is late", "0"),
    ]
    assert [case.turns[0].settings for case in file.cases] == [{"note": None}, {"note": "twice"}]


def test_pairs_rows_and_cases() -> None:
    case = Case.single("c", "d", name="own")
    rows = [("a", "b"), ["2 + 2", 4], {"input": "x"}, case, Question("e", "f")]
    cases = cases_of_rows(rows).cases
    assert [(each.input, each.expected) for each in cases] == [
        ("a", "b"),
        ("2 + 2", "4"),
        ("x", None),
        ("c", "d"),
        ("e", "f"),
    ]
    assert cases[3] is case


def test_values_of_a_program_become_json() -> None:
    row = {"input": "a", "on": date(2026, 1, 2), "price": Decimal("1.50"), "at": Path("x")}
    (case,) = cases_of_rows([row]).cases
    assert case.turns[0].settings == {"on": "2026-01-02", "price": "1.50", "at": "x"}


def test_columns_of_rows_are_named() -> None:
    rows = [{"a": "it is broken", "b": "x", "c": "y"}]
    file = cases_of_rows(rows, input="a", expected="c")
    assert (file.cases[0].input, file.cases[0].expected) == ("it is broken", "y")
    with pytest.raises(ConfigError, match="input: cases has no column 'z' — there are: a, b, c"):
        cases_of_rows(rows, input="z")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"train": [], "test": []}, "this is one mapping — pass a list of rows, or one of 'train'"),
        (["a text"], r"cases\[0\]: expected a row or a pair, found 'a text'"),
        (
            [{"input": "a", "image": object()}],
            r"\['image'\]: object is neither text nor JSON",
        ),
        ([{"Nr": 1}], "no column is plainly the question"),
    ],
)
def test_what_are_no_rows(rows: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        cases_of_rows(rows)


def test_no_rows_are_no_cases() -> None:
    assert cases_of_rows([]).cases == ()


def test_rows_that_all_differ_are_read_in_time_in_proportion() -> None:
    rows = [{f"key {number}": f"some text of row {number}"} for number in range(5_000)]
    with pytest.raises(ConfigError, match="there is nothing in the column 'key 0'"):
        cases_of_rows([{"key 0": "the longest text of all of these rows"}, *rows[1:]])
