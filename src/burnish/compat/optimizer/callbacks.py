"""The callbacks and stoppers of gepa."""

import inspect
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError
from burnish.core.evaluations import mean
from burnish.core.trials import Proposal, SplitResult, Trial, TrialRow
from burnish.runs.directory import look_into
from burnish.runs.events import (
    BASELINE,
    Event,
    RunEnded,
    RunFailed,
    SessionBegun,
    Tick,
    TrialRecorded,
    Warned,
)
from burnish.runs.run import Run
from burnish.strategies.reflective.attempts import ReflectiveDetails
from burnish.strategies.reflective.result_files import validated as validated_rounds
from burnish.strategies.reflective.result_rounds import (
    UNLABELLED,
    Spent,
    has_proposal,
    prompts_of,
    round_of,
)


@dataclass(kw_only=True)
class SearchState:
    """The state of a search after its last recorded round, under gepa's names."""

    i: int = -1
    """The last round, from 0 as gepa counts; -1 before it, also after the baseline."""
    total_num_evals: int = 0
    """Runs of a case."""
    program_candidates: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """The candidates of the pool, the baseline first."""
    validation_scores: list[float | None] = field(default_factory=list[float | None])
    """The validation score of each; None if it was not run on all cases."""
    candidate_ids: list[str] = field(default_factory=list[str])
    best: int = 0
    """The index of the best candidate."""

    @property
    def program_full_scores_val_set(self) -> list[float]:
        """The same in numbers, since gepa's stoppers take their maximum."""
        return [-math.inf if score is None else score for score in self.validation_scores]

    def take(self, row: TrialRow) -> None:
        """Add a recorded round."""
        trial = row.trial
        self.i = row.number - 1
        self.total_num_evals += row.spend.metric_calls
        leads = trial.accepted or trial.phase == BASELINE
        place = self.place_of(trial.candidate.id)
        if (leads or trial.kept) and place is None:
            place = len(self.candidate_ids)
            self.program_candidates.append(prompts_of(trial))
            self.validation_scores.append(None)
            self.candidate_ids.append(trial.candidate.id)
        if place is not None and (validation := validated_rounds(row)) is not None:
            self.validation_scores[place] = validation.measurement.score
        if leads and place is not None:
            self.best = place

    def place_of(self, candidate: str) -> int | None:
        return self.candidate_ids.index(candidate) if candidate in self.candidate_ids else None

    def places_of(self, trial: Trial) -> list[int]:
        places = [self.place_of(each) for each in ReflectiveDetails.of(trial).parents]
        return [place for place in places if place is not None]


@dataclass(kw_only=True)
class WarningLog:
    """Adds warnings to the events of a run, each once."""

    run: Run | None = None

    def warn(self, key: str, message: str) -> None:
        """Add a warning under a stable key."""
        if self.run is not None:
            self.run.tell(Warned(message=message), f"compat:{key}")


def read_row(folder: Path, number: int) -> TrialRow:
    """A recorded round of a run."""
    with look_into(folder) as journal:
        body = journal.trial(number)
    assert body is not None
    return codec(TrialRow).decode(json.loads(body))


def _case_scores(result: SplitResult) -> dict[str, float | None]:
    """The mean of each case over metrics and repeats; None if a score is missing."""
    return {
        case: _mean_of([value for each in by_metric.values() for value in each])
        for case, by_metric in result.scores.items()
    }


