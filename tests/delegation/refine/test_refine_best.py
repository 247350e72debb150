"""BEST and sessions on disk: copies, exchanged whole, under locks, with odd names and sizes."""

import json
import shutil
from pathlib import Path

import pytest

from burnish.core.content import Json
from burnish.core.errors import FileTrouble, SeedRefused
from burnish.delegation.refine.sessions import (
    SESSIONS,
    Session,
    SessionFiles,
    best_so_far,
    put_best,
    recover,
)
from tests.cli.console import tree
from tests.delegation.refine.run_folders import put
from tests.delegation.refine.scripted import Step, refined
from tests.delegation.refine.test_refine_loop import BETTER, seed_in

ODD = ("a b.md", "übersicht – 報告.md", "manifest.json", "deep/er/x.md", ".hidden", "-n", "#.md")


def manifest(**more: Json) -> dict[str, Json]:
    return {"best_run_id": "r", "best_loss": 0.1, "seed_loss": 0.2, **more}


def test_copies_share_nothing(tmp_path: Path) -> None:
    put(tmp_path / "final" / "report.md", "one")
    put_best(tmp_path, tmp_path / "final", manifest())
    with (tmp_path / "BEST" / "report.md").open("a") as file:
        file.write(" more")
    assert (tmp_path / "final" / "report.md").read_text() == "one"
    assert (tmp_path / "final" / "report.md").stat().st_nlink == 1


def test_odd_names_and_a_manifest_of_its_own(tmp_path: Path) -> None:
    for name in ODD:
        put(tmp_path / "final" / name, f"the content of {name}")
    put_best(tmp_path, tmp_path / "final", manifest())
    before, after = tree(tmp_path / "final"), tree(tmp_path / "BEST")
    assert {name: after[name] for name in before} == before
    assert json.loads(after["manifest.burnish.json"]) == manifest()
    assert best_so_far(tmp_path) == manifest()


def test_a_name_that_burnish_needs_is_refused_and_best_stays(tmp_path: Path) -> None:
    put(tmp_path / "final" / "report.md", "one")
    put_best(tmp_path, tmp_path / "final", manifest())
    put(tmp_path / "next" / "manifest.burnish.json", "{}")
    with pytest.raises(FileTrouble, match="needs the name"):
        put_best(tmp_path, tmp_path / "next", manifest(best_loss=0.05))
    assert best_so_far(tmp_path) == manifest()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["BEST", "final", "next"]


@pytest.mark.slow
def test_two_hundred_megabytes(tmp_path: Path) -> None:
    put(tmp_path / "final" / "report.md", "one")
    with (tmp_path / "final" / "large.bin").open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    put_best(tmp_path, tmp_path / "final", manifest())
    assert (tmp_path / "BEST" / "large.bin").stat().st_size == 200 * 1024 * 1024
    shutil.rmtree(tmp_path / "BEST")
    (tmp_path / "final" / "large.bin").unlink()


def test_a_kill_between_the_renames_is_mended(tmp_path: Path) -> None:
    put(tmp_path / ".BEST.old" / "report.md", "old")
    put(tmp_path / ".BEST.old" / "manifest.json", manifest())
    put(tmp_path / ".BEST.new" / "report.md", "half")
    assert best_so_far(tmp_path) == manifest()
    recover(tmp_path)
    assert tree(tmp_path).keys() == {"BEST/report.md", "BEST/manifest.json"}


def test_a_deliverable_that_may_not_be_written_can_be_replaced(tmp_path: Path) -> None:
    deep = put(tmp_path / "final" / "deep" / "report.md", "one")
    deep.chmod(0o444)
    deep.parent.chmod(0o555)
    (tmp_path / "final").chmod(0o555)
    for loss in (0.1, 0.05):
        put_best(tmp_path, tmp_path / "final", manifest(best_loss=loss))
    assert best_so_far(tmp_path) == manifest(best_loss=0.05)
    for path in (tmp_path / "final", deep.parent):
        path.chmod(0o755)


async def test_sessions_of_one_second_have_ids_of_their_own(tmp_path: Path) -> None:
    seed = seed_in(tmp_path)
    ids = {(await refined(seed, Step())).session.session_id for _ in range(5)}
    assert len(ids) == 5
    assert {path.stem for path in (seed / SESSIONS).glob("*.json")} == ids


def test_two_at_once_on_one_seed(tmp_path: Path) -> None:
    files = SessionFiles(folder=tmp_path / SESSIONS)
    with files.lock("x"), pytest.raises(SeedRefused, match="in use by") as refusal:
        files.lock("x")
    assert refusal.value.exit_code == 2
    files.lock("x").release()


def test_sessions_of_other_systems_are_listed(tmp_path: Path) -> None:
    files = SessionFiles(folder=tmp_path)
    told = {
        "session_id": "refine_20261115T000142Z", "seed_run_id": "r", "started_at": "t",
        "completed_at": "t", "stop_reason": "regression", "best_iter": 2, "tier_plan_used": None,
        "iterations": [{"k": 1, "run_id": "x", "loss": 0.08032, "status": "complete",
                        "tier": None, "model_manager": None, "model_worker": None}],
    }  # fmt: skip
    put(tmp_path / "refine_20261115T000142Z.json", told)
    old = {"session_id": "a", "seed_run_id": "r", "started_at": "t", "stop_reason": "plateau"}
    put(tmp_path / "a.json", old)
    put(tmp_path / "torn.json", "{")
    put(tmp_path / "list.json", "[]")
    assert files.rows() == [old, told]
    assert [each.iterations[0].loss for each in files.sessions()[1:]] == [0.08032]
    with pytest.raises(SeedRefused, match="no unfinished session"):
        files.find()


async def test_a_session_file_has_the_fields_of_the_seeds_system(tmp_path: Path) -> None:
    done = await refined(seed_in(tmp_path), BETTER)
    path = done.seed / SESSIONS / f"{done.session.session_id}.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    fields = ("session_id", "seed_run_id", "started_at", "completed_at", "stop_reason",
              "best_iter", "iterations", "tier_plan_used")  # fmt: skip
    assert all(name in data for name in fields)
    row = data["iterations"][0]
    assert all(name in row for name in ("k", "run_id", "loss", "status", "tier"))
    assert Session.from_json(data) == done.session
