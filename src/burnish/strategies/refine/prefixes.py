"""The gradient in words, for the manager's first plan."""

from collections.abc import Iterator

from burnish.strategies.refine.gradients import Gradient, GradientDefect

_MOST_DEFECTS = 24
_MOST_CHARS = 300
_SEVEREST = ("critical", "high", "warning", "medium", "info", "low")


def refinement_prefix(gradient: Gradient) -> str:
    """What the manager is told before its first plan; empty sections are left out."""
    return "\n".join(_lines(gradient)) + "\n"


def _lines(gradient: Gradient) -> Iterator[str]:
    yield "## REFINEMENT CONTEXT"
    yield "This task was done before. Its result is there to be made better."
    yield "Prior deliverable is available at: input/"
    if gradient.prior_loss_total is not None:
        yield f"Prior loss: {gradient.prior_loss_total:.3f}"
    yield from (f"  - {name}: {value}" for name, value in gradient.prior_raw_signals.items())
    if gradient.defects:
        yield "Defects identified by prior critique:"
        yield from _defects(gradient.defects)
    if gradient.rejected_gates:
        yield "Rejected gates in prior run:"
        yield from (f"  - {gate.gate}: {_line(gate.reason)}" for gate in gradient.rejected_gates)
    if gradient.eval_deltas:
        yield "Metric gaps to close:"
        yield from (f"  - {m}: +{gap:.2f} needed" for m, gap in gradient.eval_deltas.items())
    yield "The goal is a lower loss: remove what is listed above."
    yield "Keep what is good in the prior deliverable, and deliver every file of it again."
    yield "Start from the files in input/ and change them; do not write everything anew."


def _defects(defects: tuple[GradientDefect, ...]) -> Iterator[str]:
    """One line each; of very many only the severest."""
    chosen = sorted(defects, key=_rank)[:_MOST_DEFECTS] if len(defects) > _MOST_DEFECTS else defects
    for defect in chosen:
        at = f" ({_line(defect.evidence)})" if defect.evidence else ""
        yield f"  - [{_line(defect.severity)}] {_line(defect.summary)}{at}"
    if len(chosen) < len(defects):
        yield f"  - and {len(defects) - len(chosen)} more of the same kinds"


def _rank(defect: GradientDefect) -> int:
    known = defect.severity.lower()
    return _SEVEREST.index(known) if known in _SEVEREST else len(_SEVEREST)


def _line(told: str) -> str:
    """Text of others on one line, so that it cannot look like a part of this page."""
    flat = " ".join(told.split())
    return flat if len(flat) <= _MOST_CHARS else f"{flat[: _MOST_CHARS - 1]}…"
