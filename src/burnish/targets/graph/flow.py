"""How a graph flows: its order without the ways back, and who comes before whom."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Flow:
    """The order of a graph's nodes once the edges that go back are left out."""

    order: tuple[str, ...]
    """Every node after those before it; among equals, in the order of the file."""
    back: frozenset[tuple[str, str]]
    """The edges that close a cycle."""
    before: Mapping[str, tuple[str, ...]]
    """The nodes that lead straight to each, ways back left out."""
    behind: Mapping[str, frozenset[str]]
    """All nodes from which each can be reached, ways back left out."""

    @classmethod
    def of(cls, entry: str, after: Mapping[str, Sequence[str]]) -> "Flow":
        """The flow of a graph that is entered here; `after` has every node, in order."""
        back = frozenset(_back_edges(entry, after))
        ahead = {
            node: [to for to in leads if (node, to) not in back] for node, leads in after.items()
        }
        order = _sorted(ahead)
        before = {node: tuple(n for n in order if node in ahead[n]) for node in order}
        behind: dict[str, frozenset[str]] = {}
        for node in order:
            behind[node] = frozenset(before[node]).union(*(behind[n] for n in before[node]))
        return cls(order=order, back=back, before=before, behind=behind)


def reachable(entry: str, after: Mapping[str, Sequence[str]]) -> set[str]:
    """The nodes that a run can come to."""
    found, waiting = {entry}, [entry]
    while waiting:
        new = [to for to in after[waiting.pop()] if to not in found]
        found.update(new)
        waiting += new
    return found


def _back_edges(entry: str, after: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """The edges of a depth-first walk that lead to a node it is still inside of."""
    seen = {entry}
    way = {entry: iter(after[entry])}
    while way:
        node = next(reversed(way))
        to = next(way[node], None)
        if to is None:
            del way[node]
        elif to in way:
            yield node, to
        elif to not in seen:
            seen.add(to)
            way[to] = iter(after[to])


def _sorted(ahead: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    places = {node: place for place, node in enumerate(ahead)}
    names = list(ahead)
    waits = dict.fromkeys(ahead, 0)
    for to in (to for leads in ahead.values() for to in leads):
        waits[to] += 1
    ready = [places[node] for node in ahead if not waits[node]]
    order: list[str] = []
    while ready:
        node = names[heapq.heappop(ready)]
        order.append(node)
        for to in ahead[node]:
            waits[to] -= 1
            if not waits[to]:
                heapq.heappush(ready, places[to])
    return tuple(order)
