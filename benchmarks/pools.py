"""Work in processes of its own: searches, and how far they are."""

import multiprocessing
import re
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def alone(measure: Callable[[], R]) -> R:
    """What a function gives in a process in which nothing ran before."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as pool:
        return pool.submit(measure).result()


def peak_memory() -> float:
    """The most memory that this process has had, in MB."""
    status = Path("/proc/self/status")
    if not status.is_file():  # where the other number is in bytes
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    # Linux counts as ru_maxrss what the process had that started this one, too.
    peak = re.search(r"VmHWM:\s+(\d+)", status.read_text())
    assert peak is not None
    return int(peak[1]) / 1024


def searched(search: Callable[[T], R], tasks: Sequence[T], processes: int) -> Iterator[R]:
    """What the searches gave, in order; how far they are goes to stderr."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=processes, mp_context=spawn) as pool:
        for done, result in enumerate(pool.map(search, tasks), start=1):
            print(f"\r{done} of {len(tasks)} searches", end="", file=sys.stderr, flush=True)
            yield result
    print(file=sys.stderr)
