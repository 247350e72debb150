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


def test_convert_and_back_again(burnish: Burnish, cases: Path) -> None:
    said = burnish("data", "convert", str(cases), "spiders.csv")
    assert said.code == 0
    assert said.out == "wrote    spiders.csv: 40 cases, jsonl to csv\n"
    assert burnish("data", "convert", "spiders.csv", "back.jsonl").code == 0
    assert len(Path("back.jsonl").read_text(encoding="utf-8").splitlines()) == 40


def test_what_a_format_cannot_hold_is_not_lost_unasked(burnish: Burnish, cases: Path) -> None:
    said = burnish("data", "convert", str(cases), "spiders.evalset.json")
    assert said.code == 1
    assert "cannot hold labels" in said.err
    assert "--lossy to write the rest" in said.err
    assert not Path("spiders.evalset.json").exists()
    said = burnish("data", "convert", str(cases), "spiders.evalset.json", "--lossy")
    assert said.code == 0
    assert "lost " in said.err
    assert Path("spiders.evalset.json").exists()


def test_a_label_without_a_place_is_dropped_with_a_note(burnish: Burnish, cases: Path) -> None:
    burnish("data", "convert", str(cases), "spiders.evalset.json", "--lossy")
    said = burnish("data", "convert", "spiders.evalset.json", "back.jsonl")
    assert said.code == 0
    assert said.err == "dropped  jsonl has no place for eval_set_id of the set\n"
    assert len(Path("back.jsonl").read_text(encoding="utf-8").splitlines()) == 40


def test_files_that_are_there_are_not_written_over(burnish: Burnish, cases: Path) -> None:
    Path("spiders.csv").write_text("mine", encoding="utf-8")
    said = burnish("data", "convert", str(cases), "spiders.csv")
    assert said.code == 1
    assert "this file already exists" in said.err
    assert Path("spiders.csv").read_text(encoding="utf-8") == "mine"
    assert burnish("data", "convert", str(cases), "spiders.csv", "--force").code == 0


def test_a_format_nobody_knows(burnish: Burnish, cases: Path) -> None:
    said = burnish("data", "convert", str(cases), "spiders.parquet")
    assert said.code == 1
    assert "jsonl" in said.err


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
    burnish("data", "convert", str(cases), "other.csv")
    said = burnish("data", "check", str(cases), "other.csv")
    assert said.code == 1
    assert "error" in said.out
    said = burnish("data", "check", str(cases), "other.csv", "--json")
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
