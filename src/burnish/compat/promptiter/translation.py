"""Translates burnish's measurements and decisions to PromptIter's results and result files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from burnish.compat.promptiter import results as wire
from burnish.compat.promptiter.evaluation import EVALSET_RESULTS, CaseOrigin, EvalResultFiles
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
    EventKind,
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
from burnish.compat.promptiter.snapshot import SurfaceMap
from burnish.core.cases import Case, Usage
from burnish.core.cases import Step as TracedStep
from burnish.core.comparisons import CaseChanges, Pair, compare
from burnish.core.content import Json, canonical, codec
from burnish.core.evaluations import CaseResult, Evaluation, Objective, mean
from burnish.core.surfaces import EPSILON, Node, SurfaceType, Value
from burnish.datasets.formats import read_cases
from burnish.projects.measurements import threshold_of
from burnish.runs.directory import Header
from burnish.runs.events import Event, SessionBegun, Tick
from burnish.runs.setup import Setup
from burnish.runs.spec import DataSpec, Source
from burnish.strategies.backprop import packets
from burnish.strategies.backprop.packets import WHOLE, trace_of
from burnish.strategies.backprop.rounds import Attempt, Round
from burnish.strategies.backprop.search import Stage
from burnish.strategies.backprop.strategy import Backprop

NO_LOSSES = "no losses to optimize"


def acceptance(attempt: Attempt, objective: Objective) -> AcceptanceDecision:
    """The acceptance of an attempt; PromptIter's wording applies only if the gain decided."""
    decision = attempt.decision
    if decision is None:
        return AcceptanceDecision(reason=attempt.why)
    gain = 0.0
    if attempt.holdout is not None and attempt.before is not None:
        pair = Pair(candidate=attempt.holdout, incumbent=attempt.before)
        gain = compare(pair, objective, max_missing=1.0).gain
    by_gain = decision.accepted or decision.code in {"below", "tie"}
    verb = "satisfies" if decision.accepted else "does not satisfy"
    return AcceptanceDecision(
        accepted=decision.accepted,
        score_delta=gain,
        reason=f"candidate score gain {verb} acceptance policy" if by_gain else decision.reason,
    )


@dataclass(kw_only=True)
class Patience:
    """Decides when to stop, with PromptIter's rules in their order."""

    request: RunRequest
    without_accept: int = 0

    def after(self, number: int, attempts: Sequence[Attempt], score: float | None) -> StopDecision:
        """Whether the run ends after this round; `score` is the best on validation."""
        accepted = any(each.decision and each.decision.accepted for each in attempts)
        self.without_accept = 0 if accepted else self.without_accept + 1
        policy, target = self.request.stop_policy, self.request.stop_policy.target_score
        limit = policy.max_rounds_without_acceptance
        reasons = {
            "max rounds reached": number >= self.request.max_rounds,
            "max rounds without acceptance reached": 0 < limit <= self.without_accept,
            "target score reached": target is not None
            and score is not None
            and score >= target - EPSILON,
            "no surface can be blamed for the losses": not any(
                attempt.all_proposals for attempt in attempts
            ),
        }
        why = next((reason for reason, holds in reasons.items() if holds), "")
        return StopDecision(should_stop=bool(why), reason=why or "continue optimization")


def chosen(tried: Sequence[Attempt]) -> Attempt:
    """The candidate that represents a round: the last accepted one, else the first."""
    accepted = [each for each in tried if each.decision is not None and each.decision.accepted]
    return accepted[-1] if accepted else tried[0]


