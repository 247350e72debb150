"""The examples of metrics, CI, limits and strategies, run as their READMEs say, in a copy."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.docs_examples import copy_of, run_readme

from burnish.compat import OptimizeResult

pytestmark = pytest.mark.slow

REAL_MODELS = ("EXAMPLE_MODEL", "EXAMPLE_JUDGE", "EXAMPLE_SECOND_JUDGE")


def run(
    *command: str | Path, cwd: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """A command with no model named, so that the stand-ins serve, and this Python first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if name not in REAL_MODELS}
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**kept, "PATH": path, **more},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def results(folder: Path) -> dict[str, OptimizeResult]:
    found = sorted((folder / "results").rglob("result.json"))
    return {path.parent.name: OptimizeResult.from_file(path) for path in found}


def test_metrics_that_want_different_things_are_reported_one_by_one(tmp_path: Path) -> None:
    here = tmp_path / "examples" / "multi_metric_with_judges"
    start, done = run_readme("multi_metric_with_judges", tmp_path)
    assert "ended by required_metrics_passing" in done.out
    assert done.sources == start.sources
    (result,) = results(here).values()
    assert result.best_pass_rate == 1.0
    assert result.stop_reason == "required_metrics_passing"
    required = ["llm_final_response", "llm_rubric_response", "final_response_length_compliance"]
    for name in required:
        assert result.best_metric_breakdown[name] >= result.metric_thresholds[name]
    assert "response_match_score" in result.best_metric_breakdown
    assert result.judge_usage.calls > 0
    turned_down = [each for each in result.rounds if not each.accepted]
    assert any("parent's" in each.acceptance_reason for each in turned_down)
    assert result.total_metric_calls % 2 == 0, "every case is run twice"
    (folder,) = (here / "results").iterdir()
    calls = run("burnish", "runs", "show", folder, "--calls", "--json").stdout
    assert calls.count("judge-of-numbers") > calls.count("judge-of-words") > 0


def git(folder: Path, *command: str) -> str:
    done = run("git", "-c", "user.name=me", "-c", "user.email=me@localhost", *command, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_gate_is_red_until_the_nightly_run_has_mended_the_prompts(tmp_path: Path) -> None:
    here = tmp_path / "desk"
    *_, red, night, _, quiet = run_readme("ci_integration", tmp_path)
    assert "desk_val: 6 of 6 cases do not pass" in red.out
    assert "expected  Queue: billing" in red.out
    assert b'failures="1"' in red.files["desk/results/pytest_report.xml"]
    assert "prompts written back: True" in night.out
    assert "open a pull request" in night.out
    changed = git(here, "show", "--name-only", "--format=%s").split("\n")
    assert changed[0] == "Better prompts, by the nightly run"
    assert set(changed[2:-1]) == {"agent/prompts/skill.md", "agent/prompts/system.md"}
    assert git(here, "branch", "--show-current").startswith("prompts/")
    assert git(here, "status", "--porcelain") == ""
    assert "no better prompts tonight" in quiet.out
    assert git(here, "log", "--oneline").count("\n") == 2


def test_each_run_says_which_limit_ended_it(tmp_path: Path) -> None:
    here = tmp_path / "examples" / "slo_runtime_control"
    start, done = run_readme("slo_runtime_control", tmp_path)
    assert {name: each.stop_reason for name, each in results(here).items()} == {
        "as_it_stands": "score_threshold",
        "little_time": "timeout",
        "few_runs_of_cases": "budget_exhausted",
        "few_proposals": "max_candidate_proposals",
        "little_patience": "no_improvement",
        "half_will_do": "score_threshold",
        "a_small_pool": "max_tracked_candidates",
        "quota_runs_low": "quota_low",
        "somebody_stops_it": "user_requested_stop",
    }
    assert len(done.out.splitlines()) == 9
    assert done.sources == start.sources
    found = results(here)
    assert found["as_it_stands"].best_pass_rate == 1.0
    assert found["few_runs_of_cases"].total_metric_calls <= 26
    assert found["few_proposals"].proposals_total == 2
    assert found["somebody_stops_it"].total_rounds == 2


def test_two_configs_are_compared_and_a_third_names_an_algorithm_of_ones_own(
    tmp_path: Path,
) -> None:
    here = tmp_path / "examples" / "advanced_strategies"
    start, baseline, advanced, compared, custom = run_readme("advanced_strategies", tmp_path)
    for step, name in ((baseline, "baseline"), (advanced, "advanced"), (custom, "custom")):
        assert f"{name}: pass rate 0.00 -> " in step.out
        assert ("merging" in step.out) == (name == "advanced")
        assert step.sources == start.sources
    table = compared.out
    found = {name.partition("_")[0]: each for name, each in results(here).items()}
    left, right = found["baseline"], found["advanced"]
    assert (left.merge_rounds_total, left.best_pass_rate) == (0, 1.0)
    assert right.merge_rounds_total >= 1
    for name, one, other in (
        ("totalMetricCalls", left.total_metric_calls, right.total_metric_calls),
        ("proposalsTotal", left.proposals_total, right.proposals_total),
        ("mergeRoundsTotal", left.merge_rounds_total, right.merge_rounds_total),
    ):
        assert f"{name:<24}{one:<26}{other}\n" in table
    assert found["custom"].algorithm == "greedy_rules"
    assert (found["custom"].best_pass_rate or 0) > 0.5


def test_a_comparison_wants_both_runs(tmp_path: Path) -> None:
    early = run("python", copy_of("advanced_strategies", tmp_path) / "compare.py")
    assert early.returncode == 1
    assert "start run_baseline.py first" in early.stderr


def test_the_two_configs_differ_in_three_settings(tmp_path: Path) -> None:
    here = copy_of("advanced_strategies", tmp_path)
    one, other = (
        json.loads((here / f"optimizer_{name}.json").read_text(encoding="utf-8"))
        for name in ("baseline", "advanced")
    )
    algorithms = [config["optimize"].pop("algorithm") for config in (one, other)]
    assert one == other
    differing = {key for key in algorithms[0] if algorithms[0][key] != algorithms[1][key]}
    assert differing == {"frontier_type", "skip_perfect_score", "use_merge"}
