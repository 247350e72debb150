"""Checks of judges: what they say of replies that people have labelled."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.content import codec, short_id, stream
from burnish.core.errors import ConfigError, Interrupted, Problem
from burnish.core.evaluations import Evaluation
from burnish.core.formatting import counted
from burnish.datasets.labels import LabelledReply, Labels, labels_that_judge, read_labelled
from burnish.datasets.splits import groups
from burnish.metrics.agreement import (
    AGREEMENT,
    Agreement,
    CheckedJudge,
    JudgeVerdict,
    Labelled,
    agreement,
    judge_verdict,
    rater_pairs,
)
from burnish.models.factory import Models
from burnish.projects.description import describe
from burnish.projects.dialects import Document, Flags
from burnish.projects.file_kinds import LabelledReplies
from burnish.projects.launch import launch_in
from burnish.runs.build import build
from burnish.runs.driver import Ending
from burnish.runs.events import Listener
from burnish.runs.setup import Setup
from burnish.strategies.measure import Measure
from burnish.system import YamlTree, write_inside


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """A reply on which judge and label differ."""

    case: str
    metric: str
    label: bool | float
    value: float | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class JudgeChecked:
    """The agreement of judges with labels, by metric."""

    agreements: dict[str, Agreement]
    verdicts: dict[str, JudgeVerdict]
    disagreements: tuple[Disagreement, ...]
    ending: Ending


@dataclass(frozen=True, kw_only=True)
class JudgeCheck:
    """Labelled replies, and the metrics to check on them."""

    labelled: tuple[LabelledReply, ...]
    setup: Setup
    measure: Measure
    labels: Path
    """The file with the labels."""
    folder: Path
    """Named after what goes in: the same check again goes on, or costs nothing."""
    notes: tuple[str, ...] = ()
    """Whose labels these are, and how far those people agree."""

    def run(self, listeners: Sequence[Listener] = ()) -> JudgeChecked:
        ending = launch_in(self.setup, self.folder, listeners=listeners)
        measured = self.measure.evaluation
        if measured is None:
            reason = ending.reason.detail or ending.reason.code
            message = f"the check was cut short ({reason})"
            remedy = (
                "run the same command again to continue; raise the budget if that was the limit"
            )
            if ending.interrupted:
                raise Interrupted(message, remedy=remedy)
            raise ConfigError([Problem(message=message, remedy=remedy)])
        agreements: dict[str, Agreement] = {}
        verdicts: dict[str, JudgeVerdict] = {}
        differing: list[Disagreement] = []
        cases = [reply.case for reply in self.labelled]
        alike = {cases[at].id: n for n, group in enumerate(groups(cases)) for at in group}
        for name in (metric.name for metric in self.setup.metrics):
            rows = _pairs(self.labelled, measured, name)
            draws = stream(self.setup.seed, "agreement", name)
            pairs = [pair for _, pair, _ in rows]
            agreements[name] = agreement(pairs, draws)
            verdicts[name] = judge_verdict(pairs, [alike[case] for case, _, _ in rows])
            differing += [
                Disagreement(
                    case=case, metric=name, label=pair.label, value=pair.value, reason=reason
                )
                for case, pair, reason in rows
                if _differ(pair)
            ]
        self._store(agreements)
        return JudgeChecked(
            agreements=agreements,
            verdicts=verdicts,
            disagreements=tuple(differing),
            ending=ending,
        )

    def _store(self, agreements: Mapping[str, Agreement]) -> None:
        judges = tuple(
            CheckedJudge(
                metric=metric.name,
                fingerprint=metric.fingerprint,
                labels=self.labels.name,
                sentences=agreements[metric.name].sentences(),
            )
            for metric in self.setup.metrics
        )
        text = json.dumps(codec(tuple[CheckedJudge, ...]).encode(judges), ensure_ascii=False)
        write_inside(self.folder, AGREEMENT, f"{text}\n")


def prepare_judge_check(labels: Path, flags: Flags, *, models: Models | None = None) -> JudgeCheck:
    """Prepare a check of judges on labelled replies; flags set metrics, judge and limits."""
    labelled = read_labelled(labels)
    tree = YamlTree(path=labels, data={}, text="")
    described = describe(Document(path=labels, tree=tree), flags, dialect=LabelledReplies())
    setup = build(described, models=models)
    assert isinstance(setup.strategy, Measure)
    home = labels.resolve().parent / "results" / "judge-check" / short_id({**setup.inputs()})
    people = labels_that_judge(labels)
    return JudgeCheck(
        labelled=labelled,
        setup=setup,
        measure=setup.strategy,
        labels=labels,
        folder=home,
        notes=() if people is None else tuple(_about_people(people)),
    )


def _about_people(labels: Labels) -> Iterator[str]:
    """Whose labels count, what is left out, and how far people agree, which no judge can exceed."""
    used = sum(labels.agreed(case) is not None for case in labels.cases)
    names = ", ".join(labels.people)
    yield f"labels by {names}: {used} of {counted(len(labels.cases), 'case')} have one that counts"
    labelled = len({case for _, case in labels.given})
    if labelled > used:
        yield f"left out: {counted(labelled - used, 'case')} on which as many say pass as fail"
    for pair in rater_pairs(labels.answers()):
        yield f"{pair.one} and {pair.other} agree at kappa {pair.kappa or 'undefined'}"


def _pairs(
    labelled: Sequence[LabelledReply], measured: Evaluation, metric: str
) -> list[tuple[str, Labelled, str]]:
    """Case, label with verdict, and the judge's reason; what does not apply is left out."""
    rows: list[tuple[str, Labelled, str]] = []
    for reply in labelled:
        length = len(reply.case.recorded.output) if reply.case.recorded else None
        for result in measured.of_case(reply.case.id):
            rows += [
                (reply.case.id, Labelled.of(s, label=reply.label, length=length), s.reason)
                for s in result.scores
                if s.metric == metric
            ]
    return rows


def _differ(pair: Labelled) -> bool:
    return pair.value is None or pair.accepted() != pair.good()
