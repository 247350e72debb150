"""Losses: every metric that failed on a train case, at the steps where its run ended."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from burnish.core.cases import Case
from burnish.core.evaluations import CaseResult, Evaluation, Score
from burnish.core.outcomes import Step, Trace
from burnish.metrics.text_matching import without_middle
from burnish.strategies.backprop.packets import CaseLoss, Lost, Severity, TerminalLoss
from burnish.strategies.backprop.settings import LossHint

WHOLE = "agent"
"""The node of an agent whose run left no steps: a graph of one."""


@dataclass(frozen=True, kw_only=True)
class Losses:
    """Reads losses from an evaluation of train."""

    cases: Mapping[str, Case]
    weighted: Collection[str] = ()
    """The metrics that the objective counts."""
    thresholds: Mapping[str, float] = field(default_factory=dict[str, float])
    """By metric, if it has one."""
    hints: Sequence[LossHint] = ()
    targets: Mapping[str, str] = field(default_factory=dict[str, str])

    def of(self, evaluation: Evaluation, surfaces: Sequence[str]) -> list[CaseLoss]:
        """The losses of every run that failed something, in order of case and draw."""
        case_losses: list[CaseLoss] = []
        for result in sorted(evaluation.results, key=lambda each: (each.case, each.draw)):
            trace = trace_of(result, self.cases[result.case], surfaces)
            losses = sorted(self._of_run(result, trace), key=lambda loss: loss.order)
            if losses:
                case_losses.append(
                    CaseLoss(case=result.case, draw=result.draw, losses=tuple(losses))
                )
        return case_losses

    def failures(self, result: CaseResult) -> list[Score]:
        """The scores of a run that call for something better; none of a run that is missing."""
        if result.outcome.missing:
            return []
        scores = [score for score in result.scores if self._failed(score)]
        if result.outcome.failed and not scores:
            return [Score.of_failure(WHOLE, "")]
        return scores

    def unplaced(self, evaluation: Evaluation, surfaces: Sequence[str]) -> list[Lost]:
        """The losses that begin nowhere: the node that answers for their metric did not run."""
        lost: list[Lost] = []
        for result in sorted(evaluation.results, key=lambda each: (each.case, each.draw)):
            trace = trace_of(result, self.cases[result.case], surfaces)
            for score in self.failures(result):
                if not self._begins(result, score, trace):
                    node = self.targets.get(score.metric, "")
                    where, why = f"{result.case}, {score.metric}", f"'{node}' did not run"
                    lost.append(Lost(role="loss target", where=where, why=why))
        return lost

    def _failed(self, score: Score) -> bool:
        """Without a verdict, a metric that counts fails below 1; any other never fails."""
        if score.value is None:
            return False
        if score.passed is None:
            return score.metric in self.weighted and score.value < 1
        return not score.passed

    def _of_run(self, result: CaseResult, trace: Trace) -> Iterator[TerminalLoss]:
        for score in self.failures(result):
            # A crash is the worst, then nothing right, then not enough right.
            severity = Severity.P1 if score.value == 0 else Severity.P2
            severity = Severity.P0 if result.outcome.failed else severity
            loss = TerminalLoss(
                case=result.case,
                draw=result.draw,
                metric=score.metric,
                step="",
                severity=severity.value,
                text=self._words(result, score),
            )
            steps = [step.id for step in self._begins(result, score, trace)]
            yield from (replace(loss, step=step) for step in steps)
            for hint in self.hints:
                if (hint.case, hint.metric) == (result.case, score.metric):
                    hinted = replace(loss, severity=hint.severity.value, text=hint.reason)
                    yield from (replace(hinted, step=step) for step in steps)

    def _begins(self, result: CaseResult, score: Score, trace: Trace) -> list[Step]:
        """The last step of the node that answers for the metric, else where the run ended."""
        node = self.targets.get(score.metric)
        # A crash says nothing about the metric's node: the step that raised it is to blame.
        if node is None or result.outcome.failed:
            return terminal_steps(trace, score.turn)
        return [s for s in trace.steps if s.node == node and score.turn in (None, s.turn)][-1:]

    def _words(self, result: CaseResult, score: Score) -> str:
        """All that is known of the failure: score, threshold, reason, expected, error."""
        value = "no score" if score.value is None else f"score {score.value:.3f}"
        bar = self.thresholds.get(score.metric)
        wants = "" if bar is None else f", {bar:g} is wanted"
        lines = [f"{score.metric} failed: {value}{wants}"]
        if score.reason:
            lines.append(f"Reason: {_cut(score.reason)}")
        if result.outcome.failure is not None:
            lines.append(f"The agent failed: {_cut(result.outcome.failure.message)}")
        return "\n".join([*lines, *_expected(self.cases[result.case], score.turn)])


def _expected(case: Case, number: int | None) -> list[str]:
    """What a turn should have given; one that was made up as the talk went on expects nothing."""
    if number is not None and number >= len(case.turns):
        return []
    turn = case.turns[-1 if number is None else number]
    lines = [] if turn.expected is None else [f"Expected: {_cut(turn.expected)}"]
    tools = [tool.name for tool in (*(turn.expected_tools or ()), *(turn.expected_calls or ()))]
    tools = ["none"] if turn.expects_no_tool else tools
    return [*lines, f"Expected tools: {', '.join(tools)}"] if tools else lines


def trace_of(result: CaseResult, case: Case, surfaces: Sequence[str]) -> Trace:
    """The trace of a run; without one, a step for each turn with all surfaces."""
    outcome = result.outcome
    if outcome.trace.steps:
        return outcome.trace
    inputs = outcome.asked or tuple(turn.input for turn in case.turns)
    error = "" if outcome.failure is None else outcome.failure.message
    # The turn in which it failed has no reply; those before it did nothing wrong.
    replies = [*outcome.replies, ""] if error or not outcome.replies else outcome.replies
    steps = [
        Step(
            id=f"{WHOLE}-{turn + 1}",
            node=WHOLE,
            turn=turn,
            predecessors=(f"{WHOLE}-{turn}",) if turn else (),
            surfaces=tuple(surfaces),
            input=inputs[turn] if turn < len(inputs) else None,
            output=reply,
            error=error if turn + 1 == len(replies) else "",
        )
        for turn, reply in enumerate(replies)
    ]
    return Trace(steps=tuple(steps))


def terminal_steps(trace: Trace, turn: int | None = None) -> list[Step]:
    """The steps of a turn that nothing followed; by default of the last turn with steps."""
    turns = {step.turn for step in trace.steps}
    at = turn if turn in turns else max(turns, default=0)
    here = [step for step in trace.steps if step.turn == at]
    followed = {name for step in here for name in step.predecessors}
    # In a trace that goes in circles something follows every step: the last one ended it.
    return [step for step in here if step.id not in followed] or here[-1:]


def _cut(text: str) -> str:
    return without_middle(text, 1500)
