"""Refining with real delegations: the team is scripted, all else is as a user has it."""

import asyncio
import json
import re
from pathlib import Path

import pytest
import typer

from burnish.core.errors import BurnishError, Interrupted, SeedRefused
from burnish.delegation.experiments import Experiment, TaskBest
from burnish.delegation.refine.plugin import RefineOptions, Seat, open_refinement
from burnish.delegation.refine.sessions import Session
from burnish.delegation.refine.setup import RefineSettings
from burnish.testing.delegation_world import Response, RoleTurn
from tests.cli.console import tree
from tests.delegation.delegation_world import (
    FLAWS,
    GOOD,
    REFINE_FLOW,
    critic,
    flaws_in,
    refine_world,
    report,
)
from tests.delegation.refine.refining_world import Place
from tests.delegation.refine.run_folders import awp_run

pytestmark = pytest.mark.slow


def nothing(turn: RoleTurn) -> Response:
    del turn
    return "no answer"


def praise(turn: RoleTurn) -> Response:
    del turn
    return GOOD


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(folder=tmp_path)
    found.make_seed()
    return found


def test_three_flaws_in_three_iterations(place: Place) -> None:
    before = tree(place.seed)
    assert len(flaws_in((place.seed / "FINAL" / "report.md").read_text())) == 3
    place.refine(flags={"iterations": 5})
    session = place.session()
    assert session["stop_reason"] == "empty_gradient_midloop"
    assert session["best_iter"] == 3
    losses = [row["loss"] for row in session["iterations"]]
    assert losses == sorted(losses, reverse=True)
    assert (place.seed / "BEST" / "report.md").read_text() == report(*FLAWS)
    after = tree(place.seed)
    assert {name: after[name] for name in before} == before
    # Every gradient source is there in a run of burnish itself.
    folder = place.seed / "refinement_sessions" / session["session_id"]
    first = json.loads((folder / "iter_1" / "gradient_input.json").read_text())
    assert len(first["defects"]) == 3
    assert first["eval_deltas"] == {"unit": 0.9}
    page = (folder / "REFINEMENT.md").read_text()
    assert "training score" in page
    assert "the temperatures have no unit" in page


def test_the_manager_hears_of_it_once_and_workers_can_read_what_there_was(place: Place) -> None:
    place.world.turns.clear()
    place.refine(flags={"iterations": 1})
    managers = [turn.text for turn in place.world.turns_of("manager")]
    assert ["## REFINEMENT CONTEXT" in text for text in managers] == [True, False, False]
    read = [turn.answers[0] for turn in place.world.turns_of("worker") if turn.answers]
    assert read[0].startswith("# The heat of the week")


def test_a_seed_that_is_refined_has_its_models_depth_and_half_its_budget(place: Place) -> None:
    place.refine(flags={"iterations": 1})
    run = place.seed / "refinement_sessions" / place.session()["iterations"][0]["run_dir"]
    manifest = json.loads((run / "run_manifest.json").read_text())
    assert manifest["models"]["manager"] == "openai:boss"
    assert manifest["budget"]["max_depth"] == 2
    assert (manifest["budget"]["max_loops"], manifest["budget"]["max_wall_time"]) == (6, 300)
    assert manifest["tags"] == ["refinement", "refine-iter-1"]
    completion = json.loads((run / "run_completion.json").read_text())
    assert completion["parent_run_id"] == place.session()["seed_run_id"]
    # An iteration is a run like any other: it can be refined in its turn.
    again = Place(folder=place.folder, world=place.world)
    again.refine(run=run, flags={"iterations": 1})
    assert flaws_in((run / "BEST" / "report.md").read_text()) == list(FLAWS)[2:]


def test_tiers_change_who_works_but_never_who_grades(place: Place) -> None:
    flow = REFINE_FLOW + "refinement_tier_high: {manager: openai:strong, worker: openai:strong}\n"
    place.flow.write_text(flow.replace(", critic: openai:eye", ""), encoding="utf-8")
    place.refine(flags={"iterations": 2, "tier_low": ":openai:weak"})
    session = place.session()
    rows = [(r["tier"], r["model_manager"], r["model_worker"]) for r in session["iterations"]]
    assert rows == [
        ("low", "openai:boss", "openai:weak"),
        ("high", "openai:strong", "openai:strong"),
    ]
    for row in session["iterations"]:
        run = place.seed / "refinement_sessions" / row["run_dir"]
        models = json.loads((run / "run_manifest.json").read_text())["models"]
        assert models["critic"] == "openai:boss"


