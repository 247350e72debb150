"""A run goes on while its file says the same; what else it may say, and what is told otherwise."""

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.cli.optimization import OptimizeRequest, RunOpening, optimize_project
from burnish.core.errors import ResumeRefused
from burnish.projects import launch_in, load_project
from burnish.projects.adopt import adopt, adopting, changes_of, plan_adoption, plan_undo, undo
from burnish.runs.directory import RunRecord
from tests.cli.console import SMALL, Burnish, refused
from tests.projects.optimizer_world import Change, echo, echo_models, optimizer, write_world

pytestmark = pytest.mark.slow

UNSEALED = SMALL.replace("test: 4", "test: 0")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.chdir(tmp_path)


def go(way: RunOpening | None = None, **flags: Any) -> RunRecord:
    """Resume the run of `agent.yaml` in the folder `run`, or start it."""
    opening = way or RunOpening(resume="run")
    request = OptimizeRequest(way=opening, flags=flags, progress="lines")
    optimize_project(request, models=echo_models(echo()))
    return RunRecord.read(Path("run"))


def begun(*changes: Change, **flags: Any) -> Path:
    file = write_world(Path.cwd(), *changes)
    go(RunOpening(output_dir=Path("run")), max_trials=2, **flags)
    return file


def edited(file: Path, change: Change) -> None:
    data = json.loads(file.read_text(encoding="utf-8"))
    change(data)
    file.write_text(json.dumps(data, indent=1), encoding="utf-8")


def why_not(**flags: Any) -> str:
    with pytest.raises(ResumeRefused) as error:
        go(**flags)
    return str(error.value)


def test_a_changed_agent_is_another_run(capsys: pytest.CaptureFixture[str]) -> None:
    file = begun()
    edited(file, lambda data: data["model"].update(temperature=0.2))
    told = why_not()
    assert "agent.yaml is not what run run was started with" in told
    assert "model.temperature: 0.9 → 0.2" in told
    assert "`burnish optimize agent.yaml --fork run`" in told
    go(RunOpening(fork="run", output_dir=Path("forked")), max_trials=1)
    words = " ".join(capsys.readouterr().out.split())
    assert "the run continues with the old description" in words


CHANGES: list[tuple[Change, str]] = [
    (lambda data: optimizer(data).update(repeats=1), "repeats: 2 → 1"),
    (lambda data: optimizer(data).update(seed=7), "seed: not set → 7"),
    (lambda data: optimizer(data).update(confirm=True), "confirm: false → true"),
    (lambda data: optimizer(data).update(strategy="auto"), "strategy: 'coordinate' → 'auto'"),
    (lambda data: optimizer(data)["axes"].pop("textual"), "→ not set"),
    (lambda data: data.update(name="other"), "name: 'echo' → 'other'"),
    (lambda data: optimizer(data).update(strateg="auto"), "unknown key 'strateg'"),
    (lambda data: data["model"].pop("provider"), "model.provider: required, but missing"),
    (lambda data: data["model"].update(api_key="hunter2-hunter2"), "[redacted]"),
    (lambda data: data.update(description="naïve – ☃\u202e" * 9_999), "description: not set →"),
]


@pytest.mark.parametrize(("change", "words"), CHANGES)
def test_what_else_may_not_change(change: Change, words: str) -> None:
    edited(begun(), change)
    told = why_not()
    assert words in told
    assert len(told) < 2_000
    assert "hunter2" not in told
    assert "--fork run" in told


def test_of_many_changes_ten_are_named() -> None:
    def with_cases(answer: str) -> Change:
        rows = [{"input": f"rule {n} 0?", "ground_truth": answer} for n in range(30)]
        return lambda data: data.update(test_cases=rows)

    edited(begun(with_cases("yes")), with_cases("no"))
    told = why_not()
    assert told.count("'yes' → 'no'") == 10
    assert "and 20 more" in told


def test_comments_layout_and_spelling_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARMTH", "0.9")
    file = begun()
    text = file.read_text(encoding="utf-8").replace(
        '"temperature": 0.9', '"temperature": "${WARMTH}"'
    )
    file.write_text(f"# Warm, as we like it.\n\n{text}\n", encoding="utf-8")
    assert go(max_trials=3).trials == 3
    monkeypatch.setenv("WARMTH", "0.8")
    assert "model.temperature: 0.9 → '${WARMTH}'" in why_not()


def test_limits_apply_as_the_file_has_them_now(capsys: pytest.CaptureFixture[str]) -> None:
    def limited(data: dict[str, Any]) -> None:
        whole = optimizer(data)["budget"]["global"]
        whole.update(max_trials=1)

    file = write_world(Path.cwd(), limited)
    assert go(RunOpening(output_dir=Path("run"))).trials == 1
    edited(file, lambda data: optimizer(data)["budget"]["global"].update(max_trials=3))
    edited(file, lambda data: data.update(execution={"wait_minutes": 20, "parallel_test_cases": 2}))
    assert go().trials == 3
    words = " ".join(capsys.readouterr().out.split())
    assert "these limits are new since this run started" in words
    assert "max_trials: 1 → 3" in words
    assert "execution.wait_minutes: not set → 20" in words
    edited(file, lambda data: optimizer(data)["budget"]["global"].pop("max_trials"))
    assert go(max_trials=4).trials == 4


