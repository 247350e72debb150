"""What burnish measures and decides, in PromptIter's terms."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from burnish.compat.promptiter.evaluation import CaseOrigin
from burnish.compat.promptiter.requests import RunRequest
from burnish.compat.promptiter.results import (
    AcceptanceDecision,
    AggregatedSurface,
    AggregationResult,
    BackwardResult,
    CaseGradients,
    CaseLoss,
    EvalSetResult,
    EvaluationResult,
    MetricResult,
    MetricStatus,
    Step,
    StepGradients,
    StopDecision,
    SurfaceGradient,
    TerminalLoss,
    Text,
    TokenUsage,
    ToolRecord,
    Trace,
    TraceStatus,
)
from burnish.compat.promptiter.results import (
    CaseResult as WireCaseResult,
)
from burnish.compat.promptiter.snapshot import SurfaceMap
from burnish.core import evaluations, outcomes
from burnish.core.cases import Case
from burnish.core.comparisons import CaseChanges, Pair, compare
from burnish.core.content import Json, canonical, codec
from burnish.core.evaluations import CaseResult, Evaluation, Objective, Score, mean
from burnish.core.outcomes import Outcome, Usage
from burnish.core.structures import Node, SurfaceType
from burnish.core.surfaces import EPSILON, Value
from burnish.strategies.backprop import packets
from burnish.strategies.backprop.losses import WHOLE, trace_of
from burnish.strategies.backprop.packets import (
    Lost,
    MergedGradient,
)
from burnish.strategies.backprop.packets import (
    SurfaceGradient as BackpropSurfaceGradient,
)
from burnish.strategies.backprop.rounds import Attempt, Round

_ACCEPTED = "candidate score gain satisfies acceptance policy"
_REJECTED = "candidate score gain does not satisfy acceptance policy"
_LAST_ROUND = "max rounds reached"
_PATIENCE = "max rounds without acceptance reached"
_GOOD_ENOUGH = "target score reached"
_GO_ON = "continue optimization"
NO_LOSSES = "no losses to optimize"
_NO_BLAME = "no surface can be blamed for the losses"


def acceptance(attempt: Attempt, objective: Objective) -> AcceptanceDecision:
    """Whether an attempt was accepted; what no gain decided on is told in burnish's words."""
    decision = attempt.decision
    if decision is None:
        return AcceptanceDecision(reason=attempt.why)
    by_gain = decision.accepted or decision.code in {"below", "tie"}
    reason = _ACCEPTED if decision.accepted else _REJECTED
    return AcceptanceDecision(
        accepted=decision.accepted,
        score_delta=_gain(attempt, objective),
        reason=reason if by_gain else decision.reason,
    )


def _gain(attempt: Attempt, objective: Objective) -> float:
    """The gain on validation, over the cases that both sides have."""
    if attempt.holdout is None or attempt.before is None:
        return 0.0
    pair = Pair(candidate=attempt.holdout, incumbent=attempt.before)
    return compare(pair, objective, max_missing=1.0).gain


@dataclass(kw_only=True)
class Patience:
    """Counts rounds without an accept, and says when to stop, in PromptIter's order."""

    request: RunRequest
    without_accept: int = 0

    def after(self, number: int, attempts: Sequence[Attempt], score: float | None) -> StopDecision:
        """Whether the run ends after this round; `score` is what leads on validation."""
        accepted = any(each.decision and each.decision.accepted for each in attempts)
        self.without_accept = 0 if accepted else self.without_accept + 1
        policy, target = self.request.stop_policy, self.request.stop_policy.target_score
        limit = policy.max_rounds_without_acceptance
        reasons = {
            _LAST_ROUND: number >= self.request.max_rounds,
            _PATIENCE: 0 < limit <= self.without_accept,
            _GOOD_ENOUGH: target is not None and score is not None and score >= target - EPSILON,
            _NO_BLAME: not any(attempt.all_proposals for attempt in attempts),
        }
        why = next((reason for reason, holds in reasons.items() if holds), "")
        return StopDecision(should_stop=bool(why), reason=why or _GO_ON)


