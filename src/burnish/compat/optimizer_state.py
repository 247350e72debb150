"""Where a search stands, for stoppers and callbacks that know gepa."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from burnish.core.codec import codec
from burnish.core.evaluations import mean
from burnish.core.trials import SplitResult, Trial, TrialRow
from burnish.runs.directory import look_into
from burnish.runs.events import Warned
from burnish.runs.record import RunRecord
from burnish.runs.run import Run
from burnish.runs.standing import BASELINE
from burnish.strategies.reflective.attempts import ReflectiveDetails
from burnish.strategies.reflective.result_files import validated
from burnish.strategies.reflective.result_rounds import prompts_of


@dataclass(kw_only=True)
class SearchState:
    """What is known of a search after its last recorded round; the names are gepa's."""

    i: int = -1
    """The last round; 0 is the baseline's, and before it there is none."""
    total_num_evals: int = 0
    """Runs of a case."""
    program_candidates: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """The candidates of the pool, the baseline first."""
    program_full_scores_val_set: list[float | None] = field(default_factory=list[float | None])
    """How each does on validation; None where it was not run on all of it."""
    candidate_ids: list[str] = field(default_factory=list[str])
    """What burnish calls each."""
    best: int = 0
    """The place of the best in the pool."""

    def take(self, row: TrialRow) -> None:
        """Add a recorded round."""
        trial = row.trial
        self.i = row.number
        self.total_num_evals += row.spend.metric_calls
        leads = trial.accepted or trial.phase == BASELINE
        place = self.place_of(trial.candidate.id)
        if (leads or trial.kept) and place is None:
            place = len(self.candidate_ids)
            self.program_candidates.append(prompts_of(trial))
            self.program_full_scores_val_set.append(None)
            self.candidate_ids.append(trial.candidate.id)
        if place is not None and (found := validated(row)) is not None:
            self.program_full_scores_val_set[place] = found.measurement.score
        if leads and place is not None:
            self.best = place

    def place_of(self, candidate: str) -> int | None:
        """Where in the pool a candidate is, if it is."""
        return self.candidate_ids.index(candidate) if candidate in self.candidate_ids else None

    def places_of(self, trial: Trial) -> list[int]:
        """Where in the pool the parents of a candidate are."""
        places = [self.place_of(each) for each in ReflectiveDetails.of(trial).parents]
        return [place for place in places if place is not None]

    def catch_up(self, folder: Path) -> None:
        """Take in the rounds that an earlier session recorded."""
        for row in RunRecord.read(folder).rows:
            self.take(row)


@dataclass(kw_only=True)
class Voice:
    """Says something in a run's events, each thing once."""

    run: Run | None = None

    def warn(self, key: str, message: str) -> None:
        """A warning under a key that stays the same."""
        if self.run is not None:
            self.run.tell(Warned(message=message), f"compat:{key}")


def read_row(folder: Path, number: int) -> TrialRow:
    """A round that was just recorded."""
    with look_into(folder) as journal:
        body = journal.trial(number)
    assert body is not None
    return codec(TrialRow).decode(json.loads(body))


def score_of(result: SplitResult | None) -> float | None:
    """The score of a whole result."""
    return None if result is None else result.measurement.score


def case_scores(result: SplitResult) -> dict[str, float | None]:
    """The mean of each case over metrics and repeats; None where a part of it is missing."""
    return {
        case: mean_of([value for each in by_metric.values() for value in each])
        for case, by_metric in result.scores.items()
    }


def mean_of(values: Sequence[float | None]) -> float | None:
    """The mean; None where a part of it is missing."""
    known = [value for value in values if value is not None]
    return mean(known) if known and len(known) == len(values) else None
