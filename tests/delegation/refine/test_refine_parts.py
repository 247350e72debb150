"""The arithmetic of refinement: loss, budget, tiers, stops."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.core.errors import FileTrouble
from burnish.delegation.envelope import Envelope
from burnish.delegation.refine.gradients import run_signals
from burnish.delegation.refine.loop import stop_after
from burnish.delegation.refine.seeds import ModelPair, SeedBudget, Tier, TierPlan, halved, tier_of
from tests.delegation.refine.run_folders import awp_run, put

TABLE = {
    1: "H", 2: "LH", 3: "LMH", 4: "LLMH", 5: "LLMMH", 6: "LLMMHH", 7: "LLLMMHH",
    8: "LLLMMMHH", 9: "LLLMMMHHH", 10: "LLLLMMMHHH",
}  # fmt: skip


def stopped(*losses: float | None, wanted: int = 10, seconds: float = 0, seed: float = 0) -> str:
    return stop_after(losses, iterations=wanted, seconds=seconds, seed_seconds=seed)


def test_a_rejection_that_is_written_twice_counts_once(tmp_path: Path) -> None:
    loss = run_signals(awp_run(tmp_path)).loss
    assert loss.total == pytest.approx(0.01 + 0.114 + 0.075 + 0.02085)
    assert loss.gate_reject == pytest.approx(0.075)


def test_two_rejections_count_twice(tmp_path: Path) -> None:
    run = awp_run(tmp_path)
    gate = {"kind": "metric.gate", "gate": "l0", "verdict": "failed"}
    put(run / "metrics.jsonl", [{**gate, "iteration": 3}, {**gate, "iteration": 4}])
    assert run_signals(run).loss.gate_reject == pytest.approx(0.15)


def test_what_is_missing_is_neutral(tmp_path: Path) -> None:
    assert run_signals(tmp_path).loss.total == pytest.approx(0.40)
    put(tmp_path / "run_completion.json", [1])
    put(tmp_path / "metrics.jsonl", "3\n[]\nnull\n")
    assert run_signals(tmp_path).loss.total == pytest.approx(0.40)


@pytest.mark.parametrize(
    ("completion", "part", "value"),
    [
        ({"eval": {"score": 0.75}}, "eval", 0.1),
        ({"evaluation": {"total_score": 0.75}}, "eval", 0.1),
        ({"critique": {"score": 1.0}}, "critique", 0.0),
        ({"critique_score": 3}, "critique", 0.0),
        ({"status": "partial"}, "terminal", 0.05),
        ({"status": "aborted"}, "terminal", 0.1),
        ({"final_budget": {"budget_remaining_pct": -5}}, "budget_burn", 0.05),
        ({"config_used": {"max_rejected_completions": 0}}, "gate_reject", 0.0),
    ],
)
def test_the_parts_of_the_loss(
    tmp_path: Path, completion: dict[str, Any], part: str, value: float
) -> None:
    put(tmp_path / "run_completion.json", completion)
    assert getattr(run_signals(tmp_path).loss, part) == pytest.approx(value)


def test_nan_is_refused_and_never_perfect(tmp_path: Path) -> None:
    put(tmp_path / "metrics.jsonl", '{"kind": "metric.eval", "score": NaN}\n')
    assert run_signals(tmp_path).eval_score is None
    put(tmp_path / "run_completion.json", '{"eval": {"score": NaN}}')
    with pytest.raises(FileTrouble, match="NaN has no JSON form"):
        run_signals(tmp_path)


def test_the_budget_is_halved() -> None:
    caps = Envelope(
        max_loops=5, max_total_workers=1, max_tool_calls=7, max_total_tokens=101, max_depth=3
    )
    half = halved(SeedBudget(envelope=caps, seconds=301))
    assert (half.max_loops, half.max_total_workers, half.max_tool_calls) == (3, 1, 4)
    assert (half.max_total_tokens, half.max_wall_time, half.max_depth) == (50, 150, 3)
    assert halved(SeedBudget(envelope=caps, seconds=2)).max_wall_time == 60
    assert halved(SeedBudget(envelope=caps)).max_wall_time == 1800
    few = Envelope(max_loops=2)
    assert halved(SeedBudget(envelope=few)).max_loops == 3  # to plan, delegate and complete
    tiny = Envelope(max_total_tokens=1)
    assert halved(SeedBudget(envelope=tiny)).max_total_tokens == 1


@pytest.mark.parametrize(("n", "mapping"), TABLE.items())
def test_the_table_of_tiers(n: int, mapping: str) -> None:
    assert "".join(tier_of(k, n).value[0].upper() for k in range(1, n + 1)) == mapping


@pytest.mark.parametrize(("k", "n"), [(0, 3), (4, 3), (1, 0)])
def test_there_is_no_such_iteration(k: int, n: int) -> None:
    with pytest.raises(ValueError, match="no iteration"):
        tier_of(k, n)


@pytest.mark.parametrize(
    ("told", "manager", "worker"),
    [
        ("deepseek/a:deepseek/b", "deepseek/a", "deepseek/b"),
        ("openai/gpt-5", "openai/gpt-5", ""),
        ("ollama/llama3:8b:openai/gpt-5", "ollama/llama3:8b", "openai/gpt-5"),
        ("deepseek/v3:free", "deepseek/v3:free", ""),
        (":b", "", "b"),
        ("a:", "a", ""),
        ("openai:gpt-4o:anthropic:claude", "openai:gpt-4o", "anthropic:claude"),
        ("ollama:qwen:7b", "ollama:qwen:7b", ""),
        ("ollama:qwen:7b:openai:gpt", "ollama:qwen:7b", "openai:gpt"),
        (":ollama:qwen:7b", "", "ollama:qwen:7b"),
        ("openai:gpt-4o:", "openai:gpt-4o", ""),
    ],
)
def test_pairs_of_models(told: str, manager: str, worker: str) -> None:
    assert ModelPair.parse(told) == ModelPair(manager=manager, worker=worker)


def test_an_empty_side_falls_back_to_the_seed() -> None:
    seed = ModelPair(manager="m", worker="w")
    assert TierPlan().trivial
    assert TierPlan(pairs={Tier.LOW: ModelPair()}).trivial
    plan = TierPlan(pairs={Tier.HIGH: ModelPair(manager="strong")})
    assert not plan.trivial
    assert plan.models(3, 3, seed) == ModelPair(manager="strong", worker="w")
    assert plan.models(1, 3, seed) == seed


def test_worse_twice_is_a_regression() -> None:
    assert stopped(0.1, 0.2) == ""
    assert stopped(0.1, 0.2, 0.3) == "regression"
    assert stopped(0.1, 0.2, 0.15, 0.2) == ""


def test_equal_losses_are_a_plateau_and_no_regression() -> None:
    assert stopped(0.2, 0.2, 0.2) == "plateau"
    assert stopped(0.2, 0.195, 0.199) == "plateau"


def test_steps_of_exactly_a_hundredth_are_progress() -> None:
    losses = [0.10, 0.09, 0.08, 0.07, 0.06, 0.05, 0.04]
    assert all(stopped(*losses[:n]) == "" for n in range(1, len(losses) + 1))


def test_what_comes_to_nothing_is_worse() -> None:
    assert stopped(None, None) == ""
    assert stopped(None, None, None) == "regression"
    assert stopped(0.3, None, 0.4) == "regression"
    assert stopped(None, 0.3, 0.3) == ""


def test_time_and_number_of_iterations() -> None:
    assert stopped(0.3, seconds=200, seed=100) == "wall_time_exhausted"
    assert stopped(0.3, seconds=199, seed=100) == ""
    assert stopped(0.3, seconds=59, seed=1) == "", "one iteration alone may take a minute"
    assert stopped(0.3, seconds=99, seed=0) == ""
    assert stopped(0.3, seconds=99, seed=1, wanted=1) == "max_iterations"


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=10))
def test_it_always_stops_in_time(losses: list[float | None]) -> None:
    assert stopped(*losses, wanted=len(losses)) in ("regression", "plateau", "max_iterations")