def chosen(tried: Sequence[Attempt]) -> Attempt:
    """The candidate that a round is about: the last that was accepted, else the first."""
    accepted = [each for each in tried if each.decision is not None and each.decision.accepted]
    return accepted[-1] if accepted else tried[0]


def additions(
    current: Round,
    attempts: Sequence[Attempt],
    objective: Objective,
    named: Callable[[str], str],
) -> dict[str, Json]:
    """What burnish knows of a round and PromptIter has no place for.

    `named` gives the SurfaceID of a surface of the target.
    """
    lost = (*current.lost, *(each for attempt in attempts for each in attempt.lost))
    entries: dict[str, Json] = {
        "FailureClasses": {case: each.value for case, each in (current.classes or {}).items()},
        "Missing": [*current.missing],
        "Sources": {
            named(surface): _sources(gradients)
            for surface, gradients in (current.merged or {}).items()
        },
        "Lost": [codec(Lost).encode(each) for each in lost],
        "Candidates": [_candidate(attempt, objective, named) for attempt in attempts],
    }
    return {key: value for key, value in entries.items() if value}


def _sources(gradients: Sequence[MergedGradient]) -> Json:
    """By merged remark, the cases that it comes from."""
    return [[*dict.fromkeys(source.case for source in each.sources)] for each in gradients]


def _candidate(attempt: Attempt, objective: Objective, named: Callable[[str], str]) -> Json:
    decision, changes = attempt.decision, attempt.changes(objective)
    score = None if attempt.holdout is None else objective.measure(attempt.holdout).score
    return {
        "Candidate": attempt.candidate.id,
        "Surfaces": [named(patch.surface) for patch in attempt.patches],
        "Problems": [str(problem) for problem in attempt.problems],
        "Verdict": decision.verdict.value if decision else "",
        "Code": decision.code if decision else "",
        "Reason": attempt.why,
        "Numbers": dict(decision.numbers) if decision else {},
        "Score": score,
        "Changes": None if changes is None else codec(CaseChanges).encode(changes),
    }


# -- Traces in PromptIter's terms -----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Tracing:
    """Reads the runs of one case."""

    surface_map: SurfaceMap
    case: Case

    def trace(self, result: CaseResult, *, session: str) -> Trace:
        """What happened in a run; one without steps is one step with everything in force."""
        outcome, root = result.outcome, self._node(self.surface_map.structure.entry)
        inputs = outcome.asked or tuple(turn.input for turn in self.case.turns)
        steps = trace_of(result, self.case, tuple(self.surface_map.editable)).steps
        return Trace(
            root_agent_name=root.name if root else "",
            session_id=session,
            status=_status(outcome),
            input=Text(text="\n".join(inputs)),
            output=Text(text=outcome.output),
            usage=_usage(outcome.usage),
            steps=tuple(self._step(step) for step in steps),
        )

    def _step(self, step: outcomes.Step) -> Step:
        name = self.node_in(self.surface_map, step.node)
        node = self._node(name)
        return Step(
            step_id=step.id,
            agent_name=node.name if node else step.node,
            node_id=name,
            node_type=node.kind.value if node else "",
            predecessor_step_ids=step.predecessors,
            applied_surface_ids=tuple(map(self.surface_map.name_of, step.surfaces)),
            input=None if step.input is None else Text(text=_text(step.input)),
            output=None if step.output is None else Text(text=_text(step.output)),
            usage=_usage(step.usage),
            tools=tuple(map(_tool, step.tools)),
            error=step.error,
        )

    def _node(self, name: str) -> Node | None:
        return next((node for node in self.surface_map.structure.nodes if node.id == name), None)

    @staticmethod
    def node_in(surface_map: SurfaceMap, name: str) -> str:
        """The node that a step names; a run without steps is a run of the entry."""
        nodes = {node.id for node in surface_map.structure.nodes}
        return surface_map.structure.entry if name == WHOLE and name not in nodes else name


def _status(outcome: Outcome) -> TraceStatus:
    if outcome.missing:
        return "incomplete"
    return "failed" if outcome.failed else "completed"


