"""What is worth knowing about how cases fell into splits, in sentences."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from burnish.core.cases import Case, Dataset, Split

_NAMED = 5
"""More names than these are counted, not listed."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Cases in their splits, and what led to it."""

    dataset: Dataset
    sizes: Mapping[Split, int]
    """How many each split should have had by its share."""
    groups: tuple[tuple[Case, ...], ...]
    repeated: tuple[Case, ...]
    """Cases that were left out, because they came a second time."""


def notes(placed: Placed) -> tuple[str, ...]:
    """Repetitions, groups, sizes that are not as asked, labels that one split alone has."""
    return (*_repeated(placed), *_grouped(placed), *_deviations(placed), *_lonely_labels(placed))


def listed(names: Sequence[str], most: int = _NAMED) -> str:
    """Names beside each other; how many more, where there are many."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _repeated(placed: Placed) -> Iterator[str]:
    names = [case.id for case in placed.repeated]
    if names:
        yield f"left out, since they came a second time: {listed(names)}"


def _grouped(placed: Placed) -> Iterator[str]:
    several = [group for group in placed.groups if len(group) > 1]
    if several:
        cases = sum(map(len, several))
        groups = "1 group" if len(several) == 1 else f"{len(several)} groups"
        yield f"{cases} cases in {groups} belong together; each group is whole in one split"


def _deviations(placed: Placed) -> Iterator[str]:
    largest = max(placed.groups, key=len, default=())
    why = f"the largest group has {len(largest)}: {listed([case.id for case in largest], 3)}"
    for name in Split:
        wanted, found = placed.sizes[name], len(placed.dataset.cases(name))
        if found != wanted:
            yield f"{name} has {found} cases instead of {wanted}, since groups stay whole ({why})"


def _lonely_labels(placed: Placed) -> Iterator[str]:
    homes: defaultdict[str, list[Split]] = defaultdict(list)
    for name in Split:
        for case in placed.dataset.cases(name):
            for label in dict.fromkeys(case.labels):
                homes[label].append(name)
    used = [name for name in Split if placed.dataset.cases(name)]
    lonely = [
        f"'{label}' ({where[0]}, {len(where)})"
        for label, where in sorted(homes.items())
        if len(set(where)) == 1 and len(used) > 1
    ]
    if lonely:
        yield f"labels that only one split has, with how many cases: {listed(lonely)}"
