"""What phases that search a space of points have in common, and that of numbers and choices."""

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias, cast

from burnish.core.content import Json, short_id
from burnish.core.surfaces import ChoiceSurface, NumberSurface, Scalar, Value
from burnish.core.trials import TrialDetails
from burnish.runs.run import Run
from burnish.strategies.coordinate import tpe
from burnish.strategies.coordinate.memory import Memory
from burnish.strategies.coordinate.parzen import (
    CANDIDATES,
    QUANTILE,
    Densities,
    best_expected_improvement,
    ratio,
)
from burnish.strategies.coordinate.phases import Phase, PhaseEnd
from burnish.strategies.coordinate.probing import DEAD_AXES
from burnish.strategies.coordinate.settings import CoordinateSettings, PhaseLimits
from burnish.strategies.coordinate.space import Observation, Point, Space
from burnish.strategies.coordinate.trying import Attempt, Incumbent, Tried

Chooser: TypeAlias = Literal["start", "chance", "model"]
"""Who chose a point: nobody (it is where such a phase starts), chance, or TPE."""
WORST = 1.0
"""The loss of a point that is not to be had."""


@dataclass(frozen=True, kw_only=True)
class Suggested:
    """A point to try, as the journal keeps it."""

    point: Mapping[str, Scalar]


class PointPhase(Phase):
    """A phase that searches a space of points with a fresh study."""

    space: Space
    whole: float
    """How many different things can be tried."""

    def __init__(
        self,
        run: Run,
        settings: CoordinateSettings,
        *,
        cycle: int,
        limits: PhaseLimits,
        memory: Memory,
    ) -> None:
        super().__init__(run, settings, cycle=cycle, limits=limits, memory=memory)
        self.study = f"{self.name}-phase-{cycle}"
        self.known: list[Observation] = []
        """What the study is told, the incumbent's own point first."""
        self.seen: set[Hashable] = set()
        self._warm_up = tpe.warm_up(min(limits.patience, limits.max_trials))

    @abstractmethod
    def values(self, point: Point) -> Mapping[str, Value]:
        """The surfaces' values at a point."""

    @abstractmethod
    def note(self, point: Point, before: Incumbent) -> str:
        """A point in a few words."""

    @abstractmethod
    def key(self, point: Point) -> Hashable:
        """The same for two points that are the same thing to try."""

    def begin(self, here: Point | None, incumbent: Incumbent) -> None:
        """Tell the new study where the search stands."""
        if here is None:
            return
        self.seen.add(self.key(here))
        if incumbent.loss is not None:
            self.known.append(Observation(point=here, loss=incumbent.loss))

    async def search(self, start: Incumbent, first: Sequence[Point] = ()) -> PhaseEnd:
        """Ask, try, tell, until there is a reason to end."""
        incumbent, waiting = start, list(first)
        while not (reason := self.over(incumbent)):
            by, point = ("start", waiting.pop(0)) if waiting else await self._ask()
            attempt = Attempt(
                values=self.values(point),
                note=self.note(point, incumbent),
                details=self._explained(point, by),
            )
            tried = await self.trying.attempt(attempt, incumbent)
            self._tell(point, tried)
            incumbent = tried.incumbent
            self.count(tried)
        return self.end(incumbent, reason)

    def nothing_left(self, incumbent: Incumbent) -> str:
        """Every point was tried, or the model expects nothing of any."""
        del incumbent
        if len(self.seen) >= self.whole:
            return "space_exhausted"
        if len(self.known) <= self._warm_up + 1:
            return ""
        rng = self.run.rng(self.study, "expected improvement", len(self.known))
        hoped = best_expected_improvement(self.space, self.known, rng)
        return "converged" if hoped < self.settings.numeric_convergence_eps else ""

    async def _ask(self) -> tuple[Chooser, Point]:
        """The study's next point; kept in the journal, since another optuna may say otherwise."""
        space, known, start = self.space, tuple(self.known), self._warm_up
        seed = self.run.rng(self.study, self.trials).getrandbits(31)
        told: Json = {
            "study": self.study,
            "ask": self.trials,
            "seed": seed,
            "known": short_id([[list(map(str, space.key(o.point))), o.loss] for o in known]),
        }
        found = await self.run.remember(
            "suggestion",
            told,
            Suggested,
            lambda: Suggested(point=tpe.suggest(space, known, seed=seed, start=start)),
        )
        return "model" if len(known) >= start else "chance", found.point

    def _tell(self, point: Point, tried: Tried) -> None:
        """A point nobody could measure is not told: missing is neither good nor bad."""
        self.seen.add(self.key(point))
        if tried.unfit:
            worst = max([WORST, *(each.loss for each in self.known)])
            self.known.append(Observation(point=point, loss=worst))
        elif tried.loss is not None:
            self.known.append(Observation(point=point, loss=tried.loss))

    def _explained(self, point: Point, by: Chooser) -> TrialDetails:
        """Why this point, for the audit row."""
        marginals = Densities.of(self.space, self.known).marginals(point)
        told: dict[str, Json] = {
            "kind": self.name,
            "numeric_study_id": self.study,
            "params": {**point},
            "chosen_by": by,
            "tpe_n_observations_this_study": len(self.known),
            "tpe_quantile": QUANTILE,
            "candidates_evaluated": CANDIDATES if by == "model" else 1,
            "selected_candidate_score": ratio(marginals),
            "axis_marginals": {name: asdict(m) for name, m in marginals.items()},
        }
        return TrialDetails(proposal_source=told)


class NumericPhase(PointPhase):
    """Numbers and choices, together, while everything else stands still."""

    name = "numeric"

    async def go(self, incumbent: Incumbent) -> PhaseEnd:
        """Search from the incumbent's own point, which is the first thing the study is told."""
        named = [
            surface
            for name in self.settings.numbers
            if isinstance(surface := self.surfaces[name], NumberSurface | ChoiceSurface)
        ]
        axes = await self.probing.alive(named, incumbent)
        if not axes:
            return self.end(incumbent, DEAD_AXES)
        self.space = Space(axes=axes)
        self.whole = self.space.size
        here = {axis.id: cast("Scalar", incumbent.candidate.values[axis.id]) for axis in axes}
        self.begin(here if self.space.contains(here) else None, incumbent)
        return await self.search(incumbent)

    def values(self, point: Point) -> Mapping[str, Value]:
        """The point itself."""
        return {**point}

    def key(self, point: Point) -> Hashable:
        """The point itself, spelled one way."""
        return self.space.key(point)

    def note(self, point: Point, before: Incumbent) -> str:
        """The values that differ from the incumbent's."""
        new = [
            f"{name.rpartition('#')[2].rpartition('.')[2]} {_short(value)}"
            for name, value in point.items()
            if before.candidate.values[name] != value
        ]
        return ", ".join(new) or "as before"


def _short(value: Scalar) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
