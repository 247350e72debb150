"""The strategy `edits`, the artifact loop: eight stages, always in this order.

    load_task, snapshot_baseline                      once
    mutate_artifacts → run_candidate → score_candidate → validate_constraints → decide
        → log_iteration                               for every candidate

The stages are told as events. What is kept is what the next edit starts from.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from burnish.core.candidates import Candidate
from burnish.core.cases import Split
from burnish.core.content import Json, short_id
from burnish.core.decisions import Decision
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation
from burnish.core.gates.strict import best_incumbent
from burnish.core.money import Spend
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import FileSurface
from burnish.core.trials import SplitResult, Trial
from burnish.effects.executors import together
from burnish.runs.asking import Asked
from burnish.runs.events import SearchEnded, Warned
from burnish.runs.requirements import require_baseline
from burnish.runs.run import Run
from burnish.runs.standing import BASELINE
from burnish.strategies.edits.attempts import (
    CRASH,
    HOLDOUT,
    Attempt,
    EditDetails,
    Incumbent,
    told_primary,
)
from burnish.strategies.edits.changes import Changes
from burnish.strategies.edits.deciding import MAX_MISSING, crashed, decision_of
from burnish.strategies.edits.feedback import Desk
from burnish.strategies.edits.judging import disagreements
from burnish.strategies.edits.settings import EditsSettings
from burnish.strategies.edits.stages import LOAD_TASK, StageReached
from burnish.strategies.edits.wording import Edit, EditRequest, carried_out

VERSION = 2
IDLE = 12
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
        return short_id([VERSION, cast("Json", self.settings.deciding())])

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
        self._desk = Desk(
            settings=settings,
            objective=run.objective,
            surfaces=self._files,
            rules=tuple(getattr(run.target, "rules", ())),
        )
        self._incumbent: Incumbent | None = None
        self._best: dict[Split, Evaluation] = {}
        """By split, the incumbent so far with the best primary number: ties are ties with it."""
        self._turned_down: list[Attempt] = []
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
    def incumbent(self) -> Incumbent:
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
                primary=told_primary(self._settings.primary, run.objective, train, holdout),
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
        self._lead(Incumbent(candidate=start, train=train, holdout=holdout))

    async def iterate(self) -> None:
        """One iteration: one candidate, or several side by side, decided on in order."""
        self.iteration += 1
        parent = self.incumbent.candidate
        for slot in range(self._settings.candidates_per_iteration):
            self.stage("mutate_artifacts", slot, parent=parent.id)
        request = self._desk.request(parent, self.incumbent.train, self._turned_down)
        count = self._settings.candidates_per_iteration
        asked = await self._run.ask_together(self._editor, [request] * count, draw=self._run.trial)
        attempts = [await self._edited(parent, each) for each in asked]
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
        return "nothing_new" if self._idle >= IDLE else ""

    async def _edited(self, parent: Candidate, asked: Asked[Edit]) -> Attempt:
        """The candidate that an answer makes, held to the bounds."""
        attempt = Attempt(iteration=self.iteration, parent=parent, proposal=asked.proposal)
        if asked.answer is None:
            return replace(attempt, problems=(Problem(message=asked.proposal.error),))
        before = {file.path: str(parent.values[file.id]) for file in self._files}
        done = carried_out(asked.answer, before)
        attempt = replace(attempt, rationale=asked.answer.rationale, problems=done.problems)
        if done.problems:
            return attempt
        values = {file.id: done.texts[file.path] for file in self._files}
        candidate = parent.child(values, origin=attempt.origin)
        problems = Changes.between(parent, candidate).problems(
            max_files=self._settings.max_files, max_lines=self._settings.max_changed_lines
        )
        problems = problems or await self._run.check(candidate, parent=parent)
        return replace(attempt, candidate=candidate, problems=tuple(problems))

    async def _trained(self, slot: int, attempt: Attempt) -> Attempt:
        if attempt.candidate is None or attempt.problems:
            return attempt
        self.stage("run_candidate", slot, candidate=attempt.candidate.id)
        train = await self._measured(attempt.candidate, Split.TRAIN)
        values = self._run.objective.measure(train).values
        numbers: dict[str, Json] = {**values}
        self.stage("score_candidate", slot, numbers=numbers)
        return replace(attempt, train=train)

    async def _settle(self, slot: int, attempt: Attempt) -> None:
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
            Incumbent(
                candidate=attempt.candidate,
                train=attempt.train,
                holdout=attempt.holdout,
                trial=row.number,
            )
        )

    def _lead(self, incumbent: Incumbent) -> None:
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

    async def _decided(self, slot: int, attempt: Attempt) -> Attempt:
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
        told = decision if decision.accepted else replace(decision, code=HOLDOUT + decision.code)
        return replace(attempt, holdout=holdout, decision=told)

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
