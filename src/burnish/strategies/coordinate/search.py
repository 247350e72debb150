"""The strategy `coordinate`: phases in cycles until a cycle brings no gain."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from burnish.core.cases import Split
from burnish.core.content import Json, codec, short_id
from burnish.core.errors import Problem
from burnish.core.protocols import Role, Target
from burnish.core.strict_gate import OfferRule
from burnish.core.surfaces import (
    ChoiceSurface,
    DemosSurface,
    NumberSurface,
    TextSurface,
)
from burnish.journal.limits import Budget
from burnish.models.roles import ModelRole
from burnish.runs.events import PhaseEnded, PhaseStarted, SearchEnded
from burnish.runs.run import Run
from burnish.strategies.coordinate import headroom
from burnish.strategies.coordinate.demonstrations import DemonstrationPhase, NumericPhase
from burnish.strategies.coordinate.phases import NOTHING_TO_GAIN, STOPPED, Phase, TextualPhase
from burnish.strategies.coordinate.settings import PHASES, CoordinateSettings
from burnish.strategies.coordinate.trials import (
    CritiqueRequest,
    Edit,
    EditRequest,
    Gradient,
    Incumbent,
    Memory,
    TrialRunner,
)
from burnish.strategies.pruning import Pruner, Winner

_VERSION = 3
_MAX_CYCLES = "max_cycles"


@dataclass(frozen=True, kw_only=True)
class Coordinate:
    """Coordinate descent: demonstrations, then numbers, then texts, again and again.

    Each phase starts where the one before it ended, and each accept inside a phase moves the
    incumbent, so that gains add up. A numeric phase has its own study: what was learned under
    another text does not count.
    """

    settings: CoordinateSettings = field(default_factory=CoordinateSettings)
    critic: Role[CritiqueRequest, Gradient] | None = None
    applier: Role[EditRequest, Edit] | None = None
    name: str = "coordinate"

    @property
    def fingerprint(self) -> str:
        return short_id([_VERSION, self.settings.fingerprinted(free=("max_cycles",))])

    @property
    def offer_rule(self) -> OfferRule:
        settings = self.settings
        return OfferRule(
            accept_sigma=settings.accept_sigma,
            max_missing=settings.max_errored_fraction,
            splits=(Split.TRAIN, Split.HOLDOUT),
        )

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        return [role for role in (self.critic, self.applier) if role is not None]

    def audit_header(self, target: Target, budget: Budget) -> Mapping[str, Json]:
        """The search as HoloDeck's run.json tells it."""
        settings = self.settings
        surfaces = {surface.id: codec(type(surface)).encode(surface) for surface in target.surfaces}
        phases = {name: getattr(settings, name) for name in PHASES}
        limits = {name: value for name, value in vars(budget).items() if value}
        config: dict[str, Json] = {
            "axes": {
                "numeric": [surfaces[name] for name in settings.numbers],
                "textual": [surfaces[name] for name in settings.texts],
                "demonstrations": surfaces.get(settings.demonstrations),
            },
            "repeats": settings.repeats,
            "accept_sigma": settings.accept_sigma,
            "max_errored_fraction": settings.max_errored_fraction,
            "min_confidence": settings.min_confidence,
            "holdout_eval_policy": settings.holdout_policy,
            "budget": {
                "global": {"max_cycles": settings.max_cycles, **limits},
                **{name: limit.model_dump(mode="json") for name, limit in phases.items()},
            },
        }
        agents: dict[str, Json] = {
            role.name: {"model": role.client.ref.label, "agent_path": str(role.prompt.source)}
            for role in self.roles
            if isinstance(role, ModelRole)
        }
        return {"optimizer_config": config, "subagents": agents}

    def steerable(self, target: Target) -> Mapping[str, Sequence[str]]:
        """What people may send to a run; a hint needs somebody who writes."""
        settings, kinds = self.settings, {surface.id: surface for surface in target.surfaces}
        demos = (settings.demonstrations,) if settings.demonstrations else ()
        axes = [*demos, *settings.numbers, *settings.texts]
        own = [name for name in axes if not isinstance(kinds.get(name), DemosSurface)]
        hints: dict[str, Sequence[str]] = {"tell": ()} if settings.texts else {}
        return {"try": own, **hints, "pin": axes}

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """The surfaces in the settings must exist, be of the right kind and within bounds."""
        surfaces = {surface.id: surface for surface in target.surfaces}
        demos = (self.settings.demonstrations,) if self.settings.demonstrations else ()
        axes = [
            *((name, (NumberSurface, ChoiceSurface)) for name in self.settings.numbers),
            *((name, (TextSurface,)) for name in self.settings.texts),
            *((name, (DemosSurface,)) for name in demos),
        ]
        problems = [
            Problem(where=name, message="there is no such surface, or it is of another kind")
            for name, kinds in axes
            if not isinstance(surfaces.get(name), kinds)
        ]
        if not problems:
            remedy = "change the value it starts with, or the bounds of the axis"
            problems = [
                replace(problem, remedy=remedy)
                for name, _ in axes
                for problem in surfaces[name].problems(target.baseline.values[name])
            ]
        if not axes:
            problems.append(Problem(message="there is nothing to tune: no axis is given"))
        if self.settings.texts and (self.critic is None or self.applier is None):
            problems.append(Problem(message="texts need a critic and an applier"))
        return problems

    async def search(self, run: Run) -> None:
        memory, pruner = Memory(), self._pruner(run)
        runner = TrialRunner(run, self.settings, cycle=0, phase="baseline", memory=memory)
        if run.stop_reason(runner.need) is not None:
            return
        incumbent = await runner.baseline()
        costs = headroom.costs_ahead(run, self.settings, self.roles, runner.paid)
        run.tell(headroom.headroom_of(run, self.settings, incumbent, costs), "headroom")
        cycle, reason = 0, NOTHING_TO_GAIN if incumbent.perfect else ""
        if not reason and run.stop_reason() is not None:
            reason = STOPPED
        search_on = True
        while search_on:
            while not reason:
                cycle += 1
                before, incumbent = incumbent, await self._cycle(run, cycle, incumbent, memory)
                reason = self._over(run, cycle, before, incumbent)
            if reason != STOPPED:
                run.tell(SearchEnded(cycle=cycle, reason=reason), f"cycle:{cycle}:{reason}")
            leader = Winner.of(incumbent.candidate, incumbent.train, incumbent.holdout)
            pruned = await pruner.prune(leader, cycle=cycle)
            incumbent = _incumbent(run, pruned.leader) if pruned.changed else incumbent
            reason = self._left(run, cycle, reason) if pruned.search_on else reason
            search_on = not reason

    def _pruner(self, run: Run) -> Pruner:
        settings = self.settings
        return Pruner(
            run,
            by=self.name,
            rule=self.offer_rule,
            repeats=settings.repeats,
            uses_holdout=settings.uses_holdout,
            active=settings.prune,
        )

    def _left(self, run: Run, cycle: int, reason: str) -> str:
        """Why a resumed search is still over; empty if a limit that ended it was raised."""
        if reason == STOPPED:
            return "" if run.stop_reason() is None else STOPPED
        return "" if reason == _MAX_CYCLES and cycle < self.settings.max_cycles else reason

    def _over(self, run: Run, cycle: int, before: Incumbent, after: Incumbent) -> str:
        if run.stopped is not None:
            return STOPPED
        if after.perfect:
            return NOTHING_TO_GAIN
        if after is before:
            return "dry_cycle"
        # A limit that was lowered or raised since does not change recorded cycles.
        is_last = cycle >= self.settings.max_cycles and not run.replaying
        return _MAX_CYCLES if is_last or run.closing.due else ""

    async def _cycle(self, run: Run, cycle: int, incumbent: Incumbent, memory: Memory) -> Incumbent:
        for phase in self._phases(run, cycle, memory):
            if incumbent.perfect:
                break
            run.tell(PhaseStarted(cycle=cycle, phase=phase.name), f"cycle:{cycle}:{phase.name}")
            incumbent, reason = await phase.go(incumbent)
            event = PhaseEnded(
                cycle=cycle,
                phase=phase.name,
                reason=reason,
                trials=phase.trials,
                accepts=phase.accepts,
            )
            # A stopped phase continues when the run is resumed, and then ends again.
            last = f"stopped:{run.trial}" if reason == STOPPED else "end"
            run.tell(event, f"cycle:{cycle}:{phase.name}:{last}")
            if run.stopped is not None:
                break
        return incumbent

    def _phases(self, run: Run, cycle: int, memory: Memory) -> Iterator[Phase]:
        settings = self.settings
        common: dict[str, Any] = {
            "run": run,
            "settings": settings,
            "cycle": cycle,
            "memory": memory,
        }
        if settings.demonstrations:
            yield DemonstrationPhase(limits=settings.demonstration_phase, **common)
        if settings.numbers:
            yield NumericPhase(limits=settings.numeric_phase, **common)
        if settings.texts and self.critic is not None and self.applier is not None:
            yield TextualPhase(
                limits=settings.textual_phase, critic=self.critic, applier=self.applier, **common
            )


def _incumbent(run: Run, leader: Winner) -> Incumbent:
    """A pruned candidate as the one to build on."""
    train = leader.results[Split.TRAIN]
    return Incumbent(
        candidate=leader.candidate,
        train=train,
        holdout=leader.results.get(Split.HOLDOUT),
        loss=run.objective.measure(train).loss,
    )
