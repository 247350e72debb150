"""Run folders from somebody else: looking runs nothing, adopting stays inside."""

import contextlib
import io
import json
import shutil
from pathlib import Path

import pytest

from burnish.cli.adopt import _inside  # pyright: ignore[reportPrivateUsage]
from burnish.cli.program import run as burnish
from burnish.core.errors import ConfigError
from burnish.journal.limits import Budget
from burnish.projects.adopt import Plan, adopting, plan_undo
from burnish.projects.adopt_files import Adopted, AdoptedFile, digest, hunks
from burnish.runs.directory import RunRecord, index_folder
from tests.runs.small import add_letters, driven, small


@pytest.fixture
async def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that another machine made: this one has no entry for it."""
    monkeypatch.setenv("BURNISH_HOME", str(tmp_path / "home"))
    setup = small(steps=add_letters, budget=Budget(max_metric_calls=12))
    await driven(setup, tmp_path / "theirs")
    shutil.rmtree(index_folder())
    return tmp_path / "theirs"


def _undoable(folder: Path, file: Path) -> None:
    """A record that claims that the run changed a file, which `--undo` would put back."""
    before, after = "export PATH=/evil\n", file.read_text()
    changed = AdoptedFile(
        path=str(file),
        before=digest(before.encode()),
        after=digest(after.encode()),
        hunks=hunks(before, after),
    )
    Adopted(trial=1, candidate="x", at="now", done=True, files=(changed,)).write(folder)


async def test_undoing_does_not_write_outside(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "user"
    project = home / "project"
    project.mkdir(parents=True)
    (home / ".profile").write_text("export PATH=/bin\n")
    monkeypatch.chdir(project)
    _undoable(folder, home / ".profile")
    with pytest.raises(ConfigError, match="not from this machine"):
        plan_undo(RunRecord.read(folder))
    with contextlib.redirect_stderr(io.StringIO()):
        assert burnish(["adopt", str(folder), "--undo", "--yes"]) != 0
    assert (home / ".profile").read_text() == "export PATH=/bin\n"


async def test_a_link_in_the_project_does_not_lead_outside(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "secret.txt").write_text("mine\n")
    (project / "prompt.md").symlink_to(tmp_path / "secret.txt")
    monkeypatch.chdir(project)
    _undoable(folder, project / "prompt.md")
    with pytest.raises(ConfigError, match="outside of"):
        plan_undo(RunRecord.read(folder))


async def test_a_record_from_elsewhere_removes_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, outside = tmp_path / "project", tmp_path / "user" / "a" / "b"
    project.mkdir()
    outside.mkdir(parents=True)
    leftover = outside.parent / ".4194305-0123456789abcdef.burnish-tmp"
    leftover.write_text("")
    monkeypatch.chdir(project)
    folders = (str(outside), str(outside.parent))
    added = AdoptedFile(
        path=str(outside / "x.md"), before="", after="", hunks=(), added=True, folders=folders
    )
    Adopted(trial=1, candidate="x", at="now", files=(added,)).write(folder)
    run = RunRecord.read(folder)
    with adopting(run):
        pass
    with pytest.raises(ConfigError, match="not from this machine"):
        plan_undo(run)
    with pytest.raises(ConfigError, match="outside of"):
        plan_undo(run, file=project / "agent.yaml")
    assert outside.is_dir()
    assert leftover.exists()


async def test_a_record_never_leads_out_of_the_project_by_its_folders(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    (tmp_path / "empty").mkdir()
    (project / "new").mkdir(parents=True)
    monkeypatch.chdir(project)
    home = f"{project}/new/../../empty"
    added = AdoptedFile(
        path=f"{home}/../project/x.md", before="", after="", hunks=(), added=True, folders=(home,)
    )
    Adopted(trial=1, candidate="x", at="now", files=(added,)).write(folder)
    with adopting(RunRecord.read(folder)):
        pass
    assert (tmp_path / "empty").is_dir()


async def test_in_the_current_folder_it_may(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "prompt.md").write_text("new\n")
    monkeypatch.chdir(project)
    _undoable(folder, project / "prompt.md")
    plan = plan_undo(RunRecord.read(folder))
    assert isinstance(plan, Plan)
    assert [each.path for each in plan.files] == [project / "prompt.md"]


async def test_huge_numbers_and_scripts_in_a_header(folder: Path) -> None:
    header = json.loads((folder / "run.json").read_text())
    hostile = {
        "seed": 10**400,
        "strategy": "<script>alert(1)</script>",
        "id": "\x1b[2J",
        "project": {"kind": "../../x", "file": "/etc/passwd"},
    }
    for name, value in hostile.items():
        (folder / "run.json").write_text(json.dumps({**header, name: value}))
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            burnish(["runs", "show", str(folder)])
            burnish(["runs", "report", str(folder)])
        assert "\x1b" not in out.getvalue() + err.getvalue()
        assert "Traceback" not in err.getvalue()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("candidates/iter-01/../../../../out.txt", "leads out of the folder"),
        ("/etc/hostname", "does not start in"),
        ("candidates/link", "a link that leads out"),
    ],
)
def test_copying_a_candidate_stays_in_its_folder(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "candidates").mkdir()
    (tmp_path / "candidates" / "link").symlink_to("/etc/hostname")
    with pytest.raises(ConfigError, match=words):
        _inside(tmp_path, name)
    (tmp_path / "candidates" / "plain").write_text("x")
    assert str(_inside(tmp_path, "candidates/plain")) == "candidates/plain"
