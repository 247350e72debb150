"""The same search by burnish and by gepa, with one adapter that takes no time."""

import io
import resource
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from benchmarks.figures import Figure
from burnish.compat.gepa import optimize

METRIC_CALLS = 2_000


def figures() -> list[Figure]:
    """Processor time per metric call, beside gepa's where it is installed (`make bench` does)."""
    ours = _per_call(optimize)
    what = f"processor time a metric call, search with an instant adapter ({METRIC_CALLS:,} calls)"
    figure = Figure(what=what, value=ours * 1e6, unit="µs", goal=300)
    if find_spec("gepa") is None:
        return [figure]
    return [replace(figure, peer="gepa", peer_value=_gepa() * 1e6)]


def _gepa() -> float:
    import gepa  # pyright: ignore[reportMissingImports]

    return _per_call(gepa.optimize, display_progress_bar=False)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


class _Batch:
    """What gepa calls an EvaluationBatch."""

    def __init__(self, outputs: list[Any], scores: list[float], trajectories: Any) -> None:
        self.outputs, self.scores, self.trajectories = outputs, scores, trajectories
        self.objective_scores = None
        self.num_metric_calls = None


class _Instant:
    """An adapter that answers at once: longer texts are better."""

    propose_new_texts = None

    def __init__(self) -> None:
        self.calls = 0

    def evaluate(
        self,
        batch: list[Any],
        candidate: dict[str, str],
        capture_traces: bool = False,
    ) -> Any:
        """Longer is better, up to a point that is never reached."""
        self.calls += len(batch)
        score = min(0.99, len(candidate["text"]) / 10_000)
        traces = [{"input": item} for item in batch] if capture_traces else None
        return _Batch(outputs=batch, scores=[score] * len(batch), trajectories=traces)

    def make_reflective_dataset(self, candidate: Any, batch: Any, components: list[str]) -> Any:
        """What the reflection model would read."""
        del candidate, batch
        return {name: [{"Inputs": "x", "Feedback": "longer"}] for name in components}


def _per_call(search: Callable[..., Any], **more: Any) -> float:
    """Seconds of processor time per metric call, once everything is loaded."""
    _search(search, 100, **more)
    return min(_search(search, METRIC_CALLS, **more) for _ in range(3))


def _search(search: Callable[..., Any], calls: int, **more: Any) -> float:
    count = 0

    def reflect(prompt: Any) -> str:
        nonlocal count
        del prompt
        count += 1
        return f"```\n{'x' * (10 + count)}\n```"

    train, holdout = ([{"input": f"{split} {i}"} for i in range(30)] for split in ("a", "b"))
    adapter = _Instant()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        started = _processor_time()
        search(
            seed_candidate={"text": "x"},
            trainset=train,
            valset=holdout,
            adapter=adapter,
            reflection_lm=reflect,
            max_metric_calls=calls,
            run_dir=folder,
            **more,
        )
        return (_processor_time() - started) / adapter.calls


def _processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
