"""The three kinds of phase: demonstrations, numbers, texts. Each ends by itself and says why."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import cast

from burnish.core.content import Json, short_id
from burnish.core.errors import RoleFailed
from burnish.core.protocols import Role
from burnish.core.surfaces import (
    ChoiceSurface,
    DemosSurface,
    NumberSurface,
    Scalar,
    Surface,
    TextSurface,
    Value,
)
from burnish.runs.run import Run
from burnish.strategies.coordinate import showing, tpe
from burnish.strategies.coordinate.parzen import (
    CANDIDATES,
    QUANTILE,
    Densities,
    best_expected_improvement,
)
from burnish.strategies.coordinate.settings import CoordinateSettings, PhaseLimits
from burnish.strategies.coordinate.space import Observation, Point, Space
from burnish.strategies.coordinate.trying import Attempt, Incumbent, Tried, Trying
from burnish.strategies.coordinate.wording import (
    CritiqueRequest,
    Edit,
    EditRequest,
    Gradient,
    failing,
    gradients_told,
    traces_told,
)

REMEMBERED = 3
"""Rejected diagnoses that the critic is told of."""


@dataclass(frozen=True, kw_only=True)
class Suggested:
    """A point to try, as the journal keeps it."""

    point: Mapping[str, Scalar]


@dataclass(frozen=True, kw_only=True)
class PhaseEnd:
    """Where a phase left things, and why it ended."""

    incumbent: Incumbent
    reason: str
    accepts: int = 0
    trials: int = 0


class Phase:
    """What all phases share: limits, patience, and when the whole run has to stop."""

    name = ""

    def __init__(self, run: Run, settings: CoordinateSettings, *, cycle: int) -> None:
        self.run = run
        self.settings = settings
        self.cycle = cycle
        self.trying = Trying(run, settings, cycle=cycle, phase=self.name)
        self.surfaces: dict[str, Surface] = {s.id: s for s in run.target.surfaces}
        self.trials = 0
        self.accepts = 0
        self.idle = 0

    def over(self, limits: PhaseLimits) -> str:
        """Why the phase is over; empty when it is not."""
        if self.run.stop_reason(self.trying.need) is not None:
            return "stopped"
        if self.trials >= limits.max_trials:
            return "max_trials"
        return "patience" if self.idle >= limits.patience else ""

    def count(self, tried: Tried) -> None:
        """Keep the books of the phase."""
        self.trials += 1
        self.accepts += tried.accepted
        self.idle = 0 if tried.accepted else self.idle + 1

    def end(self, incumbent: Incumbent, reason: str) -> PhaseEnd:
        """The phase as it ended."""
        return PhaseEnd(
            incumbent=incumbent, reason=reason, accepts=self.accepts, trials=self.trials
        )


class PointPhase(Phase):
    """A phase that searches a space of points with a fresh study."""

    def __init__(
        self, run: Run, settings: CoordinateSettings, *, cycle: int, limits: PhaseLimits
    ) -> None:
        super().__init__(run, settings, cycle=cycle)
        self.limits = limits
        self.study = f"{self.name}-phase-{cycle}"

    def values(self, point: Point) -> Mapping[str, Value]:
        """The surfaces' values at a point."""
        raise NotImplementedError

    def note(self, point: Point, before: Incumbent) -> str:
        """A point in a few words."""
        raise NotImplementedError

    async def search(
        self, space: Space, start: Incumbent, known: list[Observation], first: Sequence[Point]
    ) -> PhaseEnd:
        """Ask, try, tell, until there is a reason to stop."""
        incumbent, seen = start, {space.key(each.point) for each in known}
        waiting = list(first)
        while not (reason := self.over(self.limits) or self._nothing_left(space, known)):
            point = waiting.pop(0) if waiting else await self._ask(space, known)
            attempt = Attempt(
                values=self.values(point),
                note=self.note(point, incumbent),
                details=self._explained(space, known, point),
            )
            if space.key(point) in seen:
                loss = next(o.loss for o in known if space.key(o.point) == space.key(point))
                tried = self.trying.turned_away(attempt, incumbent, "this point was tried before")
            else:
                tried = await self.trying.attempt(attempt, incumbent)
                loss = tried.loss
            seen.add(space.key(point))
            # A point that could not be measured is told as the worst there is: not to be had.
            known.append(Observation(point=point, loss=1.0 if loss is None else loss))
            incumbent = tried.incumbent
            self.count(tried)
        return self.end(incumbent, reason)

    async def _ask(self, space: Space, known: Sequence[Observation]) -> Point:
        """The study's next point; kept in the journal, since another optuna may say otherwise."""
        start = tpe.warm_up(self.limits.patience)
        seed = self.run.rng(self.study, len(known)).getrandbits(31)
        told: Json = {
            "study": self.study,
            "ask": len(known),
            "seed": seed,
            "known": short_id([[list(map(str, space.key(o.point))), o.loss] for o in known]),
        }
        found = await self.run.remember(
            "suggestion",
            told,
            Suggested,
            lambda: Suggested(point=tpe.suggest(space, known, seed=seed, start=start)),
        )
        return found.point

    def _nothing_left(self, space: Space, known: Sequence[Observation]) -> str:
        if space.exhausted(known):
            return "space_exhausted"
        if len(known) <= tpe.warm_up(self.limits.patience) + 1:
            return ""
        rng = self.run.rng(self.study, "expected improvement", len(known))
        hoped = best_expected_improvement(space, known, rng)
        return "converged" if hoped < self.settings.numeric_convergence_eps else ""

    def _explained(
        self, space: Space, known: Sequence[Observation], point: Point
    ) -> dict[str, Json]:
        """Why this point, for the audit row."""
        densities = Densities.of(space, known)
        marginals = densities.marginals(point)
        told: dict[str, Json] = {
            "kind": self.name,
            "numeric_study_id": self.study,
            "params": {**point},
            "tpe_n_observations_this_study": len(known),
            "tpe_quantile": QUANTILE,
            "candidates_evaluated": CANDIDATES,
            "selected_candidate_score": densities.ratio(point) if known else 1.0,
            "axis_marginals": {name: asdict(m) for name, m in marginals.items()},
        }
        return {"proposal_source": told}


