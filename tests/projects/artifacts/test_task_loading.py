"""From a task file to a Setup: what is made, what is noted, what is refused before the start."""

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import ConfigError
from burnish.projects import load_project
from burnish.projects.artifacts.plugin import ScaledScore
from burnish.projects.artifacts.spec import ArtifactsSpec
from burnish.runs.build import RunDescription, build
from burnish.runs.plugins import strategy_plugin
from burnish.runs.setup import Setup
from burnish.runs.spec import spec_type
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.edits.attempts import EditsSettings
from burnish.strategies.edits.editors import CommandEditor
from burnish.strategies.edits.strategy import Edits
from burnish.targets.artifacts.target import ArtifactsTarget
from tests.projects.artifacts.task_world import (
    Change,
    adding,
    prepared,
    put,
    scripted,
    top,
    write_task,
)

RUBRICS = [{"id": "1", "content": {"text": "it is clear"}}]
JUDGED = {
    "metric_name": "clarity",
    "evaluator_name": "llm_rubric_response",
    "criterion": {"llm_judge": {"rubrics": RUBRICS}},
}
LENGTH = {
    "metric_name": "short",
    "evaluator_name": "final_response_length_compliance",
    "criterion": {"length": {"max": 100}},
}


def setup(folder: Path, *changes: Change, **flags: Any) -> Setup:
    return prepared(write_task(folder, *changes), **flags).setup


def refusal(folder: Path, *changes: Change, **flags: Any) -> str:
    with pytest.raises(ConfigError) as error:
        setup(folder, *changes, **flags)
    return str(error.value)


def _tuned(folder: Path) -> tuple[Change, Change]:
    """A number in a file as an axis."""
    (folder / "c.yaml").write_text("# sizes\ncache:\n  size: 4  # now\n", encoding="utf-8")
    axis = {"file": "c.yaml", "path": "cache.size", "low": 1, "high": 64, "integer": True}
    return put("artifacts", include=["*.yaml"]), top(axes=[axis])


def edits(made: Setup) -> Edits:
    assert isinstance(made.strategy, Edits)
    return made.strategy


def test_a_task_becomes_a_search_over_its_files(tmp_path: Path) -> None:
    made = setup(tmp_path, put("objective", tolerance=0.1), top(repeats=2))
    made.check()
    settings = edits(made).settings
    assert (settings.primary, settings.direction, settings.tolerance) == ("score", "maximize", 0.1)
    assert (settings.max_files, settings.max_changed_lines, settings.repeats) == (2, 6, 2)
    assert made.target.baseline.values == {"notes.md": "one\n"}
    assert made.budget.max_trials == 3
    assert [str(each) for each in made.objective.constraints] == ["doubled == 0"]
    assert made.objective.weights == {}
    assert [case.id for case in made.dataset.train] == ["task"]
    assert made.dataset.holdout == ()


@pytest.mark.slow
def test_the_kind_is_known_by_its_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    project = load_project(write_task(tmp_path), {}, environ={})
    assert project.setup.project.kind == "task"
    assert project.root == tmp_path / "results" / "optimizer"


def test_without_a_holdout_the_score_is_called_a_training_score(tmp_path: Path) -> None:
    assert any("training score" in note for note in setup(tmp_path).notes)
    held = setup(tmp_path, top(holdout={"scorer": {"command": "python3 score.py"}}))
    held.check()
    assert not any("training score" in note for note in held.notes)
    assert [case.id for case in held.dataset.holdout] == ["holdout"]


def test_somebody_must_edit(tmp_path: Path) -> None:
    told = refusal(tmp_path, put("mutation", editor=None))
    assert "there is no model to edit the files" in told
    assert "--editor MODEL or BURNISH_EDITOR" in told
    made = setup(tmp_path, put("mutation", editor=None), editor="openai:other")
    assert "openai:other" in getattr(edits(made).editor, "client").ref.label  # noqa: B009


def test_a_program_edits_within_the_same_bounds(tmp_path: Path) -> None:
    program = top(mutation={"mode": "command", "command": "my-agent", "max_changed_lines": 9})
    role = edits(setup(tmp_path, program)).editor
    assert isinstance(role, CommandEditor)
    assert (role.command, role.max_files, role.max_changed_lines) == ("my-agent", 2, 9)


def test_a_program_is_stronger_than_the_environment_and_weaker_than_a_flag(tmp_path: Path) -> None:
    file = write_task(tmp_path, top(mutation={"mode": "command", "command": "my-agent"}))
    environ = {"BURNISH_EDITOR": "openai:m"}
    made = load_project(file, {}, environ=environ).setup
    assert isinstance(edits(made).editor, CommandEditor)
    made = prepared(file, editor="openai:other").setup
    assert "openai:other" in getattr(edits(made).editor, "client").ref.label  # noqa: B009


def test_a_run_is_described_whole_in_its_header(tmp_path: Path) -> None:
    """What run.json keeps makes the same search again, flags and bounds included."""
    made = setup(tmp_path, top(budget={"max_iterations": 7}, candidates_per_iteration=2))
    spec = made.project.spec
    model = spec_type(ArtifactsSpec, EditsSettings)
    models = scripted(adding("one\ntwo\n"))
    again = build(RunDescription(spec=model.model_validate(spec)), models=models)
    assert (again.inputs(), again.budget) == (made.inputs(), made.budget)
    assert again.project.spec == spec


