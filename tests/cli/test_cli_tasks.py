"""`burnish optimize` over the files of a task: whole runs, with a scripted editor."""

import json
import sys
from pathlib import Path

import pytest

from burnish.cli.optimization import RunOpening
from burnish.core.errors import BaselineUnmeasured, ConfigError
from burnish.models.chat import ChatReply, ChatRequest
from burnish.runs.directory import RunRecord
from burnish.runs.setup import start
from burnish.testing.doubles import ScriptedBackend
from tests.cli.console import Burnish, refused, tree
from tests.projects.artifacts.task_world import (
    TEXT,
    Change,
    adding,
    optimize,
    prepared,
    put,
    results,
    top,
    write_task,
)

pytestmark = pytest.mark.slow

TWO, THREE, FOUR = "one\ntwo\n", "one\ntwo\nthree\n", "one\ntwo\nthree\nfour\n"


"""For tests that count what the editor did."""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def notes(folder: Path) -> str:
    return (folder / "notes.md").read_text(encoding="utf-8")


def test_only_what_is_better_is_kept_and_everything_is_logged(tmp_path: Path) -> None:
    file = write_task(tmp_path)
    before = tree(tmp_path)
    optimize(adding(TWO, "one\ntwo\ntwo\n", "boom\n"), file)
    after = tree(tmp_path)
    assert {name: after[name] for name in before} == before
    rows = results(tmp_path)
    assert [row["decision"] for row in rows] == ["baseline", "keep", "discard", "crash"]
    assert [row["score"] for row in rows[:3]] == [0.25, 0.5, 0.5]
    assert rows[2]["constraints"] == [{"constraint": "doubled == 0", "value": 1.0, "holds": False}]
    assert "it blew up" in rows[3]["reason"]
    assert {row["run"] for row in rows} == {RunRecord.read(tmp_path / "run").header.id}
    for row in rows:
        assert (tmp_path / row["folder"] / "files" / "notes.md").exists()
    patch = (tmp_path / rows[3]["folder"] / "diff.patch").read_text(encoding="utf-8")
    assert "+boom\n" in patch


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (put("scorer", command="python3 -c 'raise KeyError(7)'"), "KeyError: 7"),
        (put("scorer", command="echo nothing"), "the scorer's answer cannot be used"),
        (put("scorer", command="no-such-scorer"), "exit code 127"),
        (put("runner", command="no-such-runner"), "exit code 127"),
    ],
)
def test_what_is_never_scored_ends_the_run_before_an_edit_is_paid(
    tmp_path: Path, change: Change, why: str
) -> None:
    file, editor = write_task(tmp_path, change), adding(TWO)
    with pytest.raises(BaselineUnmeasured) as error:
        optimize(editor, file)
    assert "1 of 1 runs of cases ended in an error" in error.value.message
    assert why in error.value.message
    assert error.value.exit_code == 1
    assert not editor.asked
    assert RunRecord.read(tmp_path / "run").status == "failed"


def test_files_that_never_run_are_no_result(tmp_path: Path) -> None:
    file = write_task(tmp_path, put("runner", command="grep -q two notes.md"))
    with pytest.raises(BaselineUnmeasured, match="and no candidate could be: 1 case: the runner"):
        optimize(adding("one\nthree\n", FOUR.replace("two", "2")), file)
    assert len(results(tmp_path)) > 1
    optimize(adding(TWO), file, way=RunOpening(output_dir=Path("again")))
    assert RunRecord.read(tmp_path / "again").status == "finished", "an edit can make them run"


def test_a_second_run_adds_its_rows(tmp_path: Path) -> None:
    file = write_task(tmp_path, put("budget", max_iterations=1))
    optimize(adding(TWO), file)
    first = results(tmp_path)
    optimize(adding(THREE), file, way=RunOpening(output_dir=Path("again")))
    rows = results(tmp_path)
    assert rows[: len(first)] == first
    assert len({row["run"] for row in rows}) == 2


