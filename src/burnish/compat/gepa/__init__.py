"""gepa's adapters, proposers, callbacks and stoppers under burnish's loop, journal and sealed test.

Nothing of gepa is imported, unless its default adapter is needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burnish.compat.gepa.arguments import (
    SCORE,
    AdapterProposer,
    AdapterScore,
    AdapterTarget,
    GepaOptions,
    Texts,
    dataset_of,
    default_adapter,
    reflector_for,
)
from burnish.compat.optimizer.callbacks import GepaEvents, SearchState, WarningLog, by_label
from burnish.core.evaluations import Objective
from burnish.journal.limits import Budget
from burnish.models.factory import Models
from burnish.projects.launch import launch, start_or_resume
from burnish.runs.claims import claim_summary
from burnish.runs.directory import RunRecord
from burnish.runs.driver import Ending
from burnish.runs.run import Run
from burnish.runs.setup import Setup, start
from burnish.strategies.reflective.search import Reflective

__all__ = ["GepaOptions", "GepaResult", "optimize"]

_PATIENCE = 20
"""Trials in a row without an accept that end a search without any limit."""


@dataclass(frozen=True, kw_only=True)
class GepaResult:
    """The result under gepa's names, and what burnish can say of it."""

    candidates: list[Texts]
    parents: list[list[int]]
    """Of each candidate; empty for the first."""
    val_aggregate_scores: list[float | None]
    """None for a candidate whose race over the validation set ended early."""
    best_idx: int
    total_metric_calls: int
    run_dir: str
    seed: int
    ending: Ending

    @property
    def best_candidate(self) -> Texts:
        return self.candidates[self.best_idx]

    @property
    def summary(self) -> str:
        """What may be said of the best candidate, in a sentence."""
        return "" if self.ending.claim is None else claim_summary(self.ending.claim)


def optimize(
    seed_candidate: Texts,
    trainset: Sequence[Any],
    valset: Sequence[Any] | None = None,
    adapter: Any = None,
    *,
    testset: Sequence[Any] = (),
    concurrency: int = 1,
    score_range: tuple[float, float] = (0.0, 1.0),
    models: Models | None = None,
    **options: Any,
) -> GepaResult:
    """Run gepa's `optimize` as a search of burnish; `options` are its other keywords.

    `testset` is sealed, and read once at the end. Without a `valset`, a part of `trainset` decides,
    which proposers never see. `concurrency` cases are evaluated at once. `score_range` are the
    worst and the best score of the adapter. A run that is in `run_dir` is resumed.
    """
    chosen = GepaOptions.of(options)
    adapter = adapter or default_adapter(chosen)
    instances: dict[str, Any] = {}
    dataset = dataset_of(instances, trainset, valset, testset, seed=chosen.seed)
    target = AdapterTarget(
        adapter=adapter,
        texts=dict(seed_candidate),
        score_range=score_range,
        instances=instances,
        train=frozenset(case.id for case in dataset.train),
    )
    calls, state, log = chosen.max_metric_calls, SearchState(), WarningLog()
    models = (models or Models()).for_run()
    setup = Setup(
        target=target,
        metrics=(AdapterScore(),),
        objective=Objective(weights={SCORE: 1.0}),
        dataset=dataset,
        strategy=Reflective(
            reflector=reflector_for(adapter, chosen, models),
            settings=chosen.search(),
            proposer=AdapterProposer,
        ),
        seed=chosen.seed,
        budget=Budget(max_metric_calls=calls, patience=None if calls else _PATIENCE),
        concurrency=concurrency,
        confirm=True,
        stop_callbacks=by_label(chosen.stoppers, state, log),
        tracking=chosen.tracking(),
        resources=(models,),
    )
    return _searched(setup, chosen, state, log)


def _searched(
    setup: Setup, options: GepaOptions, state: SearchState, log: WarningLog
) -> GepaResult:
    def open_run() -> Run:
        where = options.run_dir
        run = start(setup) if where is None else start_or_resume(setup, Path(where))
        log.run = run
        for row in RunRecord.read(run.directory.folder).rows:
            state.take(row)
        run.listen(
            GepaEvents(
                callbacks=options.callbacks or (),
                run=run,
                state=state,
                log=log,
                baseline={name: str(v) for name, v in setup.target.baseline.values.items()},
                limit=options.max_metric_calls,
            )
        )
        return run

    ending = launch(open_run)
    rows = {row.trial.candidate.id: row.trial for row in RunRecord.read(ending.folder).rows}
    parents = [state.places_of(rows[each]) for each in state.candidate_ids]
    return GepaResult(
        candidates=state.program_candidates,
        parents=parents,
        val_aggregate_scores=state.validation_scores,
        best_idx=state.place_of(ending.best.id) or 0,
        total_metric_calls=ending.spent.metric_calls,
        run_dir=str(ending.folder),
        seed=options.seed,
        ending=ending,
    )
