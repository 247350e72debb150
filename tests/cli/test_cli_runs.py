"""`burnish runs`: list, show, report, compare, rm, as text and as JSON."""

import json
from pathlib import Path

import pytest

from tests.cli.console import Burnish, refused

pytestmark = pytest.mark.slow


def test_an_empty_index(burnish: Burnish) -> None:
    assert burnish("runs", "list").out == "no runs yet; `burnish optimize FILE` makes one\n"
    assert burnish("runs", "list", "--json").out == ""


def test_list_newest_first_with_true_numbers(burnish: Burnish, finished: Path, toy: Path) -> None:
    burnish("optimize", str(toy), "-q", "-o", "aaa", "--max-trials", "1")
    header = toy.parent / "aaa" / "run.json"
    header.write_text(header.read_text().replace('"started_at": "20', '"started_at": "21'))
    said = burnish("runs", "list")
    assert [line.split()[0] for line in said.lines] == ["run", "aaa", "done"]
    facts = burnish("runs", "list", "--json").records[1]
    rows = [json.loads(line) for line in (finished / "trials.jsonl").read_text().splitlines()]
    assert facts["trials"] == len(rows) - 1
    decided = [row for row in rows if row["trial"]["decision"] is not None]
    best = [row for row in decided if row["trial"]["decision"]["verdict"] == "accept"][-1]
    assert facts["train_loss"] == best["trial"]["train"]["measurement"]["loss"]
    claim = facts["claim"]
    assert claim["verdict"] == "not shown"
    assert f"not sure {claim['gain']['mean']:.3f}" in said.lines[2]
    assert said.lines[2].split()[1].endswith("/toy.yaml")
    assert burnish("runs").out == said.out
    assert f"${facts['spent']['nano_usd'] / 1e9:.4f}" in said.lines[2]


def test_runs_are_found_by_their_tags(burnish: Burnish, finished: Path, toy: Path) -> None:
    flags = ("--max-trials", "1", "--tag", "nightly", "--tag", "team a")
    assert burnish("optimize", str(toy), "-q", "-o", "tagged", *flags).code == 0
    header = (toy.parent / "tagged" / "run.json").read_text()
    assert burnish("runs", "tag", "tagged").out == "nightly, team a\n"
    assert burnish("runs", "tag", "done", "nightly", "release").out == "nightly, release\n"
    changed = burnish("runs", "tag", "tagged", "kept", "--remove", "nightly")
    assert changed.out == "kept, team a\n"
    assert (toy.parent / "tagged" / "run.json").read_text() == header
    said = burnish("runs", "list")
    assert said.lines[0].split()[-1] == "tags"
    listed = burnish("runs", "list", "--tag", "nightly", "--json").records
    assert [(row["id"], row["tags"]) for row in listed] == [("done", ["nightly", "release"])]
    assert burnish("runs", "list", "--tag", "kept", "--tag", "release").out == (
        "no run has all of these tags\n"
    )
    assert "tags     nightly, release" in burnish("runs", "show", "done").lines
    refused(burnish("runs", "tag", "done", "--remove", "kept"), "has no tag 'kept'", "nightly")
    refused(burnish("runs", "tag", "done", "<b>"), "'<b>' cannot be a tag")
    refused(burnish("optimize", str(toy), "--tag", "-"), "'-' cannot be a tag")


def test_a_run_whose_folder_is_gone_is_not_listed(burnish: Burnish, finished: Path) -> None:
    finished.rename(finished.with_name("moved"))
    assert burnish("runs", "list").out.startswith("no runs yet")
    assert burnish("runs", "show", "moved").code == 0


def test_show_tells_the_run_again(burnish: Burnish, finished: Path) -> None:
    said = burnish("runs", "show", "done")
    assert said.lines[0] == "done · finished: the strategy had nothing left to try"
    assert said.lines[1] == "toy agent · climb · train 6, holdout 4, test 4 cases"
    assert sum(line.startswith("[c1/") for line in said.lines) == 6
    assert any(line.startswith("sealed test, looked at once: ") for line in said.lines)
    facts = burnish("runs", "show", "done", "--json").json
    assert (facts["status"], facts["accepted"]) == ("finished", said.out.count("accept ✓"))
    assert f"spent    {facts['spent']['calls']} calls" in said.out


def test_show_one_trial(burnish: Burnish, finished: Path) -> None:
    kept = json.loads((finished / "trials.jsonl").read_text().splitlines()[1])
    assert burnish("runs", "show", "done", "--trial", "1", "--json").json == kept
    said = burnish("runs", "show", "done", "--trial", "1")
    assert said.lines[0].startswith("trial 1 · cycle 1 · words · ")
    assert "+++ instructions" in said.lines
    assert sum(line.startswith("  message-") for line in said.lines) == 10
    assert said.lines[-1].startswith(kept["trial"]["decision"]["verdict"])
    assert burnish("runs", "show", "done", "--trial", "0").code == 0
    refused(burnish("runs", "show", "done", "--trial", "99"), "no trial 99", "0 to 6")
    refused(burnish("runs", "show", "done", "--trial", "-1"), "no trial -1")