def additions(
    current: Round,
    attempts: Sequence[Attempt],
    objective: Objective,
    named: Callable[[str], str],
) -> dict[str, Json]:
    """Data of a round that PromptIter has no field for; `named` gives SurfaceIDs."""
    lost = (*current.lost, *(each for attempt in attempts for each in attempt.lost))
    entries: dict[str, Json] = {
        "FailureClasses": {case: each.value for case, each in (current.classes or {}).items()},
        "Missing": [*current.missing],
        "Sources": {
            # The cases of each merged gradient.
            named(surface): [[*dict.fromkeys(s.case for s in each.sources)] for each in gradients]
            for surface, gradients in (current.merged or {}).items()
        },
        "Lost": [codec(packets.Lost).encode(each) for each in lost],
        "Candidates": [_candidate(attempt, objective, named) for attempt in attempts],
    }
    return {key: value for key, value in entries.items() if value}


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


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Translator:
    """Translates evaluations and gradients of one run."""

    surface_map: SurfaceMap
    origins: Mapping[str, CaseOrigin]
    cases: Mapping[str, Case]

    def evaluation(self, evaluation: Evaluation) -> EvaluationResult:
        """An evaluation by set; repeats of a case are averaged."""
        by_set: dict[str, list[wire.CaseResult]] = {}
        for case in evaluation.cases:
            result = self._case(case, evaluation.of_case(case))
            by_set.setdefault(result.eval_set_id, []).append(result)
        sets = tuple(_set(name, cases) for name, cases in by_set.items())
        scores = [each.overall_score for each in sets if each.overall_score is not None]
        return EvaluationResult(overall_score=mean(scores) if scores else None, eval_sets=sets)

    def losses(self, current: Round) -> tuple[CaseLoss, ...]:
        """The losses by case, without duplicates from repeats."""
        by_case: dict[str, dict[TerminalLoss, None]] = {}
        for loss in current.losses:
            unique = by_case.setdefault(loss.case, {})
            ids = self.origins[loss.case].ids
            unique.update(dict.fromkeys(TerminalLoss.of(each, **ids) for each in loss.losses))
        return tuple(
            CaseLoss(**self.origins[case].ids, terminal_losses=tuple(losses))
            for case, losses in self._sorted(by_case)
        )

    def backward(self, current: Round) -> BackwardResult:
        """The gradients by case and step, in the order of the trace."""
        by_case: dict[str, list[packets.SurfaceGradient]] = {}
        for gradient in current.gradients:
            by_case.setdefault(gradient.case, []).append(gradient)
        cases = [
            CaseGradients(
                **self.origins[case].ids,
                step_gradients=tuple(self._steps(current, case, gradients)),
            )
            for case, gradients in self._sorted(by_case)
        ]
        return BackwardResult(cases=tuple(cases))

    def aggregation(self, current: Round) -> AggregationResult:
        """The merged gradients by surface."""
        surfaces = [
            self._aggregated(surface, remarks)
            for surface, remarks in (current.merged or {}).items()
        ]
        ordered = sorted(surfaces, key=lambda each: each.surface_id)
        return AggregationResult(surfaces=tuple(ordered))

    def _case(self, name: str, results: Sequence[CaseResult]) -> wire.CaseResult:
        metrics = dict.fromkeys(score.metric for result in results for score in result.scores)
        return wire.CaseResult(
            **self.origins[name].ids,
            session_id=name,
            trace=self._trace(results[0], name),
            metrics=tuple(_metric(metric, results) for metric in metrics),
        )

    def _trace(self, result: CaseResult, name: str) -> Trace:
        """The trace of a run; one without steps is a single step with all surfaces."""
        outcome, case = result.outcome, self.cases[name]
        root = self._node(self.surface_map.structure.entry)
        inputs = outcome.asked or tuple(turn.input for turn in case.turns)
        finished: TraceStatus = "failed" if outcome.failed else "completed"
        steps = trace_of(result, case, tuple(self.surface_map.editable)).steps
        return Trace(
            root_agent_name=root.name if root else "",
            session_id=name,
            status="incomplete" if outcome.missing else finished,
            input=Text(text="\n".join(inputs)),
            output=Text(text=outcome.output),
            usage=_usage(outcome.usage),
            steps=tuple(map(self._step, steps)),
        )

    def _step(self, step: TracedStep) -> Step:
        name = self._node_name(step.node)
        node = self._node(name)
        return Step.of(
            step,
            step_id=step.id,
            agent_name=node.name if node else step.node,
            node_id=name,
            node_type=node.kind.value if node else "",
            predecessor_step_ids=step.predecessors,
            applied_surface_ids=self.surface_map.applied(step.surfaces),
            input=_text(step.input),
            output=_text(step.output),
            usage=_usage(step.usage),
            tools=tuple(ToolRecord.of(call, arguments=dict(call.arguments)) for call in step.tools),
        )

    def _node(self, name: str) -> Node | None:
        return next((node for node in self.surface_map.structure.nodes if node.id == name), None)

    def _node_name(self, name: str) -> str:
        """The node of a step; a run without steps belongs to the entry node."""
        whole = name == WHOLE and self._node(name) is None
        return self.surface_map.structure.entry if whole else name

    def _steps(
        self, current: Round, case: str, gradients: Sequence[packets.SurfaceGradient]
    ) -> Iterator[StepGradients]:
        steps = [s.id for r in current.train.of_case(case) for s in r.outcome.trace.steps]
        places = {step: place for place, step in reversed(list(enumerate(steps)))}
        named = dict.fromkeys((gradient.step, gradient.node) for gradient in gradients)
        for step, node in sorted(named, key=lambda each: places.get(each[0], 0)):
            of_step = tuple(self._gradient(each) for each in gradients if each.step == step)
            yield StepGradients(step_id=step, node_id=self._node_name(node), gradients=of_step)

    def _gradient(self, gradient: packets.SurfaceGradient) -> SurfaceGradient:
        name = self.surface_map.name_of(gradient.surface)
        return SurfaceGradient.of(gradient, surface_id=name, **self.origins[gradient.case].ids)

    def _aggregated(
        self, surface: str, remarks: Sequence[packets.MergedGradient]
    ) -> AggregatedSurface:
        position, name = self.surface_map.position_of(surface), self.surface_map.name_of(surface)
        return AggregatedSurface(
            surface_id=name,
            node_id=position.node if position else "",
            type=position.type if position else SurfaceType.INSTRUCTION,
            gradients=tuple(SurfaceGradient.of(each, surface_id=name) for each in remarks),
        )

    def _sorted(self, by_case: Mapping[str, T]) -> list[tuple[str, T]]:
        def place(each: tuple[str, object]) -> tuple[str, str]:
            origin = self.origins[each[0]]
            return origin.eval_set, origin.case

        return sorted(by_case.items(), key=place)


