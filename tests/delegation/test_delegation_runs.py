"""Whole delegations with scripted models: the loop, critique and repair, gates, the run folder."""

import json
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError, FileTrouble, Interrupted, ResumeRefused
from burnish.delegation.loop import ORDER
from burnish.delegation.policy import NAMES, PolicyTexts
from burnish.journal.outages import Waits
from burnish.models.errors import ModelUnavailable
from burnish.testing.delegation_world import COMPLETE, Response, RoleTurn, delegation, plan, use
from tests.delegation.delegation_world import (
    FLOW,
    GOOD,
    REPORT,
    DelegationWorld,
    flawed,
    in_order,
    writer,
)
from tests.delegation.runs import TASK, events, read, rows, run, with_loop

pytestmark = pytest.mark.slow

METRICS = """\
observability:
  evaluation:
    metrics:
      - {name: sure, kind: deterministic_test, weight: 1, params: {expr: "result.confidence > 0.6"}}
      - {name: taste, kind: rubric_judge, weight: 3, threshold: 0.8, params: {rubric: Is it warm?}}
"""


async def test_a_task_becomes_a_deliverable_and_a_folder_that_others_can_read(
    tmp_path: Path,
) -> None:
    world = DelegationWorld(critic=lambda _: flawed(0.7), judge=lambda _: {"score": 0.7})
    result = await run(tmp_path, world, FLOW + METRICS, tags=["refinement"], parent_run_id="seed")
    assert (result.status, result.reason, result.iterations) == ("complete", "complete", 3)
    assert [path.read_text() for path in result.deliverables] == [REPORT]
    done = read(tmp_path, "run_completion.json")
    assert (done["run_id"], done["task"]) == (result.run_id, TASK)
    assert (done["parent_run_id"], done["tags"]) == ("seed", ["refinement"])
    assert done["evaluation"]["per_metric"] == {"sure": 1.0, "taste": 0.7}
    assert done["evaluation"]["thresholds"] == {"taste": 0.8}
    assert done["evaluation"]["total_score"] == done["eval"]["score"] == 0.775
    assert done["critique"]["score"] == 0.7
    assert done["critique"]["defects"][0]["description"] == "no unit"
    assert done["final_budget"]["workers"] == {"spawned": 1, "max": 500}
    assert done["loss_total"] == pytest.approx(
        0.4 * 0.225 + 0.3 * 0.3 + 0.05 * (1 - done["final_budget"]["budget_remaining_pct"] / 100),
        abs=1e-3,
    )
    manifest = read(tmp_path, "run_manifest.json")
    assert manifest["models"]["worker"] == "openai:hand"
    assert manifest["budget"]["max_depth"] == 4
    critique = read(tmp_path, "iterations/002/critique.json")
    assert critique["critiques"][0]["worker_id"] == "writer"
    assert sorted(p.stem for p in (tmp_path / "run/gates/003").iterdir()) == sorted(ORDER)
    kinds = {row["kind"] for row in rows(tmp_path / "run/metrics.jsonl")}
    assert kinds >= {"metric.budget", "metric.critique", "metric.gate", "metric.eval"}
    assert [p.name for p in (tmp_path / f"run/output/{result.run_id}").iterdir()] == ["report.md"]
    assert "A training score" in (tmp_path / "run/RUN_SUMMARY.md").read_text()


