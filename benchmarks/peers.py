"""The same search by burnish and by gepa, of an agent that takes no time."""

import io
import itertools
import resource
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import burnish
from benchmarks.figures import Figure

METRIC_CALLS = 2_000
_CASES = {split: [f"{split} {number}" for number in range(30)] for split in ("train", "holdout")}


def figures() -> list[Figure]:
    """Processor time per metric call, beside gepa's where it is installed (`make bench` does)."""
    what = f"processor time a metric call, search of an instant agent ({METRIC_CALLS:,} calls)"
    figure = Figure(what=what, value=_per_call(_ours) * 1e6, unit="µs", goal=300)
    if find_spec("gepa") is None:
        return [figure]
    return [replace(figure, peer="gepa", peer_value=_per_call(_gepa) * 1e6)]


def _score(text: str) -> float:
    """Longer is better, up to a point that is never reached."""
    return min(0.99, len(text) / 10_000)


def _longer() -> Callable[[Any], str]:
    """A reflector whose every text is longer than the one before."""
    sizes = itertools.count(11)
    return lambda _: f"```\n{'x' * next(sizes)}\n```"


def _ours(calls: int, folder: str) -> int:
    count = 0

    def agent(case: str, text: str) -> str:
        nonlocal count
        del case
        count += 1
        return text

    rows = {name: [{"input": each, "expected": "x"} for each in _CASES[name]] for name in _CASES}
    burnish.optimize(
        agent,
        {"text": "x"},
        train=rows["train"],
        holdout=rows["holdout"],
        metric=lambda output: _score(output),  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        reflector=_longer(),
        budget=calls,
        folder=Path(folder) / "run",
        progress=False,
    )
    return count


class _Batch:
    """What gepa calls an EvaluationBatch."""

    def __init__(self, outputs: list[Any], scores: list[float], trajectories: Any) -> None:
        self.outputs, self.scores, self.trajectories = outputs, scores, trajectories
        self.objective_scores = None
        self.num_metric_calls = None


class _Instant:
    """The agent as gepa's adapter."""

    propose_new_texts = None

    def __init__(self) -> None:
        self.calls = 0

    def evaluate(
        self, batch: list[Any], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        """Score a batch."""
        self.calls += len(batch)
        traces = [{"input": item} for item in batch] if capture_traces else None
        scores = [_score(candidate["text"])] * len(batch)
        return _Batch(outputs=batch, scores=scores, trajectories=traces)

    def make_reflective_dataset(self, candidate: Any, batch: Any, components: list[str]) -> Any:
        """What the reflection model would read."""
        del candidate, batch
        return {name: [{"Inputs": "x", "Feedback": "longer"}] for name in components}


def _gepa(calls: int, folder: str) -> int:
    import gepa  # pyright: ignore[reportMissingImports]

    adapter = _Instant()
    train, holdout = ([{"input": each} for each in _CASES[name]] for name in _CASES)
    gepa.optimize(  # pyright: ignore[reportUnknownMemberType]
        seed_candidate={"text": "x"},
        trainset=train,
        valset=holdout,
        adapter=adapter,
        reflection_lm=_longer(),
        max_metric_calls=calls,
        run_dir=folder,
        display_progress_bar=False,
    )
    return adapter.calls


def _per_call(search: Callable[[int, str], int]) -> float:
    """Seconds of processor time per metric call, once everything is loaded."""
    _measured(search, 100)
    return min(_measured(search, METRIC_CALLS) for _ in range(3))


def _measured(search: Callable[[int, str], int], calls: int) -> float:
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        started = _processor_time()
        made = search(calls, folder)
        return (_processor_time() - started) / made


def _processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
