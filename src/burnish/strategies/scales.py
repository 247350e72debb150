"""Numbers as shares of their ranges, on the scale that they are searched on."""

import math
from decimal import Decimal

from burnish.core.surfaces import ChoiceSurface, NumberSurface


def values_of(axis: NumberSurface | ChoiceSurface) -> float:
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
        value = axis.low * (axis.high / axis.low) ** share
    else:
        value = axis.low + share * (axis.high - axis.low)
    if axis.step is not None:
        return on_grid(axis, min(grid_place(axis, value), int(values_of(axis)) - 1))
    if axis.integer:
        return min(math.floor(axis.high), max(math.ceil(axis.low), round(value)))
    return value


_DISTINCT = 100
"""Roughly how many values of a continuous axis can be told apart."""


def rounded(axis: NumberSurface, value: float) -> float:
    """A number of a continuous axis as a person would write it: 0.58, not 0.578085…

    It is rounded to the power of ten that is nearest to a hundredth of the range, or of the value
    on a log scale. The bounds count as round, whatever they are.
    """
    reach = value * math.log(axis.high / axis.low) if axis.log else axis.high - axis.low
    digits = -round(math.log10(reach / _DISTINCT)) if reach > 0 else 0
    near = [round(value, digits), axis.low, axis.high]
    return min((v for v in near if axis.low <= v <= axis.high), key=lambda v: abs(v - value))