async def test_a_rejected_completion_goes_back_with_its_reason_and_counts_once(
    tmp_path: Path,
) -> None:
    def manager(turn: RoleTurn) -> Response:
        if turn.draw == 1:
            return plan("report.md")
        rejected = "gate l0" in turn.text
        if turn.draw in (2, 4):
            return delegation("mender" if rejected else "writer")
        return COMPLETE

    def worker(turn: RoleTurn) -> Response:
        text = REPORT if "mender" in turn.text else f"{REPORT}\nTODO: the rest\n"
        return writer(content=text)(turn)

    result = await run(tmp_path, DelegationWorld(manager=manager, worker=worker))
    assert result.status == "complete"
    assert [verdict.gate for verdict in result.rejections] == ["l0"]
    told = [e for e in events(result) if e["category"] == "gate" and e["fields"]["triggered"]]
    assert [(e["level"], e["fields"]["gate"]) for e in told] == [("WARNING", "l0")]
    assert "TODO" in told[0]["fields"]["reason"]
    gates = [r for r in rows(tmp_path / "run/metrics.jsonl") if r["kind"] == "metric.gate"]
    assert sum(row["verdict"] == "rejected" for row in gates) == 1
    assert result.loss.gate_reject == pytest.approx(0.15 / 2)
    assert read(tmp_path, "gates/003/l0.json")["passed"] is False


async def test_the_circuit_breaker_has_a_worker_repair_what_is_rejected(tmp_path: Path) -> None:
    world = DelegationWorld(manager=in_order(plan("report.md"), COMPLETE))
    result = await run(tmp_path, world)
    assert result.status == "complete", "the worker wrote what nobody had delegated"
    (told,) = [event for event in events(result) if event["category"] == "repair"]
    assert "circuit breaker" in told["msg"]
    assert "report.md" in world.turns_of("worker")[0].text


async def test_the_same_rejection_after_a_repair_ends_it_as_partial(tmp_path: Path) -> None:
    world = DelegationWorld(
        manager=in_order(plan("report.md"), COMPLETE), worker=writer("other.md", content=REPORT)
    )
    result = await run(tmp_path, world)
    assert (result.status, result.reason) == ("partial", "completion_circuit_breaker")
    assert len(result.rejections) == 3
    assert result.deliverables == ()
    assert not (tmp_path / "run/FINAL").exists()


async def test_critical_defects_are_repaired_by_the_worker_and_no_more_often_than_allowed(
    tmp_path: Path,
) -> None:
    def worker(turn: RoleTurn) -> Response:
        return writer(content=f"{REPORT}{'mended. ' * turn.attempt}\n")(turn)

    def critic(turn: RoleTurn) -> Response:
        return flawed(0.3, "critical", f"broken {turn.attempt}") if turn.attempt < 2 else GOOD

    world = DelegationWorld(worker=worker, critic=critic)
    result = await run(tmp_path, world)
    assert result.status == "complete"
    history = read(tmp_path, "iterations/002/critique.json")["summary"]["repair_history"]
    assert [(row["attempt"], row["repaired_score"]) for row in history] == [(1, 0.3), (2, 0.9)]
    assert "broken 0" in world.turns_of("worker")[2].text
    stubborn = DelegationWorld(critic=lambda _: flawed(0.3, "critical"))
    (tmp_path / "b").mkdir()
    result = await run(tmp_path / "b", stubborn, with_loop("budget: {max_loops: 2}"))
    assert len(stubborn.turns_of("delegation_critic")) == 2, (
        "a repair that changes nothing is the last"
    )
    assert result.defects[0].severity == "critical"


async def test_a_critic_that_is_the_worker_is_told(tmp_path: Path) -> None:
    text = FLOW.replace("critic: openai:eye", "critic: openai:hand")
    result = await run(tmp_path, DelegationWorld(), text)
    assert any("grades its own work" in note for note in result.notes)
    assert "grades its own work" in (tmp_path / "run/RUN_SUMMARY.md").read_text()


async def test_a_critic_that_cannot_be_reached_lets_nothing_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_wait(**_: object) -> Waits:
        return Waits(seconds=0)

    monkeypatch.setattr("burnish.runs.run.Waits", no_wait)

    def away(turn: RoleTurn) -> Response:
        raise ModelUnavailable("503")

    result = await run(tmp_path, DelegationWorld(critic=away))
    assert (result.status, result.critique) == ("partial", None)
    assert result.loss.critique == pytest.approx(0.15), "missing is neutral, not perfect"
    assert "the last results have no critique" in result.rejections[0].reason


