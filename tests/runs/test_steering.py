"""What a run refuses to take from people, at the door and when it takes a note in."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.cli.stored_runs import send_file, send_hint, send_pins
from burnish.core.errors import BurnishError, ConfigError, SteeringRefused
from burnish.journal.limits import Budget
from burnish.runs.directory import RunRecord
from burnish.runs.setup import Setup, resume, start
from burnish.runs.steering import FOLDER, Note, person_name, send, waiting
from tests.runs.small import small
from tests.runs.steered import note, steered, taken
from tests.strategies import backprop_world

PLANNER, WRITER = backprop_world.PLANNER, backprop_world.WRITER


def two_texts(trials: int = 2) -> Setup:
    roles = backprop_world.Roles(patch=backprop_world.add_words)
    return backprop_world.world(roles=roles, budget=Budget(max_trials=trials))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over two texts that was stopped before its first trial."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    run = start(two_texts(), folder=folder)
    run.directory.close()
    return folder


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (note("tell", text=" \n"), "the hint is empty"),
        (note("tell", text="é" * 2001), "the hint has 2,001 characters"),
        (note("try", **{PLANNER: "\t"}), "is empty"),
        (note("try", **{PLANNER: "x" * 200_001}), "has 200,001 characters"),
        (note("try"), "there is nothing to try"),
        (note("try", **{"planner#instructions": "new"}), f"did you mean '{PLANNER}'"),
        (note("pin", PLANNER, WRITER), "nothing would be left to change"),
        (note("pin"), "no surface is named"),
        (note("unpin", WRITER), "is not pinned"),
    ],
)
def test_the_door_refuses_and_says_why(stopped: Path, wrong: Note, message: str) -> None:
    with pytest.raises(SteeringRefused) as refused:
        send(RunRecord.read(stopped), wrong)
    assert message in str(refused.value)
    assert waiting(stopped) == []


def test_text_of_held_out_cases_is_refused_at_the_door(stopped: Path) -> None:
    setup = two_texts()
    held = setup.dataset.holdout[0].input
    with pytest.raises(SteeringRefused, match="which is held out"):
        send(
            RunRecord.read(stopped),
            note("tell", text=f"Remember: {held}"),
            cases=setup.dataset,
        )


def test_text_of_held_out_cases_is_refused_by_the_run(tmp_path: Path) -> None:
    setup = two_texts()
    held = setup.dataset.holdout[0].input
    hint, own = note("tell", text=f"Remember: {held}"), note("try", **{WRITER: f"Say: {held}"})
    run = steered(setup, tmp_path / "run", {0: [hint, own]})
    assert [event.action for event in taken(run) if "held out" in event.refused] == ["tell", "try"]
    seen = [p.request for row in run.rows for p in row.trial.proposals]
    assert held not in json.dumps(seen)


def test_a_file_is_for_the_surface_that_has_its_name(stopped: Path, tmp_path: Path) -> None:
    file = tmp_path / "text.md"
    file.write_text("A plan, größer.\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="--surface NAME"):
        send_file(str(stopped), file, surface=None, by="me")
    file.rename(tmp_path / f"{WRITER}.md")
    send_file(str(stopped), tmp_path / f"{WRITER}.md", surface=None, by="me")
    send_file(str(stopped), tmp_path / f"{WRITER}.md", surface=PLANNER, by="me")
    values = [each.values for each in waiting(stopped)]
    assert values == [{WRITER: "A plan, größer.\n"}, {PLANNER: "A plan, größer.\n"}]
    for path in (stopped / FOLDER).iterdir():
        path.unlink()


def _door(name: str) -> list[Callable[[], None]]:
    return [
        lambda: send_hint(name, "Be brief.", by=None),
        lambda: send_pins(name, ["text"], by=None, pin=True),
    ]


def test_a_strategy_that_cannot_be_steered_and_a_finished_run_say_so(tmp_path: Path) -> None:
    start(small(), folder=tmp_path / "plan").directory.close()
    done = steered(two_texts(), tmp_path / "done")
    record = RunRecord.read(done.folder)
    over = [replace(e, data={**e.data, "code": "finished"}) for e in record.events]
    with pytest.raises(SteeringRefused, match="is finished"):
        send(replace(record, events=tuple(over)), note("tell", text="late"))
    for door in (*_door(str(tmp_path / "plan")), *_door("nobody knows this run")):
        with pytest.raises(BurnishError):
            door()


def test_what_is_no_note_is_ignored_with_a_warning(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    start(two_texts(), folder=folder).directory.close()
    (folder / FOLDER).mkdir()
    (folder / FOLDER / "a.json").write_text("{half", encoding="utf-8")
    run = steered(two_texts(), folder)
    (warning,) = run.events("warning")
    assert "is not a note" in warning["message"]
    assert len(run.rows) == 3


def test_a_run_that_ends_warns_of_notes_that_came_too_late(tmp_path: Path) -> None:
    run = steered(two_texts(), tmp_path / "run", {2: [note("tell", text="late")]})
    assert ["1 note came too late" in each["message"] for each in run.events("warning")] == [True]
    assert len(waiting(run.folder)) == 1


def test_a_secret_does_not_reach_the_folder(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abcdefghijklmnopqrstuvwxyz0123")
    send(RunRecord.read(stopped), note("tell", text="Use sk-abcdefghijklmnopqrstuvwxyz0123"))
    (path,) = (stopped / FOLDER).iterdir()
    assert "abcdefghij" not in path.read_text(encoding="utf-8")
    path.unlink()


def test_names_of_people_are_one_clean_line() -> None:
    assert person_name("Zoë\n\x1b[31m 🦊 ") == "Zoë 31m"
    assert person_name("") == "somebody"


def test_a_resume_of_a_run_without_the_list_takes_no_notes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = start(two_texts(), folder=folder)
    run.directory.close()
    replace(run.directory.header, steering={}).write(folder)
    with pytest.raises(SteeringRefused, match="an earlier burnish started it"):
        send(RunRecord.read(folder), note("tell", text="x"))
    resumed = resume(two_texts(), folder)
    resumed.directory.close()
