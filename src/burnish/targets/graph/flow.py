"""In which order the nodes of a graph run, and which edges go back."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Flow:
    """The order of a graph's nodes, without the edges that go back."""

    order: tuple[str, ...]
    """Every node after its predecessors; otherwise in the order of the file."""
    back: frozenset[tuple[str, str]]
    """The edges that close a cycle."""
    before: Mapping[str, tuple[str, ...]]
    """The direct predecessors of each node, without edges that go back."""
    behind: Mapping[str, frozenset[str]]
    """All predecessors of each node, without edges that go back."""

    @classmethod
    def of(cls, entries: Sequence[str], after: Mapping[str, Sequence[str]]) -> "Flow":
        """The flow of a graph; `after` has every node, in order."""
        back = frozenset(_back_edges(entries, after))
        ahead = {
            node: [to for to in leads if (node, to) not in back] for node, leads in after.items()
        }
        order = _sorted(ahead)
        before = {node: tuple(n for n in order if node in ahead[n]) for node in order}
        behind: dict[str, frozenset[str]] = {}
        for node in order:
            behind[node] = frozenset(before[node]).union(*(behind[n] for n in before[node]))
        return cls(order=order, back=back, before=before, behind=behind)


def reachable(entries: Sequence[str], after: Mapping[str, Sequence[str]]) -> set[str]:
    """The nodes that a run can reach."""
    reached, waiting = {*entries}, [*entries]
    while waiting:
        new = [to for to in after[waiting.pop()] if to not in reached]
        reached.update(new)
        waiting += new
    return reached


def _back_edges(
    entries: Sequence[str], after: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str]]:
    """The edges of a depth-first walk that lead to a node it is still inside of."""
    seen: set[str] = set()
    for entry in entries:
        way = {} if entry in seen else {entry: iter(after[entry])}
        seen.add(entry)
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
