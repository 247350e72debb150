"""Minibatches: every case once in each pass over train, in an order drawn anew for each pass."""

import random
from collections.abc import Callable, Sequence

from burnish.core.cases import Case


def minibatch(
    cases: Sequence[Case], size: int, number: int, shuffle: Callable[[int], random.Random]
) -> tuple[Case, ...]:
    """The cases of one minibatch; the last of a pass is filled up from the pass's beginning."""
    size = min(size, len(cases))
    in_a_pass = -(-len(cases) // size)
    number_of_pass, place = divmod(number, in_a_pass)
    order = list(cases)
    shuffle(number_of_pass).shuffle(order)
    chosen = order[place * size : (place + 1) * size]
    return (*chosen, *order[: size - len(chosen)])
