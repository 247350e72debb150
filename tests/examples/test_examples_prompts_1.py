"""The examples of agents and of where prompts lie, run as their READMEs say, in a copy."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.docs.docs_examples import Step, copy_of, run_readme
from tests.example_copies import example_files

from burnish.compat import OptimizeResult

pytestmark = pytest.mark.slow

FILES = {"result.json", "summary.txt", "run.log", "config.snapshot.json", "journal.db", "report.md"}
NAMES = (
    "quickstart",
    "http_service",
    "blackbox_cli",
    "multi_agent_pipeline",
    "remote_prompt_store",
)


def shown_in(readme: Path, *, with_word: str) -> str:
    """The command of a README that has this word in it."""
    commands = re.findall(r"^\$ (.+)$", readme.read_text(encoding="utf-8"), re.MULTILINE)
    return next(command for command in commands if with_word in command)


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command as a person types it, with no model named and nothing but this machine at hand."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EXAMPLE_")}
    nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**kept, **nowhere, "no_proxy": "127.0.0.1", "PATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def optimized(steps: Sequence[Step], here: Path) -> tuple[OptimizeResult, str]:
    """What the program of an example came to, and what it printed."""
    start, program = steps[:2]
    assert "run_optimization.py" in program.line
    assert all(step.sources == start.sources for step in steps)
    (folder,) = (path for path in (here / "results").iterdir() if path.name != "optimizer")
    result = OptimizeResult.from_file(folder / "result.json")
    require_files(folder, result)
    summary = (folder / "summary.txt").read_text(encoding="utf-8")
    assert summary.replace(f"{here.parents[1].resolve()}/", "") in program.out
    return result, program.out


def require_files(folder: Path, result: OptimizeResult) -> None:
    assert {path.name for path in folder.iterdir()} >= FILES
    rounds = sorted(path.name for path in (folder / "rounds").iterdir())
    assert rounds == [f"round_{n:03d}.json" for n in range(1, result.total_rounds + 1)]
    for name, told in (("baseline", result.baseline_prompts), ("best", result.best_prompts)):
        kept = {path.stem: path.read_text() for path in (folder / f"{name}_prompts").iterdir()}
        assert kept == told
    assert "status=SUCCEEDED" in (folder / "run.log").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_every_file_of_an_example_is_small(name: str) -> None:
    for path, content in example_files(name).items():
        assert len(content.splitlines()) <= 120, path


def test_quickstart_finds_what_both_prompts_lack_also_from_the_command_line(
    tmp_path: Path,
) -> None:
    steps, here = run_readme("quickstart", tmp_path), tmp_path / "examples" / "quickstart"
    result, told = optimized(steps, here)
    assert (result.baseline_pass_rate, result.best_pass_rate) == (0.0, 1.0)
    assert "pass_rate     : 0.0000 -> 1.0000 (+1.0000, improved)" in told
    assert "'Result:'" in result.best_prompts["system_prompt"]
    assert "unit" in result.best_prompts["skill"]
    assert result.judge_usage.calls > 0
    assert set(result.best_metric_breakdown.values()) == {1.0}
    assert "every threshold is reached" in steps[2].out
    (best,) = (here / "results" / "optimizer").glob("*/candidates/best/system_prompt.md")
    assert "'Result:'" in best.read_text(encoding="utf-8")


def test_a_service_is_optimised_from_outside_and_stopped(tmp_path: Path) -> None:
    steps = run_readme("http_service", tmp_path)
    result, _ = optimized(steps, tmp_path / "examples" / "http_service")
    assert (result.baseline_pass_rate, result.best_pass_rate) == (0.25, 1.0)
    assert "night desk" in result.best_prompts["system_prompt"]
    assert not still_running(tmp_path)


def test_a_service_that_does_not_come_up_is_said_and_nothing_stays(tmp_path: Path) -> None:
    here = copy_of("http_service", tmp_path)
    (here / "service" / "server.py").write_text("app = None.nothing\n", encoding="utf-8")
    done = run(shown_in(here / "README.md", with_word="run_optimization.py"), tmp_path)
    assert done.returncode == 1
    assert "the service ended with 1 before it was up" in done.stderr
    assert not (here / "results").exists()
    assert not still_running(tmp_path)


def still_running(folder: Path) -> list[str]:
    """The commands of processes that work in a folder."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(folder):
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_a_tool_on_the_command_line_teaches_by_its_errors(tmp_path: Path) -> None:
    workspace = tmp_path / "examples" / "blackbox_cli" / "workspace"
    steps = run_readme("blackbox_cli", tmp_path)
    result, _ = optimized(steps, workspace.parent)
    assert (result.baseline_pass_rate, result.best_pass_rate) == (0.25, 1.0)
    assert "Leave out issue numbers." in result.best_prompts["house"]
    assert "without a kind as 'Changed'" in result.best_prompts["skill"]
    asked = json.dumps(
        [each.model_dump() for round_ in result.rounds for each in round_.reflections]
    )
    assert "the tool ended with 3: the note has no kind" in asked
    isolated = steps[2]
    assert "isolated.yaml" in isolated.line
    assert "holdout 0.750 → 0.000" in isolated.out
    prompts = [str(path.relative_to(tmp_path)) for path in workspace.rglob("*.md")]
    assert prompts
    assert all(isolated.stamps[name] == steps[1].stamps[name] for name in prompts)


def test_the_program_itself_runs_isolated_where_the_config_says_so(tmp_path: Path) -> None:
    here = copy_of("blackbox_cli", tmp_path)
    config = json.loads((here / "optimizer.json").read_text(encoding="utf-8"))
    config["optimize"] |= {"isolation": "isolated"}
    (here / "optimizer.json").write_text(json.dumps(config), encoding="utf-8")
    stamps = {path: path.stat().st_mtime_ns for path in (here / "workspace").rglob("*.md")}
    done = run(shown_in(here / "README.md", with_word="run_optimization.py"), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pass_rate     : 0.2500 -> 1.0000" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps


def test_three_agents_learn_one_by_one_and_are_merged(tmp_path: Path) -> None:
    steps = run_readme("multi_agent_pipeline", tmp_path)
    result, told = optimized(steps, tmp_path / "examples" / "multi_agent_pipeline")
    assert result.best_pass_rate == 1.0
    assert result.baseline_pass_rate == pytest.approx(4 / 9)
    changed = {n for n, text in result.best_prompts.items() if text != result.baseline_prompts[n]}
    assert changed == {"reader", "pricer", "clerk"}
    assert result.merge_rounds_total >= 1
    assert "merge of two" in told


def test_a_store_holds_the_original_again(tmp_path: Path) -> None:
    steps = run_readme("remote_prompt_store", tmp_path)
    result, told = optimized(steps, tmp_path / "examples" / "remote_prompt_store")
    assert (result.baseline_pass_rate, result.best_pass_rate) == (0.0, 1.0)
    assert "For each blood test add:" in result.best_prompts["reminder"]
    assert "production/reminder: as before, written 0 times" in told
    assert "sandbox/reminder: as before, written 6 times" in told
