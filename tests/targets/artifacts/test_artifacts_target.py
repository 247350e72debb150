"""Files as a target: read once, run in workspaces of their own, never written."""

import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.core.surfaces import Candidate, FileSurface, NumberSurface, Origin
from burnish.targets.artifacts.task import HeldOut, Runner, Scoring
from burnish.testing.doubles import check_target
from tests.targets.artifacts.task_folders import (
    COMMAND,
    FILE,
    PROBE,
    PYTHON,
    RUN,
    left_behind,
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


@pytest.mark.parametrize("scoring", [COMMAND, PYTHON])
async def test_it_keeps_the_contract_of_targets(tmp_path: Path, scoring: Scoring) -> None:
    target = opened(task_in(tmp_path, scoring=scoring, holdout=HeldOut(scoring=COMMAND)))
    dataset = target.dataset()
    assert [case.id for case in (*dataset.train, *dataset.holdout)] == ["task", "holdout"]
    await check_target(target, [*dataset.train, *dataset.holdout])
    await target.close()
    assert target.surfaces == [FileSurface(id=FILE, path=FILE)]


async def test_with_axes_it_keeps_the_contract_too(tmp_path: Path) -> None:
    write(tmp_path, {"c.yaml": "size: 8 # entries\n"})
    axis = NumberSurface(id="c.yaml#size", low=1, high=64, integer=True)
    runner = Runner(command="grep -o '[0-9]*' c.yaml > out.txt")
    task = task_in(tmp_path, include=("c.yaml",), runner=runner)
    target = opened(task, axes=[axis])
    await check_target(target, target.dataset().train)
    tuned = target.baseline.child({"c.yaml#size": 32}, origin=Origin(kind="proposal"))
    assert target.export(tuned, tmp_path) == {"c.yaml": b"size: 32 # entries\n"}
    assert not target.check(tuned)
    [case] = target.dataset().train
    receipt = await target.run(tuned, case, draw=0, effects=None)  # pyright: ignore[reportArgumentType]
    assert receipt.value.measures["score"] == 32
    await target.close()


def test_an_axis_needs_its_file_and_its_place(tmp_path: Path) -> None:
    task = task_in(tmp_path)
    with pytest.raises(ConfigError, match="not among those"):
        opened(task, axes=[NumberSurface(id="c.yaml#size", low=1, high=2)])
    write(tmp_path, {"c.yaml": "other: 1\n"})
    target = opened(replace(task, include=("*.yaml",)), axes=[
        NumberSurface(id="c.yaml#size", low=1, high=2)
    ])  # fmt: skip
    with pytest.raises(ConfigError, match="no such value"):
        _ = target.baseline


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scoring", [COMMAND, PYTHON])
async def test_numbers_and_logs_of_a_run(tmp_path: Path, scoring: Scoring, mode: str) -> None:
    outcome = await ran(opened(task_in(tmp_path, scoring=scoring), mode), value="4")  # pyright: ignore[reportArgumentType]
    assert outcome.failure is None, outcome.failure
    assert outcome.measures["score"] == 4
    assert outcome.measures["runtime_seconds"] == outcome.seconds > 0
    assert "running" in str(outcome.data)
    other = {"half": 2.0} if scoring is COMMAND else {"lines": 1.0}
    assert other.items() <= outcome.measures.items()
    assert scoring is PYTHON or "larger, please" in str(outcome.data)


async def test_metrics_read_the_file_that_is_named(tmp_path: Path) -> None:
    scoring = Scoring(kind="metrics", reads=FILE)
    outcome = await ran(opened(task_in(tmp_path, runner=None, scoring=scoring)), value="new text")
    assert (outcome.output, outcome.measures) == ("new text", {})


async def test_holdout_has_steps_and_files_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, {"secret/answers.txt": "9"})
    task = task_in(
        tmp_path,
        runner=Runner(command="ls secret > out.txt; echo 1 > out.txt; ls secret || true"),
        holdout=HeldOut(
            runner=Runner(command="cat secret/answers.txt > out.txt"), files=("secret/**",)
        ),
    )
    train = await ran(opened(task))
    assert train.failure is not None or "answers.txt" not in str(train.data)
    held = await ran(opened(task), case="holdout")
    assert held.measures["score"] == 9


async def test_the_environment_is_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("NAMED", "seen")
    write(tmp_path, {"env.sh": "env >&2; echo '{\"score\": 1}'"})
    task = task_in(
        tmp_path, runner=Runner(command="env"), scoring=Scoring(command="sh env.sh"), env=("NAMED",)
    )
    told = str((await ran(opened(task))).data)
    assert "sk-secret" not in told
    assert told.count("NAMED=seen") == 2


