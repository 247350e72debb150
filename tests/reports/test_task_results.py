"""results.jsonl and the candidates of a task: rows are added once, whatever happens."""

import json
from collections.abc import Mapping
from pathlib import Path

from burnish.core.content import codec
from burnish.core.errors import Problem
from burnish.core.evaluations import Constraint, Measurement
from burnish.core.surfaces import Candidate
from burnish.core.trials import Decision, SplitResult, Trial, TrialRow, Verdict
from burnish.projects.artifacts.results import (
    TaskLog,
    TaskTrial,
    result_row,
    task_trials,
    write_candidate,
)

LIMIT = Constraint(metric="length", op="<=", value=3)


def texts(candidate: Candidate) -> Mapping[str, str]:
    return {name: str(text) for name, text in candidate.values.items()}


def measured(**values: float) -> SplitResult:
    return SplitResult(measurement=Measurement(loss=None, values=values), scores={})


def decision(verdict: Verdict, reason: str) -> Decision:
    return Decision(gate="strict", verdict=verdict, code="x", reason=reason)


START = Candidate(values={"a.md": "one\ntwo\n", "b.md": "same\n"})
BETTER = Candidate(values={"a.md": "one\n2\n", "b.md": "same\n"}, parents=(START.id,))
WORSE = Candidate(values={"a.md": "one", "b.md": "same\n"}, parents=(BETTER.id,))


def rows() -> list[TrialRow]:
    trials = (
        Trial(candidate=START, phase="baseline", train=measured(score=0.5, length=2)),
        Trial(
            candidate=BETTER,
            phase="edit",
            cycle=1,
            train=measured(score=0.7, length=3),
            holdout=measured(score=0.6, length=3),
            decision=decision(Verdict.ACCEPT, "better"),
            details={"decision": "keep", "rationale": "digits"},
        ),
        Trial(
            candidate=WORSE,
            phase="edit",
            cycle=2,
            train=measured(score=0.9, length=5),
            decision=decision(Verdict.REJECT, "length <= 3 does not hold"),
            details={"decision": "discard"},
        ),
        Trial(
            candidate=BETTER,
            phase="edit",
            cycle=3,
            problems=(Problem(where="c.md", message="no such file"),),
            details={"decision": "discard"},
        ),
    )
    return [TrialRow(number=n, trial=trial, seconds=1.23456) for n, trial in enumerate(trials)]


def found() -> list[TaskTrial]:
    return task_trials(rows(), texts)


def test_a_row_says_what_was_measured_and_what_became_of_it() -> None:
    kept = result_row(found()[1], primary="score", constraints=[LIMIT])
    assert (kept["trial"], kept["iteration"], kept["decision"]) == (1, 1, "keep")
    assert (kept["candidate"], kept["parent"]) == (BETTER.id, START.id)
    assert kept["score"] == 0.7
    assert kept["metrics"] == {"score": 0.7, "length": 3}
    assert kept["constraints"] == [{"constraint": "length <= 3", "value": 3, "holds": True}]
    assert kept["changes"] == [{"path": "a.md", "added": 1, "removed": 1}]
    held = kept["holdout"]
    assert isinstance(held, dict)
    assert held["score"] == 0.6
    hashes = kept["hashes"]
    assert isinstance(hashes, dict)
    before, after = hashes["baseline"], hashes["candidate"]
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert before["a.md"] != after["a.md"]
    assert before["b.md"] == after["b.md"]


def test_what_was_not_kept_has_a_row_as_well() -> None:
    baseline, _, lost, refused = (
        result_row(trial, primary="score", constraints=[LIMIT]) for trial in found()
    )
    assert baseline["decision"] == "baseline"
    assert baseline["parent"] is None
    assert lost["parent"] == BETTER.id
    assert lost["constraints"] == [{"constraint": "length <= 3", "value": 5, "holds": False}]
    assert refused["candidate"] is None
    assert refused["reason"] == "c.md: no such file"
    assert refused["score"] is None
    assert refused["changes"] == []


def test_every_candidate_has_its_files_and_a_patch_that_applies(tmp_path: Path) -> None:
    for trial in found():
        write_candidate(tmp_path, trial)
    assert (tmp_path / "iter-00" / "files" / "a.md").read_text(encoding="utf-8") == "one\ntwo\n"
    assert not (tmp_path / "iter-00" / "diff.patch").exists()
    patch = (tmp_path / "iter-02" / "diff.patch").read_text(encoding="utf-8")
    assert patch == (
        "--- a/a.md\n+++ b/a.md\n@@ -1,2 +1 @@\n-one\n-2\n+one\n\\ No newline at end of file\n"
    )
    told = (tmp_path / "iter-03" / "problems.txt").read_text(encoding="utf-8")
    assert told == "c.md: no such file\n"
    assert not (tmp_path / "iter-03" / "files").exists()


def test_the_header_keeps_what_the_task_says() -> None:
    log = TaskLog(
        task="t",
        folder="/somewhere",
        results_file="work/r.jsonl",
        candidate_dir="work/c",
        constraints=(LIMIT,),
    )
    assert TaskLog.of({"task": json.loads(json.dumps(codec(TaskLog).encode(log)))}) == log
    assert TaskLog.of({}) is None
