"""What the service counts, in Prometheus's text format."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from burnish.server.manager import RunManager
from burnish.version import VERSION

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@dataclass
class Requests:
    """Requests that were answered, by method and status."""

    counts: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    seconds: float = 0.0

    def count(self, method: str, status: int, seconds: float) -> None:
        """One more. A method that nobody knows is no label: anyone could make up thousands."""
        self.counts[method if method in _METHODS else "OTHER", status] += 1
        self.seconds += seconds


def exposition(manager: RunManager, requests: Requests) -> str:
    """Everything as text."""
    answered = {
        f'method="{method}",status="{status}"': count
        for (method, status), count in sorted(requests.counts.items())
    }
    lines = [
        *_family("build_info", "gauge", "The version.", {f'version="{VERSION}"': 1}),
        *_family("runs_running", "gauge", "Runs driven here now.", {"": manager.launcher.running}),
        *_family(
            "runs_waiting", "gauge", "Runs that wait for room.", {"": manager.launcher.waiting}
        ),
        *_family(
            "runs_left",
            "gauge",
            "Runs nobody drives that cannot go on here.",
            {"": len(manager.left)},
        ),
        *_family("event_listeners", "gauge", "Open event streams.", {"": manager.tails.listeners}),
        *_family(
            "runs_total",
            "counter",
            "Runs by what became of them here.",
            _outcomes(manager.launcher.counts),
        ),
        *_family("http_requests_total", "counter", "Requests answered.", answered),
        *_family(
            "http_request_seconds_total",
            "counter",
            "Time to the first byte.",
            {"": requests.seconds},
        ),
    ]
    return "\n".join([*lines, ""])


def _outcomes(counts: Mapping[str, int]) -> dict[str, float]:
    return {f'outcome="{name}"': count for name, count in sorted(counts.items())}


def _family(name: str, kind: str, told: str, values: Mapping[str, float]) -> Iterable[str]:
    full = f"burnish_{name}"
    yield f"# HELP {full} {told}"
    yield f"# TYPE {full} {kind}"
    for labels, value in values.items():
        yield f"{full}{{{labels}}} {value}" if labels else f"{full} {value}"