def _usage(usage: Usage) -> TokenUsage:
    prompt, completion = usage.input_tokens, usage.output_tokens
    return TokenUsage(
        prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion
    )


def _tool(call: outcomes.ToolCall) -> ToolRecord:
    return ToolRecord(
        id=call.id,
        name=call.name,
        arguments=dict(call.arguments),
        result=call.result,
        error=call.error,
    )


def _text(value: Json) -> str:
    return value if isinstance(value, str) else canonical(value).decode()


# -- What burnish measures, in PromptIter's terms -------------------------------------------------


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Translator:
    """Knows where each case is from and what each surface is called."""

    surface_map: SurfaceMap
    origins: Mapping[str, CaseOrigin]
    cases: Mapping[str, Case]

    def evaluation(self, evaluation: Evaluation) -> EvaluationResult:
        """An evaluation set by set; repeats of a case are one case with the mean of each metric."""
        by_set: dict[str, list[WireCaseResult]] = {}
        for case in evaluation.cases:
            result = self._case(case, evaluation.of_case(case))
            by_set.setdefault(result.eval_set_id, []).append(result)
        sets = tuple(_set(name, cases) for name, cases in by_set.items())
        scores = [each.overall_score for each in sets if each.overall_score is not None]
        return EvaluationResult(overall_score=mean(scores) if scores else None, eval_sets=sets)

    def losses(self, current: Round) -> tuple[CaseLoss, ...]:
        """The losses case by case, each once however often the case was run."""
        by_case: dict[str, dict[TerminalLoss, None]] = {}
        for loss in current.losses:
            unique = by_case.setdefault(loss.case, {})
            unique.update(dict.fromkeys(self._loss(each) for each in loss.losses))
        return tuple(
            CaseLoss(
                eval_set_id=self.origins[case].eval_set,
                eval_case_id=self.origins[case].case,
                terminal_losses=tuple(losses),
            )
            for case, losses in self._sorted(by_case)
        )

    def backward(self, current: Round) -> BackwardResult:
        """The gradients case by case and step by step, in the order of the trace."""
        by_case: dict[str, list[packets.SurfaceGradient]] = {}
        for gradient in current.gradients:
            by_case.setdefault(gradient.case, []).append(gradient)
        cases = [
            CaseGradients(
                eval_set_id=self.origins[case].eval_set,
                eval_case_id=self.origins[case].case,
                step_gradients=tuple(self._steps(current, case, gradients)),
            )
            for case, gradients in self._sorted(by_case)
        ]
        return BackwardResult(cases=tuple(cases))

    def aggregation(self, current: Round) -> AggregationResult:
        """What should change about each surface."""
        surfaces = [
            self._aggregated(surface, remarks)
            for surface, remarks in (current.merged or {}).items()
        ]
        ordered = sorted(surfaces, key=lambda each: each.surface_id)
        return AggregationResult(surfaces=tuple(ordered))

    # -- parts -----------------------------------------------------------------------------

    def _case(self, name: str, results: Sequence[evaluations.CaseResult]) -> WireCaseResult:
        origin = self.origins[name]
        tracing = _Tracing(surface_map=self.surface_map, case=self.cases[name])
        metrics = dict.fromkeys(score.metric for result in results for score in result.scores)
        return WireCaseResult(
            eval_set_id=origin.eval_set,
            eval_case_id=origin.case,
            session_id=name,
            trace=tracing.trace(results[0], session=name),
            metrics=tuple(_metric(metric, results) for metric in metrics),
        )

    def _loss(self, loss: packets.TerminalLoss) -> TerminalLoss:
        origin = self.origins[loss.case]
        return TerminalLoss(
            eval_set_id=origin.eval_set,
            eval_case_id=origin.case,
            metric_name=loss.metric,
            severity=loss.severity,
            step_id=loss.step,
            loss=loss.text,
        )

    def _steps(
        self, current: Round, case: str, gradients: Sequence[packets.SurfaceGradient]
    ) -> Iterator[StepGradients]:
        steps = [s.id for r in current.train.of_case(case) for s in r.outcome.trace.steps]
        places = {step: place for place, step in reversed(list(enumerate(steps)))}
        named = dict.fromkeys((gradient.step, gradient.node) for gradient in gradients)
        for step, node in sorted(named, key=lambda each: places.get(each[0], 0)):
            of_step = tuple(self._gradient(each) for each in gradients if each.step == step)
            yield StepGradients(step_id=step, node_id=self._node(node), gradients=of_step)

    def _gradient(self, gradient: packets.SurfaceGradient) -> SurfaceGradient:
        origin = self.origins[gradient.case]
        return SurfaceGradient(
            eval_set_id=origin.eval_set,
            eval_case_id=origin.case,
            step_id=gradient.step,
            surface_id=self.surface_map.name_of(gradient.surface),
            severity=gradient.severity,
            gradient=gradient.text,
        )

    def _aggregated(
        self, surface: str, remarks: Sequence[packets.MergedGradient]
    ) -> AggregatedSurface:
        position, name = self.surface_map.position_of(surface), self.surface_map.name_of(surface)
        gradients = [
            SurfaceGradient(surface_id=name, severity=each.severity, gradient=each.text)
            for each in remarks
        ]
        return AggregatedSurface(
            surface_id=name,
            node_id=position.node if position else "",
            type=position.type if position else SurfaceType.INSTRUCTION,
            gradients=tuple(gradients),
        )

    def _node(self, name: str) -> str:
        return _Tracing.node_in(self.surface_map, name)

    def _sorted(self, by_case: Mapping[str, T]) -> list[tuple[str, T]]:
        def place(each: tuple[str, object]) -> tuple[str, str]:
            origin = self.origins[each[0]]
            return origin.eval_set, origin.case

        return sorted(by_case.items(), key=place)


