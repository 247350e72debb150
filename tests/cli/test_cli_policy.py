"""`burnish policy`, and what `burnish optimize` says of a suite."""

import json
from pathlib import Path

import pytest

from burnish.cli.optimization import OptimizeRequest, RunOpening, optimize_project
from burnish.delegation.policy import PolicyRegistry
from burnish.testing.delegation_world import FAULT, RULE
from tests.cli.console import Burnish
from tests.delegation.delegation_world import SUITE_FLOW, suite_text, suite_world

pytestmark = pytest.mark.slow

TEXT = "worker_pitfalls"


def test_versions_are_put_listed_shown_compared_rolled_back_and_pinned(burnish: Burnish) -> None:
    Path("mine.md").write_text("- Be brief.\n")
    assert burnish("policy", "list").lines[-1].endswith("(not created yet)")
    assert burnish("policy", "put", TEXT, "mine.md").out == f"{TEXT}: v1 is active\n"
    assert burnish("policy", "show", TEXT).out == "- Be brief.\n"
    assert burnish("policy", "diff", TEXT, "0", "1").lines[-1] == "+- Be brief."
    assert burnish("policy", "diff", TEXT, "1").out == "v1 and v1 are the same\n"
    assert burnish("policy", "rollback", TEXT, "0").out == f"{TEXT}: v1 → v0 is active\n"
    assert burnish("policy", "pin", TEXT, "1").out == f"{TEXT}: pinned at v1\n"
    assert burnish("policy", "show", TEXT).out == "- Be brief.\n"
    listed = json.loads(burnish("policy", "list", "--json").out)
    assert listed[0] == {"text": TEXT, "active": 0, "pinned": 1, "versions": 2}
    assert "pinned at v1, so runs use that version" in burnish("policy", "rollback", TEXT, "1").out
    assert burnish("policy", "unpin", TEXT).out == f"{TEXT}: v1 is read\n"
    history = burnish("policy", "show", TEXT, "--history").lines
    assert [line.split()[0] for line in history] == ["v0", "v1"]
    assert history[1].endswith("active")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("rollback", TEXT, "7"), "no version 7"),
        (("show", "tone"), "no such policy text"),
        (("pin", TEXT, "3"), "no version 3"),
        (("list", "--target", "exp_nowhere00"), "there is no experiment"),
        (("list", "--db", "mine.md"), "cannot be used"),
    ],
)
def test_mistakes_are_one_message(burnish: Burnish, args: tuple[str, ...], told: str) -> None:
    Path("mine.md").write_text("no database at all, whatever it is called\n" * 60)
    said = burnish("policy", *args)
    assert said.code == 1
    assert told in said.err
    assert "Traceback" not in said.err


def test_a_training_tells_what_it_made_active(
    tmp_path: Path, burnish: Burnish, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("workflow.yaml").write_text(SUITE_FLOW, encoding="utf-8")
    Path("suite.yaml").write_text(suite_text("heat", "rain"), encoding="utf-8")
    world = suite_world()

    def say(**more: object) -> str:
        flags = {"epochs": 2, "with_textgrad": True, "db": str(tmp_path / "p.db"), **more}
        dry = bool(flags.pop("dry_run", False))
        request = OptimizeRequest(
            file=Path("suite.yaml"),
            way=RunOpening(output_dir=tmp_path / "run"),
            flags=flags,  # pyright: ignore[reportArgumentType]
            dry_run=dry,
            progress="lines",
        )
        optimize_project(request, models=world.models())
        return capsys.readouterr().out

    PolicyRegistry(tmp_path / "p.db").add(TEXT, f"{FAULT}\n", activate=True)
    plan = say(dry_run=True)
    assert "epochs    2, 2 runs of each task in each" in plan
    assert "step      learning rate 0.5" in plan
    assert "no holdout: its score is a training score" in plan
    assert world.turns == []
    told = say()
    assert f"policy   {TEXT} v2 is active" in told
    assert PolicyRegistry(tmp_path / "p.db").texts()[TEXT] == f"{RULE}\n"
    listed = burnish("policy", "epochs", "weather", "--db", "p.db")
    assert [line.split()[:4] for line in listed.lines[1:]] == [
        ["weather", "#1", "1", "0.3650"],
        ["weather", "#1", "2", "0.0300"],
    ]
    assert "there are no epochs" in burnish("policy", "epochs", "other", "--db", "p.db").out


def test_a_training_leaves_stdout_to_programs(
    tmp_path: Path, burnish: Burnish, capsys: pytest.CaptureFixture[str]
) -> None:
    del burnish  # it has gone to the folder of the test
    Path("workflow.yaml").write_text(SUITE_FLOW, encoding="utf-8")
    Path("suite.yaml").write_text(suite_text("heat", "rain"), encoding="utf-8")
    PolicyRegistry(tmp_path / "p.db").add(TEXT, f"{FAULT}\n", activate=True)
    request = OptimizeRequest(
        file=Path("suite.yaml"),
        flags={"epochs": 2, "with_textgrad": True, "db": str(tmp_path / "p.db")},
        progress="json",
    )
    optimize_project(request, models=suite_world().models())
    out, err = capsys.readouterr()
    assert [json.loads(line)["kind"] for line in out.splitlines()][-1] == "run_finished"
    assert f"policy   {TEXT} v2 is active" in err