def test_show_the_calls(burnish: Burnish, finished: Path) -> None:
    records = burnish("runs", "show", "done", "--calls", "--json").records
    facts = burnish("runs", "show", "done", "--json").json
    assert sum(row["spend"]["calls"] for row in records) == facts["spent"]["calls"]
    said = burnish("runs", "show", "done", "--calls")
    assert len(said.lines) == len(records) + 1
    assert said.lines[1].startswith(records[0]["key"][:12])
    first = burnish("runs", "show", "done", "--calls", "--trial", "1", "--json").records
    assert {row["trial"] for row in first} == {1}
    assert "role:proposer" in {row["kind"] for row in first}


def test_the_report_is_written_again(burnish: Burnish, finished: Path) -> None:
    written = (finished / "report.md").read_text(encoding="utf-8")
    (finished / "report.md").unlink()
    assert burnish("runs", "report", "done").out == written
    assert (finished / "report.md").read_text(encoding="utf-8") == written


def test_compare_two_runs(burnish: Burnish, finished: Path, toy: Path) -> None:
    burnish("optimize", str(toy), "-q", "-o", "short", "--max-trials", "1")
    said = burnish("runs", "compare", "done", "short")
    told = burnish("runs", "compare", "done", "short", "--json").json
    words = [case["word"] for case in told["cases"]["train"]]
    counts = ", ".join(f"{words.count(word)} {word}" for word in ("up", "down", "same"))
    assert f"train: {counts} of 6 shared cases" in said.out
    assert told["left"]["id"] == "done"
    same = burnish("runs", "compare", "done", "done").out
    assert "train: 0 up, 0 down, 6 same of 6 shared cases" in same


def test_compare_more_than_two_runs(burnish: Burnish, finished: Path, toy: Path) -> None:
    burnish("optimize", str(toy), "-q", "-o", "short", "--max-trials", "1")
    said = burnish("runs", "compare", "done", "short", "done")
    assert said.code == 0
    assert said.out.count("shared cases, from left to right") == 4
    assert "done and short" in said.out
    told = burnish("runs", "compare", "done", "short", "done", "--json").json
    assert [run["id"] for run in told["runs"]] == ["done", "short", "done"]
    pair = burnish("runs", "compare", "done", "short", "--json").json
    assert told["cases"][0] == pair["cases"]
    assert {case["word"] for case in told["cases"][1]["train"]} == {"same"}
    assert burnish("runs", "compare", "done").code == 1
    pytest.importorskip("plotly", reason="pages need the extra `view`")
    burnish("runs", "compare", "done", "short", "done", "--html", "page.html")
    assert "3 runs side by side" in Path("page.html").read_text(encoding="utf-8")
    many = burnish("runs", "compare", *["done"] * 13, "--html", "page.html")
    assert (many.code, "room for 12 runs" in many.err) == (1, True)


def test_compare_runs_that_share_nothing(burnish: Burnish, finished: Path, toy: Path) -> None:
    toy.write_text(toy.read_text().replace("test: 0", "test: 4"), encoding="utf-8")
    burnish("optimize", str(toy), "-q", "-o", "none", "--max-calls", "1")
    said = burnish("runs", "compare", "done", "none")
    assert said.code == 0
    assert "train: the best candidates share no scored case" in said.out


def test_rm_asks_first(
    burnish: Burnish, finished: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer = tmp_path / "answer"
    for text, code in (("n\n", 0), ("", 1)):
        answer.write_text(text)
        with answer.open() as stdin, monkeypatch.context() as patch:
            patch.setattr("sys.stdin", stdin)
            assert burnish("runs", "rm", "done").code == code
        assert finished.exists()
    said = burnish("runs", "rm", "done", "--yes")
    assert (said.code, said.out) == (0, f"removed {finished}\n")
    assert not finished.exists()
    assert burnish("runs", "list").out.startswith("no runs yet")


def test_a_killed_run_says_how_to_go_on(burnish: Burnish, stopped: Path) -> None:
    import sqlite3

    with sqlite3.connect(stopped / "journal.db") as db:
        db.execute("DELETE FROM events WHERE json_extract(body, '$.kind') = 'run_finished'")
    db.close()
    lines = (stopped / "events.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    left = [line for line in lines if '"kind":"run_finished"' not in line]
    (stopped / "events.jsonl").write_text("".join(left), encoding="utf-8")
    said = burnish("runs", "show", "part")
    assert said.lines[0] == "part · killed"
    assert said.lines[-1] == "go on    burnish runs resume part"
    assert "| status | killed |" in burnish("runs", "report", "part").out
    assert burnish("runs", "resume", "part", "-q", "--max-trials", "3").code == 0
    assert burnish("runs", "show", "part", "--json").json["status"] == "finished"


def test_why_explains_a_search_and_refuses_a_measurement(burnish: Burnish, finished: Path) -> None:
    said = burnish("why", "done")
    assert said.lines[0] == "# Why done ended as it did"
    facts = burnish("why", "done", "--json").json
    lines = (finished / "trials.jsonl").read_text().splitlines()
    rows = [json.loads(line)["trial"] for line in lines]
    winner = facts["steps"][-1]["trial"]
    assert rows[winner]["decision"]["verdict"] == "accept"
    assert f"- trial {winner}, {facts['steps'][-1]['what']}: train loss" in said.out
    header = finished / "run.json"
    header.write_text(header.read_text().replace('"climb"', '"measure"'))
    refused(burnish("why", "done"), "measured and searched for nothing", "runs show")