def _set(name: str, cases: Sequence[WireCaseResult]) -> EvalSetResult:
    """The mean over cases and metrics alike, without what could not be evaluated."""
    scores = [m.score for case in cases for m in case.metrics if m.status != "not_evaluated"]
    overall = mean(scores) if scores else None
    return EvalSetResult(eval_set_id=name, overall_score=overall, cases=tuple(cases))


def _metric(name: str, results: Sequence[evaluations.CaseResult]) -> MetricResult:
    values = [result.value(name) for result in results if result.applies(name)]
    numbers = [value for value in values if value is not None]
    scores = [score for result in results for score in result.scores if score.metric == name]
    whole = bool(numbers) and len(numbers) == len(values)
    reasons = [s.reason for s in scores if s.reason and (s.passed is False or s.missing)]
    usual = [s.reason for s in scores if s.reason]
    return MetricResult(
        metric_name=name,
        score=mean(numbers) if whole else 0.0,
        status=_evaluation_status(scores, whole=whole),
        reason="\n".join(dict.fromkeys(reasons or usual)),
    )


def _evaluation_status(scores: Sequence[Score], *, whole: bool) -> MetricStatus:
    verdicts = [score.passed for score in scores]
    if not whole:
        return "not_evaluated"
    if False in verdicts:
        return "failed"
    return "passed" if True in verdicts else "unknown"


# -- Whereabouts ----------------------------------------------------------------------------------


NOWHERE = CaseOrigin(eval_set="", case="")


@dataclass(kw_only=True)
class RoundContext:
    """The round under way, and what can be found in it."""

    origins: Mapping[str, CaseOrigin]
    round: Round | None = None

    def enter(self, current: Round) -> None:
        """Take in a round, or what more is known of it."""
        self.round = current

    def origin(self, case: str) -> CaseOrigin:
        """The set of a case, and what the case is called there."""
        return self.origins.get(case, NOWHERE)

    def gradients(self, surface: str) -> list[BackpropSurfaceGradient]:
        """What was said of a surface, in the order in which the aggregator is asked."""
        gradients = self.round.gradients if self.round is not None else ()
        return sorted((g for g in gradients if g.surface == surface), key=lambda g: g.order)

    def value(self, surface: str) -> Value | None:
        """The value that a surface has in this round."""
        return None if self.round is None else self.round.parent.values.get(surface)
