"""optimizer.json: both spellings, every default, every rule."""

import copy
import json
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic.alias_generators import to_camel

from burnish.core.errors import ConfigError
from burnish.journal.limits import Budget
from burnish.metrics.eval_metrics import MetricItem
from burnish.projects.description import describe
from burnish.projects.dialects import Document
from burnish.projects.optimizer_config import (
    AnyOptimizerConfig,
    CustomAlgorithm,
    OptimizerConfig,
    OptimizerFile,
    ReflectiveAlgorithm,
    as_json,
    metric_thresholds,
    read_any_optimizer,
    read_optimizer,
)
from burnish.runs.spec import AnySpec
from burnish.strategies.reflective.attempts import ReflectiveSettings
from burnish.system import read_tree
from tests.projects.prompts.prompt_world import (
    OPTIMIZER,
    Change,
    algorithm,
    set_algorithm,
    set_evaluate,
    set_optimize,
    write_config,
)

METRIC = "final_response_avg_score"


def read(folder: Path, *changes: Change) -> OptimizerConfig:
    return read_optimizer(read_tree(write_config(folder, *changes)))


def described(folder: Path, *changes: Change, **flags: Any) -> AnySpec:
    """The description that such a file becomes."""
    document = Document.read(write_config(folder, *changes))
    return describe(document, flags, environ={}, dialect=OptimizerFile()).spec


def settings_of(spec: AnySpec) -> ReflectiveSettings:
    return spec.strategy.settings


def budget_of(spec: AnySpec) -> Budget:
    return spec.budget.budget()


def refusal(folder: Path, *changes: Change) -> str:
    with pytest.raises(ConfigError) as error:
        read(folder, *changes)
    return str(error.value)


def set_model(**values: Any) -> Change:
    return lambda data: algorithm(data)["reflection_lm"].update(values)


def camel(value: Any) -> Any:
    if isinstance(value, dict):
        block = cast("dict[str, Any]", value)
        return {to_camel(key): camel(each) for key, each in block.items()}
    return [*map(camel, cast("list[Any]", value))] if isinstance(value, list) else value


def test_the_defaults_are_those_of_agent_optimizer(tmp_path: Path) -> None:
    def bare(data: dict[str, Any]) -> None:
        data["optimize"] = {
            "algorithm": {
                "name": "gepa_reflective",
                "reflection_lm": {"model_name": "m"},
                "timeout_seconds": 90,
            }
        }

    file, spec = read(tmp_path, bare), described(tmp_path, bare)
    found = file.optimize.algorithm
    assert file.evaluate.num_runs == 1
    assert file.optimize.stop.required_metrics == "all"
    assert (found.reflection_history_top_k, found.perfect_score) == (2, 1.0)
    assert (found.module_selector, found.frontier_type) == ("round_robin", "instance")
    assert (found.skip_perfect_score, found.use_merge) == (True, False)
    assert (found.max_merge_invocations, found.merge_val_overlap_floor) == (5, 5)
    assert (found.cache_evaluation, found.track_best_outputs) == (False, False)
    assert (spec.execution.concurrency, spec.execution.seed) == (4, 42)
    assert spec.target.isolation == "source"
    settings = settings_of(spec)
    assert settings == ReflectiveSettings(racing=False, reuse=False, parent_selection="pareto")
    assert (settings.minibatch, settings.repeats) == (3, 1)
    assert budget_of(spec).max_minutes == 1.5


def test_both_spellings_say_the_same(tmp_path: Path) -> None:
    snake = read(tmp_path)
    path = tmp_path / "camel.json"
    path.write_text(json.dumps(camel(OPTIMIZER)), encoding="utf-8")
    assert read_optimizer(read_tree(path)) == snake
    again = describe(Document.read(path), {}, environ={}, dialect=OptimizerFile()).spec
    assert again.to_json() | {"source": {}} == described(tmp_path).to_json() | {"source": {}}


def test_yaml_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "optimizer.yaml"
    path.write_text(json.dumps(OPTIMIZER), encoding="utf-8")
    assert read_optimizer(read_tree(path)) == read(tmp_path)


def test_what_a_file_says_can_be_read_again(tmp_path: Path) -> None:
    told = as_json(read(tmp_path, set_algorithm(racing=True)))
    again = tmp_path / "again.json"
    again.write_text(json.dumps(told), encoding="utf-8")
    assert as_json(read_optimizer(read_tree(again))) == told
    assert "${P2B_TEST_API_KEY}" in json.dumps(told)


