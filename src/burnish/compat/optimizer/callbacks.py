"""A run as gepa's callbacks and stoppers know it."""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError
from burnish.core.evaluations import mean
from burnish.core.trials import Proposal, SplitResult, Trial, TrialRow
from burnish.runs.directory import RunRecord, look_into
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
        if place is not None and (validation := validated_rounds(row)) is not None:
            self.program_full_scores_val_set[place] = validation.measurement.score
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
class WarningLog:
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


def _score_of(result: SplitResult | None) -> float | None:
    """The score of a whole result."""
    return None if result is None else result.measurement.score


def _case_scores(result: SplitResult) -> dict[str, float | None]:
    """The mean of each case over metrics and repeats; None where a part of it is missing."""
    return {
        case: _mean_of([value for each in by_metric.values() for value in each])
        for case, by_metric in result.scores.items()
    }


def _mean_of(values: Sequence[float | None]) -> float | None:
    """The mean; None where a part of it is missing."""
    numbers = [value for value in values if value is not None]
    return mean(numbers) if numbers and len(numbers) == len(values) else None


# -- A recorded round in the words of gepa's callbacks --------------------------------------------


_Moment: TypeAlias = tuple[str, dict[str, Any]]
"""The method without its `on_`, and what it is given."""


def _proposed(row: TrialRow, state: SearchState, trainset: int) -> Iterator[_Moment]:
    """From the choice of a parent to the candidate's own look at the minibatch."""
    trial, now = row.trial, {"iteration": row.number}
    parents = state.places_of(trial)
    if trial.phase == "merge":
        merged = {"parent_ids": parents, "merged_candidate": prompts_of(trial)}
        yield "merge_attempted", now | merged
        return
    parent = parents[0] if parents else None
    texts = {} if parent is None else state.program_candidates[parent]
    score = None if parent is None else state.program_full_scores_val_set[parent]
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
    answered = [each for each in trial.proposals if each.answer is not None]
    by_field = dict(zip(fields, answered or trial.proposals, strict=False))
    prompts = {name: _messages(each) for name, each in by_field.items()}
    shown = {name: [{"messages": each}] for name, each in prompts.items()}
    built = {"candidate_idx": parent, "components": fields, "dataset": shown}
    yield "reflective_dataset_built", now | built
    start = {"parent_candidate": dict(texts), "components": fields, "reflective_dataset": shown}
    yield "proposal_start", now | start
    new = prompts_of(trial) if has_proposal(trial) else {}
    outputs = {n: json.dumps(p.answer, ensure_ascii=False) for n, p in by_field.items() if answered}
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
    """How it did on validation, or on as much of it as it was run on."""
    trial = row.trial
    if trial.holdout is None:
        return
    scores = _case_scores(trial.holdout)
    event = {
        "iteration": row.number,
        "candidate_idx": state.place_of(trial.candidate.id),
        "candidate": prompts_of(trial),
        "scores_by_val_id": scores,
        "average_score": _score_of(trial.holdout),
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
    """Whether it was taken into the pool, by the state after it."""
    trial, now = row.trial, {"iteration": row.number}
    parents, merging = state.places_of(trial), trial.phase == "merge"
    if trial.accepted or trial.kept:
        number = state.place_of(trial.candidate.id)
        place = {"new_candidate_idx": number, "parent_ids": parents}
        if merging:
            yield "merge_accepted", now | place
        yield "candidate_accepted", now | place | {"new_score": _score_of(trial.holdout)}
        return
    reason = round_of(row, Spent()).acceptance_reason
    if merging:
        yield "merge_rejected", now | {"parent_ids": parents, "reason": reason}
    details = ReflectiveDetails.of(trial)
    scores = {"old_score": details.parent_score, "new_score": details.candidate_score}
    yield "candidate_rejected", now | scores | {"reason": reason}


def _messages(proposal: Proposal) -> Json:
    """What the reflection model was sent."""
    request = proposal.request
    return request.get("messages", request) if isinstance(request, dict) else request


# -- A run's events as gepa's callbacks know them -------------------------------------------------


@dataclass(kw_only=True)
class GepaEvents:
    """Listens to a run, keeps the state of its search, and tells callbacks."""

    callbacks: Sequence[Any]
    folder: Path
    state: SearchState
    log: WarningLog
    baseline: Mapping[str, str]
    limit: int | None = None
    """Of metric calls."""
    sizes: dict[str, int] = field(default_factory=dict[str, int])

    def event(self, event: Event) -> None:
        """Tell what an event means."""
        if begun := event.read(SessionBegun):
            self._begin(begun)
        elif trial := event.read(TrialRecorded):
            self._round(read_row(self.folder, trial.trial))
        elif event.read(RunEnded):
            self._end(event)

    def tick(self, tick: Tick) -> None:
        """Nothing: gepa has no word for a case."""

    def _begin(self, begun: SessionBegun) -> None:
        self.sizes = {**begun.cases}
        self._emit(
            "optimization_start",
            {
                "seed_candidate": dict(self.baseline),
                "trainset_size": self.sizes.get("train", 0),
                "valset_size": self.sizes.get("holdout", 0),
                "config": {**begun.budget},
            },
        )

    def _round(self, row: TrialRow) -> None:
        state, valset = self.state, self.sizes.get("holdout", 0)
        baseline, now = row.trial.phase == BASELINE, {"iteration": row.number}
        if not baseline:
            self._emit("iteration_start", now | {"state": state, "trainset_loader": None})
            for moment in _proposed(row, state, self.sizes.get("train", 0)):
                self._emit(*moment)
        state.take(row)
        for moment in _validated(row, state, valset, best=baseline or row.trial.accepted):
            self._emit(*moment)
        if not baseline:
            for moment in _settled(row, state):
                self._emit(*moment)
        self._emit("budget_updated", now | self._budget(row))
        self._emit("state_saved", now | {"run_dir": str(self.folder)})
        if not baseline:
            accepted = row.trial.accepted or row.trial.kept
            self._emit("iteration_end", now | {"state": state, "proposal_accepted": accepted})

    def _budget(self, row: TrialRow) -> dict[str, Any]:
        used = self.state.total_num_evals
        return {
            "metric_calls_used": used,
            "metric_calls_delta": row.spend.metric_calls,
            "metric_calls_remaining": None if self.limit is None else max(0, self.limit - used),
        }

    def _end(self, event: Event) -> None:
        last = {"iteration": self.state.i}
        if failed := event.read(RunFailed):
            error = BurnishError(failed.reason)
            self._emit("error", last | {"exception": error, "will_continue": False})
        self._emit(
            "optimization_end",
            {
                "best_candidate_idx": self.state.best,
                "total_iterations": max(0, self.state.i),
                "total_metric_calls": self.state.total_num_evals,
                "final_state": self.state,
            },
        )

    def _emit(self, moment: str, event: dict[str, Any]) -> None:
        """Call whoever has a method for this moment."""
        for callback in self.callbacks:
            method: Callable[[dict[str, Any]], object] | None
            method = getattr(callback, f"on_{moment}", None)
            if method is None:
                continue
            try:
                method(event)
            except Exception as error:  # noqa: BLE001 - the user's own: a dashboard may be down
                who = f"on_{moment} of {type(callback).__name__}"
                message = f"{who} raised {type(error).__name__}: {error}; the run goes on"
                self.log.warn(f"callback:{who}", message)


# -- Stoppers of one's own ------------------------------------------------------------------------


_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)


