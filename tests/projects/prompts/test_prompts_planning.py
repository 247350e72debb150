"""From flags and files to a Setup: what is refused before anything is paid, and what is noted."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import ConfigError
from burnish.core.surfaces import TextSurface
from burnish.projects import load_project
from burnish.projects.prompts import estimated_tokens, prompt_limits
from burnish.runs.setup import Setup
from burnish.strategies.auto.search import Auto
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.reflective.search import Reflective
from burnish.targets.prompts import PromptsTarget
from tests.projects.prompts.prompt_world import (
    PROMPT,
    Change,
    algorithm,
    flags,
    models,
    reflector,
    set_algorithm,
    set_evaluate,
    set_optimize,
    write_cases,
    write_config,
    write_world,
)

PROJECT: dict[str, Any] = {
    "kind": "prompts",
    "target": {"python": "numbers_agent:call_agent"},
    "prompts": {"system": "prompts/system.md"},
    "train": "train.evalset.json",
    "holdout": "val.evalset.json",
    "metrics": [{"type": "standard", "metric": "equality"}],
    "reflector": "openai:m",
    "budget": {"max_metric_calls": 60},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_world(tmp_path)
    return tmp_path


def searched(folder: Path, *changes: Change, **told: Any) -> Setup:
    """An optimizer.json, changed first, with the flags of the world and more."""
    path = write_config(folder, *changes)
    overrides = {**flags(folder), **told}
    return load_project(path, overrides, environ={}, models=models(reflector())).setup


def project(folder: Path, said: dict[str, Any] | None = None, **told: Any) -> Setup:
    """A file of kind `prompts`; without `said`, the flags alone."""
    path = folder
    if said is not None:
        path = folder / "prompts.yaml"
        path.write_text(json.dumps({**PROJECT, **said}), encoding="utf-8")
    overrides = told
    return load_project(path, overrides, environ={}, models=models(reflector())).setup


def startable(folder: Path, *changes: Change, **told: Any) -> Setup:
    """The same, checked as for a new run."""
    setup = searched(folder, *changes, **told)
    setup.check(new=True)
    return setup


def refusal(make: Any, *args: Any, **told: Any) -> str:
    with pytest.raises(ConfigError) as error:
        make(*args, **told)
    return str(error.value)


def only_text(setup: Setup) -> TextSurface:
    (surface,) = setup.target.surfaces
    assert isinstance(surface, TextSurface)
    return surface


def notes(setup: Setup) -> str:
    return "\n".join(setup.notes)


def test_an_optimizer_json_with_its_flags_is_a_setup(folder: Path) -> None:
    setup = searched(folder, set_evaluate(num_runs=2))
    assert isinstance(setup.strategy, Reflective)
    assert setup.strategy.settings.repeats == setup.test_repeats == 2
    assert isinstance(setup.target, PromptsTarget)
    assert setup.target.baseline.values == {"system": PROMPT}
    assert (setup.concurrency, setup.seed) == (2, 42)
    assert setup.budget.metric_thresholds == {"final_response_avg_score": 1.0}
    assert [case.id for case in setup.dataset.holdout] == ["held_0", "held_1", "held_2"]


def test_a_flag_wins_over_the_file(folder: Path) -> None:
    setup = searched(
        folder,
        set_algorithm(score_threshold=0.5),
        seed=7,
        repeats=1,
        max_metric_calls=40,
        concurrency=1,
        score_threshold=0.9,
        strategy="reflective",
        reflector="anthropic:other",
        test=str(folder / "sealed.evalset.json"),
    )
    assert isinstance(setup.strategy, Reflective)
    assert setup.strategy.settings.racing
    assert (setup.seed, setup.concurrency, setup.budget.max_metric_calls) == (7, 1, 40)
    assert (setup.budget.score_threshold, setup.budget.pass_rate_threshold) == (0.9, None)
    assert len(setup.dataset.test) == 2
    assert "strategy" in refusal(searched, folder, strategy="coordinate")


def test_the_sealed_cases_may_be_named_in_the_file(folder: Path) -> None:
    sealed = set_optimize(sealed_dataset_path="sealed.evalset.json")
    assert len(searched(folder, sealed).dataset.test) == 2


def test_the_file_may_say_how_long_a_case_may_take(folder: Path) -> None:
    assert searched(folder, set_optimize(timeLimit=20)).case_policy.time_limit == 20
    assert searched(folder).case_policy.time_limit is None, "the usual limit is the run's own"
    assert "time_limit" in refusal(searched, folder, set_optimize(time_limit=0))


def test_flags_that_are_missing_are_said_together(folder: Path) -> None:
    said = refusal(searched, folder, agent=None, prompt=None, train=None)
    assert [line.split(":")[0] for line in said.splitlines()] == ["--train", "--agent", "--prompt"]
    assert "name it: --agent module:function" in said, "the file has no key for it"


def test_what_is_wrong_with_agent_prompts_and_cases_is_said_together(folder: Path) -> None:
    said = refusal(
        searched,
        folder,
        agent="numbers_agent:nobody",
        prompt={
            "a/b": str(folder / "prompts" / "system.md"),
            "gone": str(folder / "gone.md"),
        },
        train=str(folder / "gone.json"),
    )
    for part in ("no function 'nobody'", "'a/b' cannot be the name", "gone.md", "gone.json"):
        assert part in said, part


def test_one_file_for_train_and_validation_is_refused_by_whatever_name(folder: Path) -> None:
    link = folder / "link.evalset.json"
    link.symlink_to(folder / "train.evalset.json")
    for path in (folder / "train.evalset.json", link, folder / "prompts" / ".." / link.name):
        assert "both name the same file" in refusal(searched, folder, holdout=str(path))


def test_a_case_in_both_is_refused_by_its_content(folder: Path) -> None:
    rows = json.loads((folder / "train.evalset.json").read_text(encoding="utf-8"))
    case = {**rows["eval_cases"][2], "eval_id": "another name"}
    path = folder / "val.evalset.json"
    path.write_text(json.dumps({"eval_set_id": "v", "eval_cases": [case]}), encoding="utf-8")
    assert "case 'another name' is in both (as 'learned_2')" in refusal(searched, folder)


def test_a_budget_that_cannot_finish_a_round_is_refused_with_one_that_can(folder: Path) -> None:
    small = set_algorithm(max_metric_calls=11)
    said = refusal(startable, folder, small)
    # 3 for the baseline; 3 + 3 on the minibatch and 3 for the candidate.
    assert "11 runs of cases cannot finish one round" in said
    assert "allow 12 or more" in said
    assert "optimizer.json:" in said
    assert startable(folder, small, max_metric_calls=12)
    assert "--max-metric-calls" in refusal(startable, folder, max_metric_calls=5)
    assert startable(folder, small, print_baseline=True), "the baseline by itself takes less"


@pytest.mark.parametrize("strategy", ["auto", "reflective"])
def test_a_limit_on_calls_that_cannot_finish_a_round_is_refused_too(
    folder: Path, strategy: str
) -> None:
    def startable(**budget: int) -> Setup:
        setup = project(folder, {"strategy": strategy, "budget": budget}, repeats=1)
        setup.check(new=True)
        return setup

    # 3 for the baseline; 3 + 3 on the minibatch, a rewrite, 3 + 3 for the candidate, and 3 + 3 for
    # both again at the end.
    said = refusal(startable, max_calls=21)
    assert "21 calls cannot finish one round" in said
    assert "allow 22 or more" in said
    assert "prompts.yaml:" in said
    assert startable(max_calls=22)
    assert startable(max_tokens=1), "how many tokens a round takes is only estimated"


def test_the_floor_counts_the_sealed_test(folder: Path) -> None:
    sealed = str(folder / "sealed.evalset.json")
    setup = searched(folder, test=sealed)
    assert isinstance(setup.strategy, Reflective)
    assert setup.first_round is not None
    assert setup.first_round.whole.metric_calls == 12 + 4
    said = refusal(startable, folder, test=sealed, max_metric_calls=15)
    assert "takes 16, including the sealed test" in said


@pytest.mark.parametrize("metric", ["tool_trajectory_avg_score", "llm_rubric_knowledge_recall"])
def test_metrics_that_look_inside_the_agent_are_refused(folder: Path, metric: str) -> None:
    item = {"metric_name": metric}
    said = refusal(searched, folder, set_evaluate(metrics=[item]))
    assert f"{metric} needs the tools an agent used" in said


def test_cases_that_no_prompt_can_change_are_refused(folder: Path) -> None:
    turn = {
        "user_content": {"role": "user", "parts": [{"text": "say it"}]},
        "final_response": {"role": "model", "parts": [{"text": "it"}]},
    }
    case = {"eval_id": "told", "eval_mode": "trace", "actual_conversation": [turn],
            "conversation": [turn]}  # fmt: skip
    path = folder / "val.evalset.json"
    path.write_text(json.dumps({"eval_set_id": "v", "eval_cases": [case]}), encoding="utf-8")
    assert "told: this case is a recording" in refusal(searched, folder)


def test_texts_are_capped_before_any_call(folder: Path) -> None:
    capped = set_algorithm(max_prompt_tokens=20, max_prompt_chars=70)
    setup = searched(folder, capped)
    surface = only_text(setup)
    assert surface.max_chars == 70
    assert surface.problems("x" * 71)
    said = refusal(searched, folder, set_algorithm(max_prompt_tokens=5))
    assert "characters" in said


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("abcd", 1), ("abcde", 2), ("你好", 2), ("ab你好", 3)]
)
def test_tokens_are_estimated_without_a_tokenizer(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens


def test_a_cap_in_tokens_is_one_in_characters_of_the_same_language() -> None:
    values = {"english": "a" * 400, "chinese": "好" * 100}
    found = prompt_limits(values, max_chars=None, max_tokens=200)
    assert found == {"english": 800, "chinese": 200}
    assert prompt_limits(values, max_chars=500, max_tokens=200)["english"] == 500
    assert prompt_limits(values, max_chars=None, max_tokens=None) == {}


def test_what_a_user_should_know_is_noted(folder: Path) -> None:
    (folder / "prompts" / "system.md").write_text("Be brief.", encoding="utf-8")

    def change(data: dict[str, Any]) -> None:
        algorithm(data).update(use_merge=True)
        algorithm(data)["reflection_lm"].update(variant="x", num_samples=2)
        judge = {"llm_judge": {"judge_model": {"model_name": "m"}}}
        data["evaluate"]["metrics"] = [
            {"metric_name": "llm_final_response", "criterion": judge, "threshold": 1}
        ]

    told = notes(searched(folder, change))
    for part in (
        "merging has no effect",
        "the prompt 'system' has 9 characters",
        "a model judges llm_final_response",
        "openai:m writes the prompts and judges llm_final_response",
        "variant, num_samples of reflection_lm has no effect here",
    ):
        assert part in told, part


def test_where_all_is_well_there_is_little_to_note(folder: Path) -> None:
    assert "US dollars do not include it" in notes(searched(folder))
    assert len(searched(folder).notes) == 1


def test_a_file_of_kind_prompts_is_a_setup(folder: Path) -> None:
    field = {"path": "prompts/system.md", "max_chars": 200, "frozen": ["careful"]}
    setup = project(folder, {"prompts": {"system": field}, "reflective": {"minibatch": 2}})
    assert isinstance(setup.strategy, Reflective)
    assert setup.strategy.settings.racing
    assert setup.strategy.settings.minibatch == 2
    surface = only_text(setup)
    assert (surface.max_chars, surface.frozen) == (200, ("careful",))
    assert list(setup.objective.weights) == ["equality"]


@pytest.mark.parametrize(
    ("said", "environ", "strategy"),
    [
        ({}, {}, "auto"),
        ({"reflective": {}}, {}, "auto"),
        ({"reflective": {"minibatch": 2}}, {}, "reflective"),
        ({"coordinate": {"max_cycles": 1}}, {}, "coordinate"),
        ({"epochs": {"repeats": 2}}, {}, "auto"),
        ({"measure": {"repeats": 2}}, {}, "auto"),
        ({"reflective": {"minibatch": 2}, "coordinate": {"max_cycles": 1}}, {}, "auto"),
        ({"reflective": {"minibatch": 2}, "strategy": "auto"}, {}, "auto"),
        ({"reflective": {"minibatch": 2}}, {"BURNISH_STRATEGY": "coordinate"}, "coordinate"),
    ],
)
def test_settings_of_one_strategy_choose_it_where_nobody_names_one(
    folder: Path, said: dict[str, Any], environ: dict[str, str], strategy: str
) -> None:
    path = folder / "prompts.yaml"
    path.write_text(json.dumps({**PROJECT, **said}), encoding="utf-8")
    made = load_project(path, {}, environ=environ, models=models(reflector()))
    assert made.setup.strategy.name == strategy


def test_back_propagation_takes_part_where_there_are_two_texts(folder: Path) -> None:
    (folder / "prompts" / "second.md").write_text("Be brief.", encoding="utf-8")
    texts = {**PROJECT["prompts"], "second": "prompts/second.md"}
    setup = project(folder, {"prompts": texts})
    assert isinstance(setup.strategy, Auto)
    assert [offer.name for offer in setup.strategy.offers] == ["back-propagation", "reflection"]


def test_coordinate_descent_tunes_prompts_too(folder: Path) -> None:
    setup = project(folder, {"strategy": "coordinate", "coordinate": {"max_cycles": 2}})
    assert isinstance(setup.strategy, Coordinate)
    assert setup.strategy.settings.texts == ("system",)
    assert (setup.strategy.settings.max_cycles, setup.strategy.settings.repeats) == (2, 3)
    flagged = project(folder, {}, strategy="coordinate", max_cycles=1, repeats=1)
    assert isinstance(flagged.strategy, Coordinate)
    assert (flagged.strategy.settings.max_cycles, flagged.strategy.settings.repeats) == (1, 1)


def test_flags_alone_are_a_project(folder: Path) -> None:
    metrics = folder / "metrics.json"
    metrics.write_text(json.dumps([{"type": "standard", "metric": "equality"}]), encoding="utf-8")
    setup = project(folder, **flags(folder), metrics=str(metrics), reflector="openai:m", repeats=2)
    assert isinstance(setup.strategy, Auto)
    assert [offer.name for offer in setup.strategy.offers] == ["reflection", "examples"]
    assert setup.strategy.settings.repeats == 2
    assert setup.budget.patience == 10
    assert "no limit is set: the search ends after 10 trials" in notes(setup)


def lines_of(said: str) -> Sequence[str]:
    return said.splitlines()


def test_everything_that_flags_leave_out_is_said(folder: Path) -> None:
    said = refusal(project, folder, agent="numbers_agent:call_agent")
    for part in ("--train FILE", "--holdout FILE", "--prompt NAME=FILE", "there are no metrics"):
        assert part in said, part
    assert all(line.startswith("the command line") for line in lines_of(said))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"target": None}, "there is no agent"),
        ({"target": {}}, "exactly one of python, http or command"),
        ({"prompts": {}}, "there are no prompts to rewrite"),
        ({"prompts": {"system": "gone.md"}}, "there is no file"),
        ({"reflector": None}, "there is no model to rewrite prompts"),
        ({"reflector": None, "strategy": "coordinate"}, "there is no model to rewrite prompts"),
        ({"budget": {"max_metric_calls": 8}}, "allow 21 or more"),
        ({"strategy": "gradient"}, "strategy"),
        ({"isolated": True}, "did you mean 'isolation'"),
        ({"train": "gone.json"}, "gone.json"),
    ],
)
def test_what_is_wrong_with_such_a_file(folder: Path, said: dict[str, Any], told: str) -> None:
    given = {key: value for key, value in {**PROJECT, **said}.items() if value is not None}
    path = folder / "prompts.yaml"
    path.write_text(json.dumps(given), encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load_project(path, {}, environ={}, models=models(reflector())).setup.check(new=True)
    assert told in str(error.value)


def test_settings_of_coordinate_descent_do_not_go_with_reflection(folder: Path) -> None:
    said = refusal(project, folder, {}, max_cycles=2, accept_sigma=1.0)
    assert "--max-cycles: 'auto' over 'prompts' does not use it" in said
    assert "it is for the strategy 'coordinate'" in said
    assert "--accept-sigma" in said


def test_an_agent_file_may_be_called_by_a_command(folder: Path) -> None:
    setup = project(folder, {"target": {"command": ["cat"]}, "isolation": "isolated"})
    assert isinstance(setup.target, PromptsTarget)
    assert (setup.target.mode, setup.target.agent.description.kind) == ("isolated", "command")


def test_more_cases_are_named_only_as_far_as_that_helps(folder: Path) -> None:
    write_cases(folder / "val.evalset.json", "learned", 4)
    said = refusal(searched, folder)
    assert len(lines_of(said)) == 4
    assert "1 more problems of this kind" in said
