"""`burnish delegate`: exit codes, messages, resuming, a dry run."""

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from burnish.cli.delegation import DelegateRequest, delegate_task
from burnish.core.errors import ConfigError, Interrupted, RunNotFound
from burnish.testing.delegation_world import COMPLETE, plan
from tests.cli.console import Burnish, forked, refused, until
from tests.delegation.delegation_world import FLOW, DelegationWorld, in_order, writer

pytestmark = pytest.mark.slow

TASK = "Write a report about heat."
WAIT = """
import pathlib, time
here = pathlib.Path(__file__).parent
while (here / "wait").exists():
    (here / "waiting").touch()
    time.sleep(0.01)
"""
AGENT = "import pathlib\npathlib.Path('report.md').write_text('# Heat\\n' + 'It is warm. ' * 60)\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.chdir(tmp_path)
    Path("flow.yaml").write_text(FLOW)
    Path("agent.py").write_text(AGENT)
    Path("coder.yaml").write_text(
        "workflow: {name: coder}\n"
        "orchestration:\n"
        "  engine: command\n"
        "  command:\n"
        f'    command: "{shlex.quote(sys.executable)} {tmp_path}/agent.py"\n'
        "    critique: {enabled: false}\n"
        "deliverables: [report.md]\nsandbox: none\n"
    )


def run(world: DelegationWorld, **given: Any) -> None:
    """`task`, `inputs` and `overrides` are flags, the others what the command itself has."""
    flags = {"task": given.pop("task", None), **given.pop("overrides", {})}
    if inputs := given.pop("inputs", ()):
        flags["input"] = [str(path.absolute()) for path in inputs]
    delegate_task(DelegateRequest(flags=flags, **given), models=world.models())


def test_a_program_from_the_command_line(burnish: Burnish) -> None:
    Path("data.csv").write_text("a,b\n1,2\n")
    Path("task.md").write_text(TASK)
    said = burnish(
        "delegate", "coder.yaml", "--task-file", "task.md", "--input", "data.csv", "-o", "run"
    )
    assert said.code == 0, said
    assert said.lines[-1].startswith("report   ")
    assert any(line.startswith("complete 2 iterations") for line in said.lines)
    assert Path("run/FINAL/report.md").is_file()
    assert Path("run/workspace/input/data.csv").is_file()
    again = burnish("delegate", "--resume", "run", "--json")
    assert (again.code, again.json["status"]) == (0, "complete")
    assert again.json == json.loads(Path("run/run_completion.json").read_text())


def test_runs_lie_beside_the_workflow_file_and_are_found_by_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = DelegationWorld()
    run(world, file=Path("flow.yaml"), task=TASK, quiet=True)
    [folder] = Path("results/delegations").iterdir()
    assert json.loads((folder / "run_completion.json").read_text())["run_id"] == folder.name
    asked = len(world.turns)
    capsys.readouterr()
    run(world, resume=folder.name)
    told = capsys.readouterr().out
    assert len(world.turns) == asked
    assert "decided: plan" in told
    assert "report.md" in told


def test_gates_that_were_not_passed_give_exit_code_1() -> None:
    manager = in_order(plan("report.md"), COMPLETE)
    world = DelegationWorld(manager=manager, worker=writer("other.md"))
    with pytest.raises(typer.Exit) as end:
        run(world, file=Path("flow.yaml"), task=TASK, output_dir=Path("run"))
    assert end.value.exit_code == 1
    assert json.loads(Path("run/run_completion.json").read_text())["status"] == "partial"


def test_a_stop_file_gives_exit_code_2_and_says_how_to_go_on() -> None:
    def stop_then_plan(_: object) -> dict[str, object]:
        Path("run/delegate.stop").touch()
        return plan("report.md")

    with pytest.raises(Interrupted, match="burnish delegate --resume") as stopped:
        run(DelegationWorld(manager=stop_then_plan), file=Path("flow.yaml"), task=TASK,
            output_dir=Path("run"), quiet=True)  # fmt: skip
    assert stopped.value.exit_code == 2
    Path("flow.yaml").unlink()  # run.json says everything
    world = DelegationWorld()
    run(world, resume="run", quiet=True)
    assert [turn.draw for turn in world.turns_of("manager")] == [2, 3]


def test_flags_are_stronger_than_the_file_and_kept_for_a_resume() -> None:
    world = DelegationWorld()
    with pytest.raises(typer.Exit):
        run(world, file=Path("flow.yaml"), task=TASK, output_dir=Path("run"), quiet=True,
            overrides={"worker": "openai:other", "max_loops": 1, "critic": None})  # fmt: skip
    manifest = json.loads(Path("run/run_manifest.json").read_text())
    assert (manifest["models"]["worker"], manifest["budget"]["max_loops"]) == ("openai:other", 1)
    with pytest.raises(typer.Exit):
        run(world, resume="run", quiet=True)
    assert len(world.turns) == 1


def test_a_run_that_was_killed_at_once_still_gets_what_it_was_given() -> None:
    Path("data.csv").write_text("a,b\n1,2\n")
    run(DelegationWorld(), file=Path("flow.yaml"), task=TASK, output_dir=Path("run"), quiet=True,
        inputs=(Path("data.csv"),))  # fmt: skip
    for path in Path("run").iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in ("run.json", "run_manifest.json", "policy.json"):
            path.unlink()
    world = DelegationWorld()
    run(world, resume="run", quiet=True)
    assert "input/data.csv" in world.turns_of("manager")[0].text
    assert Path("run/workspace/input/data.csv").read_text() == "a,b\n1,2\n"


