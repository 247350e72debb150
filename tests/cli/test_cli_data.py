"""`burnish data`: what it writes, what it refuses, and what it says of judges."""

import json
from pathlib import Path

import pytest

from tests.cli.console import Burnish


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """Forty questions with labels, one of them asked twice in almost the same words."""
    rows = [
        {"name": f"q{n}", "input": f"How many legs do {n} grey spiders have together?",
         "expected": str(8 * n), "label": "odd" if n % 2 else "even"}
        for n in range(1, 40)
    ]  # fmt: skip
    rows.append({**rows[0], "name": "again", "input": rows[0]["input"].replace("?", " ?")})
    path = tmp_path / "spiders.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_convert_writes_json_lines(burnish: Burnish) -> None:
    Path("spiders.csv").write_text("question,answer,label\nq,a,x;y\n", encoding="utf-8")
    said = burnish("data", "convert", "spiders.csv", "spiders.jsonl")
    assert said.code == 0
    assert said.out == "wrote    spiders.jsonl: 1 case\n"
    row = {"input": "q", "expected": "a", "labels": ["x", "y"]}
    assert json.loads(Path("spiders.jsonl").read_text(encoding="utf-8")) == row


def test_files_that_are_there_are_not_written_over(burnish: Burnish, cases: Path) -> None:
    Path("copy.jsonl").write_text("mine", encoding="utf-8")
    said = burnish("data", "convert", str(cases), "copy.jsonl")
    assert said.code == 1
    assert "this file already exists" in said.err
    assert Path("copy.jsonl").read_text(encoding="utf-8") == "mine"
    assert burnish("data", "convert", str(cases), "copy.jsonl", "--force").code == 0


@pytest.mark.parametrize("name", ["spiders.csv", "spiders.evalset.json", "spiders.parquet"])
def test_nothing_else_is_written(burnish: Burnish, cases: Path, name: str) -> None:
    said = burnish("data", "convert", str(cases), name)
    assert said.code == 1
    assert "cases are written as JSON lines" in said.err
    assert "name a file that ends in .jsonl" in said.err
    assert not Path(name).exists()


def test_split_is_seeded_whole_and_clean(burnish: Burnish, cases: Path) -> None:
    said = burnish("data", "split", str(cases), "-o", "one")
    assert said.code == 0
    files = sorted(Path("one").iterdir())
    assert [file.name for file in files] == [
        "spiders-holdout.jsonl",
        "spiders-test.jsonl",
        "spiders-train.jsonl",
    ]
    assert "next     burnish data check" in said.out
    names = [json.loads(line)["name"] for f in files for line in f.read_text().splitlines()]
    assert sorted(names) == sorted({*names})
    homes = {json.loads(line)["name"]: f.name for f in files for line in f.read_text().splitlines()}
    if "again" in homes and "q1" in homes:
        assert homes["again"] == homes["q1"]
    assert burnish("data", "split", str(cases), "-o", "two").code == 0
    assert [f.read_text() for f in files] == [f.read_text() for f in sorted(Path("two").iterdir())]
    assert burnish("data", "check", *map(str, files)).code == 0
    assert burnish("data", "split", str(cases), "-o", "one").code == 1


def test_check_finds_a_case_in_two_files(burnish: Burnish, cases: Path) -> None:
    burnish("data", "convert", str(cases), "other.jsonl")
    said = burnish("data", "check", str(cases), "other.jsonl")
    assert said.code == 1
    assert "error" in said.out
    said = burnish("data", "check", str(cases), "other.jsonl", "--json")
    assert said.code == 1
    assert any(found["severity"] == "error" for found in json.loads(said.out)["found"])


def test_check_says_what_a_set_can_show(burnish: Burnish, cases: Path) -> None:
    said = burnish("data", "check", str(cases))
    assert said.code == 0
    assert "can show" in said.lines[0]
    facts = json.loads(burnish("data", "check", str(cases), "--json").out)["splits"][0]
    assert (facts["cases"], facts["labels"]) == (40, {"odd": 21, "even": 19})
    assert 0.2 < facts["smallest_difference"] < 0.5


def test_one_case_can_show_nothing(burnish: Burnish, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("input,expected\nHi?,hello\n", encoding="utf-8")
    said = burnish("data", "check", "one.csv")
    assert "nothing" in said.lines[1]
    found = json.loads(burnish("data", "check", "one.csv", "--json").out)
    assert found["splits"][0]["smallest_difference"] is None