def test_what_flags_said_is_not_asked_of_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BURNISH_CONCURRENCY", "2")
    monkeypatch.setenv("BURNISH_SEED", "5")
    file = begun(repeats=3, set=["strategy.settings.accept_sigma=0.5"])
    monkeypatch.delenv("BURNISH_SEED")
    edited(file, lambda data: optimizer(data).update(repeats=1))
    assert go(max_trials=3).trials == 3
    edited(file, lambda data: optimizer(data).update(seed=6))
    assert "seed: 5 → 6" in why_not()


def test_what_the_run_wrote_into_the_file_is_its_own() -> None:
    file = begun()
    run = RunRecord.read(Path("run"))
    before, plan = file.read_text(encoding="utf-8"), plan_adoption(run)
    with adopting(run):
        adopt(plan)
    assert file.read_text(encoding="utf-8") != before
    assert go(max_trials=3).trials == 3
    adopted = file.read_text(encoding="utf-8")
    file.write_text(adopted.replace('"echo"', '"other"'), encoding="utf-8")
    told = why_not()
    assert "name: 'echo' → 'other'" in told
    assert "temperature" not in told
    [warmth] = (c.after for c in changes_of(run, run.rows[-1]) if c.surface == "model.temperature")
    file.write_text(adopted.replace(str(warmth), "0.123"), encoding="utf-8")
    assert "temperature: 0.9 → 0.123" in why_not()


def test_an_adoption_that_was_undone() -> None:
    file = begun()
    run, before = RunRecord.read(Path("run")), file.read_text(encoding="utf-8")
    with adopting(run):
        adopt(plan_adoption(run))
    with adopting(run):
        undo(plan_undo(run))
    assert file.read_text(encoding="utf-8") == before
    assert go(max_trials=3).trials == 3


def test_a_file_that_is_read_again_and_was_adopted_into() -> None:
    def rules(data: dict[str, Any]) -> None:
        optimizer(data)["axes"].pop("numeric")
        optimizer(data)["axes"].pop("demonstrations")

    begun(rules)
    run = RunRecord.read(Path("run"))
    with adopting(run):
        adopt(plan_adoption(run))
    told = why_not()
    assert "another baseline, target" in told
    assert "`burnish adopt run --undo`" in told
    with adopting(run):
        undo(plan_undo(run))
    assert go(max_trials=3).trials >= 2


def test_a_fork_is_compared_with_the_file_it_was_started_from() -> None:
    file = begun()
    edited(file, lambda data: data["model"].update(temperature=0.2))
    way = RunOpening(fork="run", output_dir=Path("forked"))
    request = OptimizeRequest(file=file, way=way, flags={"max_trials": 1}, progress="none")
    optimize_project(request, models=echo_models(echo()))
    go(RunOpening(resume="forked"), max_trials=2)
    assert RunRecord.read(Path("forked")).trials == 2
    assert "0.9 → 0.2" in why_not()


def test_a_project_that_moved_with_its_file(tmp_path: Path) -> None:
    file = begun()
    for each in [*tmp_path.iterdir()]:
        if each.is_file():
            (tmp_path / "new").mkdir(exist_ok=True)
            each.rename(tmp_path / "new" / each.name)
    moved = tmp_path / "new" / file.name
    link = tmp_path / "link.yaml"
    link.symlink_to(moved)
    for place in (moved, link):
        request = OptimizeRequest(
            file=place, way=RunOpening(resume="run"), flags={"max_trials": 3}, progress="none"
        )
        optimize_project(request, models=echo_models(echo()))
    edited(moved, lambda data: data["model"].update(temperature=0.2))
    with pytest.raises(ResumeRefused, match=r"0\.9 → 0\.2"):
        optimize_project(request, models=echo_models(echo()))


def test_a_program_is_told_what_has_changed(tmp_path: Path) -> None:
    file = write_world(tmp_path)
    models = echo_models(echo())
    launch_in(load_project(file, {"max_trials": 1}, models=models).setup, tmp_path / "run")
    edited(file, lambda data: data["model"].update(temperature=0.2))
    again = load_project(file, {"max_trials": 2}, models=echo_models(echo())).setup
    with pytest.raises(ResumeRefused, match=r"model\.temperature: 0\.9 → 0\.2"):
        launch_in(again, tmp_path / "run")


def test_a_file_that_cannot_be_read_is_refused(burnish: Burnish, toy: Path) -> None:
    toy.write_text(f"{UNSEALED}budget: {{max_trials: 1}}\n", encoding="utf-8")
    assert burnish("optimize", str(toy), "-q", "-o", "r").code == 0
    for text in (b"kind: [", b"", b"- a\n", b"kind: toy\nwor\xffld: 1\n", b"kind: graph\n"):
        toy.write_bytes(text)
        said = burnish("runs", "resume", "r", "-q")
        refused(said)


def test_a_run_from_before_files_were_compared(burnish: Burnish, toy: Path) -> None:
    toy.write_text(f"{UNSEALED}budget: {{max_trials: 1}}\n", encoding="utf-8")
    assert burnish("optimize", str(toy), "-q", "-o", "r").code == 0
    header = json.loads(Path("r/run.json").read_text(encoding="utf-8"))
    del header["project"]["spec"]["source"]["overridden"]
    Path("r/run.json").write_text(json.dumps(header), encoding="utf-8")
    toy.write_text(f"{toy.read_text(encoding='utf-8')}seed: 99\n", encoding="utf-8")
    said = burnish("runs", "resume", "r", "--max-trials", "2", "--progress", "lines")
    assert said.code == 0, said.err
    assert "toy.yaml has changed since this run started" in " ".join(said.out.split())
