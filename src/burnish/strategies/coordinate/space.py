"""The space of a numeric phase: ranges and choices, and points in them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from burnish.core.surfaces import ChoiceSurface, NumberSurface, Scalar, value_key

Axis: TypeAlias = NumberSurface | ChoiceSurface
Point: TypeAlias = Mapping[str, Scalar]


@dataclass(frozen=True, kw_only=True)
class Observation:
    """A point that was measured, and its loss."""

    point: Point
    loss: float


@dataclass(frozen=True, kw_only=True)
class Space:
    """The axes that are searched together."""

    axes: tuple[Axis, ...]

    @cached_property
    def size(self) -> float:
        """How many points there are; infinite where an axis is continuous."""
        return math.prod(map(_values, self.axes))

    def key(self, point: Point) -> tuple[bytes, ...]:
        """One spelling for one point."""
        return tuple(value_key(point[axis.id]) for axis in self.axes)

    def exhausted(self, tried: Sequence[Observation]) -> bool:
        """Whether every point has been tried."""
        return len({self.key(each.point) for each in tried}) >= self.size


def unit(axis: NumberSurface, value: float) -> float:
    """A number as a share of its range, on the scale it is searched on."""
    if axis.high == axis.low:
        return 0.5
    if axis.log:
        return math.log(value / axis.low) / math.log(axis.high / axis.low)
    return (value - axis.low) / (axis.high - axis.low)


def _values(axis: Axis) -> float:
    if isinstance(axis, ChoiceSurface):
        return len(axis.choices)
    if axis.low == axis.high:
        return 1
    step = axis.step or (1 if axis.integer else 0)
    return math.floor((axis.high - axis.low) / step + 1e-9) + 1 if step else math.inf