async def test_steer_stands_before_the_first_decision_only(tmp_path: Path) -> None:
    world = DelegationWorld()
    seed = tmp_path / "seed"
    (seed / "deep").mkdir(parents=True)
    (seed / "deep/old.md").write_text("old")
    (tmp_path / "data.csv").write_text("a,b\n1,2\n")
    await run(
        tmp_path, world, steer="## REFINE\nMend it.", seed_deliverable=seed,
        inputs=[tmp_path / "data.csv"],
    )  # fmt: skip
    first, *others = world.turns_of("manager")
    assert first.text.startswith("## REFINE\nMend it.\n\nThe task:")
    assert all("REFINE" not in turn.text for turn in others)
    assert "input/data.csv, input/deep/old.md" in first.text
    inside = tmp_path / "run/workspace/input/deep/old.md"
    assert inside.read_text() == "old"
    assert inside.stat().st_nlink == 1


async def test_prompts_are_made_of_the_policy_texts_and_a_resume_keeps_them(
    tmp_path: Path,
) -> None:
    texts = {name: f"<<{name}>> {{braces}} {{{{ inputs }}}}" for name in NAMES}
    world = DelegationWorld()
    policy = PolicyTexts.shipped().replaced(texts, dict.fromkeys(NAMES, 3))
    await run(tmp_path, world, policy=policy)
    said = {
        "manager": ("manager_planning_preamble", "pattern_library"),
        "worker": ("worker_pitfalls", "tool_description_templates"),
        "delegation_critic": ("critique_rubric",),
    }
    for role, names in said.items():
        assert all(f"<<{name}>> {{braces}}" in world.turns_of(role)[0].system for name in names)
    assert "<<experiment_context_hint_template>> {braces} none" in world.turns_of("manager")[0].text
    assert read(tmp_path, "policy.json")["versions"]["critique_rubric"] == 3
    before = len(world.turns)
    await run(tmp_path, world, policy=PolicyTexts.shipped())
    assert len(world.turns) == before


async def test_a_manager_below_a_manager_shares_workspace_and_budget(tmp_path: Path) -> None:
    def manager(turn: RoleTurn) -> Response:
        below = "The task:\n\nchief: write it" in turn.text
        if below:
            return delegation("hand") if turn.draw == 3 else COMPLETE
        if turn.draw == 1:
            return plan("report.md")
        return delegation("chief", as_submanager=True) if turn.draw == 2 else COMPLETE

    result = await run(tmp_path, DelegationWorld(manager=manager))
    assert (result.status, result.iterations) == ("complete", 5)
    (tmp_path / "flat").mkdir()
    world = DelegationWorld(manager=manager)
    flat = await run(tmp_path / "flat", world, with_loop("budget: {max_depth: 1}"))
    assert flat.status == "complete"
    assert flat.iterations == 3, "without depth, a plain worker does it"


async def test_giving_up_standing_still_and_a_manager_that_makes_no_sense(tmp_path: Path) -> None:
    cases: list[tuple[DelegationWorld, str, str]] = [
        (
            DelegationWorld(manager=lambda _: {"decision": "fail", "reason": "no data"}),
            "failed",
            "fail",
        ),
        (
            DelegationWorld(manager=lambda _: {"decision": "diagnose", "hypotheses": ["odd"]}),
            "partial",
            "stall",
        ),
        (DelegationWorld(manager=lambda _: "no JSON"), "failed", "manager_failed"),
    ]
    for number, (world, status, reason) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        result = await run(folder, world)
        assert (result.status, result.reason.split(":")[0]) == (status, reason)
        assert result.deliverables == ()


async def test_low_metrics_reject_and_very_low_ones_fail(tmp_path: Path) -> None:
    text = FLOW + METRICS.replace("weight: 1, params", "weight: 0.1, params")
    low = await run(tmp_path, DelegationWorld(judge=lambda _: {"score": 0.5}), text)
    assert (low.status, low.rejections[0].gate) == ("partial", "eval")
    assert "taste 0.50 of 0.8" in low.rejections[0].reason
    (tmp_path / "b").mkdir()
    bad = await run(tmp_path / "b", DelegationWorld(judge=lambda _: {"score": 0.1}), text)
    assert (bad.status, bad.reason) == ("failed", "eval_fail")