def committed(folder: Path) -> None:
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@x", "-C", str(folder)]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "m"]):
        subprocess.run([*git, *words], check=True)


async def test_the_users_folder_is_the_same_to_the_byte(tmp_path: Path) -> None:
    task = task_in(tmp_path, copy_git=True)
    committed(tmp_path)
    write(tmp_path, {"data/input.txt": "not committed"})
    (tmp_path / "data/link").symlink_to("input.txt")
    (tmp_path / "score.py").chmod(0o755)
    before = seen(tmp_path)
    command = (
        "cat data/input.txt; git log --oneline; git -c user.name=n -c user.email=e@x commit -qam x;"
        "echo 2 > out.txt; echo new > data/new.txt"
    )
    outcome = await ran(opened(replace(task, runner=Runner(command=command))))
    assert seen(tmp_path) == before
    assert "not committed" in str(outcome.data)


async def test_workspaces_are_of_the_folder_as_it_was_at_the_start(tmp_path: Path) -> None:
    target = opened(task_in(tmp_path, runner=Runner(command="cp data/input.txt out.txt")))
    write(tmp_path, {"data/input.txt": "5"})
    [case] = target.dataset().train
    scores: list[float] = []
    for number in ("6", "7"):
        receipt = await target.run(target.baseline, case, draw=0, effects=None)  # pyright: ignore[reportArgumentType]
        scores.append(receipt.value.measures["score"])
        write(tmp_path, {"data/input.txt": number})
    await target.close()
    assert scores == [5, 5]


async def test_links_out_of_the_folder_cannot_be_written_through(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere, {"file.txt": "mine", "folder/inside.txt": "mine"})
    project = tmp_path / "project"
    task = task_in(project)
    (project / "link.txt").symlink_to(elsewhere / "file.txt")
    (project / "links").symlink_to(elsewhere / "folder")
    before = seen(elsewhere)
    command = "echo 1 > out.txt; echo hacked > link.txt; echo hacked > links/inside.txt; true"
    outcome = await ran(opened(replace(task, runner=Runner(command=command))))
    assert "link.txt" in why(outcome)
    assert seen(elsewhere) == before


def test_only_text_of_the_allowed_types_is_edited(tmp_path: Path) -> None:
    task = task_in(tmp_path, include=("**",), allowed_file_types=(".txt",))
    (tmp_path / "image.png").write_bytes(b"\x89PNG\xff")
    target = opened(task)
    assert sorted(target.texts) == ["data/input.txt", FILE]
    with pytest.raises(ConfigError, match="not UTF-8"):
        opened(replace(task, allowed_file_types=()))
    with pytest.raises(ConfigError, match="no file in"):
        opened(replace(task, include=("*.md",)))


def test_what_a_result_depends_on_is_in_the_fingerprint(tmp_path: Path) -> None:
    task = task_in(tmp_path, scratch=("work/**", "out.txt"), exclude=("data/**",))

    def fingerprint() -> str:
        return opened(task).description.fingerprint

    first = fingerprint()
    write(tmp_path, {FILE: "2\n", "work/out.txt": "left", "__pycache__/x.pyc": "", ".git/x": ""})
    assert fingerprint() == first
    write(tmp_path, {"data/input.txt": "other"})
    assert fingerprint() != first
    second = fingerprint()
    (tmp_path / "score.py").chmod(stat.S_IRWXU)
    assert fingerprint() != second
    other = replace(task, runner=Runner(command=RUN, timeout_seconds=1))
    assert opened(other).description.fingerprint != fingerprint()


def test_wrong_contents_are_turned_away(tmp_path: Path) -> None:
    target = opened(task_in(tmp_path))
    for text, reason in [("\0", "binary"), ("x" * 5_000_000, "are allowed")]:
        [problem] = target.check(Candidate(values={FILE: text}))
        assert reason in str(problem)


async def test_scratch_is_there_and_empty(tmp_path: Path) -> None:
    write(tmp_path, {"work/old.txt": "left by another run"})
    outcome = await ran_by(
        tmp_path,
        "ls work; echo 3 > work/new.py; echo 3 > out.txt",
        scratch=("work/**", "out.txt"),
    )
    assert outcome.measures["score"] == 3
    assert "old.txt" not in str(outcome.data)


async def test_nothing_is_left_behind(tmp_path: Path) -> None:
    before = left_behind()
    await ran(opened(task_in(tmp_path)))
    assert left_behind() <= before