def _mean_of(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return mean(numbers) if numbers and len(numbers) == len(values) else None


_Moment: TypeAlias = tuple[str, dict[str, Any]]
"""The method name without `on_`, and its argument."""


def _proposed(row: TrialRow, state: SearchState, trainset: int) -> Iterator[_Moment]:
    """From the choice of a parent to the evaluation on the minibatch."""
    trial, now = row.trial, {"iteration": row.number}
    parents = state.places_of(trial)
    if trial.phase == "merge":
        merged = {"parent_ids": parents, "merged_candidate": prompts_of(trial)}
        yield "merge_attempted", now | merged
        return
    parent = parents[0] if parents else None
    texts = {} if parent is None else state.program_candidates[parent]
    score = None if parent is None else state.validation_scores[parent]
    chosen = {"candidate_idx": parent, "candidate": texts, "score": score}
    yield "candidate_selected", now | chosen
    details = ReflectiveDetails.of(trial)
    batch = [*details.minibatch]
    yield "minibatch_sampled", now | {"minibatch_ids": batch, "trainset_size": trainset}
    if reason := details.skipped:
        skipped = {"candidate_idx": parent, "reason": reason, "scores": None}
        yield "evaluation_skipped", now | skipped | {"is_seed_candidate": parent == 0}
    if trial.proposals:
        yield from _reflected(row, parent, texts)
    if trial.train is not None:
        yield "evaluation_end", now | _on_minibatch(trial, parents)


def _reflected(row: TrialRow, parent: int | None, texts: Mapping[str, str]) -> Iterator[_Moment]:
    trial, now = row.trial, {"iteration": row.number}
    fields = list(trial.touched)
    replies = [each for each in trial.proposals if each.answer is not None]
    by_field = dict(zip(fields, replies or trial.proposals, strict=False))
    prompts = {name: _messages(each) for name, each in by_field.items()}
    shown = {name: [{"messages": each}] for name, each in prompts.items()}
    built = {"candidate_idx": parent, "components": fields, "dataset": shown}
    yield "reflective_dataset_built", now | built
    start = {"parent_candidate": dict(texts), "components": fields, "reflective_dataset": shown}
    yield "proposal_start", now | start
    new = prompts_of(trial) if has_proposal(trial) else {}
    outputs = {n: json.dumps(p.answer, ensure_ascii=False) for n, p in by_field.items() if replies}
    instructions = {name: new[name] for name in fields if name in new}
    end = {"new_instructions": instructions, "prompts": prompts, "raw_lm_outputs": outputs}
    yield "proposal_end", now | end
    for each in trial.proposals:
        if each.error:
            yield "error", now | {"exception": BurnishError(each.error), "will_continue": True}


def _on_minibatch(trial: Trial, parents: Sequence[int]) -> dict[str, Any]:
    assert trial.train is not None
    by_case = trial.train.scores.values()
    return {
        "candidate_idx": None,
        "scores": list(_case_scores(trial.train).values()),
        "has_trajectories": False,
        "parent_ids": list(parents),
        "outputs": [],
        "trajectories": None,
        "objective_scores": [
            {m: _mean_of(values) for m, values in each.items()} for each in by_case
        ],
        "is_seed_candidate": False,
    }


def _validated(row: TrialRow, state: SearchState, valset: int, *, best: bool) -> Iterator[_Moment]:
    trial = row.trial
    if trial.holdout is None:
        return
    scores = _case_scores(trial.holdout)
    event = {
        "iteration": row.number,
        "candidate_idx": state.place_of(trial.candidate.id),
        "candidate": prompts_of(trial),
        "scores_by_val_id": scores,
        "average_score": trial.holdout.measurement.score,
        "num_examples_evaluated": len(scores),
        "total_valset_size": valset,
        "parent_ids": state.places_of(trial),
        "is_best_program": best,
        "outputs_by_val_id": None,
    }
    yield "valset_evaluated", event
    means = dict(trial.holdout.measurement.components)
    yield "valset_breakdown", {"iteration": row.number, "metric_breakdown": means}


def _settled(row: TrialRow, state: SearchState) -> Iterator[_Moment]:
    trial, now = row.trial, {"iteration": row.number}
    parents, merging = state.places_of(trial), trial.phase == "merge"
    if trial.accepted or trial.kept:
        number = state.place_of(trial.candidate.id)
        place = {"new_candidate_idx": number, "parent_ids": parents}
        if merging:
            yield "merge_accepted", now | place
        score = None if trial.holdout is None else trial.holdout.measurement.score
        yield "candidate_accepted", now | place | {"new_score": score}
        return
    reason = round_of(row, Spent()).acceptance_reason
    if merging:
        yield "merge_rejected", now | {"parent_ids": parents, "reason": reason}
    details = ReflectiveDetails.of(trial)
    scores = {"old_score": details.parent_score, "new_score": details.candidate_score}
    yield "candidate_rejected", now | scores | {"reason": reason}


def _messages(proposal: Proposal) -> Json:
    request = proposal.request
    return request.get("messages", request) if isinstance(request, dict) else request


@dataclass(kw_only=True)
class GepaEvents:
    """Listens to a run, updates the state of its search, and calls gepa's callbacks."""

    callbacks: Sequence[Any]
    run: Run
    state: SearchState
    log: WarningLog
    baseline: Mapping[str, str]
    limit: int | None = None
    """The maximum of metric calls."""
    sizes: dict[str, int] = field(default_factory=dict[str, int])

    def event(self, event: Event) -> None:
        if begun := event.read(SessionBegun):
            self._begin(begun)
        elif trial := event.read(TrialRecorded):
            row = self.run.directory.trial(trial.trial)
            assert row is not None
            for moment, fields in self._round(row):
                self._emit(moment, fields)
        elif event.read(RunEnded):
            self._end(event)

    def tick(self, tick: Tick) -> None:
        """gepa has no event for a case."""

    def _begin(self, begun: SessionBegun) -> None:
        self.sizes = {**begun.cases}
        start = {
            "seed_candidate": dict(self.baseline),
            "trainset_size": self.sizes.get("train", 0),
            "valset_size": self.sizes.get("holdout", 0),
            "config": {**begun.budget},
        }
        self._emit("optimization_start", start)

    def _round(self, row: TrialRow) -> Iterator[_Moment]:
        trial, state, now = row.trial, self.state, {"iteration": row.number}
        if trial.phase == BASELINE:
            state.take(row)
            yield from _validated(row, state, self.sizes.get("holdout", 0), best=True)
            yield from self._saved(row)
            return
        yield "iteration_start", now | {"state": state, "trainset_loader": None}
        yield from _proposed(row, state, self.sizes.get("train", 0))
        state.take(row)
        yield from _validated(row, state, self.sizes.get("holdout", 0), best=trial.accepted)
        yield from _settled(row, state)
        yield from self._saved(row)
        accepted = trial.accepted or trial.kept
        yield "iteration_end", now | {"state": state, "proposal_accepted": accepted}

    def _saved(self, row: TrialRow) -> Iterator[_Moment]:
        used = self.state.total_num_evals
        budget = {
            "metric_calls_used": used,
            "metric_calls_delta": row.spend.metric_calls,
            "metric_calls_remaining": None if self.limit is None else max(0, self.limit - used),
        }
        yield "budget_updated", {"iteration": row.number} | budget
        yield "state_saved", {"iteration": row.number, "run_dir": str(self.run.directory.folder)}

    def _end(self, event: Event) -> None:
        last = {"iteration": self.state.i + 1}
        if failed := event.read(RunFailed):
            error = BurnishError(failed.reason)
            self._emit("error", last | {"exception": error, "will_continue": False})
        end = {
            "best_candidate_idx": self.state.best,
            "total_iterations": self.state.i + 1,
            "total_metric_calls": self.state.total_num_evals,
            "final_state": self.state,
        }
        self._emit("optimization_end", end)

    def _emit(self, moment: str, event: dict[str, Any]) -> None:
        for callback in self.callbacks:
            method = getattr(callback, f"on_{moment}", None)
            if method is None:
                continue
            try:
                method(event)
            except Exception as error:  # noqa: BLE001 - the user's own: a dashboard may be down
                who = f"on_{moment} of {type(callback).__name__}"
                message = f"{who} raised {type(error).__name__}: {error}; the run continues"
                self.log.warn(f"callback:{who}", message)


class LabeledStopper:
    """A stopper whose label becomes the `stop_reason` when it stops the run."""

    def __init__(self, inner: Callable[..., bool], label: str) -> None:
        self.inner = inner
        self.label = label
        self.last_triggered = False
        """The result of the last call."""

    def __call__(self, gepa_state: Any = None) -> bool:
        self.last_triggered = _asks_to_stop(self.inner, gepa_state)
        return self.last_triggered


def _asks_to_stop(stopper: Callable[..., bool], state: Any) -> bool:
    """Call a stopper, with the state if it takes an argument."""
    kinds = {each.kind for each in inspect.signature(stopper).parameters.values()}
    takes_state = kinds - {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD}
    return bool(stopper(state) if takes_state else stopper())


def by_label(
    stoppers: Sequence[Callable[..., bool]], state: SearchState, log: WarningLog
) -> dict[str, Callable[[], bool]]:
    """The stoppers of a run by label."""
    labelled: dict[str, list[Callable[..., bool]]] = {}
    for number, stopper in enumerate(stoppers, 1):
        own = getattr(stopper, "label", "")
        label = own if isinstance(own, str) and own else f"{UNLABELLED} {number}"
        labelled.setdefault(label, []).append(stopper)
    return {
        label: partial(_any_stops, label, group, state, log) for label, group in labelled.items()
    }


def _any_stops(
    label: str, stoppers: Sequence[Callable[..., bool]], state: SearchState, log: WarningLog
) -> bool:
    if not state.program_candidates:
        return False  # gepa asks first after the baseline, and some stoppers count
    answers: list[bool] = []
    # All are called, so that each records whether it wants to stop.
    for stopper in stoppers:
        try:
            answers.append(_asks_to_stop(stopper, state))
        except Exception as error:  # noqa: BLE001 - the user's own: a monitor that is down stops nothing
            cause = f"{type(error).__name__}: {error}"
            log.warn(f"stopper:{label}", f"the stopper '{label}' raised {cause}; the run continues")
    return any(answers)
