"""The strategy `edits`, the artifact loop: eight stages, always in this order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from burnish.core.cases import Split
from burnish.core.content import Json, short_id
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation
from burnish.core.gates import OfferRule, best_incumbent, is_less_broken
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Role, Target, new_file_problem
from burnish.core.surfaces import Candidate, FileSurface
from burnish.core.trials import Decision, SplitResult, Trial
from burnish.journal.executors import together
from burnish.runs.evaluation import Conditions
from burnish.runs.events import BASELINE, ByLuck, EventData, SearchEnded, Warned
from burnish.runs.roles import GIVE_UP_AFTER, Asked
from burnish.runs.run import Run
from burnish.runs.steering import Suggestion
from burnish.strategies.edits.attempts import (
    CRASH,
    HOLDOUT,
    MAX_MISSING,
    EditAttempt,
    EditDetails,
    EditsSettings,
    crashed,
    decision_of,
    disagreements,
    edit_request,
    file_surfaces,
    may_be_noisy,
    primary_values,
    size_problems,
    with_left_behind,
)
from burnish.strategies.edits.editors import CommandEditor, Edit, EditRequest, carried_out
from burnish.strategies.requirements import (
    NullRuns,
    broken_constraints,
    check_constraints,
    false_accepts,
    require_baseline,
    tell_left_behind,
)

LOAD_TASK = "load_task"
TARGET = "target_score"
"""Why a loop ends whose number is good enough."""


@dataclass(frozen=True, kw_only=True)
class StageReached(EventData):
    """One of the stages has begun; each has its own fields."""

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


_STEADY = "an edit that changes nothing is never accepted"
_VERSION = 2
_IDLE = 12
"""Iterations in a row without an edit to run, after which the loop ends."""


@dataclass(frozen=True, kw_only=True)
class Edits:
    """The artifact loop over the files of a target."""

    editor: Role[EditRequest, Edit]
    settings: EditsSettings = field(default_factory=EditsSettings)
    name: str = "edits"

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        return [self.editor]

    @property
    def fingerprint(self) -> str:
        return short_id([_VERSION, self.settings.deciding()])

    @property
    def offer_rule(self) -> OfferRule:
        settings = self.settings
        return OfferRule(
            primary=settings.primary,
            direction=settings.direction,
            tolerance=settings.tolerance,
            accept_sigma=settings.accept_sigma,
            max_missing=MAX_MISSING,
            splits=(Split.TRAIN, Split.HOLDOUT),
        )

    def by_luck(self, setup: Conditions, *, noisy: bool = True) -> str:
        """How often a run would accept edits that change nothing; empty if it may go on for ever.

        `noisy` is whether the number may be, as far as repeats of the start show it.
        """
        settings, data, trials = self.settings, setup.dataset, setup.budget.max_trials
        computed = [m for m in setup.metrics if m.name == settings.primary]
        if computed and all(m.estimate(case) == NOTHING for m in computed for case in data.train):
            return f"{_STEADY}: its number is computed from the files alone"
        if not noisy:
            return f"{_STEADY}: every run of the files as they are gave the same number"
        if trials is None:
            return ""
        runs = NullRuns(
            train=len(data.train),
            holdout=len(data.holdout),
            repeats=settings.repeats,
            trials=max(1, trials),
            holdout_gains=True,
            normal=True,
        )
        return f"if the number is noisy, {false_accepts(runs, settings.accept_sigma).words}"

    def steerable(self, target: Target) -> Mapping[str, Sequence[str]]:
        """What people may send to a run."""
        files = [each.id for each in target.surfaces if isinstance(each, FileSurface)]
        return {"try": files, "tell": (), "pin": files}

    def mismatch(self, target: Target) -> Sequence[Problem]:
        if any(isinstance(surface, FileSurface) for surface in target.surfaces):
            return []
        return [Problem(message="there is no file to edit")]

    async def search(self, run: Run) -> None:
        home = self.editor.home if isinstance(self.editor, CommandEditor) else None
        if home is not None:
            home.open(run.directory.folder)
        await self._search(run)
        if home is not None:
            home.remove()  # Only here: a run that is interrupted goes on with it.

    async def _search(self, run: Run) -> None:
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
        noisy = await loop.baseline()
        if words := self.by_luck(run.setup, noisy=noisy):
            run.tell(ByLuck(words=words), "by_luck")
        ended = loop.over()
        while not ended and run.stop_reason(loop.need) is None:
            await loop.iterate()
            run.answering.require(self.editor.name, after=GIVE_UP_AFTER)
            ended = loop.over()
        if ended:
            event = SearchEnded(cycle=loop.number, reason=ended)
            run.tell(event, f"iteration:{loop.number}:{ended}")


@dataclass(frozen=True, kw_only=True)
class _Width:
    """How many edits an iteration makes, as the journal keeps it."""

    edits: int


class _Loop:
    """Makes iterations."""

    def __init__(self, run: Run, settings: EditsSettings, editor: Role[EditRequest, Edit]) -> None:
        self._run = run
        self._settings = settings
        self._editor = editor
        self._incumbent = run.target.baseline
        self._measured: dict[Split, Evaluation] = {}
        """The incumbent's evaluations."""
        self._best: dict[Split, Evaluation] = {}
        """By split, the incumbent so far with the best primary number: a tie is a tie with it."""
        self._rejected: list[EditAttempt] = []
        """Since the last edit that was kept."""
        self._others: list[tuple[Candidate, Evaluation]] = []
        """What edits start from besides the incumbent, with its runs on train, the best first."""
        self._turn = 0
        """Edits since the incumbent leads: whose turn it is in the pool."""
        self._failures = 0
        self._idle = 0
        self.number = 0

    @property
    def need(self) -> Spend:
        repeats = self._settings.repeats
        one = self._run.estimate(Split.TRAIN, repeats=repeats)
        one += self._run.estimate(Split.HOLDOUT, repeats=repeats)
        return one.times(self._settings.candidates_per_iteration)

    def stage(self, name: str, slot: int, **more: Any) -> None:
        """Announce one of the eight stages."""
        event = StageReached(stage=name, iteration=self.number, **more)
        self._run.tell(event, f"iteration:{self.number}:{slot}:{name}")

    async def baseline(self) -> bool:
        """Measure the files as they are; whether their number may be noisy."""
        run, start = self._run, self._run.target.baseline
        hashes: dict[str, Json] = {name: short_id(str(text)) for name, text in start.values.items()}
        self.stage("snapshot_baseline", 0, candidate=start.id, files=hashes)
        train = await self._evaluate(start, Split.TRAIN)
        holdout = await self._evaluate(start, Split.HOLDOUT) if run.dataset.holdout else None
        sides = [side for side in (train, holdout) if side is not None]
        broken = tuple(words for side in sides for words in broken_constraints(side, run.objective))
        trial = Trial(
            candidate=start,
            phase=BASELINE,
            train=SplitResult.of(train, run.objective),
            holdout=None if holdout is None else SplitResult.of(holdout, run.objective),
            details=EditDetails(
                primary=primary_values(self._settings.primary, run.objective, train, holdout),
                disagreement=disagreements(train),
                broken=broken or None,
            ).to_json(),
        )
        run.record(trial)
        run.advance(start)
        require_baseline(
            run,
            train,
            holdout,
            max_missing=MAX_MISSING,
            primary=self._settings.primary,
        )
        least = "until an edit keeps all constraints, the best is the least broken"
        check_constraints(run, *sides, subject="the files as they are", meanwhile=least)
        tell_left_behind(run, *sides)
        self._lead(start, train, holdout)
        return any(may_be_noisy(side, self._settings.primary) for side in sides)

    async def iterate(self) -> None:
        """One iteration: one candidate, or several side by side, decided on in order."""
        self.number += 1
        if (suggestion := await self._run.steering.next()) is not None:
            own = await self._own(self._incumbent, suggestion)
            await self._settle(0, await self._trained(0, own))
            return
        parents = self._parents(await self._width())
        for slot, (parent, _) in enumerate(parents):
            self.stage("mutate_artifacts", slot, parent=parent.id)
        requests = [
            edit_request(self._run, self._settings, parent, train, self._rejected_of(parent))
            for parent, train in parents
        ]
        replies = await self._run.ask_together(self._editor, requests, draw=self._run.trial)
        attempts = [
            await self._edited(parent, reply)
            for (parent, _), reply in zip(parents, replies, strict=True)
        ]
        measured = await together(self._trained(slot, each) for slot, each in enumerate(attempts))
        self._idle = 0 if any(each.train for each in measured) else self._idle + 1
        for slot, attempt in enumerate(measured):
            await self._settle(slot, attempt)

    async def _own(self, parent: Candidate, suggestion: Suggestion) -> EditAttempt:
        """A person's own edit, checked; the bounds of an edit are for editors."""
        attempt = EditAttempt(
            iteration=self.number,
            parent=parent,
            sent=suggestion,
            rationale=suggestion.origin.note,
            candidate=suggestion.on(parent),
        )
        problems = await self._run.check(suggestion.on(parent), parent=parent)
        return replace(attempt, problems=tuple(problems))

    async def _width(self) -> int:
        """How many edits this iteration makes: no more than there are trials left.

        Kept in the journal, so that a resume with other limits repeats the iteration; a fork has
        its own.
        """
        run, usual = self._run, self._settings.candidates_per_iteration
        if usual == 1:
            return 1

        def fitting() -> _Width:
            most = run.budget.max_trials
            return _Width(edits=usual if most is None else min(usual, most - run.standing.trials))

        request: Json = {"trial": run.trial, "forked_from": run.directory.header.forked_from}
        return (await run.remember("edits at once", request, _Width, fitting)).edits

    def _parents(self, count: int) -> list[tuple[Candidate, Evaluation]]:
        """What each edit of this iteration starts from: the pool in turn, the leader first."""
        pool = [(self._incumbent, self._measured[Split.TRAIN]), *self._others]
        begin = self._turn
        self._turn += count
        return [pool[(begin + slot) % len(pool)] for slot in range(count)]

    def _rejected_of(self, parent: Candidate) -> list[EditAttempt]:
        if self._settings.incumbents == 1:
            return self._rejected
        return [each for each in self._rejected if each.parent.id == parent.id]

    def _keep_in_pool(self, candidate: Candidate, train: Evaluation) -> None:
        """Keep files that ran and broke nothing as a place to start from, if they are good."""
        objective, settings = self._run.objective, self._settings
        if crashed(train) or broken_constraints(train, objective):
            return
        if objective.measure(train).values.get(settings.primary) is None:
            return
        sign = -1 if settings.direction == "maximize" else 1

        def rank(member: tuple[Candidate, Evaluation]) -> float:
            return sign * objective.measure(member[1]).values[settings.primary]

        pool = [*self._others, (candidate, train)]
        self._others = sorted(pool, key=rank)[: settings.incumbents - 1]

    def over(self) -> str:
        """Why the loop is over although no limit of the run is reached; empty while it is not."""
        settings = self._settings
        if self._reached_target():
            return TARGET
        if settings.on_failure == "stop" and self._failures:
            return "failure"
        if settings.max_failures is not None and self._failures >= settings.max_failures:
            return "max_failures"
        return "nothing_new" if self._idle >= _IDLE else ""

    def _reached_target(self) -> bool:
        """Whether the number that decides is as good as wanted, and every constraint holds."""
        goal, objective = self._settings.target_score, self._run.objective
        if goal is None or any(broken_constraints(e, objective) for e in self._measured.values()):
            return False
        deciding = self._measured.get(Split.HOLDOUT) or self._measured[Split.TRAIN]
        number = objective.measure(deciding).values.get(self._settings.primary)
        if number is None:
            return False
        return number >= goal if self._settings.direction == "maximize" else number <= goal

    async def _edited(self, parent: Candidate, reply: Asked[Edit]) -> EditAttempt:
        """The candidate of an answer, checked against the bounds."""
        attempt = EditAttempt(iteration=self.number, parent=parent, proposal=reply.proposal)
        if reply.answer is None:
            return replace(attempt, problems=(Problem(message=reply.proposal.error),))
        target = self._run.target
        files = file_surfaces(target, parent)
        before = {file.path: str(parent.values[file.id]) for file in files}
        texts, faults = carried_out(
            reply.answer,
            before,
            addable=lambda path: new_file_problem(target, path),
            # A program sees the bytes, and means what it wrote.
            keep_line_ends=not isinstance(self._editor, CommandEditor),
        )
        attempt = replace(attempt, rationale=reply.answer.rationale, problems=tuple(faults))
        if faults:
            return attempt
        names = {file.path: file.id for file in files}
        values = {names.get(path, path): text for path, text in texts.items()}
        candidate = parent.child(values, origin=attempt.origin)
        problems = size_problems(parent, candidate, self._settings)
        problems = problems or await self._run.check(candidate, parent=parent)
        return replace(attempt, candidate=candidate, problems=tuple(problems))

    async def _trained(self, slot: int, attempt: EditAttempt) -> EditAttempt:
        if attempt.candidate is None or attempt.problems:
            return attempt
        self.stage("run_candidate", slot, candidate=attempt.candidate.id)
        train = await self._evaluate(attempt.candidate, Split.TRAIN)
        numbers = {**self._run.objective.measure(train).values}
        self.stage("score_candidate", slot, numbers=numbers)
        return replace(attempt, train=train)

    async def _settle(self, slot: int, attempt: EditAttempt) -> None:
        """Decide on an attempt and record it."""
        attempt = await self._decided(slot, attempt)
        self.stage("decide", slot, decision=attempt.word, reason=attempt.why)
        row = self._run.record(attempt.trial(self._run.objective, self._settings.primary))
        self.stage("log_iteration", slot, trial=row.number)
        self._failures += attempt.word == CRASH
        if attempt.decision is None or not attempt.decision.accepted:
            self._rejected.append(attempt)
            if attempt.candidate is not None and attempt.train is not None:
                self._keep_in_pool(attempt.candidate, attempt.train)
            return
        assert attempt.candidate is not None
        assert attempt.train is not None
        self._keep_in_pool(self._incumbent, self._measured[Split.TRAIN])
        self._run.advance(attempt.candidate)
        self._rejected = []
        self._lead(attempt.candidate, attempt.train, attempt.holdout)

    def _lead(self, candidate: Candidate, train: Evaluation, holdout: Evaluation | None) -> None:
        self._incumbent = candidate
        self._turn = 0
        self._measured = {each.split: each for each in (train, holdout) if each is not None}
        objective = self._run.objective
        for split, evaluation in self._measured.items():
            best = self._best.get(split)
            if best is not None and is_less_broken(evaluation, best, objective):
                best = None  # A number of files that break more constraints is no mark to keep.
            self._best[split] = best_incumbent(
                best,
                evaluation,
                objective=objective,
                primary=self._settings.primary,
                direction=self._settings.direction,
            )

    async def _decided(self, slot: int, attempt: EditAttempt) -> EditAttempt:
        train, objective = attempt.train, self._run.objective
        if train is None or attempt.candidate is None:
            return attempt
        values = objective.measure(train).values
        constraints = {str(each): each.holds(values) for each in objective.constraints}
        self.stage("validate_constraints", slot, constraints=constraints)
        decision = self._decision(slot, train)
        if not decision.accepted or Split.HOLDOUT not in self._measured:
            return replace(attempt, decision=decision)
        holdout = await self._evaluate(attempt.candidate, Split.HOLDOUT)
        decision = self._decision(slot, holdout)
        final = decision if decision.accepted else replace(decision, code=HOLDOUT + decision.code)
        return replace(attempt, holdout=holdout, decision=final)

    def _decision(self, slot: int, evaluation: Evaluation) -> Decision:
        incumbent, best = self._measured[evaluation.split], self._best.get(evaluation.split)
        decision = crashed(evaluation) or decision_of(
            evaluation, incumbent, self._run.objective, self._settings, best=best
        )
        if decision.code == "tampering":
            key = f"iteration:{self.number}:{slot}:tampering"
            self._run.tell(Warned(message=decision.reason), key)
        return with_left_behind(decision, evaluation, incumbent)

    async def _evaluate(self, candidate: Candidate, split: Split) -> Evaluation:
        return await self._run.evaluate(candidate, split=split, repeats=self._settings.repeats)