def test_a_run_that_goes_on_adds_what_is_not_there_yet(tmp_path: Path) -> None:
    file = write_task(tmp_path)
    optimize(adding(TWO), file, max_trials=1)
    path = tmp_path / "work" / "results.jsonl"
    first, second = path.read_text(encoding="utf-8").splitlines()
    path.write_text(f"{first}\n{second[:40]}", encoding="utf-8")
    optimize(adding(THREE, FOUR), None, way=RunOpening(resume="run"), max_trials=3)
    rows = results(tmp_path)
    assert [row["trial"] for row in rows] == [0, 1, 2, 3]
    assert rows[1] == json.loads(second)
    assert rows[3]["score"] == 1.0


def test_another_budget_in_the_file_is_no_other_task(tmp_path: Path) -> None:
    optimize(adding(TWO), write_task(tmp_path, put("budget", max_iterations=1)))
    write_task(tmp_path, put("budget", max_iterations=7))
    optimize(adding(THREE), None, way=RunOpening(resume="run"), max_trials=2)
    assert [row["score"] for row in results(tmp_path)] == [0.25, 0.5, 0.75]


def test_adopting_shows_the_diff_checks_the_originals_and_undoes(
    tmp_path: Path, burnish: Burnish
) -> None:
    optimize(adding(TWO), write_task(tmp_path, put("budget", max_iterations=1)))
    diff = burnish("adopt", "run", "--diff").out
    assert "+two" in diff
    assert notes(tmp_path) == TEXT
    assert burnish("adopt", "run", "--yes").code == 0
    assert notes(tmp_path) == TWO
    assert "has been adopted since" in burnish("adopt", "run", "--yes").out
    assert burnish("adopt", "run", "--undo").code == 0
    assert notes(tmp_path) == TEXT
    (tmp_path / "notes.md").write_text("mine\n", encoding="utf-8")
    refused(burnish("adopt", "run", "--yes"), "notes.md is not what the run measured")
    assert notes(tmp_path) == "mine\n"


def test_in_place_changes_the_files_after_success_and_can_be_undone(
    tmp_path: Path, burnish: Burnish, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_task(tmp_path, put("budget", max_iterations=1))
    optimize(adding(TWO), file, in_place=True)
    assert "changed  notes.md" in capsys.readouterr().out
    assert notes(tmp_path) == TWO
    assert burnish("adopt", "run", "--undo").code == 0
    assert notes(tmp_path) == TEXT


def test_in_place_leaves_files_alone_that_somebody_changed(tmp_path: Path) -> None:
    file, editor = write_task(tmp_path, put("budget", max_iterations=1)), adding(TWO)

    def respond(request: ChatRequest, draw: int) -> str | ChatReply:
        (tmp_path / "notes.md").write_text("mine\n", encoding="utf-8")
        return editor.respond(request, draw)

    with pytest.raises(ConfigError) as error:
        optimize(ScriptedBackend(respond=respond), file, in_place=True)
    assert "is not what the run measured" in str(error.value)
    assert notes(tmp_path) == "mine\n"


def test_a_dry_run_says_what_would_run_and_runs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = adding(TWO)
    file = write_task(tmp_path, top(holdout={"scorer": {"command": "python3 score.py"}}))
    before = tree(tmp_path)
    optimize(backend, file, dry_run=True)
    told = capsys.readouterr().out
    for words in (
        "strategy  edits, seed 42, editor openai:m",
        "  notes.md: 1 line",
        "scorer    python3 score.py, at most 300 s",
        "holdout   scorer python3 score.py, at most 300 s",
        "sandbox   limits only, as asked",
        "only if   doubled == 0",
        "at a tie  lower length",
        "an edit   at most 2 files and 6 changed lines",
        "limits    max_trials 3, max_failures 10",
        "nothing was run or paid",
    ):
        assert words in told
    assert backend.asked == []
    assert tree(tmp_path) == before


@pytest.mark.parametrize("strategy", ["edits", "coordinate"])
def test_a_dry_run_says_which_numbers_code_of_a_candidate_could_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], strategy: str
) -> None:
    file = write_task(
        tmp_path,
        put("artifacts", include=["notes.md", "solve.py", "config.yaml"]),
        top(axes=[{"file": "config.yaml", "path": "size", "low": 1, "high": 9}]),
    )
    (tmp_path / "solve.py").write_text("", encoding="utf-8")
    (tmp_path / "config.yaml").write_text("size: 1\n", encoding="utf-8")
    optimize(adding(TWO), file, dry_run=True, strategy=strategy)
    told = " ".join(capsys.readouterr().out.split())
    own = "! score, doubled: measured by a process that can run the candidate's own code (solve.py)"
    # Numbers in a file of data are all that the other strategy changes.
    assert (own in told) == (strategy == "edits")