def _set(name: str, cases: Sequence[wire.CaseResult]) -> EvalSetResult:
    """The mean over cases and metrics, without those that were not evaluated."""
    scores = [m.score for case in cases for m in case.metrics if m.status != "not_evaluated"]
    overall = mean(scores) if scores else None
    return EvalSetResult(eval_set_id=name, overall_score=overall, cases=tuple(cases))


def _metric(name: str, results: Sequence[CaseResult]) -> MetricResult:
    values = [result.value(name) for result in results if result.applies(name)]
    numbers = [value for value in values if value is not None]
    scores = [score for result in results for score in result.scores if score.metric == name]
    whole = bool(numbers) and len(numbers) == len(values)
    reasons = [s.reason for s in scores if s.reason and (s.passed is False or s.missing)]
    usual = [s.reason for s in scores if s.reason]
    verdicts = {s.passed for s in scores} | {False for r in results if r.outcome.failed}
    return MetricResult(
        metric_name=name,
        score=mean(numbers) if whole else 0.0,
        status=_status(verdicts) if whole else "not_evaluated",
        reason="\n".join(dict.fromkeys(reasons or usual)),
    )


def _status(verdicts: set[bool | None]) -> MetricStatus:
    if False in verdicts:
        return "failed"
    return "passed" if True in verdicts else "unknown"


def _usage(usage: Usage) -> TokenUsage:
    prompt, completion = usage.input_tokens, usage.output_tokens
    return TokenUsage(
        prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion
    )


def _text(value: Json) -> Text | None:
    if value is None:
        return None
    return Text(text=value if isinstance(value, str) else canonical(value).decode())


