"""AgentOptimizer's files in a run's folder: when each is written, and that they cannot hurt it."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.content import Json
from burnish.core.errors import FileTrouble
from burnish.core.evaluations import Objective
from burnish.journal.limits import Budget
from burnish.projects.launch import launch_in
from burnish.runs.directory import Project
from burnish.runs.events import Event, Tick
from burnish.runs.setup import Setup, start
from burnish.strategies.reflective.result_files import RoundFiles, write_result_files
from burnish.strategies.reflective.results import OptimizeResult
from burnish.testing import toy
from burnish.testing.toy import Climb, proposer

pytestmark = pytest.mark.slow

OPTIMIZER: dict[str, Json] = {
    "evaluate": {"metrics": [{"metricName": "rules_kept"}]},
    "optimize": {"algorithm": {"name": "mine", "reflectionLm": {"apiKey": "${MY_API_KEY}"}}},
}
PROMPTS = {"instructions": toy.INSTRUCTIONS}


def setup(trials: int = 3) -> Setup:
    world = toy.ToyWorld(train=3, holdout=2, test=2)
    return Setup(
        target=toy.target(world),
        metrics=(toy.RulesKept(),),
        objective=Objective(weights={"rules_kept": 1.0}),
        dataset=toy.dataset(world),
        strategy=Climb(proposer=proposer(), repeats=1),
        budget=Budget(max_trials=trials),
        project=Project(config={"optimizer": OPTIMIZER}),
    )


class Watching:
    """Looks into the folder at every event."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: list[tuple[str, set[str]]] = []

    def event(self, event: Event) -> None:
        there = {str(p.relative_to(self.folder)) for p in self.folder.rglob("*.*")}
        self.seen.append((event.kind, there))

    def tick(self, tick: Tick) -> None:
        """Nothing to see."""

    def at(self, kind: str) -> Sequence[set[str]]:
        return [there for told, there in self.seen if told == kind]


def test_files_are_there_as_soon_as_they_can_be(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    files, watching = RoundFiles(folder, baseline=PROMPTS), Watching(folder)
    launch_in(setup(), folder, listeners=[files, watching])
    beginning = {"config.snapshot.json", "baseline_prompts/instructions.md"}
    assert beginning <= watching.at("run_started")[0]
    assert "rounds/round_001.json" in watching.at("trial_recorded")[1]
    assert "rounds/round_003.json" not in watching.at("trial_recorded")[2]
    early = {p: p.read_bytes() for p in (folder / "rounds").iterdir()}
    result = files.finish(update_source=True)
    assert {p: p.read_bytes() for p in (folder / "rounds").iterdir()} == early
    assert json.loads((folder / "config.snapshot.json").read_text()) == OPTIMIZER
    assert (result.status, result.algorithm, result.total_rounds) == ("SUCCEEDED", "mine", 3)
    assert result.sealed_test is not None
    assert OptimizeResult.from_file(folder / "result.json") == result
    assert (folder / "run.log").read_text().count("\n") == 1
    assert (folder / "best_prompts" / "instructions.md").read_text() == result.best_prompts[
        "instructions"
    ]


def test_the_folder_alone_is_enough(tmp_path: Path) -> None:
    with_listener, without = tmp_path / "a", tmp_path / "b"
    files = RoundFiles(with_listener, baseline=PROMPTS)
    launch_in(setup(), with_listener, listeners=[files])
    launch_in(setup(), without)
    told, alone = files.finish(), write_result_files(without)
    assert alone.best_prompts == told.best_prompts
    assert [r.candidate_prompts for r in alone.rounds] == [r.candidate_prompts for r in told.rounds]
    names = [
        sorted(str(p.relative_to(f)) for p in f.rglob("*.*")) for f in (with_listener, without)
    ]
    written = [[n for n in each if not n.startswith("baseline_prompts")] for each in names]
    assert written[0] == written[1]
    assert write_result_files(without) == alone


def test_a_run_under_way_has_no_result(tmp_path: Path) -> None:
    run = start(setup(), folder=tmp_path / "run")
    try:
        with pytest.raises(FileTrouble, match="a process is still running it"):
            write_result_files(tmp_path / "run")
    finally:
        asyncio.run(run.close())
    result = write_result_files(tmp_path / "run", baseline=PROMPTS)
    assert (result.status, result.baseline_prompts) == ("CANCELED", PROMPTS)
    assert "killed" in result.error_message
    assert not (tmp_path / "run" / "summary.txt").exists()


def test_files_that_cannot_be_written_do_not_end_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    class InTheWay(Watching):
        def event(self, event: Event) -> None:
            if event.kind == "run_started":
                (folder / "rounds").write_text("a file where a folder should be")

    files = RoundFiles(folder, baseline=PROMPTS)
    ending = launch_in(setup(1), folder, listeners=[InTheWay(folder), files])
    assert ending.reason.code == "max_trials"
    (folder / "rounds").unlink()
    assert files.finish().total_rounds == 1
    assert (folder / "rounds" / "round_001.json").exists()


def test_that_the_source_was_updated_is_not_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    launch_in(replace(setup(1)), folder)
    assert write_result_files(folder, source_updated=True).source_updated
    assert write_result_files(folder).source_updated