def test_what_a_program_prints_stays_in_its_line(burnish: Burnish) -> None:
    Path("agent.py").write_text(f"{AGENT}print('one\\ntwo \\x1b[31mred')\n")
    said = burnish("delegate", "coder.yaml", "--task", TASK, "-o", "run")
    (line,) = [line for line in said.lines if "worker " in line]
    assert "one two" in line
    assert "\x1b" not in said.out


def test_how_it_ended_and_what_to_do_then(capsys: pytest.CaptureFixture[str]) -> None:
    again = in_order(*[plan("report.md")] * 3)
    with pytest.raises(typer.Exit):
        run(DelegationWorld(manager=again), file=Path("flow.yaml"), task=TASK, quiet=True,
            output_dir=Path("run"))  # fmt: skip
    told = capsys.readouterr().out
    assert "stall: the manager made the same decision three times in a row, 3 iterations" in told
    assert "next     name a stronger manager" in told


def test_it_is_a_run_like_any_other(burnish: Burnish) -> None:
    for name in ("one", "two"):
        task = ("--task", TASK, "-q", "-o", name)
        assert burnish("delegate", "coder.yaml", *task).code == 0
    listed = burnish("runs", "list", "--json").records
    assert {(row["id"], row["strategy"], row["status"]) for row in listed} == {
        ("one", "delegate", "finished"),
        ("two", "delegate", "finished"),
    }
    said = burnish("runs", "show", "one")
    assert said.lines[0] == "one · finished: complete"
    completion = json.loads(Path("one/run_completion.json").read_text())
    facts = burnish("runs", "show", "one", "--json").json
    assert facts["baseline_train_loss"] == pytest.approx(completion["loss_total"])
    calls = burnish("runs", "show", "one", "--calls", "--json").records
    assert {"begin", "worker"} <= {row["kind"] for row in calls}
    compared = burnish("runs", "compare", "one", "two", "--json").json
    assert [row["word"] for row in compared["cases"]["train"]] == ["same"]
    assert "# " in burnish("runs", "report", "one").out
    assert burnish("runs", "resume", "one", "-q").code == 0
    more = burnish("runs", "resume", "one", "--max-trials", "3")
    refused(more, "--max-trials: only a run that searches has this flag")
    other = burnish("runs", "resume", "one", "--max-loops", "3")
    refused(other, "was started with another")
    assert burnish("runs", "rm", "two", "--yes").code == 0
    assert not Path("two").exists()
    assert [row["id"] for row in burnish("runs", "list", "--json").records] == ["one"]


def test_one_that_was_killed_goes_on_with_either_command(burnish: Burnish) -> None:
    start = ("delegate", "coder.yaml", "--task", TASK, "-q", "-o", "run")
    for command in (("runs", "resume", "run", "-q"), ("delegate", "--resume", "run", "-q")):
        Path("wait").touch()
        Path("agent.py").write_text(f"{WAIT}{AGENT}")
        killed = forked(*start, cwd=Path.cwd())
        until(Path("waiting").exists)
        killed.kill()
        killed.communicate()
        Path("wait").unlink()
        Path("waiting").unlink()
        assert burnish("runs", "list", "--json").records[0]["status"] == "killed"
        assert "go on    burnish runs resume run" in burnish("runs", "show", "run").lines
        assert "burnish delegate --resume" in burnish("refine", "run").err
        assert burnish(*command).code == 0
        facts = burnish("runs", "show", "run", "--json").json
        assert facts["status"] == "finished"
        assert (facts["spent"]["calls"], facts["billed"]["calls"]) == (1, 2)
        assert burnish("runs", "rm", "run", "--yes").code == 0


def test_a_dry_run_checks_what_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    asked = {"file": Path("flow.yaml"), "task": TASK, "dry_run": True}
    with pytest.raises(ConfigError, match=r"gone\.csv"):
        run(DelegationWorld(), **asked, inputs=(Path("gone.csv"),))
    with pytest.raises(RunNotFound, match="no experiment 'exp_gone'"):
        run(DelegationWorld(), **asked, target="exp_gone")
    capsys.readouterr()
    run(DelegationWorld(), **asked, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["dry_run"], told["models"]["worker"]) == (True, "openai:hand")


def test_a_dry_run_pays_nothing_and_makes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    world = DelegationWorld()
    run(world, file=Path("flow.yaml"), task=TASK, dry_run=True)
    told = capsys.readouterr().out
    assert "worker   openai:hand" in told
    assert "nothing was run or paid" in told
    assert world.turns == []
    assert not Path("results").exists()


def test_a_dry_run_says_how_models_are_asked_for_structured_answers(
    burnish: Burnish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    command = ("delegate", "flow.yaml", "--task", TASK, "--dry-run")
    assert "answers  openai:hand: the first request finds their form" in burnish(*command).out
    assert "openai:hand" in burnish(*command, "--json").json["answers"]


def test_command_lines_that_make_no_sense(burnish: Burnish) -> None:
    refused(burnish("delegate"), "there is no workflow file", "--task")
    refused(burnish("delegate", "flow.yaml", "--task", "a", "--task-file", "b"), "give either")
    refused(burnish("delegate", "flow.yaml", "--task", " "), "--task: the task is empty")
    refused(burnish("delegate", "--resume", "x", "--task", "a", "--max-loops", "3"),
            "--task: a resumed run keeps", "--max-loops")  # fmt: skip
    refused(burnish("delegate", "flow.yaml", "--task", "a", "--max-loops", "0"), "--max-loops")
    refused(burnish("delegate", "flow.yaml", "--task", "a", "--worker", "nobody"), "nobody")
    with pytest.raises(RunNotFound, match="no delegation 'gone'"):
        run(DelegationWorld(), resume="gone")
    with pytest.raises(ConfigError):
        run(DelegationWorld(), file=Path("flow.yaml"), task=TASK, inputs=(Path("gone.csv"),))