def test_the_baseline_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backend = adding(TWO)
    optimize(backend, write_task(tmp_path), print_baseline=True)
    told = capsys.readouterr().out
    assert "score" in told
    assert "0.25" in told
    assert backend.asked == []


def test_holdout_decides_and_stands_apart(tmp_path: Path) -> None:
    holdout = 'import json; print(json.dumps({"score": 0.1, "metrics": {"doubled": 0}}))'
    file = write_task(tmp_path, top(holdout={"scorer": {"command": "python3 held.py"}}))
    (tmp_path / "held.py").write_text(holdout, encoding="utf-8")
    optimize(adding(TWO), file, max_trials=1)
    row = results(tmp_path)[1]
    assert (row["decision"], row["score"], row["holdout"]["score"]) == ("discard", 0.5, 0.1)


def test_numbers_of_a_file_are_tuned_and_adopted_with_its_comments(
    tmp_path: Path, burnish: Burnish
) -> None:
    scorer = """
import json, re
size = int(re.search(r"size: (\\d+)", open("c.yaml").read())[1])
print(json.dumps({"score": (size - 20) ** 2}))
"""
    axis = {"file": "c.yaml", "path": "cache.size", "low": 1, "high": 32, "integer": True}
    goal = {"direction": "minimize", "worst": 400, "best": 0}
    file = write_task(
        tmp_path,
        put("artifacts", include=["c.yaml"]),
        top(axes=[axis], objective=goal, constraints=[], policy={}, budget={}),
    )
    (tmp_path / "score.py").write_text(scorer, encoding="utf-8")
    config = tmp_path / "c.yaml"
    config.write_text("# sizes\ncache:\n  size: 4  # now\n", encoding="utf-8")
    optimize(adding(TWO), file, strategy="coordinate", max_cycles=1, numeric_max_trials=8)
    rows = results(tmp_path)
    assert [row["score"] for row in rows if row["decision"] == "baseline"] == [256]
    kept = [row for row in rows if row["decision"] == "keep"]
    assert kept[-1]["score"] < 256
    assert kept[-1]["changes"] == [{"path": "c.yaml", "added": 1, "removed": 1}]
    assert burnish("adopt", "run", "--yes").code == 0
    told = config.read_text(encoding="utf-8")
    assert told.startswith("# sizes\ncache:\n  size: ")
    assert told.endswith("# now\n")
    assert "size: 4 " not in told
    assert burnish("adopt", "run", "--undo").code == 0
    assert "size: 4 " in config.read_text(encoding="utf-8")


def test_a_run_that_was_moved_resumes_from_its_new_place(tmp_path: Path, burnish: Burnish) -> None:
    file = write_task(tmp_path / "project")
    optimize(adding(TWO), file, max_trials=1)
    (tmp_path / "run").rename(tmp_path / "moved")
    optimize(adding(THREE), None, way=RunOpening(resume="moved"), max_trials=2)
    assert RunRecord.read(tmp_path / "moved").trials == 2
    assert "edits" in burnish("runs", "list").out, "it is known in its new place"
    assert str(tmp_path / "moved") in burnish("runs", "show", "run").out, "by its id, too"