@pytest.mark.parametrize("said", ['{"score": NaN}', '{"score": Infinity}', '{"score": 7}'])
async def test_a_judge_that_says_nan_is_missing_and_never_perfect(
    tmp_path: Path, said: str
) -> None:
    result = await run(tmp_path, DelegationWorld(judge=lambda _: said), FLOW + METRICS)
    assert result.evaluation is not None
    assert result.evaluation.missing == ("taste",)
    assert result.evaluation.action == "cannot_tell"
    assert result.status == "partial"
    json.loads((tmp_path / "run/run_completion.json").read_text(), parse_constant=pytest.fail)


async def test_no_secret_reaches_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = "canary-token-0123456789abcdef"
    monkeypatch.setenv("SOME_API_KEY", canary)
    world = DelegationWorld(worker=writer(content=f"{REPORT}\n{canary}\n"))
    await run(tmp_path, world, task=f"{TASK} {canary}")
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file():
            assert canary.encode() not in path.read_bytes(), path


async def test_interrupted_and_resumed(tmp_path: Path) -> None:
    world = DelegationWorld()
    with pytest.raises(Interrupted, match="enough"):
        await run(tmp_path, world, stop=lambda: "enough" if world.turns_of("worker") else "")
    assert read(tmp_path, "run_completion.json")["status"] == "aborted"
    before = len(world.turns)
    (tmp_path / "run/delegate.stop").touch()
    with pytest.raises(Interrupted, match=r"delegate\.stop"):
        await run(tmp_path, world)
    result = await run(tmp_path, world)
    assert result.status == "complete"
    assert len(world.turns) == before + 1
    assert result.billed == result.spent


async def test_another_task_or_workflow_is_not_resumed(tmp_path: Path) -> None:
    await run(tmp_path, DelegationWorld())
    with pytest.raises(ResumeRefused, match="another task"):
        await run(tmp_path, DelegationWorld(), task="Another task entirely.")
    with pytest.raises(ResumeRefused, match="another envelope"):
        await run(tmp_path, DelegationWorld(), with_loop("budget: {max_loops: 7}"))
    with pytest.raises(ConfigError, match="the task is empty"):
        await run(tmp_path, DelegationWorld(), task=" ")


async def test_what_cannot_be_started_from_is_refused_before_anything_is_paid(
    tmp_path: Path,
) -> None:
    world = DelegationWorld()
    with pytest.raises(ConfigError, match="no such file"):
        await run(tmp_path, world, inputs=[tmp_path / "gone.csv"])
    assert not (tmp_path / "run").exists()
    (tmp_path / "run").mkdir()
    (tmp_path / "run/mine.txt").write_text("mine")
    with pytest.raises(FileTrouble, match="exists already"):
        await run(tmp_path, world)
    assert world.turns == []


async def test_odd_file_names_are_delivered_as_they_are(tmp_path: Path) -> None:
    names = ["naïve – report.md", "sp ace's.md", "日本.md"]

    def worker(turn: RoleTurn) -> Response:
        done = len(turn.answers)
        if done < len(names):
            return use("file_write", path=names[done], content=REPORT)
        if done == len(names):
            return use("run_command", command=r"printf x > $(printf 'bad\377name')")
        return {"summary": "wrote them"}

    world = DelegationWorld(
        manager=in_order(plan(*names), delegation("writer"), COMPLETE), worker=worker
    )
    result = await run(tmp_path, world)
    assert result.status == "complete", result.rejections
    assert sorted(p.name for p in result.deliverables) == sorted(names)
    assert all(path.read_text() == REPORT for path in result.deliverables)
    odd = [p for p in (tmp_path / f"run/output/{result.run_id}").iterdir() if "bad" in p.name]
    assert len(odd) == 1
