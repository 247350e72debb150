"""The scorer's own workspace: what it finds, what runners do not, and what must stay as it is."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.errors import FilesChanged
from burnish.system.sandbox import Mode
from burnish.targets.artifacts.task import HeldOut, Runner, Scoring
from tests.targets.artifacts.task_folders import (
    COMMAND,
    PROBE,
    opened,
    ran,
    ran_by,
    seen,
    task_in,
    why,
    write,
)

pytestmark = [pytest.mark.slow, pytest.mark.on_disk]
NEEDS_BWRAP = pytest.mark.skipif(not PROBE.works, reason=f"bubblewrap: {PROBE.reason}")
MODES = ["none", pytest.param("bwrap", marks=NEEDS_BWRAP)]
LISTS = """find . -type f >&2; echo '{"score": 1}'"""
LOOK = "find . -type f; echo 1 > out.txt"


@pytest.mark.parametrize("mode", MODES)
async def test_only_the_scorer_finds_its_files(tmp_path: Path, mode: Mode) -> None:
    write(tmp_path, {"answers/right.txt": "the answer", "held/in.txt": "", "held/right.txt": ""})
    task = task_in(
        tmp_path,
        runner=Runner(command=LOOK),
        scoring=Scoring(command=LISTS, files=("answers/**",)),
        holdout=HeldOut(runner=Runner(command=f"cat held/in.txt; {LOOK}"), files=("held/**",)),
    )
    first, held = [(await ran(opened(task, mode), case)).data for case in ("task", "holdout")]
    assert isinstance(first, dict)
    assert isinstance(held, dict)
    assert "right.txt" not in str(first["runner"])
    assert "answers/right.txt" in str(first["scorer"])
    assert "held/" not in str(first)
    assert "held/in.txt" in str(held["runner"])
    assert "right.txt" not in str(held["runner"])
    assert str(held["scorer"]).count("right.txt") == 2


async def test_editors_find_nothing_that_is_for_scorers(tmp_path: Path) -> None:
    write(tmp_path, {"answers/right.txt": "the answer", "held/in.txt": ""})
    scoring = Scoring(command="python score.py", files=("answers/**",))
    task = task_in(tmp_path, scoring=scoring, holdout=HeldOut(scoring=COMMAND, files=("held/**",)))
    target = opened(replace(task, include=("**/*.txt",)))
    assert set(target.texts) == {"value.txt", "data/input.txt"}
    async with target.workspace(target.texts) as workspace:
        assert "score.py" in workspace.before.files
        assert not [path for path in workspace.before.files if path.startswith(("answers", "held"))]
    await target.close()


@NEEDS_BWRAP
async def test_isolated_runners_do_not_find_them_where_they_lie(tmp_path: Path) -> None:
    write(tmp_path, {"answers/right.txt": "the answer"})
    task = task_in(
        tmp_path,
        runner=Runner(command=f"cat {tmp_path}/answers/right.txt; echo 1 > out.txt"),
        scoring=Scoring(command="python score.py", files=("answers/**",)),
    )
    assert "the answer" not in str((await ran(opened(task, "bwrap"))).data)


async def test_outputs_reach_the_scorer_and_links_do_not(tmp_path: Path) -> None:
    write(tmp_path, {"answers/right.txt": "1"})
    make = (
        "mkdir -p new/empty; echo x > new/file; chmod 755 new/file; ln -s answers/right.txt out.txt"
    )
    check = "test -d new/empty && test -x new/file && ls; cat out.txt"
    scoring = Scoring(command=check, files=("answers/**",))
    outcome = await ran_by(tmp_path, make, scoring=scoring, scratch=("new/**", "out.txt"))
    assert "out.txt: No such file" in why(outcome)
    assert "left behind: out.txt (not a plain file)" in why(outcome)
    assert "answers" in str(outcome.data)


async def test_a_run_that_writes_where_the_scorers_files_lie(tmp_path: Path) -> None:
    write(tmp_path, {"answers/right.txt": "1"})
    scoring = Scoring(command="python score.py", files=("answers/**",))
    deed = "mkdir -p answers; echo 2 > answers/right.txt; echo 1 > out.txt"
    outcome = await ran_by(tmp_path, deed, scoring=scoring, scratch=("answers/**", "out.txt"))
    assert "tampering, seen after the runner: answers/right.txt" in why(outcome)


async def test_the_time_of_the_runner_is_burnishs_own(tmp_path: Path) -> None:
    scoring = Scoring(command="""echo '{"score": -5, "metrics": {"runtime_seconds": -5}}'""")
    outcome = await ran_by(tmp_path, "echo 1", scoring=scoring, primary="runtime_seconds")
    assert outcome.measures["runtime_seconds"] == outcome.seconds > 0
    assert outcome.measures["score"] == -5


async def test_a_candidate_that_changes_the_users_files_ends_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    deed = f"echo x > {folder}/data/input.txt; rm {folder}/score.py; echo 1 > out.txt"
    with pytest.raises(
        FilesChanged, match=r"without isolation: data/input.txt \(changed\)"
    ) as told:
        await ran_by(folder, deed)
    assert "score.py (removed)" in told.value.message
    assert str(folder) in told.value.remedy


async def test_a_failed_runner_is_no_excuse(tmp_path: Path) -> None:
    with pytest.raises(FilesChanged, match=r"new.txt \(added\)"):
        await ran_by(tmp_path / "project", f"echo x > {tmp_path}/project/new.txt; exit 1")


@NEEDS_BWRAP
async def test_with_isolation_the_user_may_go_on_working(tmp_path: Path) -> None:
    target = opened(task_in(tmp_path), "bwrap")
    async with target.workspace(target.texts):
        write(tmp_path, {"value.txt": "7\n"})
    assert (await ran(target)).measures["score"] == 1


async def test_a_changed_copy_is_not_used_again(tmp_path: Path) -> None:
    target = opened(task_in(tmp_path))
    async with target.workspace(target.texts) as workspace:
        copies = workspace.folder.parent.glob(f".{os.getpid()}-*.burnish-tmp")
        others = [each for each in copies if (each / "scorer.py").is_file()]
        for place in others:
            if place != workspace.folder:
                (place / "scorer.py").chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(FilesChanged, match=r"start from was changed.*scorer.py \(changed\)"):
        await ran(target)


async def test_the_users_files_are_not_touched(tmp_path: Path) -> None:
    write(tmp_path, {"answers/right.txt": "1"})
    scoring = Scoring(command="python score.py", files=("answers/**",))
    target = opened(task_in(tmp_path, scoring=scoring))
    before = seen(tmp_path)
    assert (await ran(target)).measures["score"] == 1
    assert seen(tmp_path) == before