def test_a_project_that_was_moved_with_its_run_resumes_with_its_file_named(tmp_path: Path) -> None:
    file = write_task(tmp_path / "project")
    optimize(
        adding(TWO), file, way=RunOpening(output_dir=Path("project/results/one")), max_trials=1
    )
    (tmp_path / "project").rename(tmp_path / "moved")
    run = tmp_path / "moved" / "results" / "one"
    way = RunOpening(resume=str(run))
    optimize(adding(THREE), tmp_path / "moved" / "task.json", way=way, max_trials=2)
    assert [row.trial.candidate.values["notes.md"] for row in RunRecord.read(run).rows] == [
        TEXT,
        TWO,
        THREE,
    ]


def test_a_run_inside_the_task_that_was_killed_at_once_resumes(tmp_path: Path) -> None:
    file = write_task(tmp_path / "project")
    folder = tmp_path / "project" / "results" / "one"
    project = prepared(file, adding(TWO), max_trials=1)

    class Killed(BaseException):
        pass

    def cut(event: str, arguments: tuple[object, ...]) -> None:
        if armed and event == "sqlite3.connect":
            raise Killed

    armed = [True]
    sys.addaudithook(cut)
    try:
        with pytest.raises(Killed):
            start(project.setup, folder=folder)
    finally:
        armed.clear()
    assert (folder / "run.json").is_file()
    optimize(adding(TWO), None, way=RunOpening(resume=str(folder)), max_trials=1)
    assert RunRecord.read(folder).accepted == 1


def test_a_model_reads_the_context_of_a_task(tmp_path: Path) -> None:
    backend = adding("one\ntwo\n")
    file = write_task(tmp_path, put("artifacts", context=["style.md"]))
    (tmp_path / "style.md").write_text("Words of three letters.", encoding="utf-8")
    optimize(backend, file, max_trials=1)
    said = "".join(message.content for message in backend.asked[0].messages)
    assert "They cannot be edited:\n\n=== style.md\nWords of three letters.\n=== end" in said


def test_a_task_file_says_how_a_crash_and_a_good_score_end_the_loop(tmp_path: Path) -> None:
    stopping = put("policy", on_failure="stop"), put("budget", max_iterations=5)
    optimize(adding(TWO, "boom\n", THREE), write_task(tmp_path / "crash", *stopping))
    assert [row["decision"] for row in results(tmp_path / "crash")] == ["baseline", "keep", "crash"]
    assert RunRecord.read(Path("run")).search_end == "failure"
    enough = put("budget", max_iterations=5, target_score=0.75)
    way = RunOpening(output_dir=Path("enough"))
    file = write_task(tmp_path / "target", enough)
    optimize(adding(TWO, THREE, FOUR), file, way=way)
    assert [row["score"] for row in results(tmp_path / "target")] == [0.25, 0.5, 0.75]


def test_a_task_file_opens_a_pool_and_the_winner_is_measured_again(tmp_path: Path) -> None:
    """Two edits in a round, and the second round starts from the second best too."""
    pool = top(candidates_per_iteration=2, incumbents=2)
    backend = adding("one\nred\n", "one\nred\nblue\n", "one\nred\nblue\ngreen\n", "one\nred\ntan\n")
    optimize(backend, write_task(tmp_path, put("budget", max_iterations=2), pool))
    asked = ["".join(each.content for each in request.messages) for request in backend.asked]
    assert len(asked) == 4
    assert sum("one\nred\nblue\n" in each for each in asked[2:]) >= 1
    parents = {tuple(row.trial.candidate.parents) for row in RunRecord.read(Path("run")).rows[3:]}
    assert len(parents) == 2, "each edit of the second round has its own start"
    claim = RunRecord.read(Path("run")).claim
    assert claim is not None
    assert "measured again" in claim.reason


def test_line_ends_of_windows_stay_where_a_model_edits_in_place(tmp_path: Path) -> None:
    file = write_task(tmp_path, put("budget", max_iterations=1))
    (tmp_path / "notes.md").write_bytes(b"one\r\n")
    optimize(adding(TWO), file, in_place=True)
    assert (tmp_path / "notes.md").read_bytes() == b"one\r\ntwo\r\n"
