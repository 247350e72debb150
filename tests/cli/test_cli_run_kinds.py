"""Delegations, refinements and suites are runs like any other: killed, looked at, gone on with."""

import json
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from burnish.core.money import total
from burnish.journal.journal import JournalReader
from burnish.runs.directory import RunRecord
from tests.cli.coders import write_coders
from tests.cli.console import Burnish, finish, forked, refused, until
from tests.server.processes import serving

pytestmark = pytest.mark.slow

TASK = ("--task", "Write a report on the heat.", "-q")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One way to make a run, and what it costs: each call is a program that was started."""

    strategy: str
    start: tuple[str, ...]
    runs: Callable[[], list[Path]]
    calls: int
    at_once: int = 1
    seeded: bool = False

    def __str__(self) -> str:
        return self.strategy


KINDS = [
    Kind(
        strategy="delegate",
        start=("delegate", "flow.yaml", *TASK, "-o", "one"),
        runs=lambda: [Path("one")],
        calls=1,
    ),
    Kind(
        strategy="refine",
        start=("refine", "seed", "-n", "2", "-q"),
        runs=lambda: [p for p in Path("seed/refinement_sessions").iterdir() if p.is_dir()],
        calls=2,
        seeded=True,
    ),
    Kind(
        strategy="epochs",
        start=("optimize", "suite.yaml", "-q", "-o", "suite", "--repeats", "2"),
        runs=lambda: [Path("suite")],
        calls=6,
        at_once=2,
    ),
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.chdir(tmp_path)
    write_coders(tmp_path)


def make_seed(burnish: Burnish) -> None:
    """A finished delegation that took its time, so that no limit is near."""
    assert burnish("delegate", "flow.yaml", *TASK, "-o", "seed").code == 0
    path = Path("seed/run_completion.json")
    data = json.loads(path.read_text())
    data["final_budget"]["wall_time"]["elapsed_s"] = 600
    path.write_text(json.dumps(data))
    Path("calls").unlink()


def killed_at_work(kind: Kind) -> Path:
    """A run whose process is killed while its program is in the middle of something."""
    Path("wait").touch()
    process = forked(*kind.start, cwd=Path.cwd())
    until(lambda: started() >= kind.at_once and Path("waiting").exists())
    process.kill()
    process.communicate()
    Path("wait").unlink()
    Path("waiting").unlink()
    (run,) = kind.runs()
    return run


def started() -> int:
    path = Path("calls")
    return len(path.read_text().splitlines()) if path.exists() else 0


def facts_of(burnish: Burnish, run: Path) -> dict[str, Any]:
    return burnish("runs", "show", str(run), "--json").json


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_killed_and_gone_on_with_exact_bills(burnish: Burnish, kind: Kind) -> None:
    if kind.seeded:
        make_seed(burnish)
    run = killed_at_work(kind)
    name = run.name
    listed = {row["id"]: row for row in burnish("runs", "list", "--json").records}
    assert (listed[name]["strategy"], listed[name]["status"]) == (kind.strategy, "killed")
    before = facts_of(burnish, run)
    assert before["spent"]["calls"] == 0, "nothing that was started came to its end"
    assert before["billed"]["calls"] == kind.at_once
    assert f"go on    burnish runs resume {name}" in burnish("runs", "show", name).lines
    assert burnish("runs", "resume", name, "-q").code == 0
    facts = facts_of(burnish, run)
    assert facts["status"] == "finished"
    # Spent is what the journal completed; billed has each lost call once more, and no other.
    with JournalReader(run) as journal:
        own = [next(iter(row.spends.values())) for row in journal.costs()]
        assert total(own) == RunRecord.read(run).spent
    assert facts["spent"]["calls"] == kind.calls
    assert facts["billed"]["calls"] == kind.calls + kind.at_once == started()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_once_at_its_end_nothing_is_done_again(burnish: Burnish, kind: Kind) -> None:
    if kind.seeded:
        make_seed(burnish)
    run = killed_at_work(kind)
    assert burnish("runs", "resume", run.name, "-q").code == 0
    programs, first = started(), facts_of(burnish, run)
    assert burnish("runs", "resume", run.name, "-q").code == 0
    assert started() == programs
    again = facts_of(burnish, run)
    assert (again["spent"], again["billed"]) == (first["spent"], first["billed"])


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_looked_at_compared_and_removed(burnish: Burnish, kind: Kind) -> None:
    if kind.seeded:
        make_seed(burnish)
    assert burnish(*kind.start).code == 0
    (run,) = kind.runs()
    said = burnish("runs", "show", run.name)
    assert said.lines[0].startswith(f"{run.name} · finished: ")
    assert f"spent    {kind.calls} call" in said.out
    calls = burnish("runs", "show", run.name, "--calls", "--json").records
    assert sum(row["kind"] == "worker" for row in calls) == kind.calls
    assert burnish("runs", "report", run.name).out == (run / "report.md").read_text()
    other = "seed" if kind.seeded else run.name
    compared = burnish("runs", "compare", other, run.name, "--json").json
    words = {row["word"] for row in compared["cases"]["train"]}
    assert words == ({"up"} if kind.seeded else {"same"})
    assert burnish("runs", "rm", run.name, "--yes").code == 0
    assert not run.exists()
    listed = burnish("runs", "list", "--json").records
    assert run.name not in [row["id"] for row in listed]
    if kind.seeded:
        assert Path("seed/BEST/report.md").is_file(), "what it found stays"


def test_a_task_of_an_experiment_hears_of_it(
    burnish: Burnish, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BURNISH_EXPERIMENTS_ROOT", str(tmp_path / "all"))
    name = burnish("experiments", "new", "Heat").out.strip()
    run = killed_at_work(
        Kind(
            strategy="delegate",
            start=("delegate", "flow.yaml", *TASK, "--target", name),
            runs=lambda: [*Path("all").glob("*/tasks/*/runs/*")],
            calls=1,
        )
    )
    assert burnish("runs", "resume", run.name, "-q").code == 0
    assert (run.parent.parent / "BEST" / "report.md").is_file()


def test_a_task_with_a_secret_in_it_is_gone_on_with(
    burnish: Burnish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary-token-0123456789abcdef")
    task = ("--task", "Write a report with canary-token-0123456789abcdef.", "-q")
    start = ("delegate", "flow.yaml", *task, "-o", "one")
    run = killed_at_work(Kind(strategy="delegate", start=start, runs=KINDS[0].runs, calls=1))
    assert burnish("runs", "resume", run.name, "-q").code == 0
    assert facts_of(burnish, run)["status"] == "finished"


def signalled(process: "subprocess.Popen[str]", run: Path) -> None:
    del run
    process.send_signal(signal.SIGINT)


def told_by_file(process: "subprocess.Popen[str]", run: Path) -> None:
    del process
    (run / "optimize.stop").touch()


@pytest.mark.parametrize("stop", [signalled, told_by_file])
def test_asked_to_stop_it_finishes_what_it_is_at(
    burnish: Burnish, stop: Callable[["subprocess.Popen[str]", Path], None]
) -> None:
    kind = KINDS[0]
    Path("wait").touch()
    process = forked(*kind.start, cwd=Path.cwd())
    until(Path("waiting").exists)
    (run,) = kind.runs()
    stop(process, run)
    if stop is signalled:
        until(lambda: '"stopping"' in (run / "events.jsonl").read_text())
    Path("wait").unlink()
    said = finish(process)
    assert said.code == 2, said
    assert "go on    burnish delegate --resume one" in said.err
    facts = facts_of(burnish, run)
    assert (facts["status"], facts["spent"]["calls"]) == ("interrupted", 1)
    assert burnish("delegate", "--resume", "one", "-q").code == 0
    assert started() == 1, "what was finished is not started again"


def test_a_run_in_which_another_one_is_driven_is_not_removed(burnish: Burnish) -> None:
    make_seed(burnish)
    Path("wait").touch()
    process = forked("refine", "seed", "-n", "1", "-q", cwd=Path.cwd())
    until(Path("waiting").exists)
    refused(burnish("runs", "rm", "seed", "--yes"), "run refine_", "is in use")
    Path("wait").unlink()
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert burnish("runs", "rm", "seed", "--yes").code == 0
    assert burnish("runs", "list", "--json").records == []


def test_the_service_finds_them_below_the_folder_of_an_app(
    burnish: Burnish, tmp_path: Path
) -> None:
    make_seed(burnish)
    assert burnish(*KINDS[2].start).code == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    Path("toy.yaml").write_text("kind: toy\n")
    with serving(elsewhere, "--app", "toy=../toy.yaml") as service:

        def address(run_id: str, what: str) -> str:
            path = f"/api/experiments/{run_id}/{what}"
            return str(service.client.base_url.copy_with(path=path))

        seed = json.loads(Path("seed/run_completion.json").read_text())["run_id"]
        for name in ("seed", seed):
            answer = service.client.get(address(name, "refinement_sessions"))
            assert answer.json() == {"sessions": [], "best": None}
        begun = service.client.post(address("seed", "refine"), json={"iterations": 1})
        assert begun.status_code == 202, begun.text
        sessions = service.until(
            address("seed", "refinement_sessions"),
            lambda found: found["sessions"][0]["stop_reason"] == "max_iterations",
        )
        iteration = sessions["sessions"][0]["iterations"][0]["run_id"]
        part = next(Path("suite/delegations").iterdir()).name
        for name in (iteration, part):
            answer = service.client.get(address(name, "refinement_sessions"))
            assert answer.json() == {"sessions": [], "best": None}, name
        assert service.client.get(address("nobody", "refinement_sessions")).status_code == 404
        until(lambda: facts_of(burnish, Path(begun.json()["session_id"]))["status"] == "finished")
