"""A small image service, simulated: how long requests take under a configuration.

There is no chance in it: the same configuration gives the same numbers.
"""

import heapq
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from ruamel.yaml import YAML

COSTS = {"icon": 4.0, "photo": 20.0, "video": 60.0}
"""Milliseconds to make an answer that is not in the cache."""
TAKING = 6.0
"""Milliseconds that a worker needs to take a batch; more where more workers crowd the queue."""
DAY, EVENING, WEEKEND = (1, 900, 9.0), (2, 700, 8.0), (3, 800, 8.5)
"""A seed, how many requests there are, and milliseconds between them."""


@dataclass(frozen=True)
class Request:
    """Somebody wants one picture."""

    at: float
    kind: str
    picture: int


@dataclass
class Cache:
    """Answers that need not be made again."""

    entries: int
    drop: str
    held: deque[tuple[str, int]] = field(default_factory=deque[tuple[str, int]])
    used: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])

    def cost(self, request: Request) -> float:
        """Milliseconds for one answer."""
        key = (request.kind, request.picture)
        self.used[key] += 1
        if key in self.held:
            return 1.0
        if self.entries and len(self.held) >= self.entries:
            least = min(self.held, key=self.used.__getitem__)
            self.held.remove(least if self.drop == "least_used" else self.held[0])
        if self.entries:
            self.held.append(key)
        return COSTS[request.kind]


def score(workspace: Path, run: dict[str, Any]) -> dict[str, Any]:
    """The scorer of the task: the traffic of a day."""
    del run
    return measured(workspace / "config.yaml", requests(*DAY))


def score_evening(workspace: Path, run: dict[str, Any]) -> dict[str, Any]:
    """The scorer of holdout: another traffic."""
    del run
    return measured(workspace / "config.yaml", requests(*EVENING))


def score_weekend(workspace: Path, run: dict[str, Any]) -> dict[str, Any]:
    """The scorer of the sealed test."""
    del run
    return measured(workspace / "config.yaml", requests(*WEEKEND))


def requests(seed: int, count: int, apart: float) -> list[Request]:
    """Requests come in bursts of twenty; a few pictures are wanted often, most of them seldom."""
    random = Random(seed).random  # noqa: S311
    kinds = ["icon", "icon", "icon", "photo", "photo", "video"]
    found: list[Request] = []
    for number in range(count):
        at = (number // 20 * 20 + 8 * random()) * apart
        found.append(Request(at, kinds[int(random() * 6)], int(random() ** 3 * 80)))
    return found


def measured(path: Path, asked: list[Request]) -> dict[str, Any]:
    """The numbers of one configuration."""
    yaml: Any = YAML(typ="safe")
    config = yaml.load(path.read_text(encoding="utf-8"))
    waits = sorted(latencies(config, sorted(asked, key=lambda request: request.at)))
    memory = 60 * config["workers"] + 1.5 * config["cache"]["entries"]
    slowest = waits[int(len(waits) * 0.95)]
    return {
        "latency_ms": sum(waits) / len(waits),
        "metrics": {"slowest_ms": slowest, "memory_mb": memory},
        "feedback": f"one request in twenty takes longer than {slowest:.0f} ms",
    }


def latencies(config: Any, asked: list[Request]) -> list[float]:
    """How long each request took, from its arrival to its answer."""
    cache = Cache(config["cache"]["entries"], config["cache"]["drop"])
    first = {kind: place for place, kind in enumerate(config["queue"]["first"])}
    taking = TAKING * (1 + 0.15 * (config["workers"] - 1))
    free = [0.0] * config["workers"]
    coming, waiting, found = deque(asked), list[Request](), list[float]()
    while coming or waiting:
        now = heapq.heappop(free)
        now = now if waiting else max(now, coming[0].at)
        while coming and coming[0].at <= now:
            waiting.append(coming.popleft())
        waiting.sort(key=lambda request: (first[request.kind], request.at))
        taken, waiting = waiting[: config["queue"]["batch"]], waiting[config["queue"]["batch"] :]
        end = now + taking + sum(cache.cost(request) for request in taken)
        found += [end - request.at for request in taken]
        heapq.heappush(free, end)
    return found
