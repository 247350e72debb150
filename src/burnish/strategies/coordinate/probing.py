"""Which axes are alive: an axis whose changes never reach a request is reported, not tuned."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from burnish.core.candidates import Origin
from burnish.core.surfaces import ChoiceSurface, NumberSurface, Surface, TextSurface, Value
from burnish.runs.probing import Probed
from burnish.runs.run import Run
from burnish.strategies.coordinate.headroom import DeadAxis
from burnish.strategies.coordinate.space import at_unit
from burnish.strategies.coordinate.trying import Incumbent

AxisType = TypeVar("AxisType", bound=Surface)

DEAD_AXES = "dead_axes"
"""Why a phase ends that has no axis left."""
_SHARES = (0.0, 0.5, 1.0)
"""Where in its range a number is tried."""
_SUFFIX = " (and so on)"
"""What a text is given to see whether anybody reads it."""


@dataclass(frozen=True, kw_only=True)
class Probing:
    """Tries the axes of one phase on what was measured, before anything is paid for them."""

    run: Run
    cycle: int
    phase: str

    async def alive(self, axes: Sequence[AxisType], incumbent: Incumbent) -> tuple[AxisType, ...]:
        """The axes worth tuning from here; the others are announced.

        A choice may wake what sleeps now, such as the weights of a search beside its mode: what
        stands beside a choice that is alive itself is kept.
        """
        found = {axis.id: await self._probed(axis, incumbent) for axis in axes}
        waking = {
            _owner(axis)
            for axis in axes
            if isinstance(axis, ChoiceSurface) and found[axis.id].reaches
        }
        dead = [a for a in axes if not found[a.id].reaches and _owner(a) not in waking]
        for axis in dead:
            self._announce(axis, found[axis.id])
        return tuple(axis for axis in axes if axis not in dead)

    async def _probed(self, axis: Surface, incumbent: Incumbent) -> Probed:
        now = incumbent.candidate.values[axis.id]
        origin = Origin(by="coordinate", kind="probe", note=axis.id)
        others = [
            incumbent.candidate.child({axis.id: value}, origin=origin)
            for value in other_values(axis, now)
        ]
        if not others:
            return Probed(reaches=True)
        return await self.run.probe(others, measured=incumbent.train)

    def _announce(self, axis: Surface, probed: Probed) -> None:
        dead = DeadAxis(axis=axis.id, cycle=self.cycle, phase=self.phase, runs=probed.runs)
        self.run.tell(dead, f"cycle:{self.cycle}:{self.phase}:dead:{axis.id}")


def other_values(axis: Surface, now: Value) -> tuple[Value, ...]:
    """Values that stand for all that an axis may become; without the one that it has."""
    found: Sequence[Value] = ()
    match axis:
        case ChoiceSurface():
            found = axis.choices
        case NumberSurface():
            found = [at_unit(axis, share) for share in _SHARES]
        case TextSurface():
            found = [f"{now}{_SUFFIX}"]
        case _:
            pass
    return tuple(dict.fromkeys(value for value in found if value != now))


def _owner(axis: Surface) -> str:
    """What the axis belongs to: `tools[name=archive]` of `tools[name=archive].top_k`."""
    return axis.id.rpartition(".")[0]
