"""The files of the sealed test: nothing but the test finds them, and no editor is told of them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.cases import Dataset
from burnish.core.leaks import LeakWatch
from burnish.system.sandbox import Mode
from burnish.targets.artifacts.task import HeldOut, Runner, Scoring, Task
from tests.targets.artifacts.task_folders import (
    COMMAND,
    PROBE,
    opened,
    ran,
    task_in,
    write,
)

NEEDS_BWRAP = pytest.mark.skipif(not PROBE.works, reason=f"bubblewrap: {PROBE.reason}")
MODES = ["none", pytest.param("bwrap", marks=NEEDS_BWRAP)]
LISTS = """find . -type f >&2; echo '{"score": 1}'"""
LOOK = "find . -type f; echo 1 > out.txt"
FILES = {
    "held/in.txt": "",
    "held/right.txt": "",
    "last/in.txt": "",
    "last/other.txt": "",
    "last/right.txt": "the last answer",
    "own/right.txt": "",
}


def sealed(folder: Path) -> Task:
    write(folder, FILES)
    return task_in(
        folder,
        runner=Runner(command=LOOK),
        scoring=Scoring(command=LISTS),
        holdout=HeldOut(
            runner=Runner(command=f"cat held/in.txt; {LOOK}"),
            scoring=Scoring(command=LISTS, files=("held/right.txt",)),
            files=("held/**",),
        ),
        test=HeldOut(
            runner=Runner(command=f"cat last/in.txt; {LOOK}"),
            scoring=Scoring(command=LISTS, files=("own/**",)),
            files=("last/**",),
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
async def test_only_the_test_finds_its_files(tmp_path: Path, mode: Mode) -> None:
    task = sealed(tmp_path)
    cases = ("task", "holdout", "test")
    outcomes = {case: (await ran(opened(task, mode), case)).data for case in cases}
    for case in ("task", "holdout"):
        assert "last/" not in str(outcomes[case]), case
        assert "own/" not in str(outcomes[case]), case
    last = outcomes["test"]
    assert isinstance(last, dict)
    assert "last/in.txt" in str(last["runner"])
    assert not any(name in str(last["runner"]) for name in ("last/right", "own/", "held/"))
    assert all(name in str(last["scorer"]) for name in ("last/right.txt", "own/right.txt"))
    assert "held/" not in str(last)


async def test_no_editor_finds_them_even_if_they_match_what_may_be_edited(tmp_path: Path) -> None:
    target = opened(replace(sealed(tmp_path), include=("**/*.txt",)))
    assert set(target.texts) == {"value.txt", "data/input.txt"}
    async with target.workspace(target.texts) as workspace:
        assert not [path for path in workspace.before.files if path.startswith(("last", "own"))]
    await target.close()


@pytest.mark.slow
@NEEDS_BWRAP
async def test_isolated_runners_do_not_find_them_where_they_lie(tmp_path: Path) -> None:
    task = sealed(tmp_path)
    peek = Runner(command=f"cat {tmp_path}/last/right.txt; echo 1 > out.txt")
    assert task.holdout is not None
    task = replace(task, runner=peek, holdout=replace(task.holdout, runner=peek))
    for case in ("task", "holdout"):
        assert "the last answer" not in str((await ran(opened(task, "bwrap"), case)).data)


def test_a_task_without_a_test_is_described_as_before(tmp_path: Path) -> None:
    task = replace(sealed(tmp_path), test=None)
    assert sorted(task.described([])) == ["env", "files", "folders", "steps"]
    assert sorted(sealed(tmp_path).described([])) == ["env", "files", "folders", "steps", "test"]


def test_a_test_that_shares_files_is_said_not_to_be_sealed(tmp_path: Path) -> None:
    task = sealed(tmp_path)
    assert opened(task).doubts == ()
    shared = replace(task, test=HeldOut(scoring=COMMAND, files=("held/in.txt",)))
    (doubt,) = opened(shared).doubts
    assert doubt.startswith("held/in.txt belongs to the test and to something else too")


QUESTION = "Which harbour did the grain ship leave in the third week?"
CASES = json.dumps({"question": QUESTION, "answer": "the old harbour of the northern island"})


def watch(task: Task) -> LeakWatch:
    return LeakWatch(Dataset(train=()), held=opened(task).held_texts)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cases.json", f"[{CASES}]"),
        ("cases.jsonl", f"{CASES}\n{CASES}\n"),
        ("cases.csv", f'question,answer\n"{QUESTION}",yes\n'),
        ("cases.yaml", f"- question: {QUESTION}\n  answer: yes\n"),
        ("cases.txt", f"One case.\n{QUESTION}\n"),
        ("cases.md", f"# Cases\n\n- {QUESTION}\n"),
    ],
)
@pytest.mark.parametrize("part", ["holdout", "test"])
def test_what_held_out_files_say_is_watched(
    tmp_path: Path, name: str, text: str, part: str
) -> None:
    task = replace(sealed(tmp_path), **{part: HeldOut(scoring=COMMAND, files=("secret/**",))})
    write(tmp_path, {f"secret/{name}": text})
    assert watch(task).leaked(f"it was asked: {QUESTION.upper()}") == f"secret/{name}"


def test_the_files_of_a_held_out_scorer_are_watched_and_those_of_the_task_are_not(
    tmp_path: Path,
) -> None:
    task = sealed(tmp_path)
    write(tmp_path, {"own/right.txt": QUESTION, "data/seen.txt": "seen"})
    assert watch(task).leaked(QUESTION) == "own/right.txt"
    write(tmp_path, {"data/seen.txt": QUESTION})
    assert watch(task).leaked(QUESTION) is None, "what everybody may read is no secret"
    write(tmp_path, {"data/seen.txt": "seen", "answers/train.txt": QUESTION})
    task = replace(task, scoring=Scoring(command=LISTS, files=("answers/**",)))
    assert watch(task).leaked(QUESTION) is None, "nor is what train says"


CODE = "\n".join(f"    if row[{n}] != expected[{n}]: wrong += weight_{n}" for n in range(6))


def test_common_lines_of_code_are_no_secret_and_long_parts_are(tmp_path: Path) -> None:
    task = sealed(tmp_path)
    line = 'with open(path, encoding="utf-8") as file:\n    rows = json.load(file)\n'
    write(tmp_path, {"last/score.py": f"import json\n{line}{CODE}\n"})
    assert watch(task).leaked(line) is None
    assert watch(task).leaked(CODE) == "last/score.py"


def test_what_is_no_text_or_too_large_is_named(tmp_path: Path) -> None:
    task = sealed(tmp_path)
    (tmp_path / "last/model.bin").write_bytes(b"\0\1\2")
    (tmp_path / "last/latin.txt").write_bytes("é".encode("latin-1") * 9)
    write(tmp_path, {"last/long.txt": f"{QUESTION}\n" + "ä " * 500_000 + "an end not read"})
    binary, large = opened(task).doubts
    assert binary.endswith("since they are no text: last/latin.txt, last/model.bin")
    assert large == "too large to be watched for leaks as a whole: last/long.txt"
    assert watch(task).leaked(QUESTION) == "last/long.txt"


def test_a_file_that_knows_the_holdout_from_the_start_is_named(tmp_path: Path) -> None:
    task = sealed(tmp_path)
    write(tmp_path, {"last/in.txt": QUESTION, "value.txt": f"1\n{QUESTION}\n"})
    (doubt,) = opened(task).doubts
    assert doubt.startswith("value.txt contains text of the holdout or the test from the start")
