"""Delegations as runs: described, started, resumed, and read for the pages in the browser.

REFINEMENT.md says what a session tried, the results, and how far to trust its losses.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from burnish.core.content import Json
from burnish.core.errors import BurnishError
from burnish.core.formatting import cell, counted, money, number, shorten
from burnish.delegation.experiments import Experiment, ExperimentTask, TaskBest
from burnish.delegation.plugin import Delegate
from burnish.delegation.policy import NAMES, PolicyRegistry
from burnish.delegation.refine.gradients import (
    COMPLETION,
    mapping,
    read_json,
    rows,
    run_id_in,
    run_signals,
    text,
)
from burnish.delegation.refine.loop import MOST_ITERATIONS, REASONS
from burnish.delegation.refine.seeds import Seed
from burnish.delegation.refine.sessions import (
    BEST,
    MANIFESTS,
    SESSIONS,
    Iteration,
    Session,
    SessionFiles,
    best_so_far,
    loss_of,
)
from burnish.delegation.result import WEIGHTS, DelegationResult
from burnish.delegation.training.setup import find_registry
from burnish.delegation.training.target import TrainingLog
from burnish.delegation.workflow_spec import WorkflowSpec
from burnish.pages.run_result import (
    BestFiles,
    DelegationPart,
    ExperimentCard,
    IterationLine,
    PolicyText,
    RefinementLine,
    SuiteEpoch,
    SuiteLine,
    TaskLine,
    TaskRunLine,
    TextVersion,
    text_change,
)
from burnish.projects.description import describe
from burnish.projects.dialects import Document, Flags
from burnish.projects.file_kinds import WorkflowFile
from burnish.projects.launch import launched
from burnish.runs.build import RunDescription
from burnish.runs.directory import NAME as HEADER
from burnish.runs.events import Listener as RunListener
from burnish.runs.run import Run
from burnish.runs.setup import Setup, resume, start
from burnish.system import Redactor
from burnish.system.variables import expanded_secrets

# -- REFINEMENT.md ---------------------------------------------------------------------------------


PAGE = "REFINEMENT.md"


def refine_page(seed: Seed, session: Session, place: Path) -> str:
    """The report of a session as Markdown; `place` is the folder of its iterations."""
    lines = (
        *_headline(seed, session),
        *_iteration_table(session),
        *_parts(session),
        *_gradients(session, place),
        "## Notes",
        "",
        *(f"- {note}" for note in session.notes),
        "- the part `budget_burn` is the share of the seed's whole budget, for iterations too",
    )
    return "\n".join(lines) + "\n"


def outcome(session: Session) -> str:
    """How a session ended, in one sentence."""
    meaning = REASONS.get(session.stop_reason, session.error)
    return f"{session.stop_reason}: {meaning}" if meaning else session.stop_reason


def _headline(seed: Seed, session: Session) -> Iterator[str]:
    yield from (f"# Refinement {session.session_id}", "", "| | |", "|---|---|")
    yield f"| seed | {session.seed_run_id} |"
    yield f"| task | {cell(seed.task, 200)} |"
    yield f"| ended | {cell(outcome(session), 200)} |"
    yield f"| loss | {number(session.seed_loss)} → {number(session.best_loss)} |"
    best = f"iteration {session.best_iter}" if session.best_iter else "the seed"
    written = "" if not session.best_iter or session.best_written else ", not in BEST"
    yield f"| best | {best}{written} |"
    calls = sum(each.calls for each in session.iterations)
    prices = [each.usd for each in session.iterations if each.usd is not None]
    usd = money(sum(prices) if len(prices) == len(session.iterations) else None)
    yield f"| spent | {counted(calls, 'call')} · {usd} |"
    yield ""
    yield (
        "The loss is a training score: the same critic, gates and metrics steered the work. "
        "Nothing was held out."
    )


def _iteration_table(session: Session) -> Iterator[str]:
    yield from ("", "## Iterations", "")
    if not session.iterations:
        yield "No iteration was run."
        return
    yield from ("| | models | status | loss | |", "|---|---|---|---|---|")
    for each in session.iterations:
        models = " / ".join(filter(None, (each.tier, each.model_manager, each.model_worker)))
        mark = "**best**" if each.k == session.best_iter else ""
        remark = " ".join(filter(None, (mark, cell(each.note, 200))))
        loss = number(each.loss)
        yield f"| {each.k} | {cell(models, 120)} | {each.status} | {loss} | {remark} |"


def _parts(session: Session) -> Iterator[str]:
    yield from ("", "## Where the loss comes from", "")
    yield f"| | {' | '.join(WEIGHTS)} | total |"
    yield f"|---|{'---|' * (len(WEIGHTS) + 1)}"
    if session.seed_parts:
        yield _row("seed", session.seed_parts)
    for each in session.iterations:
        if each.parts:
            yield _row(str(each.k), each.parts)


def _row(name: str, loss: Mapping[str, Json]) -> str:
    values = [number(loss[part]) for part in (*WEIGHTS, "total")]
    return f"| {name} | {' | '.join(values)} |"


def _gradients(session: Session, place: Path) -> Iterator[str]:
    yield from ("", "## What each iteration was told", "")
    for each in session.iterations:
        gradient = _gradient(place, each.k)
        if gradient is None:
            continue
        yield f"Iteration {each.k}, from run {text(gradient.get('prior_run_id'))}:"
        yield ""
        yield from (f"- {cell(line, 320)}" for line in _defects(gradient))
        yield ""


def _gradient_lines(place: Path, k: int) -> tuple[str, ...]:
    """What an iteration of the session in a folder was told, one line a defect."""
    gradient = _gradient(place, k)
    return () if gradient is None else tuple(_defects(gradient))


def _gradient(place: Path, k: int) -> Mapping[str, Json] | None:
    try:
        return mapping(read_json(place / f"iter_{k}" / "gradient_input.json"))
    except BurnishError:
        return None


def _defects(gradient: Mapping[str, Json]) -> Iterator[str]:
    for defect in rows(gradient.get("defects")):
        yield f"[{text(defect.get('severity'))}] {shorten(text(defect.get('summary')), 300)}"
    for gate in rows(gradient.get("rejected_gates")):
        yield f"gate {text(gate.get('gate'))}: {shorten(text(gate.get('reason')), 300)}"
    for metric, gap in mapping(gradient.get("eval_deltas")).items():
        yield f"metric {metric}: {json.dumps(gap)} short of its threshold"


# -- Runs ------------------------------------------------------------------------------------------


def describe_task(
    document: Document,
    flags: Flags,
    *,
    target: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> RunDescription:
    """Describe a task for the workflow of a file; flags override it, the environment does not.

    `target` and `settings` are fields of the target and the strategy that no file or flag sets.
    """
    description = describe(document, flags, environ={}, dialect=WorkflowFile())
    spec: WorkflowSpec = description.spec.target
    # As the manifest has it: a run that goes on says the same to the same models.
    sent = [document.tree.data, *spec.program_variables]
    redactor = Redactor.from_environment(extra=expanded_secrets(sent))
    fields = {"task": redactor.text(spec.task), **(target or {})}
    strategy = description.spec.strategy
    changed = strategy.settings.model_copy(update=dict(settings or {}))
    update = {
        "target": spec.model_copy(update=fields),
        "strategy": strategy.model_copy(update={"settings": changed}),
    }
    own = [("target", name) for name in fields]
    own += [("strategy", "settings", name) for name in settings or ()]
    return replace(description, spec=description.spec.model_copy(update=update).overriding(*own))


def _open_delegation(setup: Setup, folder: Path) -> Run:
    """The run in a folder, new or resumed; errors are raised before anything is created."""
    strategy = setup.strategy
    assert isinstance(strategy, Delegate)
    delegation = strategy.delegation
    redactor = Redactor.from_environment(extra=setup.secrets())
    delegation.check(folder, redactor)
    if (folder / HEADER).exists():
        return resume(setup, folder)

    def furnish(spare: Path) -> None:
        # With its header, so that a run that was killed at once goes on with the same texts.
        delegation.redacted(redactor).begin(spare, redactor, name=folder.name)

    return start(setup, folder=folder, furnish=furnish)


async def run_delegation(
    setup: Setup, folder: Path, *, listeners: Sequence[RunListener] = ()
) -> DelegationResult:
    """Start a delegation in a folder, or resume the one there."""
    strategy = setup.strategy
    assert isinstance(strategy, Delegate)
    await launched(lambda: _open_delegation(setup, folder), listeners)
    assert strategy.result is not None
    return strategy.result


_FILES = 50
"""Files of BEST that are named."""
_WORDS = 300
_REASONS = {"auto_loss": "the lowest loss", "user_override": "chosen by hand"}


class StoredDelegations:
    """Delegations as their folders have them."""

    def refinements(self, folder: Path) -> Sequence[RefinementLine]:
        """The refinements of a finished delegation, the oldest first."""
        return tuple(_lines(SessionFiles(folder=folder / SESSIONS)))

    def part(self, folder: Path) -> DelegationPart | None:
        """A delegation that has ended, or a refinement."""
        if (folder / COMPLETION).is_file():
            lines = tuple(self.refinements(folder))
            return DelegationPart(
                task=_task(folder), home=folder, refinements=lines, best=_best(folder)
            )
        session = _session_of(folder)
        if session is None:
            return None
        home = folder.parent.parent
        return DelegationPart(
            task=_task(home, folder / "iter_1" / "run"),
            seed=session.seed_run_id,
            home=home,
            iterations=tuple(_iterations(session, folder)),
            best=_best(home),
        )

    def experiments(self) -> Sequence[ExperimentCard]:
        """Those in the folder of experiments, the newest first."""
        cards = (_experiment(each) for each in Experiment.all())
        return sorted(cards, key=lambda card: card.created, reverse=True)

    def policy(self, experiment: str = "") -> Sequence[PolicyText]:
        """The texts of the registry that `burnish policy` uses too."""
        registry = find_registry(experiment=experiment or None)
        return tuple(_policy_text(registry, name) for name in NAMES)

    def suites(self, experiment: str = "") -> Sequence[SuiteLine]:
        """The suites in that registry."""
        log = TrainingLog(find_registry(experiment=experiment or None).path)
        return tuple(
            SuiteLine(name=name, epochs=tuple(_epochs(log, name))) for name in log.suites()
        )


def _experiment(experiment: Experiment) -> ExperimentCard:
    key = experiment.folder.name
    try:
        record = experiment.record
        tasks = tuple(map(_task_line, experiment.tasks))
    except BurnishError as error:
        return ExperimentCard(key=key, name=key, trouble=shorten(str(error), _WORDS))
    return ExperimentCard(
        key=key, name=record.name, goal=record.goal, created=record.created_at, tasks=tasks
    )


def _task_line(task: ExperimentTask) -> TaskLine:
    record, files = task.record, SessionFiles(folder=task.refinements)
    # A refinement measures its iterations by the budget of their seed.
    iterations = (each for session in files.sessions() for each in session.iterations)
    graded = {each.run_id: each.loss for each in iterations if each.loss is not None}
    return TaskLine(
        name=task.id,
        prompt=record.user_prompt,
        mode=record.mode,
        inputs=tuple(each.task_id for each in record.inputs),
        runs=tuple(_task_run(each, graded) for each in TaskBest(task).runs()),
        refinements=tuple(_lines(files)),
        best=_best(task.folder),
    )


def _task_run(folder: Path, graded: Mapping[str, float]) -> TaskRunLine:
    signals = run_signals(folder)
    name = run_id_in(mapping(read_json(folder / COMPLETION)), folder)
    loss = number(graded.get(name, signals.loss.total))
    return TaskRunLine(name=name, folder=folder, status=signals.status, loss=loss)


def _policy_text(registry: PolicyRegistry, name: str) -> PolicyText:
    history = registry.history(name)
    contents = {each.number: each.content for each in history}
    versions = (
        TextVersion(
            number=each.number,
            content=each.content,
            parent=each.parent,
            created=each.created_at,
            active=each.active,
            pinned=each.pinned,
            change=None
            if each.parent is None
            else text_change(name, contents.get(each.parent, ""), each.content),
        )
        for each in history
    )
    return PolicyText(name=name, versions=tuple(versions))


def _epochs(log: TrainingLog, suite: str) -> Iterator[SuiteEpoch]:
    for row in log.epochs(suite):
        loss = row["mean_loss"]
        yield SuiteEpoch(
            number=int(str(row["epoch_num"])),
            suite=int(str(row["suite_id"])),
            loss=loss if isinstance(loss, float) else None,
            ended=str(row["completed_at"] or ""),
        )


def _is_name(name: str) -> bool:
    """Whether it names a folder beside its file; a file from somebody else may say anything."""
    return name not in ("", "..") and Path(name).name == name


def _lines(files: SessionFiles) -> Iterator[RefinementLine]:
    return (_line(files, each) for each in files.sessions() if _is_name(each.session_id))


def _line(files: SessionFiles, session: Session) -> RefinementLine:
    return RefinementLine(
        name=session.session_id,
        ended=outcome(session),
        iterations=len(session.iterations),
        loss=f"{number(session.seed_loss)} → {number(session.best_loss)}",
        folder=files.place(session),
        has_page=(files.place(session) / HEADER).is_file(),
        running=session.unfinished and files.locked,
        resumable=session.resumable and not files.locked,
        most_iterations=session.most_iterations,
        can_have_more=session.can_go_on(MOST_ITERATIONS) and not files.locked,
    )


def _session_of(folder: Path) -> Session | None:
    """The session whose run is in a folder."""
    sessions = SessionFiles(folder=folder.parent).sessions()
    return next((each for each in sessions if each.session_id == folder.name), None)


def _task(*runs: Path) -> str:
    """The task of the first of these delegations that tells it."""
    for run in runs:
        with suppress(BurnishError):
            if task := text(mapping(read_json(run / COMPLETION)).get("task")):
                return task
    return ""


def _iterations(session: Session, folder: Path) -> Iterator[IterationLine]:
    for each in session.iterations:
        yield IterationLine(
            number=each.k,
            models=_models(each),
            status=each.status,
            loss=number(each.loss),
            is_best=each.k == session.best_iter,
            note=shorten(each.note, _WORDS),
            gradient=tuple(_gradient_lines(folder, each.k)),
        )


def _models(iteration: Iteration) -> str:
    names = (iteration.tier, iteration.model_manager, iteration.model_worker)
    return " / ".join(filter(None, names))


def _best(home: Path) -> BestFiles | None:
    try:
        manifest = best_so_far(home)
    except BurnishError:
        return None
    if manifest is None:
        return None
    return BestFiles(
        run=text(manifest.get("best_run_id")) or text(manifest.get("winner_run_id")),
        loss=_losses(manifest),
        why=_REASONS.get(text(manifest.get("reason")), "a lower loss than all before"),
        files=tuple(_names(home / BEST)),
    )


def _losses(manifest: Mapping[str, Json]) -> str:
    before = manifest.get("seed_loss")
    after = number(loss_of(manifest))
    return f"{number(before)} → {after}" if isinstance(before, int | float) else after


def _names(folder: Path) -> Iterator[str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    own = next((folder / name for name in MANIFESTS if (folder / name).is_file()), None)
    names = [str(path.relative_to(folder)) for path in files if path != own]
    yield from names[:_FILES]
    if len(names) > _FILES:
        yield f"… and {len(names) - _FILES} more"
