"""What a candidate's run sees of the machine when it is isolated, wherever things lie."""

import os
import tempfile
from pathlib import Path

import pytest

from burnish.system.sandbox import CommandLimits, Mode, probe_landlock
from burnish.targets.artifacts.task import HeldOut, Runner, Scoring
from tests.targets.artifacts.task_folders import PROBE, opened, ran, ran_by, task_in, why, write

pytestmark = [pytest.mark.slow, pytest.mark.on_disk]
NEEDS_BWRAP = pytest.mark.skipif(not PROBE.works, reason=f"bubblewrap: {PROBE.reason}")
NEEDS_LANDLOCK = pytest.mark.skipif(not probe_landlock().works, reason="no Landlock")
ISOLATED = [
    pytest.param("bwrap", marks=NEEDS_BWRAP),
    pytest.param("landlock", marks=NEEDS_LANDLOCK),
]
CANARY = "the-right-answer"


@pytest.fixture(params=["tmp", "elsewhere", "home"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the project: under /tmp, with temporary files elsewhere, or in the home."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    if request.param != "tmp":
        (tmp_path / "temporary").mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    folder = home / "project" if request.param == "home" else tmp_path / "project"
    folder.mkdir()
    return folder


def looking(*folders: Path) -> str:
    """A runner that prints 1, and every canary below these folders."""
    paths = " ".join(str(folder) for folder in folders)
    return f"(grep -rsh {CANARY} {paths} . | sort -u; echo 1) > out.txt"


@pytest.mark.parametrize("mode", ISOLATED)
async def test_nothing_else_of_the_run_is_visible(place: Path, mode: Mode) -> None:
    write(place, {"answers.json": CANARY, "held.json": CANARY, "results/runs/1/journal": CANARY})
    write(Path(os.environ["HOME"]), {".ssh/key": CANARY})
    scoring = Scoring(command="grep -q the-right answers.json && python score.py",
                      files=("answers.json",))  # fmt: skip
    task = task_in(
        place,
        runner=Runner(command=looking(place, Path(tempfile.gettempdir()), Path.home())),
        scoring=scoring,
        holdout=HeldOut(files=("held.json",)),
        scratch=("results", "out.txt"),
    )
    outcome = await ran(opened(task, mode, hidden=[place / "results"]))
    assert outcome.failure is None, why(outcome)
    assert outcome.measures["score"] == 1.0


@pytest.mark.parametrize("mode", ISOLATED)
async def test_the_users_packages_are_there_and_read_only(tmp_path: Path, mode: Mode) -> None:
    write(tmp_path, {".venv/lib/mine.py": "x = 1\n", "web/node_modules/pad/index.js": "1",
                     "web/app.js": ""})  # fmt: skip
    command = (
        "test -f .venv/lib/mine.py && test -f web/node_modules/pad/index.js || exit 9; "
        "echo x > .venv/lib/mine.py; rm -rf web/node_modules/pad; echo 1 > out.txt"
    )
    outcome = await ran_by(tmp_path, command, mode)
    assert outcome.failure is None, why(outcome)
    assert (tmp_path / ".venv/lib/mine.py").read_text() == "x = 1\n"
    assert (tmp_path / "web/node_modules/pad/index.js").exists()


async def test_without_isolation_they_are_not_there(tmp_path: Path) -> None:
    write(tmp_path, {".venv/lib/mine.py": "x = 1\n"})
    assert (await ran_by(tmp_path, "test ! -e .venv && echo 1 > out.txt")).failure is None


@pytest.mark.parametrize("mode", ISOLATED)
async def test_what_the_task_lists_or_its_command_names_can_be_read(
    tmp_path: Path, mode: Mode
) -> None:
    project, data, tool = (tmp_path / name for name in ("project", "data", "tool"))
    write(data, {"rows.csv": "1\n"})
    write(tool, {"run.py": "import part; print(part.VALUE)\n", "part.py": "VALUE = 1\n"})
    command = f"cat {data}/*.csv > /dev/null && python {tool}/run.py > out.txt"
    hidden = await ran_by(project, f"cat {data}/*.csv", mode)
    assert "No such file" in why(hidden) or "Permission denied" in why(hidden)
    seen = await ran_by(project, command, mode, readable=(data,))
    assert seen.failure is None, why(seen)


@NEEDS_BWRAP
@pytest.mark.parametrize("network", [False, True])
async def test_the_network_is_there_if_the_task_asks(tmp_path: Path, network: bool) -> None:
    expected = "=" if network else "!="
    own = Path("/proc/self/ns/net").readlink()  # noqa: ASYNC240
    command = f'test "$(readlink /proc/self/ns/net)" {expected} "{own}" && echo 1 > out.txt'
    outcome = await ran_by(tmp_path, command, "bwrap", network=network)
    assert outcome.failure is None, why(outcome)


async def test_total_disk_is_limited(tmp_path: Path) -> None:
    limits = CommandLimits(seconds=60, disk_bytes=10 << 20)
    filling = "for i in $(seq 40); do head -c 1000000 /dev/zero > part$i; done; sleep 60"
    outcome = await ran_by(tmp_path, filling, limits=limits)
    assert "wrote more than 10 MiB to disk" in why(outcome)


async def test_a_scorers_answer_that_is_cut_is_named_so(tmp_path: Path) -> None:
    task = task_in(tmp_path, scoring=Scoring(command='printf \'{"score": 1, "metrics": {\''))
    assert "the scorer's JSON breaks off" in why(await ran(opened(task)))
    limits = CommandLimits(seconds=60, output_bytes=1000)
    long = 'python -c "print(\'{\\"score\\": 1, \\"x\\": \\"\' + \'y\' * 5000 + \'\\"}\')"'
    task = task_in(tmp_path, scoring=Scoring(command=long), limits=limits)
    assert "raise limits.output_kb" in why(await ran(opened(task)))
