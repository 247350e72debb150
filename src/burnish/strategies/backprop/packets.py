"""What travels back through a trace: losses, packets, gradients; and how they are ordered."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad it is; P0 first."""

    P0 = "P0"
    P1 = "P1"
    P2 = "P2"
    P3 = "P3"


_RANKS = {severity.value: place for place, severity in enumerate(Severity)}


def rank(severity: str) -> int:
    """The place of a severity; what is none of them comes last."""
    return _RANKS.get(severity, len(_RANKS))


@dataclass(frozen=True, kw_only=True)
class TerminalLoss:
    """A failed metric, at the step where its way back begins."""

    case: str
    draw: int
    metric: str
    step: str
    severity: str
    text: str

    @property
    def order(self) -> tuple[int, str, str, str]:
        """The worst first, then by name."""
        return rank(self.severity), self.metric, self.step, self.text


@dataclass(frozen=True, kw_only=True)
class CaseLoss:
    """The losses of one run of a case."""

    case: str
    draw: int
    losses: tuple[TerminalLoss, ...]


@dataclass(frozen=True, kw_only=True)
class Packet:
    """What a step is told by those after it."""

    source: str
    """The step that sent it; the step itself for a loss."""
    severity: str
    text: str

    @property
    def order(self) -> tuple[int, str, str]:
        """The worst first, then by sender."""
        return rank(self.severity), self.source, self.text


@dataclass(frozen=True, kw_only=True)
class SurfaceGradient:
    """What one run of a case says should change about a surface."""

    case: str
    draw: int
    step: str
    node: str
    surface: str
    severity: str
    text: str

    @property
    def order(self) -> tuple[int, str, int, str, str]:
        """The worst first, then by where it came from."""
        return rank(self.severity), self.case, self.draw, self.step, self.text


@dataclass(frozen=True, kw_only=True)
class MergedGradient:
    """One thing that should change about a surface, and all that says so."""

    surface: str
    severity: str
    text: str
    sources: tuple[SurfaceGradient, ...]


@dataclass(frozen=True, kw_only=True)
class Lost:
    """A question to a role that brought nothing: it costs its packet, not the run."""

    role: str
    where: str
    """The case and step, or the surface."""
    why: str
