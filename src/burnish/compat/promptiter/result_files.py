"""PromptIter's result files for runs of graph files from the command line."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from burnish.compat.promptiter.evaluation import EVALSET_RESULTS, CaseOrigin, EvalResultFiles
from burnish.compat.promptiter.results import EventKind
from burnish.compat.promptiter.snapshot import SurfaceMap
from burnish.compat.promptiter.translation import Translator
from burnish.core.evaluations import Evaluation
from burnish.datasets.formats import read_cases
from burnish.projects.measurements import threshold_of
from burnish.runs.directory import Header
from burnish.runs.events import Event, SessionBegun, Tick
from burnish.runs.setup import Setup
from burnish.runs.spec import DataSpec, Source
from burnish.strategies.backprop.rounds import Attempt, Round
from burnish.strategies.backprop.search import Stage
from burnish.strategies.backprop.strategy import Backprop

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