class NumericPhase(PointPhase):
    """Numbers and choices, together, while everything else stands still."""

    name = "numeric"

    async def go(self, incumbent: Incumbent) -> PhaseEnd:
        """Search from the incumbent's own point, which is the first thing the study is told."""
        axes = tuple(
            surface
            for name in self.settings.numbers
            if isinstance(surface := self.surfaces[name], NumberSurface | ChoiceSurface)
        )
        space = Space(axes=axes)
        here = {axis.id: cast("Scalar", incumbent.candidate.values[axis.id]) for axis in axes}
        loss = self.run.objective.measure(incumbent.train).loss
        known = [Observation(point=here, loss=1.0 if loss is None else loss)]
        return await self.search(space, incumbent, known, ())

    def values(self, point: Point) -> Mapping[str, Value]:
        """The point itself."""
        return {**point}

    def note(self, point: Point, before: Incumbent) -> str:
        """The values that differ from the incumbent's."""
        new = [
            f"{name.rpartition('.')[2]} {_short(value)}"
            for name, value in point.items()
            if before.candidate.values[name] != value
        ]
        return ", ".join(new) or "as before"


class DemonstrationPhase(PointPhase):
    """Which worked examples to show, and in which order."""

    name = "demonstrations"

    async def go(self, incumbent: Incumbent) -> PhaseEnd:
        """Search over the examples that train has to offer."""
        surface = self.surfaces[self.settings.demonstrations]
        assert isinstance(surface, DemosSurface)
        metrics = list(self.run.objective.weights)
        self.pool = showing.pool_of(self.run.dataset.train, incumbent.train, metrics, surface)
        if not self.pool:
            return self.end(incumbent, "no_examples")
        space = showing.space_of(self.pool, surface)
        known: list[Observation] = []
        now = incumbent.candidate.values[surface.id]
        here = showing.point_of(self.pool, now if isinstance(now, tuple) else (), surface)
        loss = self.run.objective.measure(incumbent.train).loss
        if here is not None and loss is not None:
            known.append(Observation(point=here, loss=loss))
        first = [] if here is not None else showing.first_points(self.pool, surface)
        return await self.search(space, incumbent, known, first)

    def values(self, point: Point) -> Mapping[str, Value]:
        """The demonstrations of a point."""
        return {self.settings.demonstrations: showing.shown(self.pool, point)}

    def note(self, point: Point, before: Incumbent) -> str:
        """How many."""
        del before
        count = len(showing.shown(self.pool, point))
        return f"{count} demo{'' if count == 1 else 's'}"


