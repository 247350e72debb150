"""`burnish runs export`: a run in the systems of others; absent, broken and refusing ones."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from burnish.runs.directory import Header, RunRecord
from burnish.system.extras import install_command
from burnish.tracking import trackers
from burnish.tracking.trackers import TrialTracker
from tests.cli.console import Burnish, refused

SECRET = "sk-proj-4Hf93kdkLmQ2xZ8vTtY7"  # looks like a key, and is none


class Board(TrialTracker):
    """A system that takes a run and remembers what it got."""

    seen: ClassVar[list[str]] = []

    def open(self, header: Header, folder: Path) -> None:
        self.seen.append(f"{self.project} at {self.settings.uri}: {header.id}")

    def log(self, trial: int, numbers: Mapping[str, float]) -> None:
        self.seen.append(f"trial {trial}: {numbers['calls']:g} calls")

    def close(self, record: RunRecord) -> None:
        self.seen.append(record.status)


class Refusing(Board):
    """A system whose server says no."""

    def open(self, header: Header, folder: Path) -> None:
        raise PermissionError(f"the key {SECRET} is not known here")


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Board, "seen", [])
    monkeypatch.setitem(trackers._HOMES, "mlflow", f"{__name__}:Board")  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setitem(trackers._HOMES, "wandb", f"{__name__}:Refusing")  # pyright: ignore[reportPrivateUsage]


@pytest.mark.usefixtures("home")
def test_every_trial_of_a_run_is_sent(burnish: Burnish, finished: Path) -> None:
    said = burnish("runs", "export", "done", "--to", "mlflow")
    assert (said.code, said.out, said.err) == (0, "sent     done to mlflow\n", "")
    rows = RunRecord.read(finished).rows
    calls = [f"trial {row.number}: {row.spend.calls} calls" for row in rows]
    assert Board.seen == ["burnish at None: done", *calls, "finished"]


@pytest.mark.usefixtures("home", "finished")
def test_the_server_and_the_project_are_flags(burnish: Burnish, tmp_path: Path) -> None:
    flags = ("--tracking-uri", "http://127.0.0.1:1", "--tracking-project", "lamps")
    assert burnish("runs", "export", str(tmp_path / "done"), "--to", "mlflow", *flags).code == 0
    assert Board.seen[0] == "lamps at http://127.0.0.1:1: done"


@pytest.mark.usefixtures("home", "stopped")
def test_a_run_that_can_go_on_is_sent_too(burnish: Burnish) -> None:
    assert burnish("runs", "export", "part", "--to", "mlflow").code == 0
    assert Board.seen[-1] == "finished"


@pytest.mark.usefixtures("home", "finished")
def test_a_server_that_says_no_is_one_message_without_the_key(burnish: Burnish) -> None:
    said = burnish("runs", "export", "done", "--to", "wandb")
    refused(said, "wandb did not take the run: PermissionError: the key [redacted]", "address")
    assert SECRET not in said.err


@pytest.mark.usefixtures("finished")
@pytest.mark.parametrize("name", trackers.EXPORTS)
class TestLibraries:
    @pytest.fixture(autouse=True)
    def fresh(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in [each for each in sys.modules if each.partition(".")[0] == name]:
            monkeypatch.delitem(sys.modules, module)

    def test_an_absent_one(
        self, burnish: Burnish, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, name, None)
        said = burnish("runs", "export", "done", "--to", name)
        refused(said, f"tracking with {name} needs the package {name}", install_command(name))

    def test_a_broken_one(
        self, burnish: Burnish, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        site = tmp_path / "site"
        site.mkdir()
        (site / f"{name}.py").write_text("raise TypeError('another protobuf')", encoding="utf-8")
        monkeypatch.setattr(sys, "path", [str(site), *sys.path])
        said = burnish("runs", "export", "done", "--to", name)
        refused(said, "cannot be imported: TypeError: another protobuf", install_command(name))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("done", "--to", "excel"), "'excel' is not one of: mlflow, wandb"),
        (("done", "--to", "otel"), "'otel' is not one of: mlflow, wandb"),
        (("done",), "Missing option '--to'"),
        (("nothing", "--to", "mlflow"), "there is no run 'nothing'"),
        ((".", "--to", "mlflow"), "there is no run '.'"),
    ],
)
@pytest.mark.usefixtures("finished")
def test_bad_input(burnish: Burnish, words: tuple[str, ...], message: str) -> None:
    refused(burnish("runs", "export", *words), message)
