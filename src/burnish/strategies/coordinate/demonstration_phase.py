"""The phase of demonstrations: which worked examples to show, how many, and in which order."""

from collections.abc import Hashable, Mapping, Sequence

from burnish.core.candidates import Origin
from burnish.core.surfaces import DemosSurface, Value
from burnish.strategies.coordinate import showing
from burnish.strategies.coordinate.phases import PhaseEnd
from burnish.strategies.coordinate.point_phases import Chooser, PointPhase
from burnish.strategies.coordinate.space import Point
from burnish.strategies.coordinate.trying import Incumbent, Tried

DRAWS = 256
"""How often chance is asked for something that was not tried yet."""


class DemonstrationPhase(PointPhase):
    """Which worked examples to show, and in which order."""

    name = "demonstrations"

    async def go(self, incumbent: Incumbent) -> PhaseEnd:
        """Search over the examples that train has to offer."""
        surface = self.surfaces[self.settings.demonstrations]
        assert isinstance(surface, DemosSurface)
        self.surface: DemosSurface = surface
        now = incumbent.candidate.values[surface.id]
        shown = now if isinstance(now, tuple) else ()
        self.pool = showing.pool_of(
            self.run.dataset.train, incumbent.train, self.metrics, surface, shown=shown
        )
        if not self.pool or not surface.max_demos:
            return self.end(incumbent, "no_examples")
        self.space = showing.space_of(self.pool, surface)
        self.whole = showing.ways_to_show(self.pool, surface)
        self.begin(showing.point_of(self.pool, shown, surface), incumbent)
        first = showing.first_points(self.pool, surface, shown=shown)
        return await self.search(incumbent, self._new(first, incumbent))

    def _new(self, points: Sequence[Point], incumbent: Incumbent) -> list[Point]:
        """The points that are still to be tried; of the others the study is told what came out."""
        new: list[Point] = []
        for point in points:
            tried = incumbent.candidate.child(self.values(point), origin=Origin()).id
            if tried not in self.memory.losses:
                new.append(point)
            else:
                self._tell(point, Tried(incumbent=incumbent, loss=self.memory.losses[tried]))
        return new

    async def _ask(self) -> tuple[Chooser, Point]:
        """The study's next point; another one by chance where that shows what was tried before.

        Many points show the same: TPE would ask for nothing at all again and again.
        """
        by, point = await super()._ask()
        other = self._another() if self.key(point) in self.seen else None
        return (by, point) if other is None else ("chance", other)

    def nothing_left(self, incumbent: Incumbent) -> str:
        """Also where chance finds nothing new: not every way to show them need fit."""
        if () in self.seen and self._another() is None:
            return "space_exhausted"
        return super().nothing_left(incumbent)

    def _another(self) -> Point | None:
        rng = self.run.rng(self.study, "another", self.trials)
        points = (showing.drawn(self.pool, self.surface, rng) for _ in range(DRAWS))
        return next((point for point in points if self.key(point) not in self.seen), None)

    def values(self, point: Point) -> Mapping[str, Value]:
        """The demonstrations of a point."""
        return {self.surface.id: showing.shown(self.pool, point, self.surface)}

    def key(self, point: Point) -> Hashable:
        """What is shown: places beyond the count do not matter."""
        return showing.shown(self.pool, point, self.surface)

    def note(self, point: Point, before: Incumbent) -> str:
        """How many."""
        del before
        count = len(showing.shown(self.pool, point, self.surface))
        return f"{count or 'no'} demo{'' if count == 1 else 's'}"