@pytest.mark.parametrize(
    ("budget", "flags", "most"),
    [
        ({}, {}, 100),
        ({"max_iterations": 7}, {}, 14),
        ({"max_iterations": 7, "max_trials": 5}, {}, 5),
        ({"max_iterations": 7}, {"max_trials": 30}, 30),
    ],
)
def test_iterations_are_counted_in_trials(
    tmp_path: Path, budget: dict[str, int], flags: dict[str, int], most: int
) -> None:
    made = setup(tmp_path, top(budget=budget, candidates_per_iteration=2), **flags)
    assert made.budget.max_trials == most


def test_metrics_score_the_text_of_the_file(tmp_path: Path) -> None:
    scorer = {"metrics": [JUDGED, LENGTH], "judge": "openai:m"}
    made = setup(
        tmp_path,
        top(scorer=scorer, objective={"primary_metric": "clarity"}, policy={}),
        top(constraints=[{"metric": "short", "op": ">=", "value": 1}]),
    )
    made.check()
    assert [metric.name for metric in made.metrics] == ["clarity", "short"]
    assert made.objective.weights == {"clarity": 1.0}
    assert isinstance(made.target, ArtifactsTarget)
    assert made.target.task.scoring.reads == "notes.md"
    notes = " ".join(made.notes)
    assert "one judge decides on clarity" in notes
    assert "openai:m writes the files and judges clarity" in notes


def test_names_that_no_metric_has_are_refused(tmp_path: Path) -> None:
    told = refusal(tmp_path, top(scorer={"metrics": [LENGTH]}, policy={}))
    assert "constraints[0].metric: scorer has no metric 'doubled'" in told
    scorer = {"metrics": [LENGTH, {**LENGTH, "metric_name": "shorter"}]}
    told = refusal(tmp_path, top(scorer=scorer, policy={}, constraints=[]))
    assert "objective.primary_metric: scorer has no metric 'score'" in told


def test_a_holdout_may_have_judges_of_its_own(tmp_path: Path) -> None:
    other = {"metrics": [{**LENGTH, "criterion": {"length": {"max": 5}}}]}
    plain = top(scorer={"metrics": [LENGTH]}, policy={}, constraints=[], holdout={"scorer": other})
    made = setup(tmp_path, plain)
    made.check()
    assert [metric.name for metric in made.metrics] == ["short"]
    told = refusal(tmp_path, plain, top(holdout={"runner": {"command": "x"}}))
    assert "another runner changes nothing" in told


def test_metrics_over_several_files_must_say_which(tmp_path: Path) -> None:
    (tmp_path / "more.md").write_text("x", encoding="utf-8")
    several = put("artifacts", include=["*.md"])
    plain = top(scorer={"metrics": [LENGTH]}, policy={}, constraints=[])
    assert "there are 2" in refusal(tmp_path, several, plain)
    assert "not one of them" in refusal(tmp_path, several, plain, put("scorer", reads="no.md"))
    setup(tmp_path, several, plain, put("scorer", reads="more.md"))


def test_what_burnish_writes_is_not_what_is_edited(tmp_path: Path) -> None:
    told = refusal(
        tmp_path,
        top(artifacts={"include": ["**/*.md", "work/*.jsonl"]}),
    )
    assert "logging.results_file: artifacts.include matches this path" in told
    assert "logging.candidate_dir: artifacts.include matches this path" in told
    told = refusal(tmp_path, put("logging", results_file="work/candidates/rows.jsonl"))
    assert "the file is inside candidate_dir" in told


def test_links_that_lead_out_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    file = write_task(folder)
    (tmp_path / "elsewhere").mkdir()
    (folder / "work").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError) as error:
        prepared(file)
    assert "logging.results_file: 'work/results.jsonl' leaves the folder" in str(error.value)


def test_nothing_to_edit_is_an_error(tmp_path: Path) -> None:
    assert "no file" in refusal(tmp_path, put("artifacts", include=["missing/*.md"]))


def test_what_burnish_writes_is_no_part_of_the_task(tmp_path: Path) -> None:
    first = setup(tmp_path).inputs()
    (tmp_path / "work" / "candidates" / "old").mkdir(parents=True)
    (tmp_path / "work" / "results.jsonl").write_text("{}\n", encoding="utf-8")
    (tmp_path / "work" / "candidates" / "old" / "x.md").write_text("x", encoding="utf-8")
    (tmp_path / "results" / "optimizer").mkdir(parents=True)
    (tmp_path / "results" / "optimizer" / "x").write_text("x", encoding="utf-8")
    assert setup(tmp_path).inputs() == first
    (tmp_path / "score.py").write_text("print(1)", encoding="utf-8")
    changed = prepared(tmp_path / "task.json").setup.inputs()
    assert changed["target"] != first["target"]


