"""AgentOptimizer extended: algorithms of one's own, callbacks, stoppers that break."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from burnish.compat import OPTIMIZER_REGISTRY, BaseOptimizer, Callback, Callbacks, OptimizeResult
from tests.compat.optimizing import BASELINE, BETTER, reflection, world

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("SCRIPTED_LOGIN", "scripted-key-0123456789")


WAITING = asyncio.Event()


class FirstGuess(BaseOptimizer):
    """Writes its guess, runs the agent once, and believes in it."""

    async def run(self, *, reporter: Any = None) -> OptimizeResult:
        block = self.config.optimize.algorithm
        guess: str = getattr(block, "guess")  # noqa: B009 - a field that only this algorithm knows
        if reporter is not None:
            reporter.say("guessing")
        await self.target_prompt.write_all({"system": guess})
        if guess == "crash":
            raise RuntimeError("no guess")
        if guess == "wait":
            WAITING.set()
            await asyncio.sleep(3600)
        said = await self.call_agent("1+1")
        return OptimizeResult(
            algorithm=block.name,
            status="SUCCEEDED",
            baseline_prompts=dict(self.baseline),
            best_prompts={"system": guess},
            extras={"said": said, "train": self.train_dataset_path},
        )


@pytest.fixture
def algorithm() -> str:
    OPTIMIZER_REGISTRY.register("first_guess", FirstGuess)
    return "first_guess"


def choose(folder: Path, name: str, guess: str) -> None:
    path = folder / "optimizer.json"
    whole = json.loads(path.read_text())
    whole["optimize"]["algorithm"] = {"name": name, "guess": guess}
    path.write_text(json.dumps(whole))


async def test_item_12_a_custom_algorithm_is_selected_in_the_config(
    tmp_path: Path, algorithm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with world(tmp_path) as here:
        choose(tmp_path, algorithm, BETTER)
        result = await here.optimize(verbose=1, update_source=True)
        assert here.prompt.read_text() == BETTER
        assert result == OptimizeResult.from_file(here.out / "result.json")
        assert (here.out / "best_prompts" / "system.md").read_text() == BETTER
        assert (here.out / "baseline_prompts" / "system.md").read_text() == BASELINE
        snapshot = json.loads((here.out / "config.snapshot.json").read_text())
    assert snapshot["optimize"]["algorithm"] == {"name": "first_guess", "guess": BETTER}
    assert (result.algorithm, result.extras["said"]) == ("first_guess", "Answer: 2")
    assert result.source_updated
    assert "guessing" in capsys.readouterr().out


async def test_a_custom_algorithm_that_crashes_leaves_the_prompts_as_they_were(
    tmp_path: Path, algorithm: str
) -> None:
    async with world(tmp_path) as here:
        choose(tmp_path, algorithm, "crash")
        with pytest.raises(RuntimeError, match="no guess"):
            await here.optimize(update_source=True)
        assert here.prompt.read_text() == BASELINE
        told = here.told()
        assert (told["status"], told["errorMessage"]) == ("FAILED", "RuntimeError: no guess")
        choose(tmp_path, algorithm, "wait")
        task = asyncio.create_task(here.optimize())
        await WAITING.wait()
        assert here.prompt.read_text() == "wait"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert here.prompt.read_text() == BASELINE
        assert here.told()["status"] == "CANCELED"


class Recording:
    """Keeps the name of everything it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Callable[[dict[str, Any]], None]:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda event: self.told.append((name, event))

    def of(self, name: str) -> list[dict[str, Any]]:
        return [event for told, event in self.told if told == name]


async def test_callbacks_of_gepa_are_told_what_happened_in_order(tmp_path: Path) -> None:
    async with world(tmp_path, [reflection(f"{BASELINE}Never mind.\n"), reflection()]) as here:
        heard = Recording()
        result = await here.optimize(extra_gepa_callbacks=[heard])
        names = [name for name, _ in heard.told]
        count = len(names)
        await here.optimize(extra_gepa_callbacks=[heard])
    assert result.total_rounds == 2
    first = names.index("on_iteration_start")
    assert names[:first] == [
        "on_optimization_start", "on_valset_evaluated", "on_valset_breakdown",
        "on_budget_updated", "on_state_saved",
    ]  # fmt: skip
    second = names.index("on_iteration_start", first + 1)
    assert names[first:second] == [
        "on_iteration_start", "on_candidate_selected", "on_minibatch_sampled",
        "on_reflective_dataset_built", "on_proposal_start", "on_proposal_end",
        "on_evaluation_end", "on_candidate_rejected", "on_budget_updated", "on_state_saved",
        "on_iteration_end",
    ]  # fmt: skip
    assert names[-1] == "on_optimization_end"
    assert [e["proposal_accepted"] for e in heard.of("on_iteration_end")] == [False, True]
    assert heard.of("on_proposal_end")[1]["new_instructions"] == {"system": BETTER}
    assert heard.of("on_candidate_accepted")[0]["new_candidate_idx"] == 1
    assert heard.of("on_candidate_accepted")[0]["parent_ids"] == [0]
    assert heard.of("on_valset_evaluated")[1]["scores_by_val_id"] == {
        "v0": 1.0,
        "v1": 1.0,
        "v2": 1.0,
    }
    end = heard.of("on_optimization_end")[0]
    assert (end["best_candidate_idx"], end["total_iterations"]) == (1, 2)
    assert end["total_metric_calls"] == result.total_metric_calls
    again = [name for name, _ in heard.told[count:]]
    assert again == ["on_optimization_start", "on_optimization_end"]
    assert heard.told[-1][1]["final_state"].i == 1


async def test_callbacks_and_stoppers_that_break_end_nothing(tmp_path: Path) -> None:
    class Broken:
        def on_iteration_start(self, event: dict[str, Any]) -> None:
            raise ConnectionError("no dashboard")

    def broken(gepa_state: Any = None) -> bool:
        raise ConnectionError("no monitor")

    async with world(tmp_path, [reflection(f"{BASELINE}Never mind.\n"), reflection()]) as here:
        result = await here.optimize(extra_gepa_callbacks=[Broken()], extra_stop_callbacks=[broken])
        told = (here.out / "events.jsonl").read_text()
    assert (result.status, result.best_pass_rate) == ("SUCCEEDED", 1.0)
    assert told.count("no dashboard") == 1
    assert told.count("no monitor") == 1


async def test_callbacks_of_the_evaluator_hear_of_each_case_and_its_set(tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []

    def note(point: str) -> Callable[[dict[str, Any], Any], None]:
        return lambda context, moment: seen.append((point, moment.eval_set_id))

    async with world(tmp_path) as here:
        callback = Callback(
            before_inference_set=note("begin"),
            after_inference_case=note("ran"),
            after_evaluate_case=note("scored"),
            after_evaluate_set=note("end"),
        )
        await here.optimize(callbacks=Callbacks().register("mine", callback))
    assert seen[:2] == [("begin", "train"), ("begin", "validation")]
    assert seen.count(("ran", "validation")) == seen.count(("scored", "validation")) == 6
    assert seen[-2:] == [("end", "train"), ("end", "validation")]
