"""Checking a judge against labels: a measurement like any other, and what it says of the judge."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.content import short_id
from burnish.core.errors import ConfigError, Interrupted, Problem
from burnish.core.evaluations import Evaluation
from burnish.core.randomness import stream
from burnish.evaluation.agreement import Agreement, agreement
from burnish.evaluation.datasets.labelled import LabelledReply, read_labelled
from burnish.evaluation.judge_bias import Labelled
from burnish.models.factory import Models
from burnish.projects.describing import Flags, describe
from burnish.projects.dialects import Document
from burnish.projects.file_kinds import LabelledReplies
from burnish.projects.launching import optimize
from burnish.runs.building import build
from burnish.runs.driving import Ending
from burnish.runs.events import Listener
from burnish.runs.setup import Setup
from burnish.strategies.measure import Measure
from burnish.system import YamlTree

RESULTS = Path("results") / "judge-check"


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """A reply on which judge and label do not agree."""

    case: str
    metric: str
    label: bool | float
    value: float | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class JudgeChecked:
    """What came out, metric by metric."""

    agreements: dict[str, Agreement]
    disagreements: tuple[Disagreement, ...]
    ending: Ending


@dataclass(frozen=True, kw_only=True)
class JudgeCheck:
    """Labelled replies and the metrics that are to judge them."""

    labelled: tuple[LabelledReply, ...]
    setup: Setup
    measure: Measure
    folder: Path
    """Named after what goes in: the same check again goes on, or costs nothing."""

    def run(self, listeners: Sequence[Listener] = ()) -> JudgeChecked:
        """Ask the judges, and compare."""
        ending = optimize(self.setup, self.folder, listeners=listeners)
        measured = self.measure.evaluation
        if measured is None:
            cut = _cut_short(ending)
            if ending.interrupted:
                raise Interrupted(cut.message, remedy=cut.remedy)
            raise ConfigError([cut])
        names = [metric.name for metric in self.setup.metrics]
        pairs = {name: _pairs(self.labelled, measured, name) for name in names}
        return JudgeChecked(
            agreements={
                name: agreement(
                    [pair for _, pair, _ in found], stream(self.setup.seed, "agreement", name)
                )
                for name, found in pairs.items()
            },
            disagreements=tuple(
                Disagreement(
                    case=case, metric=name, label=pair.label, value=pair.value, reason=reason
                )
                for name, found in pairs.items()
                for case, pair, reason in found
                if _differ(pair)
            ),
            ending=ending,
        )


def prepare_judge_check(labels: Path, flags: Flags, *, models: Models | None = None) -> JudgeCheck:
    """Set a check of labelled replies up; flags say by which metrics, who judges, and how far."""
    labelled = read_labelled(labels)
    tree = YamlTree(path=labels, data={}, text="")
    described = describe(Document(path=labels, tree=tree), flags, dialect=LabelledReplies())
    setup = build(described, models=models)
    assert isinstance(setup.strategy, Measure)
    home = labels.resolve().parent / RESULTS / short_id({**setup.inputs()})
    return JudgeCheck(labelled=labelled, setup=setup, measure=setup.strategy, folder=home)


def _pairs(
    labelled: Sequence[LabelledReply], measured: Evaluation, metric: str
) -> list[tuple[str, Labelled, str]]:
    """Case, label beside verdict, and the judge's reason; what does not apply is left out."""
    found: list[tuple[str, Labelled, str]] = []
    for reply in labelled:
        length = len(reply.case.recorded.output) if reply.case.recorded else None
        for result in measured.of_case(reply.case.id):
            found += [
                (reply.case.id, Labelled.of(s, label=reply.label, length=length), s.reason)
                for s in result.scores
                if s.metric == metric
            ]
    return found


def _differ(pair: Labelled) -> bool:
    if pair.value is None or pair.passed is None:
        return pair.value is None
    good = pair.label if isinstance(pair.label, bool) else pair.label >= 0.5
    return pair.passed != good


def _cut_short(ending: Ending) -> Problem:
    return Problem(
        message=f"the check was cut short ({ending.reason.detail or ending.reason.code})",
        remedy="the same command goes on where it was; give it more budget if that was the limit",
    )