class TextualPhase(Phase):
    """Texts, one a trial, by a critic who diagnoses and an applier who edits."""

    name = "textual"

    def __init__(
        self,
        run: Run,
        settings: CoordinateSettings,
        *,
        cycle: int,
        critic: Role[CritiqueRequest, Gradient],
        applier: Role[EditRequest, Edit],
        rejected: dict[str, list[Gradient]],
    ) -> None:
        super().__init__(run, settings, cycle=cycle)
        self._critic = critic
        self._applier = applier
        self._rejected = rejected
        """By axis: diagnoses that brought nothing, over the whole run."""

    async def go(self, incumbent: Incumbent) -> PhaseEnd:
        """Edit axis after axis until a whole pass over them brings nothing."""
        limits, axes = self.settings.textual_phase, self.settings.texts
        metrics = list(self.run.objective.weights)
        while not (reason := self.over(limits)):
            if self.idle >= len(axes) and self.trials >= len(axes):
                return self.end(incumbent, "no_accept_in_a_pass")
            if not failing(incumbent.train, metrics):
                return self.end(incumbent, "no_failures")
            axis = axes[self.trials % len(axes)]
            tried = await self._edit(axis, incumbent, metrics)
            incumbent = tried.incumbent
            self.count(tried)
        return self.end(incumbent, reason)

    async def _edit(self, axis: str, incumbent: Incumbent, metrics: Sequence[str]) -> Tried:
        text = str(incumbent.candidate.values[axis])
        try:
            gradient = await self._diagnose(axis, text, incumbent, metrics)
            if gradient.confidence < self.settings.min_confidence:
                why = f"low confidence: {gradient.confidence:.2f}"
                return self.trying.turned_away(self._attempt(axis, gradient), incumbent, why)
            edit = await self._apply(axis, text, gradient)
        except RoleFailed as error:
            attempt = Attempt(values={axis: text}, note=axis)
            return self.trying.turned_away(attempt, incumbent, error.message)
        tried = await self.trying.attempt(self._attempt(axis, gradient, edit), incumbent)
        if not tried.accepted:
            self._rejected.setdefault(axis, []).append(gradient)
        return tried

    async def _diagnose(
        self, axis: str, text: str, incumbent: Incumbent, metrics: Sequence[str]
    ) -> Gradient:
        seen = traces_told(failing(incumbent.train, metrics), self.run.dataset.train)
        before = self._rejected.get(axis, [])[-REMEMBERED:]
        request = CritiqueRequest(
            axis=axis,
            current_text=text,
            failing_traces=seen,
            previous_gradients=gradients_told(before),
        )
        # The same text with the same failures may be diagnosed again: another draw, another view.
        return await self.run.ask(self._critic, request, draw=self.run.trial)

    async def _apply(self, axis: str, text: str, gradient: Gradient) -> Edit:
        surface = self.surfaces[axis]
        assert isinstance(surface, TextSurface)
        request = EditRequest(
            axis=axis,
            current_text=text,
            gradient=gradients_told([gradient]),
            max_chars=surface.max_chars or 8000,
        )
        return await self.run.ask(self._applier, request, draw=self.run.trial)

    def _attempt(self, axis: str, gradient: Gradient, edit: Edit | None = None) -> Attempt:
        told: dict[str, Json] = {"kind": "textual", "critic": gradient.model_dump(mode="json")}
        if edit is not None:
            told["applier"] = edit.model_dump(mode="json", exclude={"new_text"})
        return Attempt(
            values={} if edit is None else {axis: edit.new_text},
            note=axis,
            details={"axis_target": axis, "proposal_source": told},
        )


def _short(value: Scalar) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
