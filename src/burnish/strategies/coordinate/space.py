"""The space of a numeric phase: ranges and choices, and points in them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
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
        return math.prod(map(values_of, self.axes))

    def key(self, point: Point) -> tuple[bytes, ...]:
        """One spelling for one point."""
        return tuple(value_key(_place(axis, point[axis.id])) for axis in self.axes)

    def contains(self, point: Point) -> bool:
        """Whether the point lies within all bounds and on all grids."""
        return not any(axis.problems(point[axis.id]) for axis in self.axes)


def values_of(axis: Axis) -> float:
    """How many values an axis has; infinite where it is continuous."""
    if isinstance(axis, ChoiceSurface):
        return len(axis.choices)
    if axis.low == axis.high:
        return 1
    if axis.step is not None:
        return math.floor((axis.high - axis.low) / axis.step + 1e-9) + 1
    return math.floor(axis.high) - math.ceil(axis.low) + 1 if axis.integer else math.inf


def grid_place(axis: NumberSurface, value: float) -> int:
    """Which place of its grid a value has, on an axis with a step."""
    return round((value - axis.low) / (axis.step or 1))


def on_grid(axis: NumberSurface, place: int) -> int | float:
    """The value at a place of the grid, as a person would write it: 0.3, not 0.3000…04."""
    value = Decimal(str(axis.low)) + place * Decimal(str(axis.step or 1))
    return int(value) if axis.integer else float(value)


def unit(axis: NumberSurface, value: float) -> float:
    """A number as a share of its range, on the scale it is searched on."""
    if axis.high == axis.low:
        return 0.5
    if axis.log:
        return math.log(value / axis.low) / math.log(axis.high / axis.low)
    return (value - axis.low) / (axis.high - axis.low)


def at_unit(axis: NumberSurface, share: float) -> int | float:
    """The number at a share of its range; the nearest one where not every number will do."""
    if axis.log:
        found = axis.low * (axis.high / axis.low) ** share
    else:
        found = axis.low + share * (axis.high - axis.low)
    if axis.step is not None:
        return on_grid(axis, min(grid_place(axis, found), int(values_of(axis)) - 1))
    if axis.integer:
        return min(math.floor(axis.high), max(math.ceil(axis.low), round(found)))
    return found


def _place(axis: Axis, value: Scalar) -> Scalar:
    if isinstance(axis, ChoiceSurface) or axis.step is None:
        return value
    return grid_place(axis, float(value))
