"""OptimizeResult and RoundRecord: what a ledger becomes in the words of AgentOptimizer."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.content import Json
from burnish.core.errors import FileTrouble, Problem
from burnish.core.evaluations import Measurement
from burnish.core.money import Spend
from burnish.core.trials import Decision, Proposal, SplitResult, Trial, TrialRow, Verdict
from burnish.journal.journal import CostRow
from burnish.runs.directory import Project
from burnish.strategies.reflective.result_files import RunFacts, result_of
from burnish.strategies.reflective.result_rounds import (
    UNLABELLED,
    Costs,
    Spent,
    round_of,
    stop_reason,
)
from burnish.strategies.reflective.results import OptimizeResult, RoundRecord, log_line
from tests.reports.records import START, event, record

CONFIG: dict[str, Json] = {
    "optimizer": {
        "evaluate": {
            "metrics": [{"metricName": "good", "threshold": 0.5}, {"metric_name": "kind"}]
        },
        "optimize": {"algorithm": {"name": "gepa_reflective"}},
    }
}


def held(
    rate: float, *, cases: int = 4, missing: tuple[str, ...] = (), **means: float
) -> SplitResult:
    measurement = Measurement(
        loss=1 - rate, pass_rate=rate, components=means, missing_cases=missing, cases=cases
    )
    return SplitResult(measurement=measurement, scores={}, failed_cases=("v3",) if rate < 1 else ())


def row(number: int, **trial: Any) -> TrialRow:
    given: dict[str, Any] = {
        "candidate": START.child({"text": f"Try {number}."}, origin=START.origin),
        "phase": "reflective",
        "cycle": number,
        "touched": ("text",),
    }
    return TrialRow(
        number=number,
        trial=Trial(**(given | trial)),
        spend=Spend(metric_calls=5, calls=6),
        at="2026-01-01T00:01:00.000+00:00",
        seconds=30.0,
    )


def first(rate: float = 0.25, **more: Any) -> TrialRow:
    return row(
        0, candidate=START, phase="baseline", cycle=0, touched=(), holdout=held(rate), **more
    )


def decided(verdict: Verdict, reason: str = "because") -> Decision:
    return Decision(gate="min_gain", verdict=verdict, code="better", reason=reason)


def known(*rows: TrialRow, **changes: Any) -> RunFacts:
    end = changes.pop("end", event("run_finished", code="patience", reason="3 of 3"))
    told = (*changes.pop("events", ()), end)
    made = record(*rows, events=told, header={"project": Project(config=CONFIG)})
    return RunFacts(run=made, costs=Costs(), **changes)


BROKEN, UNCHANGED = Problem(message="HTTP 500"), Problem(message="unchanged")
ACCEPTED = {"holdout": held(0.75, good=0.8), "decision": decided(Verdict.ACCEPT)}
REJECTED = {"holdout": held(0.0, good=0.9), "decision": decided(Verdict.KEEP)}


def test_a_run_that_found_something() -> None:
    result = result_of(known(first(), row(1, **REJECTED), row(2, **ACCEPTED)))
    assert (result.status, result.finish_reason) == ("SUCCEEDED", "completed")
    assert (result.stop_reason, result.algorithm) == ("no_improvement", "gepa_reflective")
    assert (result.baseline_pass_rate, result.best_pass_rate) == (0.25, 0.75)
    assert (result.pass_rate_improvement, result.best_mean_score) == (0.5, 0.75)
    assert result.best_prompts == {"text": "Try 2."}
    assert (result.total_rounds, result.rounds_accepted, result.proposals_total) == (2, 1, 0)
    assert result.metric_thresholds == {"good": 0.5, "kind": 1.0}
    assert result.per_metric_best_candidates == {"good": [1]}
    assert [each.budget_used for each in result.rounds] == [10, 15]


def test_a_run_that_found_nothing_has_the_baseline() -> None:
    result = result_of(known(first(), row(1, **REJECTED)))
    assert (result.finish_reason, result.best_prompts) == ("no_improvement", {"text": "Hello."})
    assert result.pass_rate_improvement == 0.0


def test_a_perfect_run_says_so_unless_a_case_is_missing() -> None:
    assert result_of(known(first(1.0))).finish_reason == "perfect_pass_rate"
    lacking = row(0, candidate=START, phase="baseline", holdout=held(1.0, missing=("v1",)))
    result = result_of(known(lacking))
    assert (result.finish_reason, result.missing_cases) == ("no_improvement", 1)


@pytest.mark.parametrize(
    ("end", "status", "reason"),
    [
        (event("run_failed", reason="the disk is full"), "FAILED", None),
        (event("run_interrupted", code="signal", reason="x"), "CANCELED", "user_requested_stop"),
        (event("run_interrupted", reason="it was cancelled"), "CANCELED", "user_requested_stop"),
    ],
)
def test_a_run_that_was_cut_short_keeps_its_rounds(
    end: Any, status: str, reason: str | None
) -> None:
    result = result_of(known(first(), row(1, **ACCEPTED), end=end))
    assert (result.status, result.stop_reason, result.finish_reason) == (status, reason, "error")
    assert result.error_message == end.data["reason"]
    assert result.total_rounds == 1
    best = {"text": "Hello."} if status == "FAILED" else {"text": "Try 1."}
    assert result.best_prompts == best
    assert result.best_pass_rate == (0.25 if status == "FAILED" else 0.75)


def test_a_run_that_failed_before_its_baseline_claims_no_number() -> None:
    failed = event("run_failed", reason="no agent")
    result = result_of(known(end=failed, prompts={"text": "Hello."}))
    assert (result.baseline_pass_rate, result.best_pass_rate) == (None, None)
    assert result.baseline_prompts == result.best_prompts == {"text": "Hello."}
    assert "baseline=unknown best=unknown delta=unknown rounds=0" in log_line(result)
    assert "error='no agent'" in log_line(result)


def test_a_baseline_that_nobody_could_measure_is_a_failure() -> None:
    told = event("search_ended", reason="baseline_missing")
    end = event("run_finished", code="finished", reason="x")
    result = result_of(known(first(), events=(told,), end=end))
    assert (result.status, result.finish_reason) == ("FAILED", "error")
    assert "could not be measured" in result.error_message


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("required_metrics", "required_metrics_passing"),
        ("max_metric_calls", "budget_exhausted"),
        ("max_minutes", "timeout"),
        ("patience", "no_improvement"),
        ("pass_rate_threshold", "score_threshold"),
        ("max_proposals", "max_candidate_proposals"),
        ("stop_file", "user_requested_stop"),
        ("finished", "completed"),
        ("slo_breach", "slo_breach"),
        (f"{UNLABELLED} 1", "completed"),
    ],
)
def test_reasons_to_stop_have_the_names_of_the_seed(code: str, name: str) -> None:
    assert stop_reason(code) == name


def test_a_round_tells_what_was_proposed_and_what_became_of_it() -> None:
    asked = Proposal(
        role="reflector", request={"messages": ["why?"]}, answer={"new_text": "Try 1."}
    )
    details: dict[str, Json] = {
        "parents": ["p"], "minibatch": ["t1", "t2"], "parent_score": 0.5, "candidate_score": 0.25,
        "diagnosis": {"text": "too short"}, "failed_cases_left_out": 3, "whole_holdout": False,
    }  # fmt: skip
    trial = row(
        1, proposals=(asked,), details=details, holdout=held(0.5, cases=2, good=0.4),
        decision=decided(Verdict.REJECT, "lost the race"),
    )  # fmt: skip
    spent = Spend(calls=2, tokens_in=30, tokens_out=4, nano_usd=5_000_000)
    told = round_of(trial, Spent(reflection=spent, metric_calls=9, limit=20))
    assert told.candidate_prompts == {"text": "Try 1."}
    assert (told.accepted, told.acceptance_reason) == (False, "lost the race")
    assert (told.validation_pass_rate, told.metric_breakdown) == (None, {})
    assert told.partial_validation is not None
    assert (told.partial_validation.cases, told.partial_validation.pass_rate) == (2, 0.5)
    assert told.failed_case_ids == ["v3"]
    assert (told.failed_cases_truncated, told.train_minibatch_size) == (3, 2)
    assert (told.train_subsample_parent_score, told.train_subsample_candidate_score) == (0.5, 0.25)
    assert told.per_field_diagnosis == {"text": "too short"}
    assert told.reflections[0].request == {"messages": ["why?"]}
    assert (told.reflection_lm_calls, told.reflection_cost) == (2, 0.005)
    assert told.round_token_usage == {"prompt": 30, "completion": 4, "total": 34}
    assert (told.budget_used, told.budget_total) == (9, 20)
    assert told.started_at == "2026-01-01T00:00:30.000+00:00"


@pytest.mark.parametrize(
    ("trial", "skipped", "error", "reason"),
    [
        (
            {"details": {"skipped": "subsample perfect"}, "problems": [Problem(message="p")]},
            "subsample perfect", None, "skipped: p",
        ),
        (
            {"proposals": (Proposal(role="r", error="HTTP 500"),), "problems": [BROKEN]},
            "no proposal", "HTTP 500", "skipped: HTTP 500",
        ),
        (
            {"proposals": (Proposal(role="r", answer={}),), "problems": [UNCHANGED]},
            None, None, "rejected before any call: unchanged",
        ),
    ],
)  # fmt: skip
def test_a_round_without_a_candidate_to_run(
    trial: dict[str, Any], skipped: str | None, error: str | None, reason: str
) -> None:
    trial["problems"] = tuple(trial["problems"])
    told = round_of(row(1, **trial), Spent())
    assert (told.skip_reason, told.error_message, told.acceptance_reason) == (
        skipped,
        error,
        reason,
    )
    assert bool(told.candidate_prompts) is (skipped is None)


def cost(kind: str, key: str, trial: int, draw: int, **nested: Spend) -> CostRow:
    return CostRow(kind=kind, trial=trial, draw=draw, spends={key: Spend(calls=1)} | nested)


def test_costs_are_told_apart_and_each_call_is_counted_once() -> None:
    two = (Proposal(role="reflector"), Proposal(role="reflector"))
    rows = [first(), row(1, cycle=1, proposals=two), row(2, cycle=1, proposals=two[:1])]
    model = Spend(calls=1, tokens_in=10, unpriced=1)
    costs = Costs.of(
        [
            cost("run", "a", 0, 0),
            cost("score", "b", 0, 0, m1=model),
            cost("score", "c", 0, 0, m1=model),
            cost("model", "m1", 0, 0),
            cost("check", "d", 1, 0),
            cost("role:reflector", "e", 1, 1),
            cost("role:reflector", "f", 1, 2),
            cost("role:reflector", "g", 1, 3),
        ],
        rows,
    )
    assert costs.agent == Spend(calls=1)
    assert costs.judges == Spend(calls=3, tokens_in=10, unpriced=1)
    assert costs.by_row == {1: Spend(calls=2), 2: Spend(calls=1)}
    assert costs.in_all.usd is None


def test_files_are_camel_case_and_both_spellings_are_read(tmp_path: Path) -> None:
    result = result_of(known(first(), row(1, **ACCEPTED)))
    path = tmp_path / "result.json"
    result.dump_to(path)
    told = json.loads(path.read_text())
    assert {"bestPassRate", "totalMetricCalls", "roundsAccepted", "perMetricBestCandidates"} <= set(
        told
    )
    assert told["rounds"][0]["candidatePrompts"] == {"text": "Try 1."}
    assert OptimizeResult.from_file(path) == result
    path.write_text(json.dumps(result.model_dump(mode="json")))
    assert OptimizeResult.from_file(str(path)) == result
    assert (
        RoundRecord.model_validate({"round": 1, "trainMinibatchSize": 2}).train_minibatch_size == 2
    )


@pytest.mark.parametrize("content", ["{", "[]", '{"algorithm": "a", "status": "DONE"}'])
def test_what_is_no_result_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(content)
    with pytest.raises(FileTrouble, match="not the result of an optimisation"):
        OptimizeResult.from_file(path)


def test_the_summary_has_what_matters_first() -> None:
    result = result_of(known(first(), row(1, **ACCEPTED)))
    lines = result.format_summary(output_dir="runs/x", update_source=True).splitlines()
    assert lines[0] == "Optimization complete | status=SUCCEEDED | algorithm=gepa_reflective"
    assert "  pass_rate     : 0.2500 -> 0.7500 (+0.5000, improved)" in lines
    assert any(line.startswith("  claim         : selected on holdout: score") for line in lines)
    assert "  rounds        : 1 accepted / 1 total" in lines
    assert "  stop_reason   : no_improvement" in lines
    assert "  update_source : requested, but not done" in lines
    assert "  good: unknown -> 0.8000  (threshold 0.5)" in lines
    assert "  text: 6 characters (was 6)" in lines
    assert "files in runs/x" in lines


def test_a_text_that_a_secret_was_taken_out_of_is_named() -> None:
    spoiled = replace(START, values={"text": "Use [redacted]."})
    result = result_of(known(row(0, candidate=spoiled, phase="baseline", holdout=held(0.5))))
    assert result.extras["redacted_fields"] == ["text"]
