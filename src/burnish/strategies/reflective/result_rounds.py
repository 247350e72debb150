"""A run as AgentOptimizer tells it: rounds, who spent what, how it ended, the best outputs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from burnish.core.cases import Outcome
from burnish.core.content import Json, codec
from burnish.core.evaluations import mean
from burnish.core.money import NOTHING, Spend, total
from burnish.core.trials import FINISHED, SplitResult, Trial, TrialRow
from burnish.journal.journal import CostRow, JournalReader
from burnish.runs.directory import RunRecord
from burnish.runs.progress import ended_words
from burnish.strategies.reflective.attempts import ENDS, REFLECTIVE, ReflectiveDetails
from burnish.strategies.reflective.results import (
    CallUsage,
    FinishReason,
    PartOfValidation,
    ReflectionRecord,
    RoundRecord,
    Status,
)


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What was paid, by who spent it; each call once."""

    agent: Spend = NOTHING
    judges: Spend = NOTHING
    reflection: Spend = NOTHING
    by_row: Mapping[int, Spend] = field(default_factory=dict[int, Spend])
    """By trial, the cost of reflecting for it."""

    @classmethod
    def of(cls, effects: Iterable[CostRow], rows: Sequence[TrialRow]) -> "Costs":
        kinds = {"run": "agent", "score": "judges"}
        by_kind: dict[str, list[Spend]] = {"agent": [], "judges": [], "reflection": []}
        by_row: dict[int, Spend] = {}
        counted: set[str] = set()
        whose = _reflection_rows(rows)
        together = {first for first, _ in whose}
        for effect in effects:
            # A model call counts with whoever made it.
            kind = "reflection" if effect.kind.startswith("role:") else kinds.get(effect.kind)
            if kind is None:
                continue
            new = {key: spend for key, spend in effect.spends.items() if key not in counted}
            counted |= set(new)
            spend = total(new.values())
            by_kind[kind].append(spend)
            if kind == "reflection":
                row = whose.get((effect.trial, effect.draw - effect.trial))
                if row is None and effect.trial in together:
                    continue  # It was for an attempt of the round that is not recorded yet.
                row = effect.trial if row is None else row
                by_row[row] = by_row.get(row, NOTHING) + spend
        sums = {kind: total(spends) for kind, spends in by_kind.items()}
        return cls(**sums, by_row=by_row)

    @property
    def in_all(self) -> Spend:
        return self.agent + self.judges + self.reflection


def _reflection_rows(rows: Sequence[TrialRow]) -> dict[tuple[int, int], int]:
    """By the trial in which a round began and the place among its requests, the row it is for.

    The attempts of a round are made together, before the first of them is recorded.
    """
    owners: dict[tuple[int, int], int] = {}
    first, place, cycle = -1, 0, -1
    for row in rows:
        if row.trial.phase != REFLECTIVE:
            cycle = -1
            continue
        if row.trial.cycle != cycle:
            first, place, cycle = row.number, 0, row.trial.cycle
        for _ in row.trial.proposals:
            owners[first, place] = row.number
            place += 1
    return owners


def usage(spend: Spend) -> CallUsage:
    """An amount in the words of the result."""
    return CallUsage(
        calls=spend.calls,
        prompt=spend.tokens_in,
        completion=spend.tokens_out,
        total=spend.tokens,
        cost=spend.usd,
    )


