"""What travels back through a trace: losses, gradients and values; and the settings."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import BeforeValidator, Field

from burnish.core.cases import Case, Dataset, Split, Step, Trace
from burnish.core.content import AtLeastOne, Json, NoneOrMore, NotNegative, Share
from burnish.core.evaluations import CaseResult, Evaluation, Score
from burnish.core.gates import Guards
from burnish.core.surfaces import (
    Candidate,
    ChoiceSurface,
    Demonstration,
    DemosSurface,
    FileSurface,
    NumberSurface,
    Surface,
    TextSurface,
    Value,
)
from burnish.core.trials import Proposal
from burnish.metrics.text_matching import without_middle
from burnish.metrics.turns import FailureClass
from burnish.runs.spec import StrategySettings
from burnish.strategies.requirements import NullRuns, false_accepts
from burnish.system.settings import Access, Door, Settings, Text


class Severity(StrEnum):
    """How bad it is; P0 first."""

    P0 = "P0"
    P1 = "P1"
    P2 = "P2"
    P3 = "P3"


def rank(severity: str) -> int:
    """The place of a severity; unknown ones come last."""
    levels = [*Severity]
    return levels.index(Severity(severity)) if severity in levels else len(levels)


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
        return rank(self.severity), self.metric, self.step, self.text


@dataclass(frozen=True, kw_only=True)
class CaseLoss:
    """The losses of one run of a case."""

    case: str
    draw: int
    losses: tuple[TerminalLoss, ...]


@dataclass(frozen=True, kw_only=True)
class Packet:
    """What later steps say to an earlier one."""

    source: str
    """The step that sent it; the step itself for a loss."""
    severity: str
    text: str

    @property
    def order(self) -> tuple[int, str, str]:
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
        return rank(self.severity), self.case, self.draw, self.step, self.text


@dataclass(frozen=True, kw_only=True)
class MergedGradient:
    """One thing that should change about a surface, and its sources."""

    surface: str
    severity: str
    text: str
    sources: tuple[SurfaceGradient, ...]


@dataclass(frozen=True, kw_only=True)
class Lost:
    """A request to a role without a usable answer: it costs its packet, not the run."""

    role: str
    where: str
    """The case and step, or the surface."""
    why: str


@dataclass(frozen=True, kw_only=True)
class Round:
    """What a round found out before a candidate was tried."""

    number: int
    parent: Candidate
    train: Evaluation
    losses: tuple[CaseLoss, ...] = ()
    missing: tuple[str, ...] = ()
    """The train cases that teach nothing, because something is missing."""
    classes: Mapping[str, FailureClass] | None = None
    """By failing case, what kind of failure it is."""
    gradients: tuple[SurfaceGradient, ...] = ()
    merged: Mapping[str, Sequence[MergedGradient]] | None = None
    lost: tuple[Lost, ...] = ()
    proposals: tuple[Proposal, ...] = ()

    def blame(self, surface: str) -> tuple[int, int, str]:
        """A place in the order of blame: by train cases that name the surface, then severity."""
        own = [each for each in self.gradients if each.surface == surface]
        cases = {each.case for each in own}
        return -len(cases), min((rank(each.severity) for each in own), default=0), surface


class BadValue(ValueError):
    """Data that is not a valid value of its surface."""


def shown_value(value: Value) -> Json:
    """A value as a role reads it."""
    if isinstance(value, tuple):
        return [{"input": demo.input, "output": demo.output} for demo in value]
    return value


def value_from(data: Json, surface: Surface) -> Value:
    """What a role wrote, as a value; raises BadValue if it is not one."""
    if isinstance(surface, DemosSurface):
        return _demonstrations(data)
    if isinstance(surface, TextSurface | FileSurface) and not isinstance(data, str):
        raise BadValue("the value must be a text")
    if isinstance(surface, NumberSurface):
        if isinstance(data, bool) or not isinstance(data, int | float):
            raise BadValue("the value must be a number")
        return int(data) if surface.integer and float(data).is_integer() else data
    if isinstance(data, str | int | float | bool):
        return data
    raise BadValue(f"the value must be {surface.accepts}")


def value_schema(surface: Surface) -> dict[str, Json]:
    """The JSON schema of a value."""
    if isinstance(surface, NumberSurface):
        kind = "integer" if surface.integer else "number"
        return {"type": kind, "minimum": surface.low, "maximum": surface.high}
    if isinstance(surface, ChoiceSurface):
        return {"enum": [*surface.choices]}
    if isinstance(surface, DemosSurface):
        text: dict[str, Json] = {"type": "string"}
        pair: dict[str, Json] = {
            "type": "object",
            "properties": {"input": text, "output": text},
            "required": ["input", "output"],
            "additionalProperties": False,
        }
        return {"type": "array", "items": pair, "maxItems": surface.max_demos}
    return {"type": "string"}


def bounds_of(surface: Surface) -> str:
    """The bounds of a new value, in words."""
    if isinstance(surface, NumberSurface):
        step = f", in steps of {surface.step:g}" if surface.step else ""
        return f"a number from {surface.low:g} to {surface.high:g}{step}"
    if isinstance(surface, ChoiceSurface):
        return f"one of: {', '.join(map(str, surface.choices))}"
    if isinstance(surface, DemosSurface):
        return f"at most {surface.max_demos} worked examples"
    most = f"at most {surface.max_chars} characters" if surface.max_chars else "a text"
    pieces = [*surface.placeholders, *surface.frozen] if isinstance(surface, TextSurface) else []
    return f"{most}; keep word for word: {', '.join(pieces)}" if pieces else most


def _demonstrations(data: Json) -> tuple[Demonstration, ...]:
    if not isinstance(data, list):
        raise BadValue("the value must be a list of worked examples")
    demos: list[Demonstration] = []
    for row in data:
        pair = row if isinstance(row, dict) else {}
        question, answer = pair.get("input"), pair.get("output")
        if not isinstance(question, str) or not isinstance(answer, str):
            raise BadValue("a worked example has an input and an output, both texts")
        demos.append(Demonstration(input=question, output=answer))
    return tuple(demos)


GateName: TypeAlias = Literal["min_gain", "sigma", "strict"]
_PARALLELISM = 16
_OPEN = Door(http=Access.CLIENT)
_LIMIT = Door(http=Access.LIMIT)


class LossHint(Settings):
    """What a person says about a case that fails a metric."""

    case: Text
    metric: Text
    reason: Text
    severity: Severity = Severity.P1


class GuardSettings(Settings):
    """What an accept may not break, whatever the mean says."""

    protected: Annotated[
        tuple[Text, ...], Door(http=Access.CLIENT, http_name="protected_cases")
    ] = ()
    """Cases of holdout whose score may not fall."""
    no_new_failures: Annotated[bool, _OPEN] = False
    """No case that passed may fail."""
    floors: Annotated[dict[str, Share], Door(http=Access.CLIENT, http_name="metric_floors")] = (
        Field(default_factory=dict[str, float])
    )
    """By metric, the lowest mean that is allowed."""

    def guards(self) -> Guards:
        return Guards(**self.model_dump())


def _at_once(value: Any) -> Any:
    """The number that `{enabled, at_once}` or a plain true or false stands for."""
    if isinstance(value, bool):
        return _PARALLELISM if value else 1
    if not isinstance(value, dict):
        return value
    data = cast("dict[str, Any]", value)
    if set(data) - {"enabled", "at_once"}:
        return data
    return data.get("at_once", _PARALLELISM) if data.get("enabled", True) else 1


_AtOnce: TypeAlias = Annotated[AtLeastOne, BeforeValidator(_at_once), Door(http=Access.CEILING)]


class BackpropSettings(StrategySettings):
    """How far and how wide the search goes, and by which rule."""

    targets: Annotated[tuple[Text, ...], _OPEN] = ()
    """The surfaces that may be patched; all of them if none is named."""
    max_rounds: Annotated[AtLeastOne, Door(flag="*", panel="Limits", http=Access.LIMIT)] = 4
    """Rounds of back-propagation."""
    max_rounds_without_acceptance: Annotated[NoneOrMore, _OPEN] = 0
    """Rounds in a row without an accept, after which the search ends; 0 means no limit."""
    target_score: Annotated[Share | None, _OPEN] = None
    """The score of the incumbent on holdout at which the search ends."""
    min_score_gain: Annotated[float, _OPEN] = 0.0
    """How much a candidate must gain under the gate `min_gain`."""
    gate: Annotated[GateName, _OPEN] = "min_gain"
    """The rule by which a candidate is accepted."""
    accept_sigma: Annotated[NotNegative, Door(flag="*", http=Access.CLIENT)] = 1.0
    """How many times its noise a gain must be, under the gates that measure noise."""
    guards: GuardSettings = Field(default_factory=GuardSettings)
    candidates_per_round: Annotated[AtLeastOne, _LIMIT] = 1
    """Patches of each surface that are made and tried in a round."""
    patches_alone: Annotated[bool, _OPEN] = True
    """After a round in which no candidate is accepted, try each of its patches alone, those of the
    most blamed surface first."""
    cases_per_round: Annotated[AtLeastOne | None, _LIMIT] = None
    """The most failing cases that are walked back in a round; all of them if not set."""
    loss_hints: Annotated[tuple[LossHint, ...], _OPEN] = ()
    """What a person says about cases that fail."""
    loss_targets: Annotated[dict[str, Text], _OPEN] = Field(default_factory=dict[str, str])
    """By metric, the node where its losses begin instead of where the run ended."""
    backward_parallelism: _AtOnce = _PARALLELISM
    """Cases that are walked back at once."""
    aggregation_parallelism: _AtOnce = _PARALLELISM
    """Surfaces whose gradients are merged at once."""
    patch_parallelism: _AtOnce = _PARALLELISM
    """Surfaces that are patched at once."""
    merge_single: bool = False
    """Ask the aggregator even if there is only one gradient."""

    @property
    def deciding(self) -> tuple[Split, ...]:
        """Where a candidate is run before it is decided on."""
        return (Split.TRAIN, Split.HOLDOUT) if self.gate == "sigma" else (Split.HOLDOUT,)

    def by_luck(self, data: Dataset) -> str:
        """How often a run would accept patches that change nothing."""
        runs = NullRuns(
            train=len(data.train) if self.gate == "sigma" else 0,
            holdout=len(data.holdout),
            repeats=self.repeats,
            trials=self.max_rounds * self.candidates_per_round,
            holdout_gains=self.gate != "sigma",
            unit="score" if self.gate == "min_gain" else "noise",
        )
        if self.gate != "min_gain":
            return false_accepts(runs, self.accept_sigma).words
        # This bar knows nothing of noise, so the rate depends on how large it is.
        words = false_accepts(runs, self.min_score_gain).words
        return f"where every case is as noisy as a coin, {words}; with less noise fewer are"


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
