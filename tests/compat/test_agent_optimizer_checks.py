"""AgentOptimizer: what it refuses before anything is written or paid, and by which error."""

import inspect
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from burnish.compat import (
    OPTIMIZER_REGISTRY,
    AgentOptimizer,
    BaseOptimizer,
    LabeledStopper,
    TargetPrompt,
)
from burnish.compat.optimizer.base import WrongInput, WrongKind
from burnish.compat.optimizer.callbacks import SearchState
from burnish.compat.optimizer.entry import check_arguments, read_config
from burnish.core.errors import BurnishError
from tests.compat.optimizing import write_set

ALGORITHM = {"name": "gepa_reflective", "reflection_lm": {"model_name": "m"}, "max_metric_calls": 9}


async def agent(query: str, style: str = "") -> str:
    return query


def config(folder: Path, *metrics: str, **algorithm: Any) -> str:
    path = folder / "optimizer.json"
    said = {
        "evaluate": {"metrics": [{"metric_name": name} for name in metrics or ("m",)]},
        "optimize": {"algorithm": {**ALGORITHM, **algorithm}},
    }
    path.write_text(json.dumps(said))
    return str(path)


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "p.md").write_text("A prompt of some length.")
    for name in ("train", "val"):
        write_set(tmp_path / f"{name}.json", (f"{name}?", "yes"))
    return {
        "config_path": config(tmp_path, "final_response_avg_score"),
        "call_agent": agent,
        "target_prompt": TargetPrompt().add_path("p", tmp_path / "p.md"),
        "train_dataset_path": str(tmp_path / "train.json"),
        "validation_dataset_path": str(tmp_path / "val.json"),
        "output_dir": str(tmp_path / "out"),
    }


def test_the_eleven_parameters_are_keyword_only() -> None:
    parameters = inspect.signature(AgentOptimizer.optimize).parameters.values()
    assert [each.name for each in parameters] == [
        "config_path", "call_agent", "target_prompt", "train_dataset_path",
        "validation_dataset_path", "output_dir", "callbacks", "update_source", "verbose",
        "extra_stop_callbacks", "extra_gepa_callbacks",
    ]  # fmt: skip
    assert {each.kind for each in parameters} == {inspect.Parameter.KEYWORD_ONLY}


def plain(query: str) -> str:
    return query


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"output_dir": ""}, ValueError, "output_dir: the path is empty"),
        ({"target_prompt": TargetPrompt()}, ValueError, "it has no prompt fields"),
        ({"target_prompt": {"p": "text"}}, TypeError, "expected a TargetPrompt"),
        ({"call_agent": plain}, TypeError, "not an async function"),
        ({"call_agent": partial(plain)}, TypeError, "not an async function"),
        ({"verbose": 3}, ValueError, "use 0, 1 or 2"),
        ({"extra_stop_callbacks": [agent]}, TypeError, r"extra_stop_callbacks\[0\]"),
    ],
)
async def test_wrong_arguments_raise_what_python_has_for_them(
    given: dict[str, Any],
    change: dict[str, Any],
    error: type[Exception],
    words: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(error, match=words) as raised:
        await AgentOptimizer.optimize(**{**given, **change})
    assert isinstance(raised.value, BurnishError)
    assert not (tmp_path / "out").exists()


def test_async_functions_in_a_partial_are_fine(given: dict[str, Any]) -> None:
    check_arguments(
        call_agent=partial(agent, style="short"),
        target_prompt=given["target_prompt"],
        paths=("a", "b"),
        output_dir="out",
        verbose=0,
        stoppers=(),
    )


async def test_item_16_train_and_validation_may_not_be_one_file_by_any_name(
    given: dict[str, Any], tmp_path: Path
) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "train.json")
    for other in (tmp_path / "." / "train.json", link):
        given["validation_dataset_path"] = str(other)
        with pytest.raises(ValueError, match="the same file"):
            await AgentOptimizer.optimize(**given)


async def test_item_16_train_and_validation_may_not_share_a_case_by_content(
    given: dict[str, Any], tmp_path: Path
) -> None:
    write_set(tmp_path / "copy.json", ("other?", "no"), ("train?", "yes"))
    given["validation_dataset_path"] = str(tmp_path / "copy.json")
    with pytest.raises(ValueError, match="t0"):
        await AgentOptimizer.optimize(**given)
    assert not (tmp_path / "out").exists()


def test_metrics_that_look_inside_the_agent_are_refused(tmp_path: Path) -> None:
    path = config(tmp_path, "tool_trajectory_avg_score", "llm_rubric_knowledge_recall")
    with pytest.raises(ValueError, match="only replies are visible") as raised:
        read_config(path, [])
    assert isinstance(raised.value, WrongInput)
    assert len(raised.value.problems) == 2


def test_an_unknown_algorithm_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there are: .*gepa_reflective") as raised:
        read_config(config(tmp_path, name="gepa"), OPTIMIZER_REGISTRY.names())
    assert isinstance(raised.value, BurnishError)
    with pytest.raises(ValueError, match="no algorithm 'gepa'"):
        OPTIMIZER_REGISTRY.get("gepa")


def test_a_search_that_nothing_ends_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing would stop the search"):
        read_config(config(tmp_path, max_metric_calls=None), [])


async def test_merging_one_field_is_warned_of(given: dict[str, Any], tmp_path: Path) -> None:
    given["config_path"] = config(tmp_path, "final_response_avg_score", use_merge=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("a file of somebody else")
    with (
        pytest.warns(UserWarning, match="mergeRoundsTotal will be 0"),
        pytest.raises(ValueError, match="contains other files"),
    ):
        await AgentOptimizer.optimize(**given)


def test_only_algorithms_can_be_registered_and_not_over_ours() -> None:
    with pytest.raises(TypeError, match="subclass of BaseOptimizer"):
        OPTIMIZER_REGISTRY.register("x", dict)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="a built-in algorithm"):
        OPTIMIZER_REGISTRY.register("reflective", BaseOptimizer)
    assert {"gepa_reflective", "reflective"} <= set(OPTIMIZER_REGISTRY.names())


def test_both_errors_are_ours_and_pythons() -> None:
    assert issubclass(WrongInput, ValueError)
    assert issubclass(WrongKind, TypeError)
    assert issubclass(WrongInput, BurnishError)
    assert issubclass(WrongKind, BurnishError)


def is_nothing(gepa_state: object = None) -> bool:
    return gepa_state is None


def test_a_candidate_without_a_full_score_is_no_obstacle_to_stoppers_of_gepa() -> None:
    state = SearchState(validation_scores=[0.5, None])
    assert max(state.program_full_scores_val_set) == 0.5


def test_a_stopper_may_take_the_state_or_nothing() -> None:
    labelled = LabeledStopper(lambda: True, "now")
    assert labelled()
    assert labelled.last_triggered
    assert not LabeledStopper(is_nothing, "now")("state")