def test_reflective_races_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    def racing(**values: Any) -> tuple[bool, bool]:
        found = settings_of(described(tmp_path, set_algorithm(**values)))
        assert found.parent_selection == ("trail" if found.racing else "pareto")
        return found.racing, found.reuse

    assert racing(name="reflective") == (True, True)
    assert racing(name="gepa_reflective", racing=True) == (True, True)
    assert racing(name="reflective", racing=False) == (False, False)
    assert racing(name="reflective", cache_evaluation=False) == (True, False)
    assert racing(cache_evaluation=True) == (False, True)


def test_a_flag_names_the_algorithm_and_brings_its_defaults(tmp_path: Path) -> None:
    spec = described(tmp_path, strategy="reflective")
    assert (spec.strategy.name, settings_of(spec).racing) == ("reflective", True)
    assert algorithm(cast("Any", spec.source.document))["name"] == "reflective"
    racing = set_algorithm(name="reflective")
    assert not settings_of(described(tmp_path, racing, strategy="gepa_reflective")).racing
    with pytest.raises(ConfigError, match="there are: gepa_reflective, reflective"):
        described(tmp_path, strategy="coordinate")


def test_the_environment_is_weaker_than_the_file_and_stronger_than_its_defaults(
    tmp_path: Path,
) -> None:
    def silent(data: dict[str, Any]) -> None:
        del data["optimize"]["eval_case_parallelism"]

    environ = {"BURNISH_CONCURRENCY": "7", "BURNISH_STRATEGY": "coordinate"}

    def concurrency(*changes: Change) -> int:
        document = Document.read(write_config(tmp_path, *changes))
        spec = describe(document, {}, environ=environ, dialect=OptimizerFile()).spec
        return spec.execution.concurrency

    assert (concurrency(), concurrency(silent)) == (2, 7)


def test_every_setting_reaches_the_search(tmp_path: Path) -> None:
    said = set_algorithm(
        candidate_selection_strategy="epsilon_greedy",
        module_selector="random",
        frontier_type="hybrid",
        reflection_minibatch_size=2,
        reflection_history_top_k=0,
        perfect_score=0.9,
        skip_perfect_score=False,
        use_merge=True,
        max_merge_invocations=3,
        merge_val_overlap_floor=2,
        proposals_per_round=4,
        max_iterations_without_improvement=2,
        score_threshold=0.8,
        max_tracked_candidates=9,
    )
    spec = described(tmp_path, said, set_evaluate(num_runs=2))
    settings, budget = settings_of(spec), budget_of(spec)
    assert settings.parent_selection == "epsilon_greedy"
    assert settings.field_selection == "random"
    assert settings.frontier == "hybrid"
    assert (settings.minibatch, settings.history_top_k, settings.repeats) == (2, 0, 2)
    assert (settings.perfect_score, settings.skip_perfect) == (0.9, False)
    assert (settings.merge, settings.max_merges, settings.merge_overlap) == (True, 3, 2)
    assert budget.patience == 2 * 4, "a round of four proposals is four trials"
    assert (budget.pass_rate_threshold, budget.score_threshold) == (0.8, None)
    assert (budget.max_metric_calls, budget.max_proposals) == (30, 4)
    assert budget.max_tracked_candidates == 9


