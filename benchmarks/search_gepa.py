"""A search by gepa 0.1.4 in a scripted world: its own defaults, our agent and reflection."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from tests.strategies.reflection_world import (
    Complete,
    World,
    answer,
    baseline,
    dataset,
    rewrite,
    true_score,
)

from benchmarks.search_worlds import CALLS, GEPA, Accept, Searched, Step, best_of, world_of
from burnish.core.cases import Case
from burnish.core.surfaces import Candidate


def search(name: str, seed: int, *, calls: int = CALLS) -> Searched:
    """Let gepa search, and keep what came of it."""
    gepa: Any = import_module("gepa")
    world = world_of(name, seed)
    cases, adapter = dataset(world), Adapter(world)
    watcher = Watcher(world, adapter)
    started = time.perf_counter()
    result = gepa.optimize(
        seed_candidate=baseline(world),
        trainset=list(cases.train),
        valset=list(cases.holdout),
        adapter=adapter,
        max_metric_calls=calls,
        callbacks=[watcher],
        logger=Silence(),
        seed=seed,
    )
    took = time.perf_counter() - started
    returned = true_score(world, result.best_candidate)
    assert returned == watcher.steps[-1].truth, "the candidate that led is not the one returned"
    return Searched(
        world=name,
        system=GEPA,
        seed=seed,
        limit=calls,
        steps=tuple(watcher.steps),
        calls=adapter.calls,
        reflections=adapter.reflections,
        accepts=tuple(watcher.accepts),
        claimed=result.val_aggregate_scores[result.best_idx],
        best=best_of(world),
        seconds=took,
        all_calls=adapter.calls,
    )


class Adapter:
    """What gepa asks of a system: evaluate, tell what went wrong, propose new texts.

    Each look at a candidate on a case is a new draw, as it is with a real agent.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._metric = Complete(world=world)
        self._batch: Any = import_module("gepa.core.adapter").EvaluationBatch
        self._draws = Counter[tuple[str, str]]()
        self.calls = 0
        self.reflections = 0

    def evaluate(
        self, batch: list[Case], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        """Run and score a candidate on some cases."""
        runs = [self._run(Candidate(values=candidate), case) for case in batch]
        return self._batch(
            outputs=[said for said, _, _ in runs],
            scores=[score for _, score, _ in runs],
            trajectories=[reason for _, _, reason in runs] if capture_traces else None,
        )

    def make_reflective_dataset(
        self, candidate: dict[str, str], evaluated: Any, components: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """The reasons of failures: what the reflection of burnish is shown too."""
        del candidate
        records = [{"Feedback": reason} for reason in evaluated.trajectories]
        return dict.fromkeys(components, records)

    def propose_new_texts(
        self,
        candidate: dict[str, str],
        records: Mapping[str, Sequence[Mapping[str, Any]]],
        components: list[str],
    ) -> dict[str, str]:
        """The scripted reflection, once for each text."""
        return {field: self._reflect(field, candidate, records[field]) for field in components}

    def _reflect(
        self, field: str, candidate: dict[str, str], records: Sequence[Mapping[str, Any]]
    ) -> str:
        reasons = [record["Feedback"] for record in records if record["Feedback"]]
        draw = self.reflections
        self.reflections += 1
        return rewrite(self._world, field, candidate[field], reasons, draw)[1]

    def _run(self, candidate: Candidate, case: Case) -> tuple[str, float, str]:
        draw = self._draws[candidate.id, case.id]
        self._draws[candidate.id, case.id] += 1
        self.calls += 1
        outcome = answer(self._world, candidate, case, draw)
        score = self._metric.judge(case, outcome)
        return outcome.output, score.value or 0.0, score.reason


class Watcher:
    """Hears from gepa who was taken into its pool, and who leads."""

    def __init__(self, world: World, adapter: Adapter) -> None:
        self._world = world
        self._adapter = adapter
        self._truths: list[float] = []
        self.steps: list[Step] = []
        self.accepts: list[Accept] = []

    def on_valset_evaluated(self, event: Mapping[str, Any]) -> None:
        """A candidate was measured on the whole holdout, and is in the pool."""
        truth, leads = true_score(self._world, event["candidate"]), event["is_best_program"]
        self._truths.append(truth)
        numbers: Sequence[int] = event["parent_ids"]
        parents = [self._truths[number] for number in numbers]
        if parents:
            self.accepts.append(Accept(gain=truth - max(parents), led=leads))
        if leads:
            self.steps.append(Step(calls=self._adapter.calls if parents else 0, truth=truth))


class Silence:
    """A log that nobody reads."""

    def log(self, message: str) -> None:
        """Nothing."""
