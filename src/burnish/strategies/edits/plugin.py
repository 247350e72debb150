"""The artifact loop as a plug-in: how it is built, its plan, its lines, its report.

It reports one primary number in its own unit, and what became of edits.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from burnish.core.cases import Split
from burnish.core.content import Json
from burnish.core.formatting import (
    Drawing,
    Facts,
    Heading,
    Listing,
    Section,
    Table,
    Text,
    cell,
    counted,
    padded,
)
from burnish.core.protocols import Role
from burnish.core.surfaces import FileSurface, Surface
from burnish.core.trials import TrialRow
from burnish.models.chat import ModelClient
from burnish.runs import report_sections as sections
from burnish.runs.directory import RunRecord, result_of
from burnish.runs.events import BASELINE, TrialRecorded, Warned, read_all
from burnish.runs.first_round import FirstRound
from burnish.runs.plugins import Building, RoleNeed, StrategyParts, StrategyPlugin, TargetParts
from burnish.runs.progress import (
    ProgressLines,
    all_sweeps,
    asking,
    budget_limits,
    first_round,
    luck_line,
    role_label,
    shorten_after,
    spent_words,
)
from burnish.runs.setup import Setup
from burnish.runs.spec import StrategySettings
from burnish.strategies.edits.attempts import EditDetails, EditsSettings
from burnish.strategies.edits.editors import (
    RECIPES,
    ROLE,
    CommandEditor,
    Edit,
    EditorHome,
    EditRequest,
    editor,
)
from burnish.strategies.edits.strategy import LOAD_TASK, TARGET, Edits, StageReached
from burnish.targets.artifacts.target import ArtifactsTarget

_ENDS = {
    "nothing_new": "too many rounds without a candidate worth running",
    TARGET: "the number is as good as the task wants it",
}

_REST = 61
"""The width of a line without its note and reason."""


class EditLines(ProgressLines):
    """Edits by the primary number, and keep, discard or crash."""

    def baseline(self, trial: TrialRecorded, width: int) -> list[str]:
        numbers = _primary_words(trial)
        if numbers is None:
            return super().baseline(trial, width)
        return [f"{'baseline':<32} {numbers}".rstrip()]

    def trial(self, trial: TrialRecorded, width: int) -> str:
        numbers = _primary_words(trial)
        if numbers is None:
            return super().trial(trial, width)
        label = f"[{trial.cycle!s:>3}.{trial.index}]"
        lost = "crash ✗" if trial.code.endswith("crash") else "discard ✗"
        word = "keep ✓" if trial.accepted else lost
        note = padded(trial.note or "—", min(24, max(12, width - _REST)))
        spent = " ".join(spent_words(trial)).strip()
        head = f"{label} {note} {numbers:<28} {word:<9} {spent:<12} "
        return shorten_after(head, trial.reason.split("\n")[0], width).rstrip()


def _primary_words(trial: TrialRecorded) -> str | None:
    """The primary number on train and holdout, if the trial has one."""
    primary = trial.primary
    if not isinstance(primary, dict):
        return None
    labels = {"train": str(primary.get("name")), "holdout": "hold"}
    return "  ".join(f"{label} {_plain(primary[s])}" for s, label in labels.items() if s in primary)


def report(run: RunRecord, reason: str) -> Iterator[Section]:
    """The sections of the report."""
    yield from sections.headline(run)
    yield Heading("Result")
    yield Facts(tuple(_summary(run, reason)))
    yield from _numbers(run)
    if run.best is not None and (points := EditDetails.of(run.best.trial).disagreement):
        yield Heading("Where the judges do not agree")
        yield Listing(tuple(cell(each, 300) for each in points))
    yield from sections.changes_made(run)
    yield from _trials(run)
    yield from sections.adoption(run)
    yield Heading("Method")
    yield Listing(tuple(_method(run)))


def result_words(run: RunRecord) -> str:
    """The primary number, at the start and of the best."""
    values = [f"{change} ({name})" for name, change in _changes(run)]
    return f"{_primary(run)} {', '.join(values)}"


def _changes(run: RunRecord) -> Iterator[tuple[str, str]]:
    """By split, the primary number at the start and of the best."""
    primary, held = _primary(run), _is_held(run)
    for split in sections.SPLITS if held else sections.SPLITS[:1]:
        values = (_values(row, split).get(primary) for row in (run.baseline, run.best))
        yield split if held else "a training score", " → ".join(map(_plain, values))


def _summary(run: RunRecord, reason: str) -> Iterator[tuple[str, str]]:
    yield "status", sections.status_words(run, reason)
    for name, change in _changes(run):
        yield f"{cell(_primary(run), 60)} ({name})", change
    if run.best is not None and (broken := EditDetails.of(run.best.trial).broken):
        yield "constraints", cell(f"the best still breaks {'; '.join(broken)}", 300)
    words = [EditDetails.of(row.trial).decision for row in run.rows]
    counts = [(words.count(word), word) for word in ("keep", "discard", "crash")]
    every = ", ".join(f"{count} {word}" for count, word in counts)
    yield "edits", f"{sum(count for count, _ in counts)}: {every}"
    yield from sections.cost_rows(run)


def _numbers(run: RunRecord) -> Iterator[Section]:
    splits = [split for split in sections.SPLITS if result_of(run.baseline, split) is not None]
    sides = [_values(row, split) for split in splits for row in (run.baseline, run.best)]
    names = sorted({name for side in sides for name in side})
    heads = (f"{split} {when}" for split in splits for when in ("before", "now"))
    rows = ((cell(name, 60), *(_plain(side.get(name)) for side in sides)) for name in names)
    yield Heading("Numbers")
    yield Table(("number", *heads), tuple(rows))
    constraints = _goal(run).constraints
    for constraint in constraints if isinstance(constraints, list) else []:
        yield Text.of(f"Must hold: `{constraint}`.")


def _trials(run: RunRecord) -> Iterator[Section]:
    primary, splits = _primary(run), sections.SPLITS if _is_held(run) else sections.SPLITS[:1]
    rows: list[tuple[str, ...]] = []
    for row in run.rows:
        trial, start, details = row.trial, row.trial.phase == BASELINE, EditDetails.of(row.trial)
        what = "baseline" if start else trial.candidate.origin.note or "—"
        changes = details.changes or ()
        added, removed = sum(e.added for e in changes), sum(e.removed for e in changes)
        decided = trial.decision.reason if trial.decision else ""
        reason = "; ".join(map(str, trial.problems)) or decided
        rows.append(
            (
                str(row.number),
                "—" if start else str(trial.cycle),
                cell((details.rationale or what).strip().split("\n")[0], 60),
                f"+{added} −{removed}" if changes else "—",
                *(_plain(_values(row, split).get(primary)) for split in splits),
                "—" if start else str(details.decision),
                cell(reason, 160) or "—",
            )
        )
    heads = ("#", "iteration", "what", "lines", cell(primary, 40), *splits[1:], "decision", "why")
    yield Heading("Every edit")
    yield Table(heads, tuple(rows))


def _method(run: RunRecord) -> Iterator[str]:
    yield sections.started_with(run)
    if _is_held(run):
        yield (
            "the editor saw the results of the task's runs; holdout decided, and the editor never\n"
            "saw it"
        )
    else:
        yield (
            "no holdout: the run that fed the editor also decided, so this is a training score;\n"
            "expect less elsewhere, and add `holdout:` to the task to measure it"
        )
    if direction := _goal(run).direction:
        yield (
            f"{direction} `{_primary(run)}`: constraints come first, then this\n"
            "number, then tie-breakers; only what is clearly better is kept"
        )
    yield from sections.luck_points(run)
    yield from sections.provenance(run)
    yield from (cell(warning.message, 300) for warning in read_all(run.events, Warned))


def _primary_by_trial(run: RunRecord) -> Iterator[Drawing]:
    """The primary number of every trial, and that of the files that were then the best."""
    primary = _primary(run)
    measured = {
        split: tuple(_values(row, split).get(primary) for row in run.rows)
        for split in sections.SPLITS
    }
    series = {split: values for split, values in measured.items() if _counted(values) > 0}
    if max(map(_counted, series.values()), default=0) < 2:
        return
    decisive = list(series.values())[-1]
    best: list[float | None] = []
    for row, value in zip(run.rows, decisive, strict=True):
        leads = row.trial.accepted or row.trial.phase == BASELINE
        best.append(value if leads else best[-1] if best else None)
    direction = _goal(run).direction
    yield Drawing(
        title=f"{primary} by trial",
        labels=tuple(str(row.number) for row in run.rows),
        series={**series, "best so far": tuple(best)},
        unit=primary,
        label="trial",
        note=f"In its own unit{f', to {direction}' if direction else ''}. An edit that crashed, "
        "or was turned away before it was run, has no number.",
    )


def _counted(values: Sequence[float | None]) -> int:
    return sum(value is not None for value in values)


def _primary(run: RunRecord) -> str:
    return _goal(run).primary or "score"


def _is_held(run: RunRecord) -> bool:
    return bool(run.header.cases.get("holdout"))


def _plain(value: Json) -> str:
    """A number in its own unit: 0.125, 1204, 3.2e-05."""
    return f"{value:.4g}" if isinstance(value, int | float) else "—"


def _goal(run: RunRecord) -> StageReached:
    stages = read_all(run.events, StageReached)
    return next((stage for stage in stages if stage.stage == LOAD_TASK), StageReached())


def _values(row: TrialRow | None, split: str) -> Mapping[str, float]:
    result = result_of(row, split)
    return {} if result is None else result.measurement.values


_EDITOR = RoleNeed(name=ROLE, help="The model that edits files: provider:name.", panel="Files")
_NOBODY = (
    "name a model: editor: openai:gpt-4o, --editor MODEL or BURNISH_EDITOR; or let a program edit: "
    "edits: {mode: command, command: …} or {recipe: claude}"
)


class EditsPlugin(StrategyPlugin):
    """The artifact loop for the command line and report.md; its plan is that of the task."""

    name: ClassVar[str] = Edits.name
    Settings: ClassVar[type[StrategySettings]] = EditsSettings
    roles: ClassVar[tuple[RoleNeed, ...]] = (_EDITOR,)
    ends: ClassVar[Mapping[str, str]] = _ENDS
    rationales: ClassVar[Mapping[str, Sequence[str]]] = {"editor": ("rationale",)}
    compares_scores: ClassVar[bool] = False
    needs: ClassVar[tuple[type[Surface], ...]] = (FileSurface,)

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        objective = building.spec.objective
        settings: EditsSettings = building.spec.strategy.settings.model_copy(
            update={
                "task": parts.purpose,
                "primary": parts.primary,
                "direction": objective.direction,
                "tolerance": objective.tolerance,
            }
        )
        role, client = _editor(building, parts, settings)
        if role is None:
            return None
        budget = building.spec.budget.budget()
        if budget.max_trials is None:
            budget = replace(budget, max_trials=50 * settings.candidates_per_iteration)
        strategy = Edits(editor=role, settings=settings)
        return StrategyParts(strategy=strategy, budget=budget, client=client)

    def plan_title(self, setup: Setup) -> str:
        editor = _strategy(setup).editor
        who = role_label(editor) or getattr(editor, "command", "")
        return f"{super().plan_title(setup)}{f', editor {who}'.rstrip()}"

    def plan_decision(self, setup: Setup) -> Iterable[str]:
        settings = _strategy(setup).settings
        tie = f"; within {settings.tolerance:g} is a tie" if settings.tolerance else ""
        yield f"keeps     what has a better {settings.primary} ({settings.direction}){tie}"

    def plan_bounds(self, setup: Setup) -> Iterable[str]:
        settings = _strategy(setup).settings
        files = counted(settings.max_files or 0, "file")
        lines = counted(settings.max_changed_lines or 0, "changed line")
        yield f"an edit   at most {files} and {lines}"
        many = settings.candidates_per_iteration
        if many > 1:
            yield f"          {many} edits an iteration, side by side"
        if words := _strategy(setup).by_luck(setup):
            yield luck_line(words)
        noise = f"; within {settings.accept_sigma:g} × its noise is a tie"
        yield f"repeats   {settings.repeats}{noise if settings.repeats > 1 else ''}"

    def first_round(self, setup: Setup) -> FirstRound:
        strategy = _strategy(setup)
        settings = strategy.settings
        once = all_sweeps(setup, (Split.TRAIN, Split.HOLDOUT), settings.repeats)
        many = settings.candidates_per_iteration
        return first_round(
            setup,
            baseline=once,
            candidate=once.times(many),
            # An editor that makes no edit saves its run.
            usual=asking(strategy.roles).times(many),
        )

    def limits(self, setup: Setup) -> list[str]:
        settings = _strategy(setup).settings
        own = [f"max_failures {settings.max_failures}"] if settings.max_failures else []
        own += [] if settings.target_score is None else [f"target_score {settings.target_score:g}"]
        return [*budget_limits(setup.budget), *own]

    def repeats(self, setup: Setup) -> int:
        return _strategy(setup).settings.repeats

    def progress(self) -> ProgressLines:
        return EditLines(self.ends)

    def result_words(self, run: RunRecord) -> str:
        return f"result   {result_words(run)}"

    def report(self, run: RunRecord) -> Iterable[Section]:
        return report(run, self.reason(run))

    def drawings(self, run: RunRecord) -> Iterable[Drawing]:
        return _primary_by_trial(run)


def _strategy(setup: Setup) -> Edits:
    assert isinstance(setup.strategy, Edits)
    return setup.strategy


def _editor(
    building: Building, parts: TargetParts, settings: EditsSettings
) -> tuple[Role[EditRequest, Edit] | None, ModelClient | None]:
    """A model if one is named, else the program."""
    ref = building.named(_EDITOR)
    if ref is not None:
        model = building.asked(ROLE, ref)
        return (None, None) if model is None else (editor(*model), model[0])
    command = settings.command or settings.recipe
    if command is not None and isinstance(parts.target, ArtifactsTarget):
        _check_program(building, settings)
        program = CommandEditor(
            command=command,
            target=parts.target,
            recipe=None if settings.recipe is None else RECIPES[settings.recipe],
            arguments=settings.arguments,
            home=_home(building, settings),
            max_files=settings.max_files,
            max_changed_lines=settings.max_changed_lines,
            timeout_seconds=settings.timeout_seconds,
            # An editing program may need a key and the network; what it edits never gets them.
            env=settings.env,
            network=settings.network,
            usd_per_edit=settings.usd_per_edit,
        )
        return program, None
    if ROLE not in building.spec.roles:
        building.problems.add(f"roles.{ROLE}", parts.no_model, _NOBODY)
    return None, None


def _check_program(building: Building, settings: EditsSettings) -> None:
    name = settings.recipe
    if name is not None and shutil.which(name) is None:
        message = f"there is no program '{name}' on the PATH"
        building.problems.add("strategy.settings.recipe", message, "install it, or edit by a model")
    seed = _seed(building, settings)
    if seed is not None and not seed.is_dir():
        building.problems.add("strategy.settings.home", f"{seed} is not a folder")


def _seed(building: Building, settings: EditsSettings) -> Path | None:
    if settings.home is None:
        return None
    return building.path(str(Path(settings.home).expanduser()))


def _home(building: Building, settings: EditsSettings) -> EditorHome | None:
    if settings.recipe is None and settings.home is None:
        return None
    return EditorHome(_seed(building, settings))
