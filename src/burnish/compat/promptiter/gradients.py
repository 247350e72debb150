"""Losses and gradients in PromptIter's terms."""

from burnish.compat.promptiter.wire import Wire
from burnish.core.structures import SurfaceType


class TerminalLoss(Wire):
    """A failed metric, at the step where its way back begins."""

    eval_set_id: str = ""
    eval_case_id: str = ""
    metric_name: str = ""
    severity: str = ""
    step_id: str = ""
    loss: str = ""


class CaseLoss(Wire):
    """The losses of one case."""

    eval_set_id: str = ""
    eval_case_id: str = ""
    terminal_losses: tuple[TerminalLoss, ...] = ()


class SurfaceGradient(Wire):
    """What should change about a surface, and where that comes from; empty where it is merged."""

    eval_set_id: str = ""
    eval_case_id: str = ""
    step_id: str = ""
    surface_id: str = ""
    severity: str = ""
    gradient: str = ""


class StepGradients(Wire):
    """What one step says."""

    step_id: str = ""
    node_id: str = ""
    gradients: tuple[SurfaceGradient, ...] = ()


class CaseGradients(Wire):
    """What one case says, step by step."""

    eval_set_id: str = ""
    eval_case_id: str = ""
    step_gradients: tuple[StepGradients, ...] = ()


class BackwardResult(Wire):
    """What the walk back brought."""

    cases: tuple[CaseGradients, ...] = ()


class AggregatedSurface(Wire):
    """What should change about a surface, all cases together."""

    surface_id: str = ""
    node_id: str = ""
    type: SurfaceType = SurfaceType.INSTRUCTION
    gradients: tuple[SurfaceGradient, ...] = ()


class AggregationResult(Wire):
    """What should change, surface by surface."""

    surfaces: tuple[AggregatedSurface, ...] = ()