def misspelled(data: dict[str, Any]) -> None:
    data["optimise"] = {}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (set_algorithm(use_merg=True), "did you mean 'use_merge'"),
        (set_algorithm(reflection_history_top_k=6), "expected at most 5"),
        (set_algorithm(reflection_minibatch_size=0), "expected at least 1"),
        (set_algorithm(module_selector="each"), "module_selector"),
        (set_algorithm(frontier_type="all"), "frontier_type"),
        (set_algorithm(candidate_selection_strategy="best"), "candidate_selection_strategy"),
        (set_algorithm(timeout_seconds=0), "timeout_seconds"),
        (set_algorithm(score_threshold=1.5), "score_threshold"),
        (set_algorithm(max_metric_calls=0), "max_metric_calls"),
        (set_model(model_name=""), "reflection_lm.model_name"),
        (set_algorithm(reflection_lm=None), "reflection_lm"),
        (set_optimize(eval_case_parallelism=0), "eval_case_parallelism"),
        (set_optimize(isolation="none"), "isolation"),
        (set_evaluate(num_runs=0), "num_runs"),
        (set_evaluate(metrics=[]), "there are no metrics"),
        (misspelled, "did you mean 'optimize'"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(tmp_path: Path, change: Change, told: str) -> None:
    said = refusal(tmp_path, change)
    assert told in said
    assert said.startswith("optimizer.json")


def test_several_mistakes_are_said_together(tmp_path: Path) -> None:
    said = refusal(tmp_path, set_algorithm(seed="x", use_merge="maybe"), set_model(weight=0))
    assert len(said.splitlines()) == 3


def test_something_must_end_the_search(tmp_path: Path) -> None:
    def endless(data: dict[str, Any]) -> None:
        del algorithm(data)["max_metric_calls"], algorithm(data)["max_candidate_proposals"]

    assert "set one of max_metric_calls, max_iterations_without_improvement" in refusal(
        tmp_path, endless
    )


def test_nulls_of_a_model_say_nothing(tmp_path: Path) -> None:
    found = read(
        tmp_path, set_model(base_url=None, generation_config=None, num_samples=None, think=None)
    ).optimize.algorithm.reflection_lm
    assert found.reference().base_url == ""
    assert found.ignored() == []


def test_a_model_may_name_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("P2B_MODEL", "gpt-x")
    said = set_model(
        model_name="$P2B_MODEL",
        base_url="${P2B_URL}",
        api_key="$P2B_KEY",
        generation_config={"temperature": 0.6, "max_tokens": 4096},
    )
    found = read(tmp_path, said).optimize.algorithm.reflection_lm.reference()
    assert found.label == "openai:gpt-x"
    assert (found.base_url, found.api_key) == ("${P2B_URL}", "${P2B_KEY}"), "expanded at use"
    assert (found.settings.temperature, found.settings.max_tokens) == (0.6, 4096)
    assert described(tmp_path, said).roles["reflector"].reference() == found


def test_what_is_no_key_is_refused_and_not_repeated(tmp_path: Path) -> None:
    model = read(tmp_path, set_model(api_key="${sk-written-out")).optimize.algorithm.reflection_lm
    with pytest.raises(ConfigError) as error:
        model.reference()
    assert "the api_key of the reflection model m" in str(error.value)
    assert "sk-written-out" not in str(error.value)


def required(names: Any) -> Change:
    return set_optimize(stop={"required_metrics": names})


def test_required_metrics(tmp_path: Path) -> None:
    def two(data: dict[str, Any]) -> None:
        data["evaluate"]["metrics"].append({"metric_name": "response_match_score", "threshold": 0})

    both = {METRIC: 1.0, "response_match_score": 0.0}
    assert metric_thresholds(read(tmp_path, two)) == both, "a threshold of 0 stays 0"
    assert metric_thresholds(read(tmp_path, two, required([METRIC]))) == {METRIC: 1.0}
    assert described(tmp_path, two, required([METRIC])).budget.metric_thresholds == {METRIC: 1.0}
    assert metric_thresholds(read(tmp_path, two, required(None))) == {}
    assert metric_thresholds(read(tmp_path, two, required([]))) == {}
    said = refusal(tmp_path, two, required(["speed", METRIC, "tone"]))
    assert "no such metric in evaluate.metrics: speed, tone" in said
    assert f"there are: {METRIC}, response_match_score" in said
    assert "required_metrics" in refusal(tmp_path, required("some"))


def test_the_older_criteria_work(tmp_path: Path) -> None:
    def older(data: dict[str, Any]) -> None:
        data["evaluate"] = {"criteria": {METRIC: 0.5}}

    assert metric_thresholds(read(tmp_path, older)) == {METRIC: 0.5}
    (block,) = described(tmp_path, older).metrics.blocks
    assert isinstance(block, MetricItem)
    assert (block.metric_name, block.threshold) == (METRIC, 0.5)


def parsed(folder: Path, *changes: Change) -> AnyOptimizerConfig:
    tree = read_tree(write_config(folder, *changes))
    return read_any_optimizer(tree, algorithms=("my_own",))


def test_an_algorithm_that_somebody_registered_keeps_its_own_fields(tmp_path: Path) -> None:
    own = {"name": "my_own", "beamWidth": 7, "seed": 3}
    found = parsed(tmp_path, set_optimize(algorithm=own))
    assert isinstance(found.optimize.algorithm, CustomAlgorithm)
    assert found.optimize.algorithm.seed == 3
    assert found.optimize.algorithm.model_extra == {"beamWidth": 7}
    assert isinstance(parsed(tmp_path).optimize.algorithm, ReflectiveAlgorithm)


def test_an_algorithm_that_nobody_knows_is_refused_with_those_there_are(tmp_path: Path) -> None:
    unknown = copy.deepcopy(OPTIMIZER)
    algorithm(unknown)["name"] = "gepa_reflectiv"
    algorithm(unknown)["nonsense"] = 1
    path = tmp_path / "optimizer.json"
    path.write_text(json.dumps(unknown), encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        read_any_optimizer(read_tree(path), algorithms=("my_own",))
    said = str(error.value)
    assert "no algorithm 'gepa_reflectiv'" in said
    assert "did you mean 'gepa_reflective'? there are: gepa_reflective, reflective, my_own" in said
    assert "nonsense" not in said
