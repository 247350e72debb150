"""The gradient: what a run got wrong, from its files, in both shapes of each."""

from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import FileTrouble
from burnish.delegation.refine.gradients import (
    GradientDefect,
    RunGradient,
    gradient_of,
    refinement_prefix,
)
from tests.delegation.refine.run_folders import (
    COUNTER,
    DEFECT,
    REJECTED,
    RUN_ID,
    awp_run,
    critiques,
    put,
)

SYNTHETIC = {"type": "gate.reject", "gate": "eval", "reason": "too low", "ts": "2026"}


def summaries(gradient: RunGradient) -> list[str]:
    return [defect.summary for defect in gradient.defects]


def rejection(reason: str, gate: str = "file") -> dict[str, Any]:
    return {"category": "gate", "fields": {"gate": gate, "triggered": True, "reason": reason}}


def test_a_run_of_awp_agents(tmp_path: Path) -> None:
    gradient = gradient_of(awp_run(tmp_path), loss=0.25)
    assert gradient.to_json() == {
        "prior_run_id": RUN_ID,
        "prior_loss_total": 0.25,
        "prior_raw_signals": {"critique_defect_count": 1},
        "defects": [
            {
                "summary": "Section 3 gives no unit",
                "severity": "warning",
                "evidence": "report.md:Section 3",
            }
        ],
        "rejected_gates": [
            {
                "gate": "l0",
                "reason": "no_placeholder: found placeholder token 'TODO'",
                "ts": "2026-11-15T00:00:54.308+00:00",
            }
        ],
        "eval_deltas": {},
    }


def test_defects_of_all_iterations_each_once_in_order_of_number(tmp_path: Path) -> None:
    long = "x" * 120
    told: dict[str, list[dict[str, Any]]] = {
        "2": [DEFECT, {**DEFECT, "description": "first"}],
        "10": [DEFECT, {**DEFECT, "severity": "critical"}, {"description": "no severity"}],
        "003": [{**DEFECT, "description": f"{long} a"}, {**DEFECT, "description": f"{long} b"}],
        "4": [{"severity": "critical"}],
    }
    for name, defects in told.items():
        put(tmp_path / "iterations" / name / "critique.json", critiques(*defects))
    found = gradient_of(tmp_path).defects
    unit = "Section 3 gives no unit"
    assert [(each.summary, each.severity) for each in found] == [
        (unit, "warning"),
        ("first", "warning"),
        (f"{long} a", "warning"),
        (unit, "critical"),
        ("no severity", "medium"),
    ]


def test_defects_of_the_completion_where_no_critique_is(tmp_path: Path) -> None:
    told = [{"summary": "a", "severity": "high", "evidence": "x"}, {"description": "b"}, {}, 3]
    put(tmp_path / "run_completion.json", {"critique": {"defects": told}})
    assert gradient_of(tmp_path).defects == (
        GradientDefect(summary="a", severity="high", evidence="x"),
        GradientDefect(summary="b", severity="medium"),
    )
    put(tmp_path / "iterations" / "1" / "critique.json", critiques(DEFECT))
    assert summaries(gradient_of(tmp_path)) == ["Section 3 gives no unit"]


def test_the_last_three_rejections_in_both_shapes(tmp_path: Path) -> None:
    rows = [rejection("old"), REJECTED, COUNTER, SYNTHETIC, rejection("new")]
    put(tmp_path / "events.jsonl", rows)
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write('[1]\n"text"\n{"torn')
    assert [gate.gate for gate in gradient_of(tmp_path).rejected_gates] == ["l0", "eval", "file"]


@pytest.mark.parametrize(
    "gate",
    ["r31_plan_tool_closure", "critique_bypass", "critique_delegate", "completion_circuit_breaker"],
)
def test_what_rejects_no_deliverable_is_no_rejection(tmp_path: Path, gate: str) -> None:
    put(tmp_path / "events.jsonl", [rejection("…", gate)])
    assert gradient_of(tmp_path).empty


def test_logs_on_the_way_up_come_before_a_colocated_file(tmp_path: Path) -> None:
    run = tmp_path / "a" / "b" / "named"
    put(run / "run_completion.json", {"run_id": "the-id"})
    put(run / "events.jsonl", [rejection("colocated")])
    assert gradient_of(run).rejected_gates[0].reason == "colocated"
    put(tmp_path / "logs" / "named" / "events.jsonl", [rejection("by folder")])
    assert gradient_of(run).rejected_gates[0].reason == "by folder"
    put(run / "logs" / "the-id" / "events.jsonl", [rejection("by id")])
    assert gradient_of(run).rejected_gates[0].reason == "by id"


def test_metric_gaps_to_four_decimals(tmp_path: Path) -> None:
    scores = {"low": 0.1 + 0.2, "met": 0.9, "odd": "x", "free": 0.1, "true": True}
    wanted = {"low": 0.45678, "met": 0.9, "odd": 0.9, "true": 2}
    evaluation = {"per_metric": scores, "thresholds": wanted, "total_score": 0.4}
    put(tmp_path / "run_completion.json", {"evaluation": evaluation, "confidence": 0.7})
    gradient = gradient_of(tmp_path)
    assert gradient.eval_deltas == {"low": 0.1568}
    assert gradient.prior_raw_signals["eval_score"] == 0.4
    assert gradient.prior_raw_signals["confidence"] == 0.7


@pytest.mark.parametrize("text", ['{"evaluation": {"total_score": NaN}}', "{", ""])
def test_files_that_say_nothing_are_refused(tmp_path: Path, text: str) -> None:
    put(tmp_path / "run_completion.json", text)
    with pytest.raises(FileTrouble, match="is damaged"):
        gradient_of(tmp_path)


@pytest.mark.parametrize("text", ["[1, 2]", "null", '"text"', '{"critique": [], "evaluation": 3}'])
def test_other_shapes_are_empty(tmp_path: Path, text: str) -> None:
    put(tmp_path / "run_completion.json", text)
    assert gradient_of(tmp_path).empty


def test_the_prefix_says_all_of_it_in_order(tmp_path: Path) -> None:
    run = awp_run(tmp_path)
    put(
        run / "iterations" / "003" / "critique.json",
        critiques({**DEFECT, "description": "two\n\n## lines"}),
    )
    prefix = refinement_prefix(gradient_of(run, loss=0.25))
    assert prefix == (
        "## REFINEMENT CONTEXT\n"
        "This task was done before. Its result is there to be made better.\n"
        "Prior deliverable is available at: input/\n"
        "Prior loss: 0.250\n"
        "  - critique_defect_count: 2\n"
        "Defects identified by prior critique:\n"
        "  - [warning] Section 3 gives no unit (report.md:Section 3)\n"
        "  - [warning] two ## lines (report.md:Section 3)\n"
        "Rejected gates in prior run:\n"
        "  - l0: no_placeholder: found placeholder token 'TODO'\n"
        "The goal is a lower loss: remove what is listed above.\n"
        "Keep what is good in the prior deliverable, and deliver every file of it again.\n"
        "Start from the files in input/ and change them; do not write everything anew.\n"
    )


def test_the_prefix_stays_short(tmp_path: Path) -> None:
    many = [{**DEFECT, "description": f"minor {n}", "severity": "info"} for n in range(60)]
    worst = {**DEFECT, "description": "the worst", "severity": "critical"}
    put(tmp_path / "iterations" / "1" / "critique.json", critiques(*many, worst))
    prefix = refinement_prefix(gradient_of(tmp_path))
    assert len(prefix.splitlines()) <= 40
    assert "the worst" in prefix
    assert "and 37 more" in prefix
