"""Assigning things to places, one each: as many as can be, never first come, first served."""

from collections import deque
from collections.abc import Sequence


class Assignment:
    """Who has which place; grows by augmenting paths, so that nobody blocks another for good."""

    def __init__(self, choices: Sequence[Sequence[int]]) -> None:
        self._choices = choices
        """For each who, the places that would do."""
        self.place_of: dict[int, int] = {}
        self._holder: dict[int, int] = {}

    @property
    def taken(self) -> frozenset[int]:
        """The places that somebody has."""
        return frozenset(self._holder)

    def add(self, who: int) -> bool:
        """Find a place for one more, moving others where needed; whether there is one."""
        came_from: dict[int, int] = {}
        waiting = deque([who])
        while waiting:
            asking = waiting.popleft()
            for place in self._choices[asking]:
                if place in came_from:
                    continue
                came_from[place] = asking
                if place not in self._holder:
                    self._settle(place, came_from)
                    return True
                waiting.append(self._holder[place])
        return False

    def add_all(self, group: Sequence[int]) -> bool:
        """Find a place for every one of a group, or for none of them."""
        before = dict(self.place_of), dict(self._holder)
        if all(self.add(who) for who in group):
            return True
        self.place_of, self._holder = before
        return False

    def _settle(self, place: int, came_from: dict[int, int]) -> None:
        free: int | None = place
        while free is not None:
            who = came_from[free]
            left = self.place_of.get(who)
            self.place_of[who], self._holder[free] = free, who
            free = left


def assigned(choices: Sequence[Sequence[int]]) -> Assignment:
    """The largest assignment there is; who comes first keeps a place once there is one."""
    assignment = Assignment(choices)
    for who in range(len(choices)):
        assignment.add(who)
    return assignment
