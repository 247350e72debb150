"""What the service tells Prometheus: its requests, its runs, and how many workers it needs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from burnish.core.errors import BurnishError
from burnish.server.manager import RunManager
from burnish.server.stores.queue import QueueLength, ServiceProcess
from burnish.version import VERSION

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_Family: TypeAlias = tuple[str, str, str, Mapping[str, float] | float]
"""Name, type, description, and a value, or values by their labels."""


@dataclass
class Requests:
    """Answered requests, by method and status."""

    counts: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    seconds: float = 0.0

    def count(self, method: str, status: int, seconds: float) -> None:
        """Count a request; an unknown method gets no label, or clients could create thousands."""
        self.counts[method if method in _METHODS else "OTHER", status] += 1
        self.seconds += seconds


async def exposition(manager: RunManager, requests: Requests) -> str:
    """Everything in Prometheus's text format; without a store, only what this process knows."""
    families = [*_own(manager, requests)]
    try:
        lengths = await manager.store.queue.lengths()
        processes = await manager.launcher.processes()
    except BurnishError:
        families.append(("store_up", "gauge", "Whether the store answers.", 0))
    else:
        families.append(("store_up", "gauge", "Whether the store answers.", 1))
        families += _cluster(lengths, processes)
    return "".join(f"{line}\n" for family in families for line in _lines(family))


def _own(manager: RunManager, requests: Requests) -> Iterator[_Family]:
    launcher = manager.launcher
    yield "build_info", "gauge", "The version.", {f'version="{VERSION}"': 1}
    yield "runs_running", "gauge", "Runs driven here now.", launcher.running
    yield "runs_left", "gauge", "Runs that wait and cannot continue here.", len(launcher.left)
    yield "event_listeners", "gauge", "Open event streams.", manager.tails.listeners
    outcomes = {f'outcome="{name}"': count for name, count in sorted(launcher.counts.items())}
    yield "runs_total", "counter", "Runs of this process by outcome.", outcomes
    answered = {
        f'method="{method}",status="{status}"': count
        for (method, status), count in sorted(requests.counts.items())
    }
    yield "http_requests_total", "counter", "Requests answered.", answered
    seconds = requests.seconds
    yield "http_request_seconds_total", "counter", "Time to the first byte.", seconds


def _cluster(
    lengths: tuple[QueueLength, ...], processes: tuple[ServiceProcess, ...]
) -> Iterator[_Family]:
    """What every process of the service tells alike, since it is in the store."""

    def by_priority(name: str) -> dict[str, float]:
        return {f'priority="{each.priority.value}"': getattr(each, name) for each in lengths}

    workers = [each for each in processes if each.role.drives]
    busy = sum(each.busy > 0 for each in workers)
    used, free = sum(each.busy for each in workers), sum(each.free for each in workers)
    yield "queue_runs", "gauge", "Runs that wait for a worker.", by_priority("waiting")
    age = by_priority("oldest_seconds")
    yield "queue_oldest_seconds", "gauge", "How long the oldest of them has waited.", age
    yield "queue_running", "gauge", "Runs that a worker drives.", by_priority("running")
    states = {'state="busy"': busy, 'state="idle"': len(workers) - busy}
    yield "workers", "gauge", "Processes that drive runs, with and without one.", states
    places = {'state="busy"': used, 'state="idle"': free}
    yield "worker_places", "gauge", "Runs that they drive, and could drive besides.", places


def _lines(family: _Family) -> Iterator[str]:
    name, kind, description, values = family
    full = f"burnish_{name}"
    yield f"# HELP {full} {description}"
    yield f"# TYPE {full} {kind}"
    if isinstance(values, Mapping):
        for labels, value in values.items():
            yield f"{full}{{{labels}}} {value}"
    else:
        yield f"{full} {values}"