def test_numbers_in_a_file_are_tuned_by_coordinate(tmp_path: Path) -> None:
    made = setup(tmp_path, *_tuned(tmp_path), strategy="coordinate")
    made.check()
    assert isinstance(made.strategy, Coordinate)
    assert made.strategy.settings.numbers == ("c.yaml#cache.size",)
    assert made.target.baseline.values["c.yaml#cache.size"] == 4
    scaled = [each for each in made.metrics if isinstance(each, ScaledScore)]
    assert [(each.measure, each.worst, each.best) for each in scaled] == [("score", 0.0, 1.0)]
    assert "needs numbers to tune" in refusal(tmp_path, strategy="coordinate")


def test_axes_must_be_there_and_start_within_their_bounds(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("cache:\n  size: 400\n", encoding="utf-8")
    here = {"file": "c.yaml", "low": 1, "high": 64}
    axes = [{**here, "path": "cache.size"}, {**here, "path": "cache.sise"}]
    tuned = (put("artifacts", include=["*.yaml"]), top(axes=axes))
    told = refusal(tmp_path, *tuned, strategy="coordinate")
    assert "axes[0]: the current value is out of range: 400 is outside [1, 64]" in told
    assert "axes[1]" in told


def test_flags_of_other_kinds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    file = write_task(tmp_path)
    with pytest.raises(ConfigError) as error:
        load_project(file, {"critic": "openai:m"}, environ={})
    assert "--critic: 'edits' over 'artifacts' does not use it" in str(error.value)
    agent = tmp_path / "agent.yaml"
    agent.write_text(json.dumps({"name": "a", "model": {}, "instructions": {}}), encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load_project(agent, {"editor": "openai:m"}, environ={})
    assert "--editor: 'coordinate' over 'agent' does not use it" in str(error.value)


def test_only_coordinate_knows_cycles(tmp_path: Path) -> None:
    text = refusal(tmp_path, max_cycles=2)
    assert "--max-cycles: 'edits' over 'artifacts' does not use it" in text
    assert "it is for the strategy 'coordinate'" in text


def test_a_strategy_that_tunes_neither_files_nor_numbers_is_refused(tmp_path: Path) -> None:
    text = refusal(tmp_path, strategy="reflective")
    assert "--strategy: 'reflective' needs texts, but a file of kind 'task' has none" in text
    assert "there are: auto, coordinate, edits" in text


def test_a_threshold_needs_a_score(tmp_path: Path) -> None:
    told = refusal(tmp_path, score_threshold=0.9)
    assert "'score' has its own unit" in told
    plain = top(scorer={"metrics": [LENGTH]}, policy={}, constraints=[])
    assert setup(tmp_path, plain, score_threshold=0.9).budget.score_threshold == 0.9


def test_steps_that_are_not_there_are_found_before_anything_runs(tmp_path: Path) -> None:
    told = refusal(
        tmp_path,
        put("scorer", command="python3 scores.py"),
        top(runner={"command": "python3 tools/run.py"}),
        top(holdout={"scorer": {"function": "score:grade"}}),
    )
    assert "scorer.command: there is no file 'scores.py'" in told
    assert "runner.command: there is no file 'tools/run.py'" in told
    assert "holdout.scorer.function: score.py has no function 'grade'" in told


def test_a_script_that_the_runner_writes_need_not_be_there(tmp_path: Path) -> None:
    made = setup(tmp_path, put("scorer", command="python3 work/score.py"))
    assert made.target.surfaces


def test_files_for_the_scorer(tmp_path: Path) -> None:
    (tmp_path / "right.md").write_text("right", encoding="utf-8")
    made = setup(tmp_path, put("scorer", files=["right.md"]), put("artifacts", include=["*.md"]))
    assert [surface.id for surface in made.target.surfaces] == ["notes.md"]
    told = refusal(tmp_path, top(scorer={"metrics": [LENGTH], "files": ["right.md"]}, policy={}))
    assert "files only go with command or function" in told


def test_a_target_in_the_unit_of_the_scorer_is_a_limit(tmp_path: Path) -> None:
    made = setup(tmp_path, put("budget", target_score=120.5))
    assert edits(made).settings.target_score == 120.5
    assert "target_score 120.5" in strategy_plugin("edits").limits(made)


def test_files_to_read_reach_the_editor_and_cannot_be_edited(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "style.md").write_text("Short words.", encoding="utf-8")
    (tmp_path / "answers.txt").write_text("four", encoding="utf-8")
    hide = put("scorer", files=["answers.txt"])
    made = setup(tmp_path, put("artifacts", context=["docs/*"]), hide)
    assert isinstance(made.target, ArtifactsTarget)
    assert dict(made.target.context) == {"docs/style.md": "Short words."}
    assert [surface.id for surface in made.target.surfaces] == ["notes.md"]
    nowhere = refusal(tmp_path, put("artifacts", context=["answers.txt"]), hide)
    assert "artifacts.context: answers.txt: there is no such file that an editor may see" in nowhere
    (tmp_path / "docs" / "style.md").write_text("x" * 200_001, encoding="utf-8")
    assert "200,000 are allowed" in refusal(tmp_path, put("artifacts", context=["docs/*"]))
