"""What burnish measures, in PromptIter's terms: evaluations, losses, gradients."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from burnish.compat.promptiter.anatomy import Anatomy
from burnish.compat.promptiter.eval_stack import Home
from burnish.compat.promptiter.gradients import (
    AggregatedSurface,
    AggregationResult,
    BackwardResult,
    CaseGradients,
    CaseLoss,
    StepGradients,
    SurfaceGradient,
    TerminalLoss,
)
from burnish.compat.promptiter.traces import (
    CaseResult,
    EvalSetResult,
    EvaluationResult,
    MetricResult,
    MetricStatus,
)
from burnish.compat.promptiter.tracing import Tracing
from burnish.core import evaluations
from burnish.core.cases import Case
from burnish.core.evaluations import Evaluation, mean
from burnish.core.scores import Score
from burnish.core.structures import SurfaceType
from burnish.strategies.backprop import packets
from burnish.strategies.backprop.rounds import Round

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Translator:
    """Knows where each case is from and what each surface is called."""

    anatomy: Anatomy
    homes: Mapping[str, Home]
    cases: Mapping[str, Case]

    def evaluation(self, found: Evaluation) -> EvaluationResult:
        """An evaluation set by set; repeats of a case are one case with the mean of each metric."""
        by_set: dict[str, list[CaseResult]] = {}
        for case in found.cases:
            result = self._case(case, found.of_case(case))
            by_set.setdefault(result.eval_set_id, []).append(result)
        sets = tuple(_set(name, cases) for name, cases in by_set.items())
        scores = [each.overall_score for each in sets if each.overall_score is not None]
        return EvaluationResult(overall_score=mean(scores) if scores else None, eval_sets=sets)

    def losses(self, found: Round) -> tuple[CaseLoss, ...]:
        """The losses case by case, each once however often the case was run."""
        by_case: dict[str, dict[TerminalLoss, None]] = {}
        for loss in found.losses:
            told = by_case.setdefault(loss.case, {})
            told.update(dict.fromkeys(self._loss(each) for each in loss.losses))
        return tuple(
            CaseLoss(
                eval_set_id=self.homes[case].eval_set,
                eval_case_id=self.homes[case].case,
                terminal_losses=tuple(losses),
            )
            for case, losses in self._sorted(by_case)
        )

    def backward(self, found: Round) -> BackwardResult:
        """The gradients case by case and step by step, in the order of the trace."""
        by_case: dict[str, list[packets.SurfaceGradient]] = {}
        for gradient in found.gradients:
            by_case.setdefault(gradient.case, []).append(gradient)
        cases = [
            CaseGradients(
                eval_set_id=self.homes[case].eval_set,
                eval_case_id=self.homes[case].case,
                step_gradients=tuple(self._steps(found, case, gradients)),
            )
            for case, gradients in self._sorted(by_case)
        ]
        return BackwardResult(cases=tuple(cases))

    def aggregation(self, found: Round) -> AggregationResult:
        """What should change about each surface."""
        surfaces = [
            self._aggregated(surface, remarks) for surface, remarks in (found.merged or {}).items()
        ]
        ordered = sorted(surfaces, key=lambda each: each.surface_id)
        return AggregationResult(surfaces=tuple(ordered))

    # -- parts -----------------------------------------------------------------------------

    def _case(self, name: str, results: Sequence[evaluations.CaseResult]) -> CaseResult:
        home = self.homes[name]
        tracing = Tracing(anatomy=self.anatomy, case=self.cases[name])
        metrics = dict.fromkeys(score.metric for result in results for score in result.scores)
        return CaseResult(
            eval_set_id=home.eval_set,
            eval_case_id=home.case,
            session_id=name,
            trace=tracing.trace(results[0], session=name),
            metrics=tuple(_metric(metric, results) for metric in metrics),
        )

    def _loss(self, loss: packets.TerminalLoss) -> TerminalLoss:
        home = self.homes[loss.case]
        return TerminalLoss(
            eval_set_id=home.eval_set,
            eval_case_id=home.case,
            metric_name=loss.metric,
            severity=loss.severity,
            step_id=loss.step,
            loss=loss.text,
        )

    def _steps(
        self, found: Round, case: str, gradients: Sequence[packets.SurfaceGradient]
    ) -> Iterator[StepGradients]:
        steps = [s.id for r in found.train.of_case(case) for s in r.outcome.trace.steps]
        places = {step: place for place, step in reversed(list(enumerate(steps)))}
        named = dict.fromkeys((gradient.step, gradient.node) for gradient in gradients)
        for step, node in sorted(named, key=lambda each: places.get(each[0], 0)):
            said = tuple(self._gradient(each) for each in gradients if each.step == step)
            yield StepGradients(step_id=step, node_id=self._node(node), gradients=said)

    def _gradient(self, gradient: packets.SurfaceGradient) -> SurfaceGradient:
        home = self.homes[gradient.case]
        return SurfaceGradient(
            eval_set_id=home.eval_set,
            eval_case_id=home.case,
            step_id=gradient.step,
            surface_id=self.anatomy.name_of(gradient.surface),
            severity=gradient.severity,
            gradient=gradient.text,
        )

    def _aggregated(
        self, surface: str, remarks: Sequence[packets.MergedGradient]
    ) -> AggregatedSurface:
        position, name = self.anatomy.position_of(surface), self.anatomy.name_of(surface)
        said = [
            SurfaceGradient(surface_id=name, severity=each.severity, gradient=each.text)
            for each in remarks
        ]
        return AggregatedSurface(
            surface_id=name,
            node_id=position.node if position else "",
            type=position.type if position else SurfaceType.INSTRUCTION,
            gradients=tuple(said),
        )

    def _node(self, name: str) -> str:
        return Tracing.node_in(self.anatomy, name)

    def _sorted(self, by_case: Mapping[str, T]) -> list[tuple[str, T]]:
        def place(each: tuple[str, object]) -> tuple[str, str]:
            home = self.homes[each[0]]
            return home.eval_set, home.case

        return sorted(by_case.items(), key=place)


def _set(name: str, cases: Sequence[CaseResult]) -> EvalSetResult:
    """The mean over cases and metrics alike, without what could not be evaluated."""
    scores = [m.score for case in cases for m in case.metrics if m.status != "not_evaluated"]
    overall = mean(scores) if scores else None
    return EvalSetResult(eval_set_id=name, overall_score=overall, cases=tuple(cases))


def _metric(name: str, results: Sequence[evaluations.CaseResult]) -> MetricResult:
    values = [result.value(name) for result in results if result.applies(name)]
    known = [value for value in values if value is not None]
    scores = [score for result in results for score in result.scores if score.metric == name]
    whole = bool(known) and len(known) == len(values)
    reasons = [s.reason for s in scores if s.reason and (s.passed is False or s.missing)]
    usual = [s.reason for s in scores if s.reason]
    return MetricResult(
        metric_name=name,
        score=mean(known) if whole else 0.0,
        status=_status(scores, whole=whole),
        reason="\n".join(dict.fromkeys(reasons or usual)),
    )


def _status(scores: Sequence[Score], *, whole: bool) -> MetricStatus:
    verdicts = [score.passed for score in scores]
    if not whole:
        return "not_evaluated"
    if False in verdicts:
        return "failed"
    return "passed" if True in verdicts else "unknown"
