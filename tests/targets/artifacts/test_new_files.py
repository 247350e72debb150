"""Files that a candidate may add to a task: which, and what they cannot do."""

from pathlib import Path

import pytest

from burnish.core.cases import Outcome
from burnish.core.surfaces import Candidate
from burnish.journal.once import DirectEffects
from burnish.targets.artifacts.safeguards import MOST_NEW_FILES
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.artifacts.task import HeldOut, Runner, Task
from tests.targets.artifacts.task_folders import FILE, opened, task_in, write

PATTERNS = ("**/*.md", "helpers/**", "settings.toml", "*.py")


def adding_task(folder: Path) -> Task:
    write(
        folder,
        {
            "docs/there.md": "mine",
            "held/secret.md": "the answer",
            "kept/a.txt": "a",
            ".venv/bin/python": "",
            "runs/one/run.json": "{}",
            "runs/one/journal.db": "",
        },
    )
    (folder / "linked").symlink_to(folder / "docs")
    return task_in(
        folder,
        new_files=PATTERNS,
        exclude=("helpers/not/**",),
        protect=("kept/**",),
        scratch=("work/**", "out.txt"),
        holdout=HeldOut(files=("held/**",)),
    )


def _runner(command: str) -> Runner:
    return Runner(command=command, timeout_seconds=120)


async def _outcome(target: ArtifactsTarget, candidate: Candidate) -> Outcome:
    [case] = target.dataset().train
    try:
        receipt = await target.run(candidate, case, draw=0, effects=DirectEffects())
    finally:
        await target.close()
    return receipt.value


def candidate_with(task: Task, files: dict[str, str]) -> Candidate:
    baseline = opened(task).baseline
    return Candidate(values={**baseline.values, **files})


@pytest.mark.parametrize(
    "path", ["new.md", "docs/new.md", "helpers/deep/er/x.txt", "settings.toml", "mine.py"]
)
def test_what_the_patterns_name_may_be_added(tmp_path: Path, path: str) -> None:
    task = adding_task(tmp_path)
    target = opened(task)
    assert target.new_file_problem(path) == ""
    assert target.check(candidate_with(task, {path: "text"})) == []


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("other.txt", "neither a file that may be edited nor one that may be added"),
        ("../out.md", "leads out"),
        ("/etc/out.md", "does not start in the workspace"),
        ("~/out.md", "does not start in the workspace"),
        ("a//b.md", "not written plainly"),
        ("a\\b.md", "backslash"),
        ("a\0.md", "no path of a file"),
        ("a\n.md", "cannot be shown"),
        ("a\u202e.md", "cannot be shown"),
        ("a#b.md", "'#'"),
        (" a.md", "a space"),
        ("helpers/a.", "a dot"),
        (f"{'x' * 300}.md", "too long"),
        ("/".join(["d"] * 30) + "/x.md", "too long"),
        (".git/hooks/x.md", "repositories"),
        ("helpers/.git/config", "repositories"),
        (".venv/x.md", "repositories"),
        ("helpers/__pycache__/x.md", "repositories"),
        (".hidden.md", "name it exactly"),
        ("helpers/.env", "name it exactly"),
        ("helpers/Makefile", "name it exactly"),
        ("helpers/pytest.ini", "name it exactly"),
        ("conftest.py", "name it exactly"),
        ("json.py", "name it exactly"),
        ("helpers/json/__init__.py", "name it exactly"),
        ("helpers/not/x.md", "neither"),
        ("kept/b.md", "neither"),
        ("held/other.md", "neither"),
        ("held/secret.md", "neither"),
        ("work/x.md", "neither"),
        ("docs/there.md", "neither"),
        ("docs/THERE.md", "nearly the same name"),
        ("DOCS/x.md", "nearly the same name"),
        ("linked/x.md", "not a folder"),
        (f"{FILE}/x.md", "not a folder"),
        ("runs/one/x.md", "belongs to a run"),
    ],
)
def test_what_else_may_not(tmp_path: Path, path: str, reason: str) -> None:
    task = adding_task(tmp_path)
    target = opened(task)
    assert reason in target.new_file_problem(path)
    assert target.check(candidate_with(task, {path: "text"}))


def test_nothing_may_be_added_where_the_task_does_not_say_so(tmp_path: Path) -> None:
    target = opened(task_in(tmp_path, include=("*.txt",)))
    assert "neither" in target.new_file_problem("other.txt")
    assert target.rules[0].endswith("no files are added, removed or renamed")


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"A.md": "a", "a.md": "b"}, "nearly the same as that of A.md"),
        ({"helpers/x": "a", "helpers/x/y": "b"}, "the name of its folder"),
        ({f"n{n}.md": "a" for n in range(MOST_NEW_FILES + 1)}, "101 files were added"),
        ({"big.md": "x" * 5_000_000}, "5,000,000 bytes"),
        ({"zero.md": "a\0b"}, "binary"),
    ],
)
def test_what_several_may_not_be_together(
    tmp_path: Path, files: dict[str, str], reason: str
) -> None:
    task = adding_task(tmp_path)
    problems = opened(task).check(candidate_with(task, files))
    assert reason in "; ".join(map(str, problems))


def test_types_of_files_hold_for_new_ones_too(tmp_path: Path) -> None:
    target = opened(task_in(tmp_path, new_files=("extra/**",), allowed_file_types=(".txt",)))
    assert target.new_file_problem("extra/a.txt") == ""
    assert ".txt may" in target.new_file_problem("extra/a.md")


def test_a_blank_new_file_is_no_file(tmp_path: Path) -> None:
    task = adding_task(tmp_path)
    target = opened(task)
    made = candidate_with(task, {"new.md": " \n", "other.md": "text"})
    assert set(target.files_of(made)) == {FILE, "other.md"}
    assert set(target.export(made, tmp_path)) == {FILE, "other.md"}


@pytest.mark.slow
async def test_a_run_finds_new_files_and_may_not_rewrite_them(tmp_path: Path) -> None:
    write(tmp_path, {"run.py": "print(open('extra/note.md').read())"})
    task = task_in(tmp_path, new_files=("extra/*",))
    reading = opened(task_in(tmp_path, new_files=("extra/*",), runner=_runner("python3 run.py")))
    made = candidate_with(task, {"extra/note.md": "a note"})
    assert "a note" in str((await _outcome(reading, made)).data)
    rewriting = opened(
        task_in(tmp_path, new_files=("extra/*",), runner=_runner("echo 2 > extra/note.md"))
    )
    failure = (await _outcome(rewriting, made)).failure
    assert failure is not None
    assert failure.error == "Tampering"