def tokens(spend: Spend) -> dict[str, int]:
    """Tokens as AgentOptimizer keeps them."""
    return {"prompt": spend.tokens_in, "completion": spend.tokens_out, "total": spend.tokens}


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What was spent by the time a trial was recorded."""

    reflection: Spend = NOTHING
    metric_calls: int | None = None
    """Up to here, all trials together."""
    limit: int | None = None


def round_of(row: TrialRow, spent: Spent) -> RoundRecord:
    """What a trial tells, and what it cost."""
    trial, details = row.trial, ReflectiveDetails.of(row.trial)
    held = trial.holdout
    whole = held if details.holdout_is_whole else None
    return RoundRecord(
        round=row.number,
        kind=trial.phase,
        started_at=_started(row),
        duration_seconds=round(row.seconds, 3),
        optimized_field_names=list(trial.touched),
        candidate_prompts=prompts_of(trial) if has_proposal(trial) else {},
        accepted=trial.accepted,
        acceptance_reason=_reason(trial),
        per_field_diagnosis={**details.diagnosis},
        validation_pass_rate=None if whole is None else whole.measurement.pass_rate,
        validation_mean_score=None if whole is None else whole.measurement.score,
        metric_breakdown={} if whole is None else dict(whole.measurement.components),
        partial_validation=None if held is None or whole is not None else _part(held),
        failed_case_ids=[] if held is None else list(held.failed_cases),
        failed_cases_truncated=details.failed_cases_left_out,
        train_minibatch_size=len(details.minibatch),
        train_pass_rate=None if trial.train is None else trial.train.measurement.pass_rate,
        train_subsample_parent_score=details.parent_score,
        train_subsample_candidate_score=details.candidate_score,
        skip_reason=_skipped(trial),
        error_message="; ".join(each.error for each in trial.proposals if each.error) or None,
        reflections=[
            ReflectionRecord(
                role=each.role, request=each.request, answer=each.answer, error=each.error
            )
            for each in trial.proposals
        ],
        reflection_lm_calls=spent.reflection.calls,
        round_token_usage=tokens(spent.reflection),
        reflection_cost=spent.reflection.usd,
        round_llm_cost=row.spend.usd,
        budget_used=spent.metric_calls,
        budget_total=spent.limit,
        extras=_extras(row),
    )


def prompts_of(trial: Trial) -> dict[str, str]:
    """The candidate's texts."""
    return {name: str(value) for name, value in trial.candidate.values.items()}


def has_proposal(trial: Trial) -> bool:
    """Whether the candidate is something that was proposed, and not the parent that it lacked."""
    if ReflectiveDetails.of(trial).skipped:
        return False
    return not trial.proposals or any(each.answer is not None for each in trial.proposals)


def _started(row: TrialRow) -> str:
    if not row.at:
        return ""
    began = datetime.fromisoformat(row.at) - timedelta(seconds=row.seconds)
    return began.isoformat(timespec="milliseconds")


def _reason(trial: Trial) -> str:
    if trial.problems:
        what = "skipped" if _skipped(trial) else "rejected before any call"
        return f"{what}: {'; '.join(map(str, trial.problems))}"
    return "" if trial.decision is None else trial.decision.reason


def _skipped(trial: Trial) -> str | None:
    reason = ReflectiveDetails.of(trial).skipped
    if isinstance(reason, str) and reason:
        return reason
    return None if has_proposal(trial) else "no proposal"


def _part(held: SplitResult) -> PartOfValidation:
    measured = held.measurement
    return PartOfValidation(
        cases=measured.cases,
        pass_rate=measured.pass_rate,
        mean_score=measured.score,
        metric_breakdown=dict(measured.components),
    )


def _extras(row: TrialRow) -> dict[str, Json]:
    """What burnish knows beyond the words of AgentOptimizer."""
    trial, decision, details = row.trial, row.trial.decision, ReflectiveDetails.of(row.trial)
    extras: dict[str, Json] = {
        "candidate_id": trial.candidate.id,
        "parent_ids": [*details.parents],
        "generation": trial.cycle,
        "kept": trial.kept,
        "minibatch_case_ids": [*details.minibatch],
        "metric_calls": row.spend.metric_calls,
    }
    if decision is not None:
        facts: dict[str, Json] = {"gate": decision.gate, "code": decision.code}
        extras["decision"] = {**facts, "numbers": dict(decision.numbers)}
    if trial.holdout is not None and trial.holdout.measurement.missing_cases:
        extras["missing_case_ids"] = [*trial.holdout.measurement.missing_cases]
    return extras


