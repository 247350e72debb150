"""Drawings that a strategy brings for the pages about its runs: numbers with names, and no look."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """One or more series of numbers over the same labels."""

    title: str
    labels: tuple[str, ...]
    """What the numbers belong to: rounds, iterations, surfaces."""
    series: Mapping[str, tuple[float | None, ...]]
    """By name, one number for each label; None where there is none."""
    unit: str
    kind: Literal["bars", "lines"] = "lines"
    """Bars of several series are stacked."""
    label: str = ""
    """What one label is, as the head of the table."""
    of_surfaces: bool = False
    """Whether the labels are surfaces: then they are also shown on the graph of the steps."""
    note: str = ""