class LabeledStopper:
    """A stopper whose label becomes the `stop_reason` when it stops the run."""

    def __init__(self, inner: Callable[..., bool], label: str) -> None:
        self.inner = inner
        self.label = label
        self.last_triggered = False
        """Whether it said stop when it was last asked."""

    def __call__(self, gepa_state: Any = None) -> bool:
        self.last_triggered = asks_to_stop(self.inner, gepa_state)
        return self.last_triggered


def asks_to_stop(stopper: Callable[..., bool], state: Any) -> bool:
    """What a stopper says, which is given the state if it takes any."""
    takes = inspect.signature(stopper).parameters.values()
    return bool(stopper(state) if any(each.kind in _POSITIONAL for each in takes) else stopper())


def by_label(
    stoppers: Sequence[Callable[..., bool]], state: SearchState, log: WarningLog
) -> dict[str, Callable[[], bool]]:
    """The stoppers as a run takes them; those with one label are asked together."""
    labelled: dict[str, list[Callable[[], bool]]] = {}
    for number, stopper in enumerate(stoppers, 1):
        own = getattr(stopper, "label", "")
        label = own if isinstance(own, str) and own else f"{UNLABELLED} {number}"
        labelled.setdefault(label, []).append(_guarded(stopper, label, state, log))
    return {label: _any_of(group) for label, group in labelled.items()}


def _guarded(
    stopper: Callable[..., bool], label: str, state: SearchState, log: WarningLog
) -> Callable[[], bool]:
    def ask() -> bool:
        try:
            return asks_to_stop(stopper, state)
        except Exception as error:  # noqa: BLE001 - the user's own: a monitor that is down stops nothing
            cause = f"{type(error).__name__}: {error}"
            log.warn(f"stopper:{label}", f"the stopper '{label}' raised {cause}; the run goes on")
            return False

    return ask


def _any_of(stoppers: Sequence[Callable[[], bool]]) -> Callable[[], bool]:
    def ask() -> bool:
        # Each of them is asked, so that each knows whether it was the one.
        answers = [each() for each in stoppers]
        return any(answers)

    return ask
