"""The same overhead for gepa, where it is installed (`pip install gepa`), in the same process."""

import io
import time
from contextlib import redirect_stdout
from importlib.util import find_spec
from typing import Any

from benchmarks.figures import Figure

METRIC_CALLS = 2_000


def figures() -> list[Figure]:
    """gepa's overhead a metric call with an instant adapter; nothing where it is absent."""
    if find_spec("gepa") is None:
        return []
    with redirect_stdout(io.StringIO()):  # it prints every iteration
        took, calls = _gepa()
    return [
        Figure(
            what=f"gepa: overhead a metric call, instant adapter ({calls:,} calls)",
            value=took / calls * 1e6,
            unit="µs",
        )
    ]


def _gepa() -> tuple[float, int]:
    import gepa  # pyright: ignore[reportMissingImports]
    from gepa.core.adapter import EvaluationBatch  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    class Instant:
        """An adapter that answers at once; each proposal is one letter longer."""

        calls = 0
        propose_new_texts = None

        def evaluate(
            self, batch: list[Any], candidate: dict[str, str], capture_traces: bool = False
        ) -> Any:
            """Longer texts are better, up to a point that is never reached."""
            Instant.calls += len(batch)
            score = min(0.99, len(candidate["text"]) / 10_000)
            traces = [{"input": item} for item in batch] if capture_traces else None
            return EvaluationBatch(outputs=batch, scores=[score] * len(batch), trajectories=traces)  # pyright: ignore[reportUnknownVariableType]

        def make_reflective_dataset(self, candidate: Any, batch: Any, components: list[str]) -> Any:
            """What the reflection model would read."""
            del candidate, batch
            return {name: [{"Inputs": "x", "Feedback": "longer"}] for name in components}

    count = 0

    def reflect(prompt: Any) -> str:
        nonlocal count
        del prompt
        count += 1
        return f"```\n{'x' * (10 + count)}\n```"

    data = [{"input": str(i)} for i in range(30)]
    started = time.perf_counter()
    gepa.optimize(  # pyright: ignore[reportUnknownMemberType]
        seed_candidate={"text": "x"},
        trainset=data,
        valset=data,
        adapter=Instant(),
        reflection_lm=reflect,
        max_metric_calls=METRIC_CALLS,
        display_progress_bar=False,
    )
    return time.perf_counter() - started, Instant.calls
