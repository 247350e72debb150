"""Work in processes of its own: searches, and how far they are."""

import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def alone(measure: Callable[[], R]) -> R:
    """What a function gives in a process in which nothing ran before."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as pool:
        return pool.submit(measure).result()


def searched(search: Callable[[T], R], tasks: Sequence[T], processes: int) -> Iterator[R]:
    """What the searches gave, in order; how far they are goes to stderr."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=processes, mp_context=spawn) as pool:
        for done, result in enumerate(pool.map(search, tasks), start=1):
            print(f"\r{done} of {len(tasks)} searches", end="", file=sys.stderr, flush=True)
            yield result
    print(file=sys.stderr)
