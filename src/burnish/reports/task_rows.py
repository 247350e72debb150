"""One row of results.jsonl: a trial of a task, with everything that decided."""

import hashlib
from collections.abc import Mapping, Sequence

from burnish.core.content import Json
from burnish.core.objectives import Constraint
from burnish.core.trials import SplitResult, Trial
from burnish.reports.task_trials import TaskTrial
from burnish.runs.standing import BASELINE

SCHEMA = 1
KEEP, DISCARD = "keep", "discard"


def result_row(
    trial: TaskTrial, *, primary: str, constraints: Sequence[Constraint]
) -> dict[str, Json]:
    """What one trial gave. What holdout said stands apart: no editor was told of it."""
    row, told = trial.row, trial.row.trial
    held = told.holdout
    return {
        "schema": SCHEMA,
        "trial": row.number,
        "iteration": told.cycle,
        "at": row.at,
        "candidate": None if trial.after is None else told.candidate.id,
        "parent": None if trial.parent is None else trial.parent.id,
        "decision": decision_word(told),
        "reason": _reason(told),
        "rationale": told.details.get("rationale", ""),
        **_measured(told.train, primary, constraints),
        "holdout": None if held is None else _measured(held, primary, constraints),
        "changes": [
            {"path": path, "added": count.added, "removed": count.removed}
            for path, count in trial.diff.files.items()
        ],
        "hashes": {
            "baseline": _hashes(trial.before) if trial.parent else None,
            "candidate": None if trial.after is None else _hashes(trial.after),
        },
        "seconds": round(row.seconds, 3),
    }


def decision_word(trial: Trial) -> str:
    """`baseline`, `keep`, `discard` or `crash`."""
    if trial.phase == BASELINE:
        return BASELINE
    told = trial.details.get("decision")
    if isinstance(told, str):
        return told
    return KEEP if trial.accepted else DISCARD


def _reason(trial: Trial) -> str:
    if trial.problems:
        return "; ".join(map(str, trial.problems))
    return trial.decision.reason if trial.decision else ""


def _measured(
    result: SplitResult | None, primary: str, constraints: Sequence[Constraint]
) -> dict[str, Json]:
    values: Mapping[str, float] = {} if result is None else result.measurement.values
    return {
        "primary_metric": primary,
        "score": values.get(primary),
        "metrics": {**values},
        "constraints": [
            {"constraint": str(each), "value": values.get(each.metric), "holds": each.holds(values)}
            for each in constraints
        ],
    }


def _hashes(files: Mapping[str, bytes]) -> dict[str, Json]:
    return {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
