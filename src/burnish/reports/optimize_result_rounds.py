"""A trial of the ledger as a round of seed 001."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from burnish.core.content import Json
from burnish.core.money import NOTHING, Spend
from burnish.core.trials import Proposal, SplitResult, Trial, TrialRow
from burnish.reports.optimize_result import PartOfValidation, ReflectionRecord, RoundRecord
from burnish.reports.optimize_result_costs import tokens

NO_PROPOSAL = "no proposal"


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What was spent by the time a trial was recorded."""

    reflection: Spend = NOTHING
    """On reflecting for this trial."""
    metric_calls: int | None = None
    """Up to here, all trials together."""
    limit: int | None = None
    """Of metric calls."""


def round_of(row: TrialRow, spent: Spent) -> RoundRecord:
    """What a trial tells, and what it cost."""
    trial, details = row.trial, row.trial.details
    held = trial.holdout
    whole = held if details.get("whole_holdout", True) else None
    return RoundRecord(
        round=row.number,
        kind=trial.phase,
        started_at=started(row.at, row.seconds),
        duration_seconds=round(row.seconds, 3),
        optimized_field_names=list(trial.touched),
        candidate_prompts=prompts_of(trial) if has_proposal(trial) else {},
        accepted=trial.accepted,
        acceptance_reason=_reason(trial),
        per_field_diagnosis=_texts(details.get("diagnosis")),
        validation_pass_rate=None if whole is None else whole.measurement.pass_rate,
        validation_mean_score=None if whole is None else whole.measurement.score,
        metric_breakdown={} if whole is None else dict(whole.measurement.components),
        partial_validation=None if held is None or whole is not None else _part(held),
        failed_case_ids=[] if held is None else list(held.failed_cases),
        failed_cases_truncated=_count(details.get("failed_cases_left_out")),
        train_minibatch_size=_length(details.get("minibatch")),
        train_pass_rate=None if trial.train is None else trial.train.measurement.pass_rate,
        train_subsample_parent_score=_number(details.get("parent_score")),
        train_subsample_candidate_score=_number(details.get("candidate_score")),
        skip_reason=_skipped(trial),
        error_message="; ".join(each.error for each in trial.proposals if each.error) or None,
        reflections=[_reflection(each) for each in trial.proposals],
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
    values = trial.candidate.values
    return {name: value if isinstance(value, str) else str(value) for name, value in values.items()}


def has_proposal(trial: Trial) -> bool:
    """Whether the candidate is something that was proposed, and not the parent that it lacked."""
    if trial.details.get("skipped"):
        return False
    return not trial.proposals or any(each.answer is not None for each in trial.proposals)


def started(at: str, seconds: float) -> str:
    """When something began that ended then; empty where that is not known."""
    if not at:
        return ""
    began = datetime.fromisoformat(at) - timedelta(seconds=seconds)
    return began.isoformat(timespec="milliseconds")


def _reason(trial: Trial) -> str:
    if trial.problems:
        told = "; ".join(map(str, trial.problems))
        return f"skipped: {told}" if _skipped(trial) else f"turned away before any call: {told}"
    return "" if trial.decision is None else trial.decision.reason


def _skipped(trial: Trial) -> str | None:
    said = trial.details.get("skipped")
    if isinstance(said, str) and said:
        return said
    return None if has_proposal(trial) else NO_PROPOSAL


def _part(held: SplitResult) -> PartOfValidation:
    found = held.measurement
    return PartOfValidation(
        cases=found.cases,
        pass_rate=found.pass_rate,
        mean_score=found.score,
        metric_breakdown=dict(found.components),
    )


def _reflection(proposal: Proposal) -> ReflectionRecord:
    return ReflectionRecord(
        role=proposal.role,
        request=proposal.request,
        answer=proposal.answer,
        error=proposal.error,
    )


def _extras(row: TrialRow) -> dict[str, Json]:
    """What burnish knows beyond the words of the seed."""
    trial, decision = row.trial, row.trial.decision
    extras: dict[str, Json] = {
        "candidate_id": trial.candidate.id,
        "parent_ids": trial.details.get("parents", []),
        "generation": trial.cycle,
        "kept": trial.kept,
        "minibatch_case_ids": trial.details.get("minibatch", []),
        "metric_calls": row.spend.metric_calls,
    }
    if decision is not None:
        told: dict[str, Json] = {"gate": decision.gate, "code": decision.code}
        extras["decision"] = {**told, "numbers": dict(decision.numbers)}
    if trial.holdout is not None and trial.holdout.measurement.missing_cases:
        extras["missing_case_ids"] = [*trial.holdout.measurement.missing_cases]
    return extras


def _texts(value: Json) -> dict[str, str]:
    known: Mapping[str, Json] = value if isinstance(value, dict) else {}
    return {name: text for name, text in known.items() if isinstance(text, str)}


def _number(value: Json) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _count(value: Json) -> int:
    return value if isinstance(value, int) else 0


def _length(value: Json) -> int:
    return len(value) if isinstance(value, list) else 0
