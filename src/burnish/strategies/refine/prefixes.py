"""The gradient in words, for the manager's first plan."""

from collections.abc import Iterator

from burnish.strategies.refine.gradients import Gradient


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
        yield from (f"  - [{d.severity}] {d.summary}{_at(d.evidence)}" for d in gradient.defects)
    if gradient.rejected_gates:
        yield "Rejected gates in prior run:"
        yield from (f"  - {gate.gate}: {gate.reason}" for gate in gradient.rejected_gates)
    if gradient.eval_deltas:
        yield "Metric gaps to close:"
        yield from (f"  - {m}: +{gap:.2f} needed" for m, gap in gradient.eval_deltas.items())
    yield "The goal is a lower loss: remove what is listed above."
    yield "Keep what is good in the prior deliverable."
    yield "Start from the files in input/ and change them; do not write everything anew."


def _at(evidence: str) -> str:
    return f" ({evidence})" if evidence else ""
