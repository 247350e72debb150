"""From a range or choices of an optimizer block to a surface."""

from collections.abc import Sequence
from typing import TypeAlias

from burnish.core.surfaces import ChoiceSurface, NumberSurface, Scalar, value_key
from burnish.projects.gathering import Keys
from burnish.projects.optimizer_block import NumericAxis
from burnish.projects.optimizer_findings import Findings

NumericSurface: TypeAlias = NumberSurface | ChoiceSurface

_BETWEEN = 0.37
"""Where in a range a value is tried that is no whole number by chance."""


def surface_of(axis: NumericAxis, at: Keys, findings: Findings) -> NumericSurface | None:
    """The surface of an axis; what is wrong with it is kept, and None given."""
    if axis.kind == "categorical":
        return _choice(axis, at, findings)
    if axis.choices is not None:
        remedy = "say type: categorical, or give a range"
        findings.wrong((*at, "choices"), f"choices do not go with type {axis.kind}", remedy)
        return None
    return _number(axis, at, findings)


def probes(surface: NumericSurface) -> Sequence[Scalar]:
    """Values of an axis that stand for all: its ends and one between, or every choice."""
    if isinstance(surface, ChoiceSurface):
        return surface.choices
    if surface.integer:
        return (int(surface.low), int(surface.high))
    between = surface.low + _BETWEEN * (surface.high - surface.low)
    return (surface.low, between, surface.high)


def _number(axis: NumericAxis, at: Keys, findings: Findings) -> NumberSurface | None:
    said = axis.range or []
    numbers = [v for v in said if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(said) != 2 or len(numbers) != 2:
        told = "expected the lowest and the highest number"
        findings.wrong((*at, "range"), told, "such as range: [0.0, 1.0]")
        return None
    low, high = numbers
    if not low < high:
        told = f"the range [{low:g}, {high:g}] is empty"
        findings.wrong((*at, "range"), told, "the lower number comes first")
        return None
    whole = axis.kind == "int"
    if whole and (low != int(low) or high != int(high)):
        told = f"the range [{low:g}, {high:g}] is not of whole numbers"
        findings.wrong((*at, "range"), told, "take whole numbers, or type: float")
        return None
    return NumberSurface(id=axis.path, low=low, high=high, integer=whole)


def _choice(axis: NumericAxis, at: Keys, findings: Findings) -> ChoiceSurface | None:
    if axis.choices is not None and axis.range is not None:
        findings.wrong((*at, "range"), "there are choices already", "keep one of the two")
        return None
    said = axis.choices or axis.range or []
    different = {value_key(choice) for choice in said}
    if len(said) < 2 or len(different) < len(said):
        told = "expected two or more choices, each once"
        findings.wrong(at, told, "such as choices: [semantic, hybrid]")
        return None
    return ChoiceSurface(id=axis.path, choices=tuple(said))
