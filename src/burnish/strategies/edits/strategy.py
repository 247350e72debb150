"""The strategy `edits`, the artifact loop: eight stages, always in this order."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

from burnish.core.cases import Split
from burnish.core.content import Json, short_id
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation
from burnish.core.money import Spend
from burnish.core.protocols import Role, Target
from burnish.core.strict_gate import best_incumbent
from burnish.core.surfaces import Candidate, FileSurface
from burnish.core.trials import Decision, SplitResult, Trial
from burnish.journal.executors import together
from burnish.models.chat import ModelClient
from burnish.runs.evaluation import require_baseline
from burnish.runs.events import BASELINE, EventData, SearchEnded, Warned
from burnish.runs.plugins import Building, RoleNeed, StrategyParts, TargetParts
from burnish.runs.roles import Asked
from burnish.runs.run import Run
from burnish.strategies.edits.attempts import (
    CRASH,
    HOLDOUT,
    MAX_MISSING,
    Changes,
    EditAttempt,
    EditDetails,
    EditIncumbent,
    EditRequestWriter,
    crashed,
    decision_of,
    disagreements,
    primary_values,
)
from burnish.strategies.edits.editors import (
    ROLE,
    CommandEditor,
    Edit,
    EditRequest,
    carried_out,
    editor,
)
from burnish.strategies.edits.settings import EditsSettings
from burnish.targets.artifacts.target import ArtifactsTarget

LOAD_TASK = "load_task"
"""The stage that says what the loop is after."""


@dataclass(frozen=True, kw_only=True)
class StageReached(EventData):
    """One of the stages is under way; each has fields of its own."""

    kinds: ClassVar[tuple[str, ...]] = ("stage",)
    optional: ClassVar[frozenset[str]] = frozenset(
        {
            *("task", "primary", "direction", "constraints", "candidate", "parent", "files"),
            *("numbers", "decision", "reason", "trial"),
        }
    )

    stage: str = ""
    iteration: int = 0
    task: str | None = None
    primary: str | None = None
    """What the loop makes better."""
    direction: str | None = None
    constraints: Json = None
    """As texts when the task is loaded; with whether each holds when a candidate is checked."""
    candidate: str | None = None
    parent: str | None = None
    files: Json = None
    """Hashes of the files at the start."""
    numbers: Json = None
    decision: str | None = None
    reason: str | None = None
    trial: int | None = None


# -- The strategy `edits`, the artifact loop ------------------------------------------------------


_VERSION = 2
_IDLE = 12
"""Edits in a row that could not be run, after which nothing more is to be had."""


@dataclass(frozen=True, kw_only=True)
class Edits:
    """The artifact loop over the files of a target."""

    editor: Role[EditRequest, Edit]
    settings: EditsSettings = field(default_factory=EditsSettings)
    name: str = "edits"

    @property
    def fingerprint(self) -> str:
        """A hash of the settings that decide; how many crashes there may be is a budget."""
        return short_id([_VERSION, cast("Json", self.settings.deciding())])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """The editor."""
        return [self.editor]

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """There must be files."""
        if any(isinstance(surface, FileSurface) for surface in target.surfaces):
            return []
        return [Problem(message="there is no file to edit")]

    async def search(self, run: Run) -> None:
        """Measure what is there, then edit until there is a reason to stop."""
        loop = _Loop(run, self.settings, self.editor)
        loop.stage(
            LOAD_TASK,
            0,
            task=self.settings.task,
            primary=self.settings.primary,
            direction=self.settings.direction,
            constraints=[str(constraint) for constraint in run.objective.constraints],
        )
        if run.stop_reason(loop.need) is not None:
            return
        await loop.baseline()
        ended = ""
        while not ended and run.stop_reason(loop.need) is None:
            await loop.iterate()
            ended = loop.over()
        if ended:
            over = SearchEnded(cycle=loop.iteration, reason=ended)
            run.tell(over, f"iteration:{loop.iteration}:{ended}")


class _Loop:
    """Where the loop stands."""

    def __init__(self, run: Run, settings: EditsSettings, editor: Role[EditRequest, Edit]) -> None:
        self._run = run
        self._settings = settings
        self._editor = editor
        self._files = [s for s in run.target.surfaces if isinstance(s, FileSurface)]
        self._requests = EditRequestWriter(
            settings=settings,
            objective=run.objective,
            surfaces=self._files,
            rules=tuple(getattr(run.target, "rules", ())),
        )
        self._incumbent: EditIncumbent | None = None
        self._best: dict[Split, Evaluation] = {}
        """By split, the incumbent so far with the best primary number: ties are ties with it."""
        self._turned_down: list[EditAttempt] = []
        self._failures = 0
        self._idle = 0
        self.iteration = 0

    @property
    def need(self) -> Spend:
        """What an iteration may cost: the edits, the runs, and holdout where there is one."""
        repeats = self._settings.repeats
        one = self._run.estimate(Split.TRAIN, repeats=repeats)
        one += self._run.estimate(Split.HOLDOUT, repeats=repeats)
        return one.times(self._settings.candidates_per_iteration)

    @property
    def incumbent(self) -> EditIncumbent:
        """What is ahead."""
        assert self._incumbent is not None
        return self._incumbent

    def stage(self, name: str, slot: int, **more: Any) -> None:
        """Say which of the eight stages is under way."""
        reached = StageReached(stage=name, iteration=self.iteration, **more)
        self._run.tell(reached, f"iteration:{self.iteration}:{slot}:{name}")

    async def baseline(self) -> None:
        """Measure what is there."""
        run, start = self._run, self._run.target.baseline
        hashes: dict[str, Json] = {name: short_id(str(text)) for name, text in start.values.items()}
        self.stage("snapshot_baseline", 0, candidate=start.id, files=hashes)
        train = await self._measured(start, Split.TRAIN)
        holdout = await self._measured(start, Split.HOLDOUT) if run.dataset.holdout else None
        trial = Trial(
            candidate=start,
            phase=BASELINE,
            train=SplitResult.of(train, run.objective),
            holdout=None if holdout is None else SplitResult.of(holdout, run.objective),
            details=EditDetails(
                primary=primary_values(self._settings.primary, run.objective, train, holdout),
                disagreement=disagreements(train),
            ).to_json(),
        )
        run.record(trial)
        run.advance(start)
        require_baseline(
            train,
            holdout,
            objective=run.objective,
            max_missing=MAX_MISSING,
            primary=self._settings.primary,
        )
        self._lead(EditIncumbent(candidate=start, train=train, holdout=holdout))

    async def iterate(self) -> None:
        """One iteration: one candidate, or several side by side, decided on in order."""
        self.iteration += 1
        parent = self.incumbent.candidate
        for slot in range(self._settings.candidates_per_iteration):
            self.stage("mutate_artifacts", slot, parent=parent.id)
        request = self._requests.request(parent, self.incumbent.train, self._turned_down)
        count = self._settings.candidates_per_iteration
        replies = await self._run.ask_together(
            self._editor, [request] * count, draw=self._run.trial
        )
        attempts = [await self._edited(parent, each) for each in replies]
        measured = await together(self._trained(slot, each) for slot, each in enumerate(attempts))
        self._idle = 0 if any(each.train for each in measured) else self._idle + 1
        for slot, attempt in enumerate(measured):
            await self._settle(slot, attempt)

    def over(self) -> str:
        """Why the loop is over, though no limit of the run is reached."""
        settings = self._settings
        if settings.on_failure == "stop" and self._failures:
            return "failure"
        if settings.max_failures is not None and self._failures >= settings.max_failures:
            return "max_failures"
        return "nothing_new" if self._idle >= _IDLE else ""

    async def _edited(self, parent: Candidate, reply: Asked[Edit]) -> EditAttempt:
        """The candidate that an answer makes, held to the bounds."""
        attempt = EditAttempt(iteration=self.iteration, parent=parent, proposal=reply.proposal)
        if reply.answer is None:
            return replace(attempt, problems=(Problem(message=reply.proposal.error),))
        before = {file.path: str(parent.values[file.id]) for file in self._files}
        done = carried_out(reply.answer, before)
        attempt = replace(attempt, rationale=reply.answer.rationale, problems=done.problems)
        if done.problems:
            return attempt
        values = {file.id: done.texts[file.path] for file in self._files}
        candidate = parent.child(values, origin=attempt.origin)
        problems = Changes.between(parent, candidate).problems(
            max_files=self._settings.max_files, max_lines=self._settings.max_changed_lines
        )
        problems = problems or await self._run.check(candidate, parent=parent)
        return replace(attempt, candidate=candidate, problems=tuple(problems))

    async def _trained(self, slot: int, attempt: EditAttempt) -> EditAttempt:
        if attempt.candidate is None or attempt.problems:
            return attempt
        self.stage("run_candidate", slot, candidate=attempt.candidate.id)
        train = await self._measured(attempt.candidate, Split.TRAIN)
        values = self._run.objective.measure(train).values
        numbers: dict[str, Json] = {**values}
        self.stage("score_candidate", slot, numbers=numbers)
        return replace(attempt, train=train)

    async def _settle(self, slot: int, attempt: EditAttempt) -> None:
        """Constraints, decision, record."""
        attempt = await self._decided(slot, attempt)
        self.stage("decide", slot, decision=attempt.word, reason=attempt.why)
        row = self._run.record(attempt.trial(self._run.objective, self._settings.primary))
        self.stage("log_iteration", slot, trial=row.number)
        self._failures += attempt.word == CRASH
        if attempt.decision is None or not attempt.decision.accepted:
            self._turned_down.append(attempt)
            return
        assert attempt.candidate is not None
        assert attempt.train is not None
        self._run.advance(attempt.candidate)
        self._turned_down = []
        self._lead(
            EditIncumbent(
                candidate=attempt.candidate,
                train=attempt.train,
                holdout=attempt.holdout,
                trial=row.number,
            )
        )

    def _lead(self, incumbent: EditIncumbent) -> None:
        """The next edits start from here."""
        self._incumbent = incumbent
        for split, measured in ((Split.TRAIN, incumbent.train), (Split.HOLDOUT, incumbent.holdout)):
            if measured is not None:
                self._best[split] = best_incumbent(
                    self._best.get(split),
                    measured,
                    objective=self._run.objective,
                    primary=self._settings.primary,
                    direction=self._settings.direction,
                )

    async def _decided(self, slot: int, attempt: EditAttempt) -> EditAttempt:
        train, ahead = attempt.train, self.incumbent
        if train is None or attempt.candidate is None:
            return attempt
        self.stage("validate_constraints", slot, constraints=self._constraints(train))
        decision = crashed(train) or self._decision(train, ahead.train)
        self._warn(slot, decision)
        if not decision.accepted or ahead.holdout is None:
            return replace(attempt, decision=decision)
        holdout = await self._measured(attempt.candidate, Split.HOLDOUT)
        decision = crashed(holdout) or self._decision(holdout, ahead.holdout)
        self._warn(slot, decision)
        final = decision if decision.accepted else replace(decision, code=HOLDOUT + decision.code)
        return replace(attempt, holdout=holdout, decision=final)

    def _warn(self, slot: int, decision: Decision) -> None:
        if decision.code == "tampering":
            key = f"iteration:{self.iteration}:{slot}:tampering"
            self._run.tell(Warned(message=decision.reason), key)

    def _decision(self, candidate: Evaluation, incumbent: Evaluation) -> Decision:
        best = self._best.get(candidate.split)
        return decision_of(candidate, incumbent, self._run.objective, self._settings, best=best)

    def _constraints(self, train: Evaluation) -> dict[str, Json]:
        values = self._run.objective.measure(train).values
        return {str(each): each.holds(values) for each in self._run.objective.constraints}

    async def _measured(self, candidate: Candidate, split: Split) -> Evaluation:
        return await self._run.evaluate(candidate, split=split, repeats=self._settings.repeats)


# -- The artifact loop from a description ---------------------------------------------------------


EDITOR = RoleNeed(name=ROLE, help="Who edits files: provider:name.", panel="Files")
_MAX_ITERATIONS = 50
"""Where no limit on trials is named."""
_NOBODY = (
    "name a model: editor: openai:gpt-4o, --editor MODEL or BURNISH_EDITOR; or let a program edit: "
    "edits: {mode: command, command: …}"
)


@dataclass(frozen=True, kw_only=True)
class _Editor:
    """Who edits, and the model where one does."""

    role: Role[EditRequest, Edit]
    client: ModelClient | None = None


def build(building: Building, parts: TargetParts) -> StrategyParts | None:
    """The loop over the files of a target; None, with what is wrong kept, where it cannot be."""
    objective = building.spec.objective
    settings: EditsSettings = building.spec.strategy.settings.model_copy(
        update={
            "task": parts.purpose,
            "primary": parts.primary,
            "direction": objective.direction,
            "tolerance": objective.tolerance,
        }
    )
    who = _editor(building, parts, settings)
    if who is None:
        return None
    budget = building.spec.budget.budget()
    if budget.max_trials is None:
        most = _MAX_ITERATIONS * settings.candidates_per_iteration
        budget = replace(budget, max_trials=most)
    return StrategyParts(
        strategy=Edits(editor=who.role, settings=settings), budget=budget, client=who.client
    )


def _editor(building: Building, parts: TargetParts, settings: EditsSettings) -> _Editor | None:
    """A model where one is named, else the program."""
    ref = building.named(EDITOR)
    if ref is not None:
        model = building.asked(ROLE, ref)
        return None if model is None else _Editor(role=editor(*model), client=model[0])
    if settings.command is not None and isinstance(parts.target, ArtifactsTarget):
        return _Editor(role=_program(settings, settings.command, parts.target))
    if ROLE not in building.spec.roles:
        building.problems.add(f"roles.{ROLE}", parts.no_model, _NOBODY)
    return None


def _program(settings: EditsSettings, command: str, target: ArtifactsTarget) -> CommandEditor:
    return CommandEditor(
        command=command,
        target=target,
        max_files=settings.max_files,
        max_changed_lines=settings.max_changed_lines,
        timeout_seconds=settings.timeout_seconds,
        # An editing program may need a key and the network; what it edits never gets them.
        env=settings.env,
        network=settings.network,
        usd_per_edit=settings.usd_per_edit,
    )
