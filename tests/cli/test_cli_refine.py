"""`burnish refine` and `burnish experiments`: exit codes, messages, files, a real program."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from burnish.testing.delegation_world import COMPLETE, delegation, plan
from burnish.testing.servers import Answer, HttpRequest, ModelReply, ScriptedServer
from tests.cli.coders import AGENT, write_coders
from tests.cli.console import Burnish, Said, finish, forked, tree, until
from tests.cli.served_echo import hosted
from tests.delegation.delegation_world import GOOD
from tests.delegation.refine.run_folders import awp_run

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BURNISH_EXPERIMENTS_ROOT", raising=False)
    monkeypatch.delenv("AWP_EXPERIMENTS_ROOT", raising=False)
    write_coders(tmp_path)


def slowly(run: Path) -> Path:
    """Say that a run took its time, so that no limit on time is near."""
    path = run / "run_completion.json"
    data = json.loads(path.read_text())
    data["final_budget"]["wall_time"]["elapsed_s"] = 600
    path.write_text(json.dumps(data))
    return run


@pytest.fixture
def seed(burnish: Burnish) -> Path:
    task = ("--task", "Write a report.", "-q", "-o", "seed")
    assert burnish("delegate", "flow.yaml", *task).code == 0
    return slowly(Path("seed"))


def session() -> dict[str, Any]:
    *_, last = sorted(Path("seed/refinement_sessions").glob("*.json"))
    return json.loads(last.read_text())


def refused(said: Said, *words: str) -> None:
    assert said.code == 2, said
    assert said.err.startswith("error: ")
    assert "Traceback" not in said.err
    assert all(word in said.err for word in words), said.err


def test_a_result_gets_better(burnish: Burnish, seed: Path) -> None:
    planned = burnish("refine", str(seed), "--dry-run")
    assert planned.code == 0
    assert "Metric gaps to close:" in planned.out
    assert "\nsandbox  " in planned.out
    assert not (seed / "refinement_sessions").exists()
    said = burnish("refine", str(seed), "-n", "2")
    assert said.code == 0, said
    assert "max_iterations" in said.out
    assert "best     iteration 2" in said.out
    assert (seed / "BEST" / "report.md").read_text().count("flaw-") == 1
    assert Path(said.lines[-1].removeprefix("report   ")).is_file()
    more = burnish("refine", str(seed), "-n", "99", "--json")
    assert more.code == 0
    assert more.json["best_iter"] == 3
    assert more.json["settings"]["iterations"] == 10
    assert more.json["stop_reason"] == "empty_gradient_midloop"
    best = json.loads((seed / "BEST" / "manifest.json").read_text())
    assert best["session_id"] == more.json["session_id"]


def test_the_seed_stays_the_best(burnish: Burnish, seed: Path) -> None:
    said = burnish("refine", str(seed), "--workflow", "same.yaml")
    assert said.code == 1
    assert "exactly the files it started from" in said.out
    assert "nothing was better" in said.out
    assert session()["stop_reason"] == "plateau"
    assert not (seed / "BEST").exists()


def test_nothing_to_refine(burnish: Burnish, seed: Path) -> None:
    data = json.loads((seed / "run_completion.json").read_text())
    data["evaluation"]["thresholds"] = {}
    (seed / "run_completion.json").write_text(json.dumps(data))
    said = burnish("refine", str(seed))
    assert said.code == 0
    assert "nothing to refine" in said.out
    assert session()["stop_reason"] == "empty_gradient"


def test_an_error_is_one_message_and_a_session(burnish: Burnish, seed: Path) -> None:
    (seed / "FINAL" / "manifest.burnish.json").write_text("mine")
    flow = (
        Path("flow.yaml")
        .read_text()
        .replace("deliverables: [report.md]", "deliverables: [report.md, manifest.burnish.json]")
    )
    Path("both.yaml").write_text(flow)
    Path("agent.py").write_text(f"{AGENT}pathlib.Path('manifest.burnish.json').write_text('{{}}')")
    said = burnish("refine", str(seed), "--workflow", "both.yaml")
    assert said.code == 1, said
    assert said.err.startswith("error: error:FileTrouble: ")
    assert session()["stop_reason"] == "error:FileTrouble"


def test_what_cannot_be_refined(burnish: Burnish, seed: Path) -> None:
    refused(burnish("refine"), "one result to refine is needed")
    refused(burnish("refine", "nowhere"), "there is no run in nowhere")
    refused(burnish("refine", str(seed), "--target", "a:b"), "name either the folder")
    refused(burnish("refine", "--target", "exp_unknown1:001-x"), "no experiment")
    refused(burnish("refine", str(seed), "--iterations", "abc"), "refine --help")
    refused(burnish("refine", str(seed), "--workflow", "nowhere.yaml"), "nowhere.yaml")
    refused(burnish("refine", str(seed), "--model", "openai:x"), "runs a program")
    refused(burnish("refine", str(seed), "--resume", "last"), "no unfinished session")
    (seed / "run_completion.json").write_text("{")
    refused(burnish("refine", str(seed)), "is damaged")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_seed_that_may_not_be_written(seed: Path, tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(0o755)
    for each in seed.rglob("*"):  # everybody may read it
        each.chmod(0o755 if each.is_dir() else 0o644)
    code = (
        "import os, burnish.cli.delegation, burnish.cli.improve_commands;"
        "from burnish.cli import main; os.seteuid(65534); main(['refine', 'seed'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    refused(Said(code=done.returncode, out=done.stdout, err=done.stderr), "copy the run")
    assert not (seed / "refinement_sessions").exists()


def test_interrupted_and_going_on_while_nobody_else_may(
    burnish: Burnish, seed: Path, tmp_path: Path
) -> None:
    Path("wait").touch()
    running = forked("refine", "seed", "-n", "2", cwd=tmp_path)
    until(Path("waiting").exists)
    refused(burnish("refine", str(seed)), "in use by process")
    # Two of one kind could arrive as one.
    running.send_signal(signal.SIGINT)
    running.send_signal(signal.SIGTERM)
    said = finish(running)
    assert said.code == 130, said
    assert "--resume refine_" in said.err
    Path("wait").unlink()
    assert session()["stop_reason"] == "interrupted"
    assert "unfinished: refine_" in burnish("refine", str(seed), "-n", "1").out
    done = burnish("refine", str(seed), "--resume", "last", "--json")
    assert done.code == 0, done
    assert len(done.json["iterations"]) == 2
    assert tree(seed / "FINAL").keys() == {"report.md"}


def test_experiments_from_the_command_line(burnish: Burnish) -> None:
    assert "there are no experiments" in burnish("experiments", "list").out
    assert "needs a name" in burnish("experiments", "new", " ").err
    name = burnish("experiments", "new", "Heat", "--goal", "know it").out.strip()
    task = ("--task", "Write a report.", "-q")
    said = burnish("delegate", "flow.yaml", *task, "--target", name)
    assert said.code == 0, said
    assert f"{name}:001-write-a-report, its BEST" in said.out
    home = Path("results/experiments") / name / "tasks" / "001-write-a-report"
    (run,) = (home / "runs").iterdir()
    slowly(run)
    before = tree(run)
    target = f"{name}:001-write-a-report"
    refining = burnish("refine", "--target", target, "-n", "2")
    assert refining.code == 0, refining
    assert tree(run) == before
    manifest = json.loads((home / "BEST" / "manifest.json").read_text())
    assert manifest["winner_source"].startswith("refinements/session_")
    (last,) = (home / "refinements").glob("session_*.json")
    assert last.read_bytes() == (home / "refinements" / "session.json").read_bytes()
    # The refined result is what the next task goes on from.
    on = burnish("delegate", "flow.yaml", *task, "--target", name, "--primary", home.name)
    assert on.code == 0, on
    (next_run,) = (home.parent / "002-write-a-report" / "runs").iterdir()
    given = (next_run / "workspace" / "input" / "report.md").read_text()
    assert given == (home / "BEST" / "report.md").read_text()
    # A choice by hand stays, and exit code 0 is only for what was written.
    assert burnish("experiments", "best", target, run.name).code == 0
    kept = burnish("refine", "--target", target, "-n", "1")
    assert kept.code == 1, kept
    assert "chosen by hand" in kept.out
    shown = burnish("experiments", "show", name)
    assert "user_override" in shown.out
    listed = burnish("experiments", "list", "--json").json
    assert listed[0]["task_order"] == ["001-write-a-report", "002-write-a-report"]


@pytest.mark.parametrize(
    ("in_the_run", "flags"),
    [
        (("openai/gpt-5-mini", "acme/agent-7"), ()),
        (("x", "y"), ("--model", "openai/gpt-5-mini", "--worker-model", "acme/agent-7")),
        (("x", "y"), ("--model", "openai:openai/gpt-5-mini", "--worker-model", "acme/agent-7")),
        (("openai/gpt-5-mini", "y"), ("--tier-high", "openai/gpt-5-mini:acme/agent-7")),
    ],
    ids=["of the run", "of flags", "as references", "of a tier"],
)
def test_a_run_of_awp_agents_is_refined_at_its_own_endpoint(
    in_the_run: tuple[str, str],
    flags: tuple[str, ...],
    tmp_path: Path,
    burnish: Burnish,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its variables and the names of its models are enough: no workflow, no flag, no burnish key.

    The endpoint gets the names as awp-agents writes them, and the key.
    """
    asked: list[HttpRequest] = []
    decisions = iter([plan("report.md"), delegation("writer"), COMPLETE])
    text = f"# The report\n\n{'It was 31 °C at noon on every day of the week. ' * 12}\n"

    def answer(request: HttpRequest) -> Answer:
        asked.append(request)
        messages = request.json["messages"]
        if request.json.get("tools"):
            if any(each["role"] == "tool" for each in messages):
                done = {"summary": "wrote it", "outputs": ["report.md"], "confidence": 0.9}
                return json.dumps(done)
            return ModelReply(uses=(("file_write", {"path": "report.md", "content": text}),))
        critic = "critic" in request.json["response_format"]["json_schema"]["name"]
        return json.dumps(GOOD if critic else next(decisions))

    run = awp_run(tmp_path / "ws")
    manifest = json.loads((run / "run_manifest.json").read_text())
    manifest["models"] = dict(zip(("manager", "worker"), in_the_run, strict=True))
    (run / "run_manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with hosted(ScriptedServer(answers=answer)) as url:
        monkeypatch.setenv("LLM_BASE_URL", url)
        monkeypatch.setenv("LLM_API_KEY", "a-key-of-awp-0123456789")
        said = burnish("refine", str(run), "--iterations", "1", *flags)
    assert said.code == 0, said
    assert (run / "BEST" / "report.md").read_text() == text
    workers = {each.json["model"] for each in asked if each.json.get("tools")}
    others = {each.json["model"] for each in asked if not each.json.get("tools")}
    assert (workers, others) == ({"acme/agent-7"}, {"openai/gpt-5-mini"})
    assert {each.headers["authorization"] for each in asked} == {"Bearer a-key-of-awp-0123456789"}
    files = [each for each in run.rglob("*") if each.is_file()]
    assert not [each for each in files if b"a-key-of-awp-0123456789" in each.read_bytes()]