@dataclass(kw_only=True)
class RoundContext:
    """The current round and its data."""

    origins: Mapping[str, CaseOrigin]
    round: Round | None = None

    def origin(self, case: str) -> CaseOrigin:
        """The set and id of a case; empty if unknown."""
        return self.origins.get(case, CaseOrigin(eval_set="", case=""))

    def gradients(self, surface: str) -> list[packets.SurfaceGradient]:
        """The gradients of a surface, in the aggregator's order."""
        gradients = self.round.gradients if self.round is not None else ()
        return sorted((g for g in gradients if g.surface == surface), key=lambda g: g.order)

    def value(self, surface: str) -> Value | None:
        """The value of a surface in this round."""
        return None if self.round is None else self.round.parent.values.get(surface)


_SUFFIX = ".evalset.json"


@dataclass(kw_only=True)
class EvalSetResults:
    """Writes an evaluation as `evalset_results/<app>/….evalset_result.json` after its stage."""

    app_name: str
    translator: Translator
    thresholds: dict[str, float]
    _files: EvalResultFiles | None = field(default=None, init=False)
    _tried: dict[int, int] = field(default_factory=dict[int, int], init=False)

    def event(self, event: Event) -> None:
        if begun := event.read(SessionBegun):
            folder = Path(begun.folder)
            header = Header.read(folder)
            self._files = EvalResultFiles(
                folder=folder / EVALSET_RESULTS,
                app_name=self.app_name,
                run_id=header.id,
                thresholds=self.thresholds,
                at=datetime.fromisoformat(header.started_at).timestamp(),
            )

    def tick(self, tick: Tick) -> None:
        """A single case is no result."""

    def __call__(self, stage: Stage, subject: Round | Attempt | Evaluation | None, /) -> None:
        match EventKind(stage), subject:
            case EventKind.BASELINE_VALIDATION, Evaluation():
                self._write(subject, "baseline")
            case EventKind.ROUND_TRAIN_EVALUATION, Round():
                self._write(subject.train, f"round{subject.number}_train")
            case EventKind.ROUND_VALIDATION, Attempt(holdout=Evaluation() as measured):
                number = subject.round.number
                self._tried[number] = place = self._tried.get(number, 0) + 1
                again = "" if place == 1 else f"_{place}"
                self._write(measured, f"round{number}_validation{again}")
            case _:
                pass

    def _write(self, evaluation: Evaluation, stage: str) -> None:
        if self._files is not None:
            self._files.write(self.translator.evaluation(evaluation), stage)


def with_result_files(setup: Setup) -> tuple[Setup, EvalSetResults | None]:
    """A run whose cases are eval sets writes their results; any other run is left as it is."""
    if not isinstance(setup.strategy, Backprop) or not setup.project.spec:
        return setup, None
    origins = _origins(setup)
    cases = {case.id: case for case in (*setup.dataset.train, *setup.dataset.holdout)}
    if not cases or not cases.keys() <= origins.keys():
        return setup, None
    results = EvalSetResults(
        app_name=Source.model_validate(setup.project.spec["source"]).name,
        translator=Translator(
            surface_map=SurfaceMap.of(setup.target), origins=origins, cases=cases
        ),
        thresholds={
            metric.name: threshold
            for metric in setup.metrics
            if (threshold := threshold_of(metric)) is not None
        },
    )
    return replace(setup, strategy=replace(setup.strategy, watch=results)), results


def _origins(setup: Setup) -> dict[str, CaseOrigin]:
    """By case, the eval set that it is in."""
    data = DataSpec.model_validate(setup.project.spec.get("data") or {})
    folder = Path(setup.project.file).parent
    return {
        case.id: CaseOrigin(eval_set=Path(entry.file).name.removesuffix(_SUFFIX), case=case.id)
        for entry in (*data.train, *data.holdout)
        if entry.file.endswith(_SUFFIX)
        for case in read_cases(folder / entry.file).cases
    }
