"""A recorded round in the words of gepa's callbacks: what they are called with, in order.

What burnish has no true word for is not told: the start of an evaluation, outputs, the frontier.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from burnish.compat.optimizer_state import SearchState, case_scores, mean_of, score_of
from burnish.core.content import Json
from burnish.core.errors import BurnishError
from burnish.core.trials import Proposal, Trial, TrialRow
from burnish.strategies.reflective.attempts import ReflectiveDetails
from burnish.strategies.reflective.result_rounds import Spent, has_proposal, prompts_of, round_of

Moment: TypeAlias = tuple[str, dict[str, Any]]
"""The method without its `on_`, and what it is given."""


def proposed(row: TrialRow, state: SearchState, trainset: int) -> Iterator[Moment]:
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
        yield from _asked(row, parent, texts)
    if trial.train is not None:
        yield "evaluation_end", now | _on_minibatch(trial, parents)


def _asked(row: TrialRow, parent: int | None, texts: Mapping[str, str]) -> Iterator[Moment]:
    trial, now = row.trial, {"iteration": row.number}
    fields = list(trial.touched)
    answered = [each for each in trial.proposals if each.answer is not None]
    asked = dict(zip(fields, answered or trial.proposals, strict=False))
    prompts = {name: _messages(each) for name, each in asked.items()}
    shown = {name: [{"messages": each}] for name, each in prompts.items()}
    built = {"candidate_idx": parent, "components": fields, "dataset": shown}
    yield "reflective_dataset_built", now | built
    start = {"parent_candidate": dict(texts), "components": fields, "reflective_dataset": shown}
    yield "proposal_start", now | start
    new = prompts_of(trial) if has_proposal(trial) else {}
    said = {n: json.dumps(p.answer, ensure_ascii=False) for n, p in asked.items() if answered}
    instructions = {name: new[name] for name in fields if name in new}
    end = {"new_instructions": instructions, "prompts": prompts, "raw_lm_outputs": said}
    yield "proposal_end", now | end
    for each in trial.proposals:
        if each.error:
            yield "error", now | {"exception": BurnishError(each.error), "will_continue": True}


def _on_minibatch(trial: Trial, parents: Sequence[int]) -> dict[str, Any]:
    assert trial.train is not None
    by_case = trial.train.scores.values()
    return {
        "candidate_idx": None,
        "scores": list(case_scores(trial.train).values()),
        "has_trajectories": False,
        "parent_ids": list(parents),
        "outputs": [],
        "trajectories": None,
        "objective_scores": [
            {m: mean_of(values) for m, values in each.items()} for each in by_case
        ],
        "is_seed_candidate": False,
    }


def validated(row: TrialRow, state: SearchState, valset: int, *, best: bool) -> Iterator[Moment]:
    """How it did on validation, or on as much of it as it was run on."""
    trial = row.trial
    if trial.holdout is None:
        return
    scores = case_scores(trial.holdout)
    told = {
        "iteration": row.number,
        "candidate_idx": state.place_of(trial.candidate.id),
        "candidate": prompts_of(trial),
        "scores_by_val_id": scores,
        "average_score": score_of(trial.holdout),
        "num_examples_evaluated": len(scores),
        "total_valset_size": valset,
        "parent_ids": state.places_of(trial),
        "is_best_program": best,
        "outputs_by_val_id": None,
    }
    yield "valset_evaluated", told
    means = dict(trial.holdout.measurement.components)
    yield "valset_breakdown", {"iteration": row.number, "metric_breakdown": means}


def settled(row: TrialRow, state: SearchState) -> Iterator[Moment]:
    """Whether it was taken into the pool, by the state after it."""
    trial, now = row.trial, {"iteration": row.number}
    parents, merging = state.places_of(trial), trial.phase == "merge"
    if trial.accepted or trial.kept:
        number = state.place_of(trial.candidate.id)
        place = {"new_candidate_idx": number, "parent_ids": parents}
        if merging:
            yield "merge_accepted", now | place
        yield "candidate_accepted", now | place | {"new_score": score_of(trial.holdout)}
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