UNLABELLED = "unlabelled stop callback"
"""The prefix of the code of a stopper without a label."""
_STOP_REASONS = {
    "required_metrics": "required_metrics_passing",
    "max_metric_calls": "budget_exhausted",
    "max_calls": "budget_exhausted",
    "max_tokens": "budget_exhausted",
    "max_usd": "budget_exhausted",
    "max_trials": "budget_exhausted",
    "max_minutes": "timeout",
    "patience": "no_improvement",
    "score_threshold": "score_threshold",
    "pass_rate_threshold": "score_threshold",
    "max_proposals": "max_candidate_proposals",
    "max_tracked_candidates": "max_tracked_candidates",
    "stop_file": "user_requested_stop",
    "signal": "user_requested_stop",
    FINISHED.code: "completed",
}
"""What burnish calls it, and what AgentOptimizer does; other codes are labels, and stay."""


@dataclass(frozen=True, kw_only=True)
class _Fate:
    """How a run ended."""

    status: Status
    stop_reason: str | None = None
    error_message: str = ""

    def finish_reason(self, *, perfect: bool, improved: bool) -> FinishReason:
        if self.status != "SUCCEEDED":
            return "error"
        if perfect:
            return "perfect_pass_rate"
        return "completed" if improved else "no_improvement"


def stop_reason(code: str) -> str:
    """AgentOptimizer's name of a reason to stop."""
    return "completed" if code.startswith(UNLABELLED) else _STOP_REASONS.get(code, code)


def fate_of(run: RunRecord) -> _Fate:
    """How a run ended."""
    ending = run.ending
    if ending is None:
        return _Fate(
            status="CANCELED", error_message="the run was killed; start it again to resume it"
        )
    reason = ending.reason
    why = stop_reason(ending.code) if ending.code else None
    if run.status == "interrupted":
        why = _STOP_REASONS["signal"]
        return _Fate(status="CANCELED", stop_reason=why, error_message=reason)
    if run.status == "failed":
        return _Fate(status="FAILED", error_message=reason)
    end = run.search_end
    if end == "baseline_missing":
        return _Fate(status="FAILED", error_message=ended_words(end, ENDS))
    late = ended_words(end, ENDS) if end == "reflector_failed" else ""
    return _Fate(status="SUCCEEDED", stop_reason=why, error_message=late)


def best_outputs(rows: Sequence[TrialRow], journal: JournalReader) -> dict[str, Json]:
    """By case, the best score, the round that reached it first, and what was said."""
    best: dict[str, tuple[float, TrialRow]] = {}
    for row in rows:
        if row.trial.holdout is None:
            continue
        for case, by_metric in row.trial.holdout.scores.items():
            score = _score(by_metric)
            if score is not None and (case not in best or score > best[case][0]):
                best[case] = (score, row)
    places = {(row.trial.candidate.id, case) for case, (_, row) in best.items()}
    outputs = _outputs(journal, places)
    return {
        case: {"score": score, "round": row.number, "output": outputs[row.trial.candidate.id, case]}
        for case, (score, row) in best.items()
        if (row.trial.candidate.id, case) in outputs
    }


def _score(by_metric: Mapping[str, Sequence[float | None]]) -> float | None:
    """The mean over metrics and repeats; None where any is missing."""
    values = [value for each in by_metric.values() for value in each]
    numbers = [value for value in values if value is not None]
    return mean(numbers) if numbers and len(numbers) == len(values) else None


def _outputs(journal: JournalReader, places: set[tuple[str, str]]) -> dict[tuple[str, str], str]:
    outputs: dict[tuple[str, str], str] = {}
    for effect in journal.effects():
        if effect.kind != "run" or not isinstance(effect.request, dict):
            continue
        place = (str(effect.request.get("candidate")), str(effect.request.get("name")))
        if place in places and place not in outputs and (entry := journal.find(effect.key)):
            outputs[place] = codec(Outcome).decode(json.loads(entry[0])).output
    return outputs