def test_an_iteration_that_is_refined_again_is_not_halved_twice(place: Place) -> None:
    place.refine(flags={"iterations": 1})
    sessions = place.seed / "refinement_sessions"
    first = sessions / place.session()["iterations"][0]["run_dir"]
    place.refine(run=first, flags={"iterations": 1})
    again = first / "refinement_sessions"
    second = again / place.session(again)["iterations"][0]["run_dir"]
    budgets = [json.loads((run / "run_manifest.json").read_text())["budget"]
               for run in (first, second)]  # fmt: skip
    assert budgets[0]["max_loops"] == budgets[1]["max_loops"] > 1
    assert budgets[0]["max_total_tokens"] == budgets[1]["max_total_tokens"]


def test_a_workflow_that_is_named_comes_with_its_models(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    other = place.folder / "other.yaml"
    other.write_text(place.flow.read_text().replace("openai:hand", "openai:another"))
    asked = {"flags": {"iterations": 12, "workflow": str(other)}, "dry_run": True}
    place.refine(**asked)
    said = capsys.readouterr()
    assert "worker openai:another" in said.out
    assert "from 1 to 10: 10 iterations" in said.err
    place.refine(**asked, as_json=True)
    plan = json.loads(capsys.readouterr().out)
    assert len(plan["iterations"]) == 10
    assert plan["iterations"][0]["models"]["worker"] == "openai:another"
    assert not (place.seed / "refinement_sessions").exists()


def test_why_an_iteration_failed_is_said(tmp_path: Path) -> None:
    place = Place(folder=tmp_path)
    place.make_seed()
    lost = Place(folder=tmp_path, world=refine_world(manager=nothing))
    with pytest.raises(typer.Exit):
        lost.refine(flags={"iterations": 1})
    assert "it failed: manager_failed" in lost.session()["iterations"][0]["note"]


def test_a_team_that_grades_itself_is_told_of(place: Place) -> None:
    place.refine(flags={"iterations": 1, "worker_model": "openai:eye"})
    assert any("grades its own work" in note for note in place.session()["notes"])


def test_named_models_are_left_aside_where_there_are_tiers(place: Place) -> None:
    place.refine(flags={"iterations": 1, "model": "openai:x", "tier_high": "openai:y"})
    session = place.session()
    assert session["iterations"][0]["model_manager"] == "openai:y"
    assert any("ignoring legacy model" in note for note in session["notes"])


def test_a_critic_who_is_away_lets_nothing_win(tmp_path: Path) -> None:
    away: list[bool] = []

    def sometimes(turn: RoleTurn) -> Response:
        return "no answer" if away else critic(turn)

    place = Place(folder=tmp_path, world=refine_world(critic=sometimes))
    place.make_seed()
    away.append(True)
    with pytest.raises(typer.Exit) as end:
        place.refine(flags={"iterations": 1})
    assert end.value.exit_code == 1
    assert "the critic did not score it" in place.session()["iterations"][0]["note"]


def test_a_run_of_awp_agents_is_refined_as_it_is(tmp_path: Path) -> None:
    place = Place(folder=tmp_path, world=refine_world(critic=praise))
    run = awp_run(tmp_path / "ws")
    before = tree(tmp_path / "ws" / "output")
    place.refine(
        run=run, flags={"iterations": 1, "model": "openai:boss", "worker_model": "openai:hand"}
    )
    best = run / "BEST"
    manifest = json.loads((best / "manifest.json").read_text())
    # Its own claims cannot be measured on the seed: that part is neutral for both. The critic of
    # the iterations grades the seed too; what remains is a rejection and the budget.
    assert manifest["seed_loss"] == pytest.approx(0.2 + 0.03 + 0.075 + 0.05 * (1 - 0.583))
    assert manifest["best_loss"] == pytest.approx(0.2 + 0.03 + 0.05 * 3 / 12)
    assert (best / "report.md").exists()
    assert tree(tmp_path / "ws" / "output") == before
    notes = place.session(run / "refinement_sessions")["notes"]
    assert any("the model's claims about itself" in note for note in notes)
    assert any("cannot be measured by it: has_result, confidence" in note for note in notes)
    assert any("policy texts are the current ones" in note for note in notes)
    assert any("grades its own work" in note for note in notes) is False
    (iteration,) = (run / "refinement_sessions").glob("*/iter_1/run")
    (measured,) = (iteration / "data" / "evaluation").glob("*.json")
    record = json.loads(measured.read_text())
    assert {"run_id", "final_score", "final_action", "step_records", "final_result"} <= set(record)
    names = {each["name"] for each in record["final_result"]["metric_scores"]}
    assert {"has_result", "confidence"} <= names


_OWN_METRICS = """\
observability:
  evaluation:
    metrics:
      - {name: unit, kind: deterministic_assertion, params: {path: report.md, contains: "°C"}}
      - {name: spare, kind: budget_utility, weight: 20}
      - {name: odd, kind: telepathy}
"""


def test_the_metric_of_the_seeds_workspace_grades_both_sides(tmp_path: Path) -> None:
    place = Place(folder=tmp_path, world=refine_world(critic=praise))
    run = awp_run(tmp_path / "ws")
    (tmp_path / "ws" / "workflow.awp.yaml").write_text(_OWN_METRICS, encoding="utf-8")
    (tmp_path / "ws" / "output" / "FINAL" / "report.md").write_text("31 °C\n", encoding="utf-8")
    (tmp_path / "ws" / "output" / run.name / "report.md").write_text("31 °C\n", encoding="utf-8")
    with pytest.raises(typer.Exit):
        place.refine(
            run=run, flags={"iterations": 1, "model": "openai:boss", "worker_model": "openai:hand"}
        )
    session = place.session(run / "refinement_sessions")
    assert session["seed_parts"]["eval"] == 0
    assert session["iterations"][0]["parts"]["eval"] == 0.4  # the unit is gone
    assert session["best_iter"] == 0
    assert any("in the run's workspace" in note for note in session["notes"])
    assert any("cannot be measured by it: spare" in note for note in session["notes"])


def test_a_seed_that_another_critic_graded_is_graded_again(place: Place) -> None:
    place.change_completion(lambda data: data["critique"].update(score=0.99))
    place.flow.write_text(REFINE_FLOW.replace("critic: openai:eye", "critic: openai:other"))
    place.refine(flags={"iterations": 1})
    session = place.session()
    # Three flaws and two: by the old score the seed would have stayed the best.
    assert session["seed_parts"]["critique"] == pytest.approx(0.3 * 0.75)
    assert session["iterations"][0]["parts"]["critique"] == pytest.approx(0.3 * 0.5)
    assert session["best_iter"] == 1


def test_the_budget_is_measured_by_the_seeds_whole_for_both(place: Place) -> None:
    place.refine(flags={"iterations": 1})
    session = place.session()
    assert session["seed_parts"]["budget_burn"] == pytest.approx(0.05 * 3 / 12)
    assert session["iterations"][0]["parts"]["budget_burn"] == pytest.approx(0.05 * 3 / 12)


def test_models_that_burnish_does_not_know_must_be_named(tmp_path: Path) -> None:
    run = awp_run(tmp_path / "ws")
    path = run / "run_manifest.json"
    path.write_text(path.read_text().replace("openai/gpt-5-mini", "acme/chat"))
    with pytest.raises(SeedRefused, match=re.escape("acme/chat")):
        Place(folder=tmp_path).refine(run=run)


def test_where_the_workflow_is_gone_nobody_wins_by_a_score_that_is_not_given(
    place: Place,
) -> None:
    place.flow.unlink()
    place.change_completion(lambda data: data["eval"].update(score=0.0))
    with pytest.raises(typer.Exit):
        place.refine(flags={"iterations": 1})
    session = place.session()
    # The metrics went with the file: both sides count them as neutral.
    assert session["seed_loss"] == pytest.approx(0.2 + 0.225 + 0.0125)
    assert any("neutral for both" in note for note in session["notes"])


def test_an_odd_deliverable_is_carried_along(tmp_path: Path) -> None:
    place = Place(folder=tmp_path)
    seed = place.make_seed()
    odd = {"a b.md": "x\n", "übersicht 報告.md": "y\n", "manifest.json": '{"loss": 0}\n'}
    for name, text in odd.items():
        (seed / "FINAL" / name).write_text(text, encoding="utf-8")
    (seed / "FINAL" / "deep").mkdir()
    with (seed / "FINAL" / "deep" / "large.bin").open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    place.refine(flags={"iterations": 1, "allow_missing_files": True})
    note = place.session()["iterations"][0]["note"]
    assert "it no longer has" in note
    assert "a b.md" in note
    run = place.seed / "refinement_sessions" / place.session()["iterations"][0]["run_dir"]
    given = run / "workspace" / "input"
    assert (given / "übersicht 報告.md").read_text(encoding="utf-8") == "y\n"
    assert (given / "deep" / "large.bin").stat().st_size == 200 * 1024 * 1024


def test_a_session_of_a_task_goes_on_from_the_run_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNISH_EXPERIMENTS_ROOT", str(tmp_path / "all"))
    place = Place(folder=tmp_path)
    place.delegate(target=Experiment.new("Heat").folder.name)
    (task,) = Experiment.all()[0].tasks
    (run,) = task.runs.iterdir()
    completion = json.loads((run / "run_completion.json").read_text())
    completion["final_budget"]["wall_time"]["elapsed_s"] = 600
    (run / "run_completion.json").write_text(json.dumps(completion))
    done: list[int] = []

    def stop() -> str:
        return "enough" if done else ""

    def count(session: Session) -> None:
        done[:] = [1] * (len(session.iterations) // 2)

    wishes = RefineOptions(models=place.world.models, stop=stop, listen=count)
    settings = RefineSettings(iterations=3)
    with pytest.raises(Interrupted):
        asyncio.run(open_refinement(Seat.in_task(task), settings, options=wishes).run())
    assert "iter_2" in str(TaskBest(task).winner())
    asked = len(place.world.turns)
    place.refine(target=task.target, resume="last")
    session = place.session(task.refinements)
    assert session["seed_run_id"] == completion["run_id"]
    assert [row["note"] for row in session["iterations"]] == ["", "", ""]
    assert (session["best_iter"], session["best_written"]) == (3, True)
    # Only the third iteration was still to be paid.
    assert len(place.world.turns) - asked == session["iterations"][2]["calls"]


def test_a_session_that_ran_all_iterations_goes_on_with_more(place: Place) -> None:
    place.refine(flags={"iterations": 1})
    assert place.session()["stop_reason"] == "max_iterations"
    turns = len(place.world.turns)
    for flags in ({}, {"iterations": 1}):
        with pytest.raises(SeedRefused, match="no unfinished session"):
            place.refine(resume="last", flags=flags)
    place.refine(resume="last", flags={"iterations": 2})
    session = place.session()
    assert (len(session["iterations"]), session["best_iter"]) == (2, 2)
    assert len(place.world.turns) - turns == session["iterations"][1]["calls"], "none is paid twice"
    session_file = place.seed / "refinement_sessions" / f"{session['session_id']}.json"
    session_file.write_text(json.dumps({**session, "stop_reason": "interrupted"}))
    place.refine(resume="last")
    assert len(place.session()["iterations"]) == 2, "what it was resumed with stays"
    place.refine(resume="last", flags={"iterations": 3})
    assert place.session()["best_iter"] == 3
    assert (place.seed / "BEST" / "report.md").read_text() == report(*FLAWS)


def test_more_iterations_may_not_change_the_models_of_those_that_were_run(place: Place) -> None:
    place.refine(flags={"iterations": 2, "tier_low": ":openai:weak"})
    with pytest.raises(SeedRefused, match="would have other models"):
        place.refine(resume="last", flags={"iterations": 9})
    assert place.session()["stop_reason"] == "max_iterations", "it stays as it was"


def test_no_secret_reaches_a_session(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EXAMPLE_SECRET_KEY", "sk-verysecret-0123456789")

    def leaks(turn: RoleTurn) -> Response:
        raise RuntimeError("refused: sk-verysecret-0123456789")

    broken = Place(folder=tmp_path, world=refine_world(manager=leaks))
    with pytest.raises(BurnishError):
        broken.refine(flags={"iterations": 1})
    assert place.session()["stop_reason"] == "error:RuntimeError"
    assert not [name for name, text in tree(place.seed).items() if b"verysecret" in text]
